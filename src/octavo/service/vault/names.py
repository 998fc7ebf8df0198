"""Keys of documents, and the file names they have: safe on every system, unique, and readable back.

`users/alice` is `md/users/alice.md`. What a file system may not take is written %XX, as in a URL; where a name that
differs only in case is taken, the other one carries a check sum.
"""

import functools
import hashlib
import re
from urllib.parse import unquote

import msgspec

from octavo.errors import InvalidRecord
from octavo.kernel.codec import MAX_NAME_BYTES
from octavo.kernel.model import NAMES_HELD

SUFFIX = ".md"
TOPS = ("md", "knowledge")

#: First part of a key → the folder it is in, its collection and its kind; every other key is a config.
_FOLDERS = {
    "users": ("md", "configs", "user"),
    "experiences": ("knowledge", "knowledge", "experience"),
    "facts": ("knowledge", "knowledge", "fact"),
}
_MOST_NAME_BYTES = 255 - len(SUFFIX)  # what file systems take

_UNSAFE = re.compile(r'[\x00-\x1f\x7f-\x9f<>:"/\\|?*%]')
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE | re.DOTALL)
_SUMMED = re.compile(r"(.+)~([0-9a-f]{8})", re.DOTALL)


class DocumentAddress(msgspec.Struct, frozen=True):
    """Where the document of a key belongs: in the store, and below the vault's root unless that name is taken."""

    key: str
    collection: str
    kind: str
    path: str


def address_of(key: str) -> DocumentAddress:
    """The address of a key; InvalidRecord for one that names nothing, or something outside the vault."""
    if not isinstance(key, str) or not key:
        raise InvalidRecord(f"a document's key is a text such as 'system' or 'users/alice'; got {key!r}")
    if "\0" in key:
        raise InvalidRecord(f"the key {key[:80]!r} holds a NUL character")
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise InvalidRecord(f"the key {key[:80]!r} holds half a surrogate pair") from None
    if size > MAX_NAME_BYTES:
        raise InvalidRecord(f"the key {key[:40]!r}… is {size} bytes long, at most {MAX_NAME_BYTES} are kept")
    *folders, last = key.split("/")
    if any(part in ("", ".", "..") for part in (*folders, last)):
        raise InvalidRecord(f"the key {key[:80]!r} would leave the vault; use names between single slashes")
    kind = key if key in ("system", "world") else "config"
    top, collection, kind = _FOLDERS.get(folders[0] if folders else "", ("md", "configs", kind))
    names = [_spell_name(part, folder=True) for part in folders] + [_spell_name(last, folder=False)]
    if max(len(name.encode()) for name in names) > _MOST_NAME_BYTES:
        raise InvalidRecord(f"the key {key[:40]!r}… is too long for a file name")
    return DocumentAddress(key, collection, kind, "/".join((top, *names)) + SUFFIX)


def user_of(key: str) -> str | None:
    """The user whom a document is about: `users/alice` is Alice's; None for any other."""
    folder, _, name = key.partition("/")
    return name if folder == "users" and name else None


@functools.lru_cache(maxsize=NAMES_HELD)  # asked for every file at every look
def key_of(path: str) -> str | None:
    """The key of the document at this path below the root; None when it can have none."""
    top, *names = path.removesuffix(SUFFIX).split("/")
    key = "/".join(_unescape(_drop_sum(name)) for name in names)
    try:
        found = address_of(key)
    except InvalidRecord:
        return None
    # `md/facts/x.md` would have the key of `knowledge/facts/x.md`.
    return key if found.path.startswith(f"{top}/") else None


def add_sum(name: str) -> str:
    """The other name for a file or folder, for when a name that only differs in case is taken."""
    stem = name.removesuffix(SUFFIX)
    return f"{stem}~{_sum(stem)}{name[len(stem) :]}"


def _spell_name(name: str, *, folder: bool) -> str:
    """The name without what would hide it, end it or make it another thing on some system."""
    name = _UNSAFE.sub(lambda found: _escape(found[0]), name)
    if name[0] in ".~ " or _RESERVED.fullmatch(name):
        name = _escape(name[0]) + name[1:]
    if name[-1] in ". ":
        name = name[:-1] + _escape(name[-1])
    if _SUMMED.fullmatch(name):
        head, _, tail = name.rpartition("~")
        name = f"{head}%7E{tail}"
    if folder and name.lower().endswith(SUFFIX):  # a folder team.md stands where the document `team` would
        name = f"{name[: -len(SUFFIX)]}%2E{name[-2:]}"
    return name


def _escape(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def _unescape(name: str) -> str:
    try:
        return unquote(name, errors="strict")
    except UnicodeDecodeError:
        return name  # somebody's own name, which only looks like ours


def _drop_sum(name: str) -> str:
    found = _SUMMED.fullmatch(name)
    return found[1] if found and _sum(found[1]) == found[2] else name


def _sum(name: str) -> str:
    return hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()
