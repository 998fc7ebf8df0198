"""Which file a record is written to, and how file names are read back.

A *family* is one file that is written to and the archives it left behind when it grew: `session_a.jsonl` and
`session_a.<UTC time>-<stamp>.jsonl`. It is named by the path of the file written to, below the store's directory.
"""

import functools
import hashlib
import re
from datetime import UTC, datetime
from urllib.parse import quote

from octavo.kernel.model import NAMES_HELD

ROOT = "events"  # the collection whose files stand at the root of the directory
_LONGEST = 120  # leaves room for an archive's stamp below the 255 bytes a file name may have
_NAME = re.compile(r"(?P<stem>.+?)(?:\.\d{8}T\d{6}Z-(?P<stamp>[0-9a-f]{16}))?(?P<suffix>\.jsonl?)", re.DOTALL)


@functools.lru_cache(maxsize=NAMES_HELD)
def family_of(collection: str, session: str | None, suffix: str) -> str:
    """The path, below the store's directory, of the file that takes a session's records of a collection."""
    stem = collection if session is None else f"session_{_safe(session)}"
    return f"{folder_of(collection)}{stem}{suffix}"


def _safe(session: str) -> str:
    """A name for any session that is harmless on every file system and never shared by two sessions."""
    name = quote(session, safe="").replace(".", "%2E").replace("~", "%7E")
    # A file system that ignores case would merge "A" and "a"; cutting a long name could merge two.
    if session == session.lower() and len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}~{hashlib.blake2b(session.encode(), digest_size=8).hexdigest()}"


def collection_of(family: str) -> str:
    """The collection whose records a family holds."""
    return family.partition("/")[0] if "/" in family else ROOT


def archive_of(family: str, stamp: int) -> str:
    """The path a family's file is archived under; stamps are microseconds and order a family's archives."""
    stem, _, suffix = family.rpartition(".")
    at = datetime.fromtimestamp(stamp / 1_000_000, UTC)
    return f"{stem}.{at:%Y%m%dT%H%M%SZ}-{stamp:016x}.{suffix}"


def read_name(collection: str, name: str) -> tuple[str, int | None] | None:
    """The family a file belongs to and its stamp when it is an archive, or None when it is none of ours."""
    found = _NAME.fullmatch(name)
    if found is None or not (found["stem"] == collection or found["stem"].startswith("session_")):
        return None
    family = found["stem"] + found["suffix"]
    stamp = None if found["stamp"] is None else int(found["stamp"], 16)
    return folder_of(collection) + family, stamp


def stamp_of(name: str) -> int:
    """The stamp in an archive's name; 0 in that of a file that is still written to."""
    found = _NAME.fullmatch(name)
    return 0 if found is None or found["stamp"] is None else int(found["stamp"], 16)


def folder_of(collection: str) -> str:
    """What stands before the names of a collection's files, below the store's directory."""
    return "" if collection == ROOT else f"{collection}/"
