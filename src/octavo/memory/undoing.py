"""Taking back at once what one `add` did, what was done since a moment, or what was taken back before.

Each memory is brought back by one change of its own, and a message that goes is kept in the log row that says so: an undo is a
change like any other, and can be undone.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from octavo.chat.messages import MESSAGES
from octavo.errors import Conflict, InvalidQuery, NotFound
from octavo.kernel.codec import MAX_RECORD_BYTES, encode_record
from octavo.kernel.ids import new_id, now
from octavo.kernel.model import Add, Query, Record, Remove, exact_scope
from octavo.kernel.pages import walk
from octavo.layers import LayeredMemory
from octavo.layers.records import LOG, entry_of, log_id, log_record
from octavo.layers.values import LogEntry, Undone
from octavo.memory.messages import Added
from octavo.memory.pending import FACTS, PENDING
from octavo.memory.searching import Whose

_CHANGES = ("insert", "update", "delete", "expire")
_PAGE, _PAGE_BYTES = 200, 2**22
_LONGEST = MAX_RECORD_BYTES // 2  # bytes of a message that its log row can hold


class UndoMany:
    """One undo of many changes of one owner."""

    def __init__(
        self, layers: LayeredMemory, whose: Whose, reason: str | None, *, dry_run: bool = False
    ) -> None:
        self._layers = layers
        self._store = layers.store
        self._scope = whose.owner_scope
        self._owner = whose.owner
        self._reason = reason
        self._dry_run = dry_run
        self._name = new_id("undo_")

    async def run(
        self, add: Added | str | Sequence[str] | None, since: datetime | None, undo: str | None
    ) -> Undone:
        """Take back what one of the three names."""
        if sum(each is not None for each in (add, since, undo)) != 1:
            raise InvalidQuery("what is to be undone? give one of add, since and undo")
        by_memory: dict[str, list[LogEntry]] = {}
        messages: list[Record] = []
        returning: list[Record] = []  # rows that keep a message
        if since is not None:
            rows = self._rows(since=since)
        elif undo is not None:
            rows = self._rows(where={"undo": undo})
        else:
            names = _names(add)
            rows = self._rows_made_of(names)
            messages = await self._store.find(Query(collection=MESSAGES, scope=self._scope, ids=names))
        async for row in rows:
            if "message" in row.data:
                returning.append(row)
            elif row.kind in _CHANGES:
                by_memory.setdefault(row.scope.session or "", []).append(entry_of(row))
        if not (by_memory or messages or returning) and since is None:
            raise NotFound(
                f"nothing is known of {undo or ', '.join(_names(add))!r}, so nothing can be undone"
            )
        return await self._undo(by_memory, messages, returning if undo else [])

    async def _undo(
        self, by_memory: dict[str, list[LogEntry]], messages: list[Record], returning: list[Record]
    ) -> Undone:
        changes: list[LogEntry] = []
        kept: dict[str, str] = {}
        for memory, entries in by_memory.items():
            if entries[-1].action == "expire":
                kept[memory] = f"the memory {memory!r} has expired"
                continue
            try:
                await self._layers.undo_together(
                    entries, self._name, self._reason, dry_run=self._dry_run, **self._owner
                )
                changes.append(entries[-1])
            except Conflict as error:
                kept[memory] = str(error)
        moved = [await self._take_away(message) for message in messages]
        moved += [await self._bring_back(row) for row in returning]
        return Undone(
            id=self._name,
            changes=changes,
            messages=[name for name in moved if name],
            kept=kept,
            dry_run=self._dry_run,
        )

    async def _rows(self, **clauses: Any) -> AsyncIterator[Record]:
        query = Query(collection=LOG, scope=self._scope, **clauses)
        async for page in walk(self._store, query, _PAGE, _PAGE_BYTES):
            for row in page:
                yield row

    async def _rows_made_of(self, names: Sequence[str]) -> AsyncIterator[Record]:
        """The rows of what these texts made; what was kept as it was said is named itself."""
        for name in names:
            async for row in self._rows(where={"source_id": name}):
                yield row
        async for row in self._rows(ids=tuple(log_id(name, 1) for name in names)):
            yield row

    async def _take_away(self, message: Record) -> str:
        """Remove a message; its log row has it whole."""
        if len(encode_record(message)) > _LONGEST:
            return ""
        if not self._dry_run:
            where = exact_scope(message.scope)
            note = Query(collection=PENDING, ids=(f"{FACTS}:{message.id}",), scope=where)
            gone = Query(collection=MESSAGES, ids=(message.id,), scope=where)
            row = self._row("delete", message)
            try:
                await self._store.apply([Remove(gone, expect=1), Remove(note), Add([row], expect=1)])
            except Conflict:  # somebody else has removed it
                return ""
        return message.id

    async def _bring_back(self, row: Record) -> str:
        """Put a message back that the row keeps, or remove it again if that row says that it was put back."""
        message = msgspec.convert(row.data["message"], Record)
        if row.kind == "insert":
            return await self._take_away(message)
        if not self._dry_run:
            await self._store.apply([Add([message]), Add([self._row("insert", message)], expect=1)])
        return message.id

    def _row(self, action: Any, message: Record) -> Record:
        reason = self._reason or (
            "What was said was taken back." if action == "delete" else "It was put back."
        )
        row = log_record(
            self._scope, message.id, "event", action, reason, now(), metadata={"undo": self._name}
        )
        return msgspec.structs.replace(row, data={**row.data, "message": msgspec.to_builtins(message)})


def _names(add: Added | str | Sequence[str] | None) -> tuple[str, ...]:
    """The messages that an `add` kept, or the memories where it kept each text as it was."""
    if isinstance(add, Added):
        add = add.messages or [each.id for each in add.memories]
    names = (add,) if isinstance(add, str) else add
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
        raise InvalidQuery(f"add is what an add() answered, or ids of its messages; got {add!r}"[:200])
    return tuple(names)
