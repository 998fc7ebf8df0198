"""Any memory store as a kernel store, so that a Journal can stand in front of it, and moving all events into another."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias, TypeVar

import msgspec

from octavo.errors import StoreError, StoreUnavailable
from octavo.events.records import COLLECTION, VERBS, AgentEvent, BaseMemoryStore, to_event, to_record
from octavo.events.store import EventStore
from octavo.kernel.codec import CheckedAdd, Prepared
from octavo.kernel.model import START, Add, Change, Cursor, Op, Query, Record, Remove, Scope, Tally
from octavo.kernel.ports import Store
from octavo.stores.base import BaseStore
from octavo.transfer import copy
from octavo.util.user_code import translate_errors
from octavo.wraps.journal.delivery import PROBES
from octavo.wraps.wrap import Wrap

T = TypeVar("T")
V = TypeVar("V", Query, Record)
#: Called after each batch with the events moved so far and how many there are.
Progress: TypeAlias = Callable[[int, int | None], None]
_ALL = 2**31 - 1  # a number, since `events[-limit:]` and `LIMIT ?` must work in a store written by a user
_HALF = 10_000  # ids remembered of writes that failed half-way


def as_store(memory_store: BaseMemoryStore) -> Store:
    """The kernel store under a memory store: its own if it has one, otherwise one that calls its methods.

    A subclass of a built-in store that changes what a method does is called too, never passed by.
    """
    if isinstance(memory_store, EventStore) and all(
        getattr(type(memory_store), name) is getattr(EventStore, name) for name in VERBS
    ):
        return memory_store.kernel
    return AdaptedStore(memory_store)


class AdaptedStore(BaseStore):
    """A memory store that somebody wrote, as a store of the collection `events`.

    What it cannot promise is atomicity: a write is one call per event. An event that was kept before a later one of the
    same write failed is not sent again when the write is. Marks, texts, expiry and changes are not kept.
    """

    opener = "as_store(memory_store)"

    def __init__(self, memory_store: BaseMemoryStore) -> None:
        super().__init__()
        self.memory_store = memory_store
        self._tenant = memory_store.tenant
        self._half: dict[tuple[str, str], None] = {}

    async def _open(self) -> None:
        await self._call(self.memory_store.initialize())

    async def _close(self) -> None:
        await self._call(self.memory_store.close())

    async def _apply(self, ops: list[Prepared]) -> list[int]:
        if ops and all(map(_is_probe, ops)):
            # So the Journal finds out whether a store works; here only a question can tell.
            await self._call(self.memory_store.retrieve(limit=1))
            return [1] * len(ops)
        if any(op.expect is not None for op in ops):
            raise StoreError(f"{self._name} has no transactions: it cannot do a write that expects something")
        if any(isinstance(op, Change) or (isinstance(op, Remove) and not _can_clear(op.query)) for op in ops):
            raise StoreError(f"{self._name} can only store events and clear them by agent, session and time")
        counts = []
        for op in ops:
            if isinstance(op, CheckedAdd):
                counts.append(await self._store([sealed.record for sealed in op.records]))
            else:
                query = op.query
                named = _filters(query, {"start_time": query.since, "end_time": query.until})
                removed = await self._call(self.memory_store.clear(**named)) if query.limit is None else 0
                counts.append(removed or 0)
        return counts

    async def _store(self, records: list[Record]) -> int:
        kept: list[tuple[str, str]] = []
        try:
            for record in records:
                if record.collection != COLLECTION:
                    raise StoreError(f"{self._name} keeps events only, not {record.collection}")
                # Only False says no: a method that forgets to return has still done its work.
                if (
                    record.key not in self._half
                    and await self._call(self.memory_store.store(to_event(record))) is False
                ):
                    raise StoreUnavailable(f"{self._name} did not keep the event {record.id}")
                kept.append(record.key)
        except BaseException:
            self._half.update(dict.fromkeys(kept))
            while len(self._half) > _HALF:
                del self._half[next(iter(self._half))]
            raise
        for key in kept:
            self._half.pop(key, None)
        return len(kept)

    async def _find(self, query: Query) -> list[Record]:
        if query.collection != COLLECTION or query.scope.tenant != self._tenant:
            return []
        since, limit = query.since, _ALL
        if query.after is not None and query.after.at is not None and not query.newest_first:
            since = query.after.at if since is None else max(since, query.after.at)
        elif (
            query.limit is not None
            and (query.kinds is None or len(query.kinds) == 1)
            and _has_only(query, "since", "until", "kinds", "limit", "newest_first")
        ):
            limit = query.limit
        return query.over(await self._read(query, since, query.until, limit))

    async def _tally(self, query: Query) -> Tally:
        return Tally.of(query, await self._find(query.unpaged))

    async def _read(
        self, query: Query, since: datetime | None, until: datetime | None, limit: int
    ) -> list[Record]:
        named = _filters(query, {"start_time": since, "end_time": until})
        if query.kinds is not None and len(query.kinds) == 1:
            named["event_type"] = query.kinds[0]
        events: list[AgentEvent] | None = await self._call(self.memory_store.retrieve(**named, limit=limit))
        return _to_records(events or [], self._tenant)

    async def pages(
        self, query: Query, after: Cursor = START, size: int = 500
    ) -> AsyncIterator[list[Record]]:
        """All events past the cursor in pages, oldest first.

        They are read once and held meanwhile: a memory store can only be asked for the newest, and not go on from a position.
        """
        found = await self._find(msgspec.structs.replace(query, after=after, limit=None))
        for start in range(0, len(found), size):
            yield found[start : start + size]

    @property
    def _name(self) -> str:
        return type(self.memory_store).__name__

    async def _call(self, answer: Awaitable[T]) -> T:
        """What the user's method answers; whatever it raises means that the store cannot be used now."""
        with translate_errors(self._name, StoreUnavailable):
            return await answer


