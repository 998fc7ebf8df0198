"""Claude's memory tool over the documents of a user: files below `/memories` that live in any store, with what they said before.

    from octavo.integrations.anthropic import OctavoMemoryTool

    runner = client.beta.messages.tool_runner(tools=[OctavoMemoryTool("sqlite:///octavo.db", "lin")], ...)

Each answers as the SDK's own tool for files on disk does, word for word. The file `/memories/notes.md` is the document
`memories/notes.md` of this user; no path leads to another user, nor to anything else of this one.
"""

import functools
import posixpath
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Self, TypeAlias

import msgspec

from octavo.conversation.store_history import BoundStore, on_store_loop
from octavo.errors import Conflict, InvalidRecord
from octavo.integrations import require_package
from octavo.kernel.ids import now
from octavo.kernel.model import Add, Op, Query, Record, Remove, Scope
from octavo.kernel.ports import Store
from octavo.service.vault.documents import DocumentRecords, content_of, md5_of, number_of, parse
from octavo.service.vault.names import DocumentAddress, address_of

with require_package(__name__, "Anthropic's SDK", "anthropic pyyaml"):
    from anthropic.lib.tools import (  # type: ignore[import-not-found]
        BetaAbstractMemoryTool,
        BetaAsyncAbstractMemoryTool,
        ToolError,
    )

__all__ = ["AsyncOctavoMemoryTool", "OctavoMemoryTool"]

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


_COLLECTION = "configs"
_TRIES = 10  # of an edit that meets others

#: What is at a path: a document, the documents below it by key, or nothing.
Found: TypeAlias = Record | dict[str, Record] | None


class MemoryFiles(BoundStore):
    """Files below `/memories`, one document of the user's each; a hidden one keeps a folder that is empty."""

    def __init__(self, url_or_store: str | Store, user_id: str, tenant: str) -> None:
        super().__init__(url_or_store, user_id, "", tenant)
        self.user_id = user_id
        self._documents = DocumentRecords(Scope(tenant=tenant, user=user_id))

    @on_store_loop
    async def aview(self, command: Any) -> str:
        """A file with the numbers of its lines, or what is in a folder and the folders in it."""
        path, below = command.path, strip_top(command.path)
        found = await self._look(below)
        if isinstance(found, dict):
            return tell_folder(path, below, found)
        return tell_file(path, text_of(_require(found, path)), command.view_range)

    @on_store_loop
    async def acreate(self, command: Any) -> str:
        """Make a file, and the folders it is in; one that is there stays as it is."""
        path, below = command.path, strip_top(command.path)
        folders = await self._folders_for(below)
        try:
            if await self._look(below) is not None:
                raise Conflict(path)
            await self._apply([folders, Add([self._document(below, command.file_text)], expect=1)])
        except Conflict:  # it was there, or somebody else was faster
            raise ToolError(f"File {path} already exists") from None
        return f"File created successfully at: {path}"

    @on_store_loop
    async def astr_replace(self, command: Any) -> str:
        """Put one text in the place of another, which must be in the file once."""
        path, old, new = command.path, command.old_str, command.new_str
        return await self._edit(path, lambda text: replace(path, text, old, new))

    @on_store_loop
    async def ainsert(self, command: Any) -> str:
        """Put lines behind the line of a number; 0 is before the first."""
        path, at, added = command.path, command.insert_line, command.insert_text
        return await self._edit(path, lambda text: insert(path, text, at, added))

    @on_store_loop
    async def adelete(self, command: Any) -> str:
        """Remove a file, or a folder with all that is in it; what files said stays as versions."""
        path, below = command.path, strip_top(command.path)
        if not below:
            raise ToolError("Cannot delete the /memories directory itself")
        found = await self._look(below)
        if found is None:
            raise ToolError(f"The path {path} does not exist")
        await self._remove([found] if isinstance(found, Record) else found.values())
        return f"Successfully deleted {path}"

    @on_store_loop
    async def arename(self, command: Any) -> str:
        """Move a file or a folder to where nothing is."""
        old, new = strip_top(command.old_path), strip_top(command.new_path)
        if not old:
            raise ToolError("Cannot rename the /memories directory itself")
        if await self._look(new) is not None:
            raise ToolError(f"The destination {command.new_path} already exists")
        found, missing = await self._look(old), ToolError(f"The path {command.old_path} does not exist")
        try:
            # Even if nothing is moved, as the SDK's own does.
            await self._apply([await self._folders_for(new)])
        except ToolError as refusal:
            raise missing if found is None else refusal from None
        if found is None:
            raise missing
        if new.startswith(f"{old}/"):
            raise ToolError(f"The path {command.old_path} cannot be moved into itself")
        records = [found] if isinstance(found, Record) else [*found.values()]
        gone = Remove(self._query(ids=tuple(record.id for record in records)), expect=len(records))
        added = Add([move_record(record, old, new) for record in records], expect=len(records))
        try:
            await self._apply([gone, added])
        except Conflict:
            raise ToolError(
                f"The path {command.old_path} was changed by others meanwhile; try again"
            ) from None
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    @on_store_loop
    async def aclear_all_memory(self) -> str:
        """Remove all files and folders; what files said stays as versions."""
        found = await self._look("")
        await self._remove(found.values() if isinstance(found, dict) else ())
        return "All memory cleared"

    async def _look(self, below: str) -> Found:
        """What is at a path; the top is always a folder."""
        if below and (there := await self._store.find(self._query(ids=(address(below).key,)))):
            return there[0]
        start = folder_of(below)
        records = await self._store.find(self._query())
        return {each.id: each for each in records if each.id.startswith(start)} or (None if below else {})

    async def _folders_for(self, below: str) -> Add:
        """The folders that a path is in, to be kept; refused if one of them is a file."""
        folders = parents(below)
        keys = tuple(address(folder).key for folder in folders)
        for file in await self._store.find(self._query(ids=keys)):
            raise ToolError(f"{to_path(file.id)} is a file: nothing can be in it")
        return Add([self._document(f"{folder}/{FOLDER}", "") for folder in folders])

    async def _edit(self, path: str, change: Callable[[str], tuple[str, str]]) -> str:
        """Put a changed text in the place of a file's, and answer what is said of it; the one before stays as a version."""
        for _ in range(_TRIES):
            old = _require(await self._look(strip_top(path)), path)
            text, answer = change(text_of(old))
            content, key, at = parse(text), old.id, now()
            if content.md5 == md5_of(old):
                return answer
            version, times = number_of(old), (old.created_at, at)
            new = self._documents.document(address(strip_top(to_path(key))), content, version + 1, times)
            before = self._documents.version(key, content_of(old), version, "replaced", at)
            gone = msgspec.structs.replace(self._documents.remove_op(_COLLECTION, key, old), expect=1)
            try:
                await self._apply([before, gone, Add([new], expect=1)])
            except Conflict:  # others edited it: the change is made to what it says now
                continue
            return answer
        raise ToolError(f"The file {path} is edited by others all the time; try again")

    async def _remove(self, files: Iterable[Record]) -> None:
        ops: list[Op] = []
        for record in files:
            key, version = record.id, number_of(record)
            if not key.endswith(f"/{FOLDER}"):
                ops.append(self._documents.version(key, content_of(record), version, "deleted", now()))
            ops.append(Remove(self._query(ids=(key,))))
        await self._apply(ops)

    def _document(self, below: str, text: str) -> Record:
        at = now()
        return self._documents.document(address(below), parse(text), 1, (at, at))

    def _query(self, **clauses: Any) -> Query:
        return Query(collection=_COLLECTION, scope=self._scope, **clauses)

    async def _apply(self, ops: list[Op]) -> None:
        try:
            await self._store.apply(ops)
        except InvalidRecord as error:  # too long, or with half a character
            raise ToolError(f"This cannot be kept: {error}") from error


