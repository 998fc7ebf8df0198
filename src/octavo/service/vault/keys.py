"""Keys of documents, and the file names they have: safe on every system, unique, and readable back.

`users/alice` is `md/users/alice.md`. What a file system may not take is written %XX, as in a URL; a name too long for
one file goes on in a folder that ends in `%`; a name that differs from another only in case carries a check sum.
"""

import functools
import hashlib
import re

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
_CHUNK_BYTES = 180  # with a check sum and three more letters this is below the 255 that file systems take

_UNSAFE = re.compile(r'[\x00-\x1f\x7f-\x9f<>:"/\\|?*%]')
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE | re.DOTALL)
_SUMMED = re.compile(r"(.+)~([0-9a-f]{8})", re.DOTALL)
_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_TOKENS = re.compile(r"%[0-9A-F]{2}|.", re.DOTALL)


class Place(msgspec.Struct, frozen=True):
    """Where the document of a key belongs: in the store and below the vault's root."""

    key: str
    collection: str
    kind: str
    names: tuple[str, ...]  # folders, then the file without its suffix


def place(key: str) -> Place:
    """The place of a key; InvalidRecord for one that names nothing, or something outside the vault."""
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
    parts = key.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise InvalidRecord(f"the key {key[:80]!r} would leave the vault; use names between single slashes")
    top, collection, kind = _FOLDERS.get(parts[0], ("", "", "")) if len(parts) > 1 else ("", "", "")
    if not top:
        top, collection = "md", "configs"
        kind = key if key in ("system", "world") else "config"
    names = [top]
    for part in parts[:-1]:
        names += _spelled(part, folder=True)
    return Place(key, collection, kind, (*names, *_spelled(parts[-1], folder=False)))


@functools.lru_cache(maxsize=NAMES_HELD)  # asked for every file at every look
def key_of(where: str) -> str | None:
    """The key of the document at this path below the root; None when it can have none."""
    path = where.split("/")
    text, begun = "", ""
    for at, written in enumerate(path[1:], start=2):
        last = at == len(path)
        name = _without_sum(written.removesuffix(SUFFIX) if last else written)
        if not last and name.endswith("%"):
            begun += name[:-1]
            continue
        text += ("/" if text else "") + _unescaped(begun + name)
        begun = ""
    try:
        found = place(text)
    except InvalidRecord:
        return None
    # `md/facts/x.md` would have the key of `knowledge/facts/x.md`.
    return text if found.names[0] == path[0] else None


def summed(name: str) -> str:
    """The other name for it, for when a name that only differs in case is taken."""
    return f"{name}~{_sum(name)}"


def _spelled(part: str, *, folder: bool) -> list[str]:
    escaped = _UNSAFE.sub(lambda found: _escape(found[0]), part)
    chunks = [""]
    for token in _TOKENS.findall(escaped):
        if len((chunks[-1] + token).encode()) > _CHUNK_BYTES:
            chunks.append("")
        chunks[-1] += token
    last = len(chunks) - 1
    guarded = [_guarded(chunk, folder=folder or at < last) for at, chunk in enumerate(chunks)]
    return [f"{chunk}%" for chunk in guarded[:-1]] + guarded[-1:]


def _guarded(name: str, *, folder: bool) -> str:
    """The name without what would hide it, end it or make it another thing on some system."""
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


def _unescaped(name: str) -> str:
    def plain(found: re.Match[str]) -> str:
        try:
            return bytes.fromhex(found[0].replace("%", "")).decode()
        except UnicodeDecodeError:
            return found[0]  # somebody's own name, which only looks like ours

    return _ESCAPES.sub(plain, name)


def _without_sum(name: str) -> str:
    found = _SUMMED.fullmatch(name)
    return found[1] if found and _sum(found[1]) == found[2] else name


def _sum(name: str) -> str:
    return hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()
