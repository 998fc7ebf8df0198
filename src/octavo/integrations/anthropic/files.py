"""The commands of the memory tool on the documents of one user, in the words of the SDK's own tool for files on disk."""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import msgspec
from anthropic.lib.tools import ToolError  # type: ignore[import-not-found]

from octavo.conversation.store_history import BoundStore, on_store_loop
from octavo.errors import Conflict, InvalidRecord
from octavo.integrations.anthropic.texts import (
    FOLDER,
    address,
    folder_of,
    insert,
    move_record,
    parents,
    replace,
    strip_top,
    tell_file,
    tell_folder,
    text_of,
    to_path,
)
from octavo.kernel.ids import now
from octavo.kernel.model import Add, Op, Query, Record, Remove, Scope
from octavo.kernel.ports import Store
from octavo.service.vault.documents import DocumentRecords, content_of, md5_of, number_of, parse

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
