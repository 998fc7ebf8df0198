"""Paths below `/memories`, the documents they name, and how folders are shown."""

import posixpath
from collections.abc import Iterator

import msgspec
from anthropic.lib.tools import ToolError  # type: ignore[import-not-found]

from octavo.errors import InvalidRecord
from octavo.kernel.ids import now
from octavo.kernel.model import Record
from octavo.service.vault.documents import Held
from octavo.service.vault.names import Address, address_of

#: A hidden document that keeps a folder without files.
FOLDER = ".octavo-folder"
_TOP = "/memories"
_ROOT = f"/octavo{_TOP}"  # where paths are resolved: `..` must be able to leave it
_FOLDER_SIZE = "4K"  # as most file systems say
_UNITS = "BKMG"


def relative(path: str) -> str:
    """The path below the top, which is "" itself; ToolError for one that leads elsewhere."""
    if not path.startswith(_TOP):
        raise ToolError(f"Path must start with {_TOP}, got: {path}")
    full = posixpath.normpath(posixpath.join(_ROOT, path.removeprefix(_TOP).lstrip("/")))
    if full != _ROOT and not full.startswith(f"{_ROOT}/"):
        raise ToolError(f"Path {path} would escape {_TOP} directory")
    return full[len(_ROOT) + 1 :]


def shown(key: str) -> str:
    """The path of a document."""
    return f"/{key}"


def address(below: str) -> Address:
    """The document of a path below the top; ToolError for one that is too long, or that no text can spell."""
    try:
        return address_of(f"{_TOP[1:]}/{below}")
    except InvalidRecord as error:
        raise ToolError(str(error)) from error


def folder_of(below: str) -> str:
    """What the keys of all documents in a folder begin with."""
    return f"{_TOP[1:]}/{below}/" if below else f"{_TOP[1:]}/"


def parents(below: str) -> list[str]:
    """The folders that a path is in."""
    return [below[:at] for at, character in enumerate(below) if character == "/"]


def text_of(held: Held) -> str:
    """What a file says, its front matter too."""
    content = held.content
    return content.head + content.body


def moved(record: Record, old: str, new: str) -> Record:
    """The same document at its new path."""
    below = new + record.id.removeprefix(folder_of(old)[:-1])
    return msgspec.structs.replace(record, id=address(below).key, updated_at=now())


def tell_folder(path: str, below: str, documents: dict[str, Held]) -> str:
    """What is in a folder and in the folders in it, each with its size; what is hidden is left out."""
    start = folder_of(below)
    tree: dict[str, str] = {}  # what is shown: its size
    for key, held in documents.items():
        parts = key.removeprefix(start).split("/")
        for depth in (1, 2):
            if len(parts) > depth:
                tree["/".join(parts[:depth]) + "/"] = _FOLDER_SIZE
            elif len(parts) == depth:
                tree["/".join(parts)] = _size(len(text_of(held).encode()))
    lines = [f"{size}\t{path}/{name}" for name, size in _in_order(tree)]
    head = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
    return "\n".join((head, f"{_FOLDER_SIZE}\t{path}", *lines))


def _in_order(tree: dict[str, str]) -> Iterator[tuple[str, str]]:
    """By name, a folder before what is in it; without what is hidden."""
    for name in sorted(tree, key=lambda name: name.rstrip("/").split("/")):
        if not any(part.startswith(".") for part in name.split("/")):
            yield name, tree[name]


def _size(count: int) -> str:
    unit = min((count.bit_length() - 1) // 10, len(_UNITS) - 1) if count else 0
    size = count / 1024**unit
    return f"{size:.0f}{_UNITS[unit]}" if size.is_integer() else f"{size:.1f}{_UNITS[unit]}"
