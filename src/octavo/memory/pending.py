"""Texts whose facts are still to be found: noted together with the message, and struck out together with the facts.

So a text that was queued while the store was down, or whose process was killed in between, has its facts found later.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec

from octavo.chat.messages import MESSAGES
from octavo.erasing import Subject
from octavo.errors import InvalidRecord, OctavoError, StoreClosed, StoreUnavailable
from octavo.kernel.ids import now
from octavo.kernel.model import Query, Record, Remove, Scope, exact_scope
from octavo.kernel.ports import WriteStatus
from octavo.layers import Extracted, LayeredMemory, Outcome
from octavo.memory.messages import Added

PENDING, FACTS = "pending", "facts"
_GRACE = timedelta(seconds=30)  # a younger note is in the hands of whoever wrote it
_WRONG = timedelta(hours=1)  # a note from so far ahead was written while a clock was wrong
_PAGE = 50
_FIRST_SECONDS, _LONGEST_SECONDS = 0.2, 300.0  # between two looks while the store is down or the model fails
_log = logging.getLogger("octavo.memory")


def note_for(message: Record, owner: dict[str, str], metadata: dict[str, Any]) -> Record:
    """The record that says that the facts of a message are still to be found, and whose they are."""
    return Record(
        collection=PENDING,
        id=f"{FACTS}:{message.id}",
        kind=FACTS,
        scope=message.scope,
        data={"message": message.id, "owner": owner, "metadata": metadata},
    )


def strike(note: Record) -> Remove:
    """What takes a note away."""
    return Remove(Query(collection=PENDING, ids=(note.id,), scope=exact_scope(note.scope)))


class PendingFacts:
    """Finds the facts of messages, now or when the store is back."""

    def __init__(self, layers: LayeredMemory) -> None:
        self._layers = layers
        self._task: asyncio.Task[None] | None = None
        self._waiting: dict[str, Record] = {}  # notes of this process, to be tried again
        self._next_look = 0.0  # of the event loop's clock; earlier ones find no note that the last one left

    async def find(self, note: Record, message: Record) -> Extracted:
        """Find the facts of a message, and strike out its note."""
        data = note.data
        return await self._layers.extract_from(
            message, metadata=data["metadata"], done=[strike(note)], **data["owner"]
        )

    async def find_all(self, names: list[str], noted: list[tuple[Record, Record]]) -> Added:
        """Find the facts of messages that were kept under these names; what fails is looked for again later."""
        found: list[Outcome] = []
        status: WriteStatus = "stored"
        remarks: list[str] = []
        for note, message in noted:
            try:
                extracted = await self.find(note, message)
            except (StoreClosed, InvalidRecord):
                raise
            except OctavoError as error:  # what was said is kept, and that is what was promised
                self.extract_later([note])
                remarks.append(f"the facts of {message.id!r} are looked for again later: {error}")
                continue
            found += extracted.memories
            status = "queued" if extracted.status == "queued" else status
            remarks += [extracted.note] if extracted.note else []
        return Added(messages=names, memories=found, status=status, note="; ".join(remarks))

    def extract_later(self, notes: Sequence[Record]) -> None:
        """Find the facts of these when the store is back."""
        self._waiting.update((note.id, note) for note in notes)
        self._next_look = 0.0
        self.look()

    def forget(self, subject: Subject) -> None:
        """Find no facts of what was erased."""
        for note in list(self._waiting.values()):
            if subject.owns(note.scope):
                del self._waiting[note.id]

    def look(self) -> None:
        """Begin, now and then, to find what waits and what other processes have left; nobody waits for it."""
        at = asyncio.get_running_loop().time()
        if at >= self._next_look and (self._task is None or self._task.done()):
            self._task = asyncio.ensure_future(self._catch_up())
            self._next_look = at + _GRACE.total_seconds()

    async def close(self) -> None:
        """Stop; what is left is found by the next process."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _catch_up(self) -> None:
        pause = _FIRST_SECONDS
        while True:
            try:
                await self._look_once()
            except StoreClosed:
                return
            except OctavoError as error:
                _log.debug("facts that wait are looked for again in %s s: %s", pause, error)
            if not self._waiting:
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_SECONDS)

    async def _look_once(self) -> None:
        store, scope = self._layers.store, Scope(tenant=self._layers.tenant)
        left = Query(collection=PENDING, kinds=(FACTS,), scope=scope, until=now() - _GRACE, limit=_PAGE)
        ahead = msgspec.structs.replace(left, until=None, since=now() + _WRONG)
        for note in [*await store.find(left), *await store.find(ahead), *self._waiting.values()]:
            said = Query(collection=MESSAGES, ids=(note.data["message"],), scope=exact_scope(note.scope))
            found = await store.find(said)
            try:
                if found:
                    await self.find(note, found[0])
                elif note.id not in self._waiting:  # removed before anybody read it
                    await store.apply([strike(note)])
                if found:
                    self._waiting.pop(note.id, None)
            except StoreUnavailable:
                raise
            except OctavoError as error:  # a text that cannot be read must not hold up the others
                _log.warning("the facts of message %s could not be found: %s", note.data["message"], error)
