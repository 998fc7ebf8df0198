"""Moving every event from one memory store to another: in order, in batches, resumable."""

import os
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import msgspec

from octavo.errors import ConfigError
from octavo.events.adapting import AdaptedStore, as_store
from octavo.events.base import BaseMemoryStore
from octavo.events.records import COLLECTION
from octavo.kernel.model import START, Add, Cursor, Query, Record, Scope
from octavo.kernel.ports import Store, walk
from octavo.util.file_modes import open_file

#: Called after each batch with the events moved so far and how many there are.
Progress: TypeAlias = Callable[[int, int], None]


class Migrated(msgspec.Struct, frozen=True, kw_only=True):
    """What a migration came to: nothing is counted before the target has acknowledged it."""

    read: int = 0  # in this run
    added: int = 0  # of those, new to the target
    resumed: int = 0  # moved by an interrupted run before this one, and not read again


async def migrate(
    source: BaseMemoryStore,
    target: BaseMemoryStore,
    *,
    batch: int = 500,
    progress: Progress | None = None,
    resume: str | os.PathLike[str] | None = None,
) -> Migrated:
    """Add every event of the source to the target, in order, with its id and time; what the target has is left alone.

    With `resume`, a file, an interrupted migration that is called again with it goes on where it stopped. Neither store
    is closed.
    """
    if batch < 1:
        raise ConfigError(f"a batch must have 1 event or more; got {batch}")
    await source.initialize()
    await target.initialize()
    run = _Run(source, target, batch, progress)
    trail = _Trail(resume)
    begun = trail.read()
    if begun.done and not await run.holds(begun.cursor):
        begun = _Step()
    await run.pour(begun, trail)
    if begun.done and await run.total() > run.done:
        # Older events came behind the cursor while the migration was interrupted: they would be missed.
        begun = _Step()
        await run.pour(begun, trail)
    trail.clear()
    return Migrated(read=run.done - begun.done, added=run.added, resumed=begun.done)


class _Step(msgspec.Struct, frozen=True):
    """How far a migration has come."""

    done: int = 0
    cursor: Cursor = START


class _Run:
    """One migration while it goes on."""

    def __init__(
        self, source: BaseMemoryStore, target: BaseMemoryStore, batch: int, progress: Progress | None
    ) -> None:
        self._source, self._target = as_store(source), as_store(target)
        self._query = Query(collection=COLLECTION, scope=Scope(tenant=source.tenant))
        self._tenant = target.tenant
        self._batch = batch
        self._progress = progress
        self.done = self.added = 0

    async def total(self) -> int:
        return (await self._source.tally(self._query)).total

    async def holds(self, cursor: Cursor) -> bool:
        """Whether the target still has the event the last run ended with: it may be another target by now."""
        return cursor.at is not None and any(
            record.id == cursor.id for record in await self._there(cursor.at, cursor.at)
        )

    async def _there(self, first: datetime, last: datetime) -> list[Record]:
        """What the target has of these times."""
        until = last + timedelta(microseconds=1)
        query = Query(collection=COLLECTION, scope=Scope(tenant=self._tenant), since=first, until=until)
        return await self._target.find(query)

    async def pour(self, begun: "_Step", trail: "_Trail") -> None:
        self.done = begun.done
        total = await self.total() if self._progress else 0
        async for page in _pages(self._source, self._query, begun.cursor, self._batch):
            self.added += await self._add([_owned(record, self._tenant) for record in page])
            self.done += len(page)
            trail.write(_Step(self.done, page[-1].cursor))
            if self._progress is not None:
                self._progress(self.done, max(total, self.done))

    async def _add(self, page: list[Record]) -> int:
        if isinstance(self._target, AdaptedStore):
            # A store that somebody wrote may keep the same event twice.
            there = {record.key for record in await self._there(page[0].created_at, page[-1].created_at)}
            page = [record for record in page if record.key not in there]
        [added] = await self._target.apply([Add(page)])
        return added


def _pages(store: Store, query: Query, after: Cursor, size: int) -> AsyncIterator[list[Record]]:
    if isinstance(store, AdaptedStore):
        return store.pages(query, after, size)
    return walk(store, msgspec.structs.replace(query, after=after), size)


def _owned(record: Record, tenant: str) -> Record:
    if record.scope.tenant == tenant:
        return record
    scope = msgspec.structs.replace(record.scope, tenant=tenant)
    return msgspec.structs.replace(record, scope=scope)


class _Trail:
    """The file that remembers how far a migration has come; without a path it remembers nothing."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self._path = None if path is None else Path(path)

    def read(self) -> _Step:
        try:
            return _Step() if self._path is None else msgspec.json.decode(self._path.read_bytes(), type=_Step)
        except FileNotFoundError:
            return _Step()
        except msgspec.DecodeError as error:
            raise ConfigError(
                f"{self._path} does not say how far a migration has come ({error}); remove it to begin again"
            ) from None

    def write(self, step: _Step) -> None:
        if self._path is not None:
            waiting = self._path.with_name(self._path.name + ".new")
            with open(waiting, "wb", opener=open_file) as file:
                file.write(msgspec.json.encode(step))
            waiting.replace(self._path)

    def clear(self) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)