def _has_only(query: Query, *clauses: str) -> bool:
    """Whether a query for events has no other clauses than these, and names no user: a memory store knows none."""
    bare = Query(collection=COLLECTION, scope=query.scope, **{name: getattr(query, name) for name in clauses})
    return bare == query and query.scope.user is None


def _is_probe(op: Prepared) -> bool:
    """Whether it writes what only a Journal writes, in the tenant that is nobody's."""
    scopes = (
        [sealed.record.scope for sealed in op.records] if isinstance(op, CheckedAdd) else [op.query.scope]
    )
    return any(scope.tenant == PROBES for scope in scopes)


def _can_clear(query: Query) -> bool:
    return query.limit == 0 or _has_only(query, "since", "until")  # with a limit of 0 nothing is meant


def _filters(query: Query, more: dict[str, Any]) -> dict[str, Any]:
    """The filters a memory store is asked by; only those given, since a user's method may not take the others."""
    given = {"agent_name": query.scope.agent, "session_id": query.scope.session, **more}
    return {name: value for name, value in given.items() if value is not None}


def _to_records(events: list[AgentEvent], tenant: str) -> list[Record]:
    """Events as records whose seq is their position among those of the same moment, the same however often they are read."""
    records: list[Record] = []
    at: datetime | None = None
    seq = 0
    for event in sorted(events, key=lambda event: event.timestamp):
        seq = seq + 1 if event.timestamp == at else 0
        at = event.timestamp
        records.append(msgspec.structs.replace(to_record(event, tenant), seq=seq))
    return records


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
        found = await self.inner.find(_put_in_tenant(query, self._tenant))
        return [_put_in_tenant(record, self._source_tenant) for record in found]

    async def _add(self, records: list[Record]) -> int:
        records = [_put_in_tenant(record, self._tenant) for record in records]
        if isinstance(self.inner, AdaptedStore):
            # A store that somebody wrote may keep the same event twice.
            until = records[-1].created_at + timedelta(microseconds=1)
            scope = Scope(tenant=self._tenant)
            query = Query(collection=COLLECTION, scope=scope, since=records[0].created_at, until=until)
            there = set(map(_name_of, await self.inner.find(query)))
            records = [record for record in records if _name_of(record) not in there]
        [added] = await self.inner.apply([Add(records)])
        return added


def _name_of(record: Record) -> tuple[str, str | None, str | None]:
    """What names an event in a store that somebody wrote, which may know nothing of users."""
    return record.id, record.scope.agent, record.scope.session


def _put_in_tenant(value: V, tenant: str) -> V:
    if value.scope.tenant == tenant:
        return value
    return msgspec.structs.replace(value, scope=msgspec.structs.replace(value.scope, tenant=tenant))
