"""Paths below `/memories`, and how files and folders are shown and edited, in the words of the SDK's own tool for files on disk."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from anthropic.lib.tools import ToolError  # type: ignore[import-not-found]

from octavo.errors import InvalidRecord
from octavo.kernel.ids import now
from octavo.kernel.model import Record
from octavo.service.vault.documents import content_of
from octavo.service.vault.names import DocumentAddress, address_of

_MOST_LINES = 999_999
#: A hidden document that keeps a folder without files.
FOLDER = ".octavo-folder"
_TOP = "/memories"
_ROOT = f"/octavo{_TOP}"  # where paths are resolved: `..` must be able to leave it
_FOLDER_SIZE = "4K"  # as most file systems say
_UNITS = "BKMG"


def strip_top(path: str) -> str:
    """The path below the top, which is "" itself; ToolError for one that leads elsewhere."""
    if not path.startswith(_TOP):
        raise ToolError(f"Path must start with {_TOP}, got: {path}")
    full = posixpath.normpath(posixpath.join(_ROOT, path.removeprefix(_TOP).lstrip("/")))
    if full != _ROOT and not full.startswith(f"{_ROOT}/"):
        raise ToolError(f"Path {path} would escape {_TOP} directory")
    return full[len(_ROOT) + 1 :]


def to_path(key: str) -> str:
    """The path of a document."""
    return f"/{key}"


def address(below: str) -> DocumentAddress:
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


def text_of(record: Record) -> str:
    """What a file says, its front matter too."""
    return content_of(record).raw.decode()


def move_record(record: Record, old: str, new: str) -> Record:
    """The same document at its new path."""
    below = new + record.id.removeprefix(folder_of(old)[:-1])
    return msgspec.structs.replace(record, id=address(below).key, updated_at=now())


def tell_folder(path: str, below: str, documents: dict[str, Record]) -> str:
    """What is in a folder and in the folders in it, each with its size; what is hidden is left out."""
    start = folder_of(below)
    tree: dict[str, str] = {}  # what is shown: its size
    for key, record in documents.items():
        parts = key.removeprefix(start).split("/")
        for depth in (1, 2):
            if len(parts) > depth:
                tree["/".join(parts[:depth]) + "/"] = _FOLDER_SIZE
            elif len(parts) == depth:
                tree["/".join(parts)] = _size(len(text_of(record).encode()))
    lines = [f"{size}\t{path}/{name}" for name, size in _sort_tree(tree)]
    head = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
    return "\n".join((head, f"{_FOLDER_SIZE}\t{path}", *lines))


def _sort_tree(tree: dict[str, str]) -> Iterator[tuple[str, str]]:
    """By name, a folder before what is in it; without what is hidden."""
    for name in sorted(tree, key=lambda name: name.rstrip("/").split("/")):
        if not any(part.startswith(".") for part in name.split("/")):
            yield name, tree[name]


def _size(count: int) -> str:
    unit = min((count.bit_length() - 1) // 10, len(_UNITS) - 1) if count else 0
    size = count / 1024**unit
    return f"{size:.0f}{_UNITS[unit]}" if size.is_integer() else f"{size:.1f}{_UNITS[unit]}"


def tell_file(path: str, text: str, view_range: Sequence[int] | None) -> str:
    """A file with the numbers of its lines: all of them, or those from one number to another, -1 being the last."""
    lines = text.split("\n")
    if len(lines) > _MOST_LINES:
        raise ToolError(f"File {path} exceeds maximum line limit of 999,999 lines.")
    first, last = 0, len(lines)
    if view_range and len(view_range) == 2:
        begin, end = view_range
        first, last = max(1, begin) - 1, last if end == -1 else end
    return f"Here's the content of {path} with line numbers:\n{_number_lines(lines, first, last)}"


def replace(path: str, text: str, old: str, new: str) -> tuple[str, str]:
    """The text with one piece in the place of another, which must be in it once; and what is said of it."""
    if old not in text:
        raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
    if text.count(old) > 1:
        matches = re.finditer(f"(?={re.escape(old)})", text)
        lines = ", ".join(str(text.count("\n", 0, match.start()) + 1) for match in matches)
        raise ToolError(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
            "Please ensure it is unique"
        )
    line, changed = text.count("\n", 0, text.index(old)), text.replace(old, new)
    snippet = _number_lines(changed.split("\n"), max(0, line - 2), line + 3)
    said = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
    return changed, f"{said}\n{snippet}"


def insert(path: str, text: str, at: int, added: str) -> tuple[str, str]:
    """The text with lines behind the line of a number, 0 being before the first; and what is said of it."""
    lines = text.removesuffix("\n").split("\n") if text else []
    if not 0 <= at <= len(lines):
        raise ToolError(
            f"Invalid `insert_line` parameter: {at}. It should be within the range [0, {len(lines)}]."
        )
    changed = "\n".join([*lines[:at], added.rstrip("\n"), *lines[at:]])
    return changed if changed.endswith("\n") else f"{changed}\n", f"The file {path} has been edited."


def _number_lines(lines: Sequence[str], first: int, last: int) -> str:
    """Some of the lines, each with its number, which begins at 1."""
    some: Iterable[tuple[int, str]] = enumerate(lines[first:last], first + 1)
    return "\n".join(f"{number:6}\t{line}" for number, line in some)
