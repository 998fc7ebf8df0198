"""URLs as they may be shown: who and where, never the password."""

import re
from collections.abc import Iterable
from urllib.parse import unquote

_SECRET_OPTION = re.compile(r"([?&][^=&]*(?:pass|pwd|secret|token|key)[^=&]*=)([^&]*)", re.IGNORECASE)


def shown(url: str) -> str:
    """The URL with every password in it replaced by …"""
    scheme, mark, rest = url.partition("://")
    # From the last @: a password may hold one. What is hidden too much costs nothing.
    who, at, where = rest.rpartition("@")
    user, colon, _ = who.partition(":")
    return _SECRET_OPTION.sub(r"\1…", f"{scheme}{mark}{user}{colon}{'…' if colon else ''}{at}{where}")


def hidden(text: str, urls: Iterable[str]) -> str:
    """The text without these URLs' passwords: a driver may repeat what it was given."""
    for url in urls:
        text = text.replace(url, shown(url))
        password = url.partition("://")[2].rpartition("@")[0].partition(":")[2]
        secrets = {password, *(found[1] for found in _SECRET_OPTION.findall(url))}
        for secret in sorted({*secrets, *map(unquote, secrets)}, key=len, reverse=True):
            # A password of one or two letters would turn every sentence into dots.
            text = text.replace(secret, "…") if len(secret) > 2 else text
    return text
