"""Putting and removing one document. The caller holds the lock.

The store is called once, blindly: the write names the text it replaces, so that it can wait in a failure queue without
ever replacing another one. What turns out otherwise is brought together as a sync would. The file is made ready before the
store is asked and takes its place after: whichever of the two refuses a text, the other does not have it.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from octavo.errors import Conflict, StoreError, StoreUnavailable
from octavo.kernel.codec import seal
from octavo.kernel.model import Op
from octavo.kernel.ports import Queues, Store, Written, written
from octavo.service.vault.documents import Document, Shelf, kept
from octavo.service.vault.folder import Folder, Unusable
from octavo.service.vault.front import Content, composed
from octavo.service.vault.keys import Place
from octavo.service.vault.ledger import Ledger
from octavo.service.vault.reading import Found, read
from octavo.service.vault.reports import SyncReport
from octavo.service.vault.settling import Settling
from octavo.wraps.attempts import Attempts

_log = logging.getLogger("octavo.vault")
_ROUNDS = 3


class Writing:
    """Writes documents of one vault."""

    def __init__(
        self,
        folder: Folder,
        ledger: Ledger,
        shelf: Shelf,
        store: Store,
        settling: Settling,
        clock: Callable[[], datetime],
        patience_seconds: float,
    ) -> None:
        self._folder = folder
        self._ledger = ledger
        self._shelf = shelf
        self._store = store
        self._settling = settling
        self._clock = clock
        self._patience_seconds = patience_seconds
        self._attempts = Attempts()

    async def put(self, place: Place, body: str, front: dict[str, Any] | None) -> Document:
        """Keep a text in the file, and in the store now or later."""
        found = await asyncio.to_thread(self._read, place)
        old, entry, at = found.content, found.entry, self._clock()
        content = composed(body, front, old)
        version = (entry.version if entry else 0) + 1
        record = self._shelf.record(place, content, version, entry.created_at if entry else at, at)
        seal(record)  # a text that no store may keep is refused before anything is changed
        if found.settled and entry is not None and entry.synced and content.md5 == entry.md5:
            return found.document
        ops: list[Op] = []
        if old is not None and content.md5 != old.md5:
            # An edit that was never sent has this put's number, which then takes the next.
            ops.append(self._shelf.version(place.key, old, version - found.settled, "replaced", at))
        clean = found.settled or (old is None and entry is None)
        if clean:
            ops += self._shelf.swapped(record, entry.md5 if entry else None)
            new, answer = await self._both(found, content, ops)
            if answer is None:
                return new.document
            stored = answer.stored and bool(answer.counts[-1])
            if stored or not answer.stored:
                self._settling.note(new, version, stored=stored)
                try:
                    await asyncio.to_thread(self._ledger.save)
                except (
                    StoreError
                ) as error:  # the document is where it should be, and the next sync finds it there
                    _log.warning("the document %r was put, and not noted: %s", place.key, error)
                return self._noted(new)
            return await self._settled(new, above=0)
        if ops:
            # The edited text is nowhere else: it is kept before the file is written over, or nothing is done.
            await written(self._store, ops)
        new = await asyncio.to_thread(self._write, found, content)
        return await self._settled(new, above=version if ops else 0)

    async def _both(self, found: Found, content: Content, ops: list[Op]) -> tuple[Found, Written | None]:
        """Write the store and then the file; None when the store cannot be reached, and the file has it for both."""
        path, staged = await asyncio.to_thread(self._staged, found, content)
        answer: Written | None = None
        try:
            answer = await self._write_ops(ops)
        except StoreUnavailable as error:
            _log.debug("the document %r waits for the next sync: %s", found.place.key, error)
        except BaseException:
            await asyncio.to_thread(staged.unlink, missing_ok=True)
            raise
        checked = time.time_ns()
        stamp = await asyncio.to_thread(self._folder.place, path, staged, found.stamp)
        return Found(found.place, found.entry, path, content, stamp, checked), answer

    async def _write_ops(self, ops: list[Op]) -> Written:
        """Write to the store. One without a queue, which bounds its own waiting, is not waited for without end."""
        if isinstance(self._store, Queues):
            return await self._store.write(ops)
        return Written("stored", await self._attempts.read(self._store.apply(ops), self._patience_seconds))

    async def remove(self, place: Place) -> bool:
        """Delete the record and the file; the text is kept as a version first."""
        found = await asyncio.to_thread(self._read, place)
        entry, key = found.entry, place.key
        ops: list[Op] = []
        if found.content is not None:
            version = (entry.version if entry else 0) + (not found.settled)
            ops.append(self._shelf.version(key, found.content, version, "deleted", self._clock()))
        stored = removed = False
        if found.settled and entry is not None:
            answer = await written(self._store, [*ops, self._shelf.removed(place.collection, key, entry.md5)])
            stored, removed, ops = answer.stored, bool(answer.counts[-1]), []
        if not found.settled or (stored and not removed):
            removed, stored = await self._removed(place, ops)
        if found.path is not None and found.stamp is not None:
            try:
                await asyncio.to_thread(self._folder.unlink, found.path, found.stamp)
            except Unusable as error:
                raise StoreError(f"{self._folder.root / found.path} was not removed: {error}") from error
        # Until the store is known to have removed it, the entry says that the file was deleted.
        if entry is not None and stored:
            self._ledger.entries.pop(key, None)
            await asyncio.to_thread(self._ledger.save)
        return removed or found.content is not None

    async def _removed(self, place: Place, ops: list[Op]) -> tuple[bool, bool]:
        """Remove what the store has, having read it: whether there was something, and whether it is gone by now."""
        query = self._shelf.all(place.collection, (place.key,))
        for _ in range(_ROUNDS):
            more: list[Op] = []
            for held in map(kept, await self._store.find(query)):
                more.append(
                    self._shelf.version(place.key, held.content, held.version, "deleted", self._clock())
                )
                more.append(self._shelf.removed(place.collection, place.key, held))
            answer = await written(self._store, [*ops, *more]) if ops or more else None
            if answer is None or not more:
                return False, answer is None or answer.stored
            if not answer.stored or answer.counts[-1]:
                return True, answer.stored
        raise Conflict(f"the document {place.key!r} is changed again and again by somebody else; try again")

    def _read(self, place: Place) -> Found:
        self._ledger.load()
        return read(self._folder, place, self._ledger.entries.get(place.key))

    def _staged(self, found: Found, content: Content) -> tuple[str, Path]:
        path = found.path or self._folder.vacant(found.place)
        return path, self._folder.stage(path, content.raw)

    def _write(self, found: Found, content: Content) -> Found:
        path = found.path or self._folder.vacant(found.place)
        checked = time.time_ns()
        stamp = self._folder.write(path, content.raw, found.stamp)
        return Found(found.place, found.entry, path, content, stamp, checked)

    async def _settled(self, found: Found, above: int) -> Document:
        """Bring the document together now if the store answers, else leave it to the next sync."""
        try:
            for _ in range(_ROUNDS):
                if not await self._settling.settle([found.place.key], SyncReport(), above=above):
                    break
        except StoreUnavailable as error:
            _log.debug("the document %r waits for the next sync: %s", found.place.key, error)
        return self._noted(found)

    def _noted(self, found: Found) -> Document:
        return msgspec.structs.replace(found, entry=self._ledger.entries.get(found.place.key)).document
