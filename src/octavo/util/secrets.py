"""Secrets: URLs as they may be shown, and the key of digests that stand for what must not be kept."""

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

import msgspec

from octavo.errors import ConfigError
from octavo.util.disk import make_folder, open_file

#: Where the key is unless told: beside the queue.
KEY_FILE = Path("octavo_queue/digest.key")
_KEY_BYTES = 32
_SECRET_OPTION = re.compile(r"([?&][^=&]*(?:pass|pwd|secret|token|key)[^=&]*=)([^&]*)", re.IGNORECASE)


def mask_url(url: str) -> str:
    """Replace every password in a URL by …"""
    scheme, mark, rest = url.partition("://")
    # From the last @: a password may hold one. What is hidden too much costs nothing.
    who, at, where = rest.rpartition("@")
    user, colon, _ = who.partition(":")
    return _SECRET_OPTION.sub(r"\1…", f"{scheme}{mark}{user}{colon}{'…' if colon else ''}{at}{where}")


def mask_passwords(text: str, urls: Iterable[str]) -> str:
    """Replace these URLs' passwords in a text by …: a driver's error may repeat the URL it was given."""
    for url in urls:
        text = text.replace(url, mask_url(url))
        password = url.partition("://")[2].rpartition("@")[0].partition(":")[2]
        parts = {password, *(found[1] for found in _SECRET_OPTION.findall(url))}
        for secret in sorted({*parts, *map(unquote, parts)}, key=len, reverse=True):
            # A password of one or two letters would turn every sentence into dots.
            text = text.replace(secret, "…") if len(secret) > 2 else text
    return text


class DigestKey:
    """A key as given (text), or of a file (path) that is made when it is first needed, readable by its owner alone.

    It is never in a store, so that a store alone tells nothing.
    """

    def __init__(self, given: str | Path = "") -> None:
        self._path = given if isinstance(given, Path) else KEY_FILE
        self._key = given.encode() if isinstance(given, str) else b""

    def digest(self, *parts: str) -> str:
        """A digest that tells nothing to whoever does not have the key."""
        spelled = msgspec.json.encode(parts)
        return hmac.new(self.read(), spelled, hashlib.sha256).hexdigest()[:32]

    def read(self) -> bytes:
        """The key itself."""
        if not self._key:
            path = self._path
            try:
                if not path.exists():
                    _make_key(path)
                key = path.read_bytes().strip()
            except OSError as error:
                raise ConfigError(
                    f"the key of digests cannot be read or made at {path}: {error}; privacy.digest_key gives one, too"
                ) from error
            if len(key) < _KEY_BYTES:
                raise ConfigError(
                    f"{path} holds {len(key)} bytes, and a key has {_KEY_BYTES} or more; remove it to have a new one made"
                )
            self._key = key
        return self._key


def _make_key(path: Path) -> None:
    """Make the file whole or not at all: of several processes that make it, one does."""
    make_folder(path.parent)
    part = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with open(part, "xb", opener=open_file) as file:
            file.write(secrets.token_hex(_KEY_BYTES).encode() + b"\n")
        part.chmod(0o600)  # also where files are shared with the group
        with suppress(FileExistsError):
            os.link(part, path)
    finally:
        part.unlink(missing_ok=True)
