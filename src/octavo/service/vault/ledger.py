"""metadata.json: what was in both the file and the store when they last agreed. Without it, it is made anew."""

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from octavo.errors import StoreError
from octavo.kernel.ids import new_id
from octavo.service.vault.folder import Stamp
from octavo.util.file_modes import keep_mode, open_file

NAME = "metadata.json"
_RACY_NS = 2 * 10**9  # some file systems tell times in steps of two seconds


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One document as it was last sent or taken."""

    md5: str
    version: int
    size: int
    file_type: str
    synced_at: datetime | None  # None until the store is known to have it
    path: str
    created_at: datetime
    updated_at: datetime
    #: What the store may still have instead, while it is not known to have `md5`.
    earlier: tuple[str, ...] = ()
    stamp: Stamp | None = None
    checked_ns: int = 0  # when the file was read that has this stamp

    def vouches(self, path: str, stamp: Stamp) -> bool:
        """Whether the file is surely the one that was read; one written in the same moment may differ unseen."""
        racy = min(abs(self.checked_ns - stamp.mtime_ns), abs(self.checked_ns - stamp.ctime_ns)) <= _RACY_NS
        return self.path == path and self.stamp == stamp and not racy

    @property
    def known(self) -> frozenset[str]:
        """The texts that this vault has itself sent to the store, or had from it."""
        return frozenset((self.md5, *self.earlier))

    @property
    def synced(self) -> bool:
        return self.synced_at is not None


class Ledger:
    """The entries of one vault by key. Whoever writes it holds the vault's lock."""

    def __init__(self, root: Path) -> None:
        self.path = root / NAME
        self.entries: dict[str, Entry] = {}
        self.damaged = 0  # entries of the file as it was last read that say nothing; a file that is no JSON counts as one
        self._stamp: Stamp | None = None

    def load(self, *, aside: bool = True) -> None:
        """Read the file if it is not the one read last; what is damaged is kept `aside`, and made anew by the next sync."""
        try:
            stamp = Stamp.of(self.path.stat())
            if stamp == self._stamp:
                return
            raw = self.path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            self._stamp, self.entries = None, {}
            return
        except OSError as error:
            raise StoreError(f"the vault cannot read {self.path}: {error.strerror}") from error
        self._stamp = stamp
        self.entries, bad = _decoded(raw)
        self.damaged = bad
        if bad and aside:
            kept = self.path.with_name(f"{NAME}.bad")
            try:
                with open(kept, "wb", opener=open_file) as file:
                    file.write(raw)
            except OSError as error:
                raise StoreError(f"the vault cannot write {kept}: {error.strerror}") from error

    def save(self) -> None:
        """Write all entries, whole or not at all."""
        listed = dict(sorted(self.entries.items()))
        spelled = msgspec.json.format(msgspec.json.encode(listed), indent=1)
        temporary = self.path.with_name(f".octavo-{new_id()}.tmp")
        try:
            try:
                with open(temporary, "xb", opener=open_file) as file:
                    file.write(spelled + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
                keep_mode(temporary, self.path)
                temporary.replace(self.path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
            self._stamp = Stamp.of(self.path.stat())
        except OSError as error:
            self._stamp = None  # the next load must not take memory for what is on disk
            raise StoreError(f"the vault cannot write {self.path}: {error.strerror}") from error


def _decoded(raw: bytes) -> tuple[dict[str, Entry], int]:
    """The entries that can be read, and how many cannot."""
    try:
        listed: dict[str, Any] = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}, 1
    entries, bad = {}, 0
    for key, spelled in listed.items():
        try:
            entry = msgspec.json.decode(spelled, type=Entry)
            zoned = (entry.created_at, entry.updated_at, entry.synced_at or entry.updated_at)
            if any(at.tzinfo is None for at in zoned):
                raise msgspec.ValidationError("a time without its zone")
        except (msgspec.DecodeError, UnicodeDecodeError):
            bad += 1
            continue
        entries[key] = entry
    return entries, bad
