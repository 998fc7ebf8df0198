"""Any memory store as a kernel store, so that the Journal, a move or a search can stand in front of it."""

from collections.abc import AsyncIterator, Awaitable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from octavo.errors import StoreError, StoreUnavailable
from octavo.events.base import VERBS, BaseMemoryStore
from octavo.events.records import COLLECTION, AgentEvent, to_event, to_record
from octavo.events.store import EventStore
from octavo.kernel.codec import Kept, Prepared
from octavo.kernel.model import START, Change, Cursor, Op, Query, Record, Remove, Tally
from octavo.kernel.ports import Store
from octavo.stores.base import BaseStore
from octavo.util.user_code import foreign
from octavo.wraps.journal.delivery import PROBES
from octavo.wraps.wrap import Wrap

T = TypeVar("T")
_ALL = 2**31 - 1  # a number, since `events[-limit:]` and `LIMIT ?` must work in a store written by a user
_HALF = 10_000  # ids remembered of writes that failed half-way


def as_store(memory_store: BaseMemoryStore) -> Store:
    """The kernel store under a memory store: its own if it has one, otherwise one that calls its methods.

    A subclass of a built-in store that changes what a method does is called too, never passed by.
    """
    if isinstance(memory_store, EventStore) and all(
        getattr(type(memory_store), name) is getattr(EventStore, name) for name in VERBS
    ):
        return memory_store.kernel if memory_store.retention is None else RetainedStore(memory_store)
    return AdaptedStore(memory_store)


class RetainedStore(Wrap):
    """The store under a memory store with a retention, which whoever writes past the memory store must start too."""

    def __init__(self, memory_store: EventStore) -> None:
        super().__init__(memory_store.kernel)
        self._memory_store = memory_store

    async def apply(self, ops: Sequence[Op]) -> list[int]:
        """Apply all of the ops in order, or none."""
        self._memory_store.start_retention()
        return await self.inner.apply(ops)

    async def close(self) -> None:
        """Close the memory store, and with it what is its own."""
        await self._memory_store.close()


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
        if any(isinstance(op, Change) or (isinstance(op, Remove) and not _clearable(op.query)) for op in ops):
            raise StoreError(f"{self._name} can only store events and clear them by agent, session and time")
        counts = []
        for op in ops:
            if isinstance(op, Kept):
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
                if record.key not in self._half:
                    await self._store_one(record)
                kept.append(record.key)
        except BaseException:
            self._half.update(dict.fromkeys(kept))
            while len(self._half) > _HALF:
                del self._half[next(iter(self._half))]
            raise
        for key in kept:
            self._half.pop(key, None)
        return len(kept)

    async def _store_one(self, record: Record) -> None:
        # Only False says no: a method that forgets to return has still done its work.
        if await self._call(self.memory_store.store(to_event(record))) is False:
            raise StoreUnavailable(f"{self._name} did not keep the event {record.id}")

    async def _find(self, query: Query) -> list[Record]:
        if query.collection != COLLECTION or query.scope.tenant != self._tenant or query.scope.user:
            return []
        since, limit = query.since, _ALL
        if query.after is not None and query.after.at is not None and not query.newest_first:
            since = query.after.at if since is None else max(since, query.after.at)
        elif _simple(query) and query.limit is not None:
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
        """All events past the cursor in pages, oldest first, without holding all of them at once.

        A memory store can only be asked for the newest before some moment. So it is walked from its end to its
        beginning first, to learn at which moments the pages begin, and then read page by page.
        """
        until, begins = query.until, [query.until]
        while page := await self._read(query, after.at, until, size):
            if until is not None and page[-1].created_at >= until:
                begins = [query.until, None]  # it does not keep to `end_time`: all it has is one page
                break
            until = page[0].created_at
            begins.append(until)
            if len(page) < size:
                break
        for begin, end in zip(begins[:0:-1], begins[-2::-1], strict=True):
            window = msgspec.structs.replace(query, since=begin, until=end, after=after)
            found = window.over(await self._read(query, begin, end, _ALL))
            for at in range(0, len(found), size):
                yield found[at : at + size]

    @property
    def _name(self) -> str:
        return type(self.memory_store).__name__

    async def _call(self, answer: Awaitable[T]) -> T:
        """What the user's method answers; whatever it raises means that the store cannot be used now."""
        with foreign(self._name, StoreUnavailable):
            return await answer


def _simple(query: Query) -> bool:
    """Whether `retrieve` can be asked for all of the query, so that its `limit` is the query's."""
    bare = Query(
        collection=query.collection, scope=query.scope, since=query.since, until=query.until,
        kinds=query.kinds if query.kinds is None or len(query.kinds) == 1 else None,
        limit=query.limit, newest_first=query.newest_first,
    )  # fmt: skip
    return bare == query


def _is_probe(op: Prepared) -> bool:
    """Whether it writes what only a Journal writes, in the tenant that is nobody's."""
    scopes = [sealed.record.scope for sealed in op.records] if isinstance(op, Kept) else [op.query.scope]
    return any(scope.tenant == PROBES for scope in scopes)


def _clearable(query: Query) -> bool:
    if query.limit == 0:  # a question that nothing can answer
        return True
    return query.collection == COLLECTION and query == Query(
        collection=COLLECTION, scope=query.scope, since=query.since, until=query.until
    )


def _filters(query: Query, more: dict[str, Any]) -> dict[str, Any]:
    """The filters a memory store is asked by; only those given, since a user's method may not take the others."""
    given = {"agent_name": query.scope.agent, "session_id": query.scope.session, **more}
    return {name: value for name, value in given.items() if value is not None}


def _to_records(events: list[AgentEvent], tenant: str) -> list[Record]:
    """Events as records whose seq is their place among those of the same moment, the same however often they are read."""
    records: list[Record] = []
    at: datetime | None = None
    seq = 0
    for event in sorted(events, key=lambda event: event.timestamp):
        seq = seq + 1 if event.timestamp == at else 0
        at = event.timestamp
        records.append(msgspec.structs.replace(to_record(event, tenant), seq=seq))
    return records
