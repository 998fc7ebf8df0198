"""Moving every event from one memory store to another: in order, in batches, resumable."""

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeAlias, TypeVar

import msgspec

from octavo.events.adapting import AdaptedStore, as_store
from octavo.events.base import BaseMemoryStore
from octavo.events.records import COLLECTION
from octavo.kernel.model import Add, Op, Query, Record, Scope
from octavo.transfer import copy
from octavo.wraps.wrap import Wrap

#: Called after each batch with the events moved so far and how many there are.
Progress: TypeAlias = Callable[[int, int | None], None]
T = TypeVar("T", Query, Record)


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
    await source.initialize()
    await target.initialize()
    moved = await copy(
        as_store(source),
        _Target(target, source.tenant),
        collections=(COLLECTION,),
        scope=Scope(tenant=source.tenant),
        batch=batch,
        progress=progress,
        resume=None if resume is None else os.fspath(resume),
    )
    return Migrated(read=moved.read, added=moved.added, resumed=moved.resumed)


class _Target(Wrap):
    """The store under a memory store, in which the tenant of another one goes by this one's name."""

    def __init__(self, memory_store: BaseMemoryStore, source_tenant: str) -> None:
        super().__init__(as_store(memory_store))
        self._tenant = memory_store.tenant
        self._source_tenant = source_tenant

    async def apply(self, ops: Sequence[Op]) -> list[int]:
        """Add the records of the source, under the name of the tenant here."""
        return [await self._add(list(op.records)) for op in ops if isinstance(op, Add)]

    async def find(self, query: Query) -> list[Record]:
        """What the target has, as the source would name it."""
        found = await self.inner.find(_of_tenant(query, self._tenant))
        return [_of_tenant(record, self._source_tenant) for record in found]

    async def _add(self, records: list[Record]) -> int:
        records = [_of_tenant(record, self._tenant) for record in records]
        if isinstance(self.inner, AdaptedStore):
            # A store that somebody wrote may keep the same event twice.
            until = records[-1].created_at + timedelta(microseconds=1)
            scope = Scope(tenant=self._tenant)
            query = Query(collection=COLLECTION, scope=scope, since=records[0].created_at, until=until)
            there = {record.key for record in await self.inner.find(query)}
            records = [record for record in records if record.key not in there]
        [added] = await self.inner.apply([Add(records)])
        return added


def _of_tenant(value: T, tenant: str) -> T:
    if value.scope.tenant == tenant:
        return value
    return msgspec.structs.replace(value, scope=msgspec.structs.replace(value.scope, tenant=tenant))