def _require(found: Found, path: str) -> Record:
    if found is None:
        raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
    if not isinstance(found, Record):
        raise ToolError(f"The path {path} is not a file.")
    return found


class OctavoMemoryTool(MemoryFiles, BetaAbstractMemoryTool):  # type: ignore[misc] # its types are not there without the SDK
    """The memory tool for `Anthropic`; each command is made of the coroutine of its name, as in `view` and `aview`.

    A store that a URL names is closed with the tool; one that is handed in stays open.
    """

    def __init__(
        self,
        url_or_store: str | Store,
        user_id: str = "default_user",
        *,
        tenant: str = "",
        cache_control: Any = None,
    ) -> None:
        MemoryFiles.__init__(self, url_or_store, user_id, tenant)
        BetaAbstractMemoryTool.__init__(self, cache_control=cache_control)


def _as_method(command: Callable[[MemoryFiles, Any], Awaitable[str]]) -> Callable[[Any, Any], Awaitable[str]]:
    """A command of the files as a method of the tool that holds them."""

    @functools.wraps(command)
    async def run(self: "AsyncOctavoMemoryTool", given: Any) -> str:
        return await command(self.files, given)

    return run


class AsyncOctavoMemoryTool(BetaAsyncAbstractMemoryTool):  # type: ignore[misc]
    """The memory tool for `AsyncAnthropic`."""

    def __init__(
        self,
        url_or_store: str | Store,
        user_id: str = "default_user",
        *,
        tenant: str = "",
        cache_control: Any = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self.files = MemoryFiles(url_or_store, user_id, tenant)

    view = _as_method(MemoryFiles.aview)
    create = _as_method(MemoryFiles.acreate)
    str_replace = _as_method(MemoryFiles.astr_replace)
    insert = _as_method(MemoryFiles.ainsert)
    delete = _as_method(MemoryFiles.adelete)
    rename = _as_method(MemoryFiles.arename)

    async def clear_all_memory(self) -> str:
        """Remove all files and folders."""
        return await self.files.aclear_all_memory()

    async def close(self) -> None:
        """Close the store, unless it was handed in."""
        await self.files.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
