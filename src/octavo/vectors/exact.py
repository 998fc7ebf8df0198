"""Exact search by numpy over any store: the vectors are records like all others, so that every store can hold them."""

import asyncio
import base64
import contextlib
import itertools
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from octavo.errors import ConfigError
from octavo.kernel.ids import new_id
from octavo.kernel.model import Add, Change, Op, Query, Record, Remove, Scope
from octavo.kernel.ports import Entry, EntryKey, Near, Space, Store, Vector, walk
from octavo.stores import open_store
from octavo.stores.gather import Gathering
from octavo.vectors.base import BaseIndex, mismatch
from octavo.vectors.clocks import MOST_CLOCKS, Clock, Seen, Touched, clear_clocks, clocks_query
from octavo.vectors.names import (
    COLLECTION,
    PLACES,
    SPACES,
    TENANTS,
    exactly,
    listed,
    place_record,
    short,
    space_record,
    tenant_record,
    vector_id,
)
from octavo.vectors.sheet import Sheet

CACHE_BYTES = 256 * 1024 * 1024
_PART = 1000  # vectors in one transaction
_FEW_ROWS = 5000  # ranked in less time than it takes to ask another thread to do it
_FEW_CLOCKS = 100
_SOME_PLACES = 20  # looked up one by one
_MOST_SCOPES = 10_000  # held, however small they are
_MANY_PLACES = 200  # removed from one by one, in one transaction


class _Write(NamedTuple):
    """One caller's change: entries to put, keys to drop, or, with neither, a space to forget."""

    space: str
    entries: Sequence[Entry] = ()
    keys: Sequence[EntryKey] = ()


class _Held:
    """A scope's vectors in memory, and the clocks as they were when those were read."""

    def __init__(self) -> None:
        self.using = asyncio.Lock()
        self.sheet: Sheet | None = None
        self.counts: dict[str, int] = {}


class ExactIndex(BaseIndex):
    """Every vector of the scope is compared, so that nothing is missed; the matrices of the scopes last used stay in memory.

    A store handed in stays open unless `owned`. `cache_bytes` bounds the memory of all matrices together; the one in use is always held.
    """

    def __init__(self, store: Store, *, cache_bytes: int = CACHE_BYTES, owned: bool = False) -> None:
        super().__init__()
        self._store = store
        self._owned = owned
        self._cache_bytes = cache_bytes
        self._held: OrderedDict[tuple[str, Scope], _Held] = OrderedDict()
        self._writer = new_id()
        self._clocks: dict[tuple[str, str], Clock] = {}  # (tenant, space)
        self._scopes: dict[str, Scope] = {}  # by place, of places that are known to be listed
        self._abandon()

    def _abandon(self) -> None:
        self._gathering: Gathering[_Write, None] = Gathering(self._commit, most=_PART, weigh=_weight)
        self._held.clear()  # each has a lock

    async def _leave(self) -> None:
        await self._gathering.settle()

    async def _close(self) -> None:
        await self._gathering.settle()
        self._held.clear()
        if self._owned:
            await self._store.close()

    # Writing.

    async def _put(self, space: str, entries: list[Entry]) -> None:
        for part in _parts(entries):
            await self._gathering.submit(_Write(space, entries=part))

    async def _drop(self, space: str, keys: list[EntryKey]) -> None:
        for part in _parts(keys):
            await self._gathering.submit(_Write(space, keys=part))

    async def _forget(self, space: str) -> None:
        await self._gathering.submit(_Write(space))

    async def _commit(self, writes: list[_Write]) -> list[None]:
        """Make the changes of all who wait; of two changes of one vector the later stays."""
        for forgets, group in itertools.groupby(writes, key=lambda write: not (write.entries or write.keys)):
            if not forgets:
                await self._change(list(group))
                continue
            for write in group:
                await self._forget_now(write.space)
        return [None] * len(writes)

    async def _change(self, writes: list[_Write]) -> None:
        scopes = {entry.scope.place: exactly(entry.scope) for write in writes for entry in write.entries}
        await self._list(writes, scopes)
        scopes |= await self._scopes_of({key.place for write in writes for key in write.keys} - scopes.keys())
        # By tenant and space: what is to be kept of each vector.
        after: dict[tuple[str, str], dict[Touched, Record | None]] = {}
        for space, entries, keys in writes:
            for entry in entries:
                record = _record(space, entry)
                after.setdefault((entry.scope.tenant, space), {})[record.id, entry.scope.place] = record
            for key in keys:
                if (scope := scopes.get(key.place)) is not None:
                    changed = after.setdefault((scope.tenant, space), {})
                    changed[vector_id(space, key), key.place] = None
        for (tenant, space), changed in after.items():
            await self._replace(tenant, space, changed, scopes)

    async def _replace(
        self, tenant: str, space: str, changed: dict[Touched, Record | None], scopes: dict[str, Scope]
    ) -> None:
        """Put the new in the place of the old, together with the clock that tells of it."""
        clock, ops = await self._clock(tenant, space)
        if not ops:
            clock.touch(list(changed))
        ops += [Remove(query) for query in _named(changed, scopes, Scope(tenant=tenant), _MANY_PLACES)]
        ops.append(clock.removal())
        new = [record for record in changed.values() if record is not None]
        await self._store.apply([*ops, Add([*new, clock.record()])])

    async def _clock(self, tenant: str, space: str) -> tuple[Clock, list[Op]]:
        """The clock of this writer, and what has to be done first when it is new and there are too many others."""
        clock = self._clocks.get((tenant, space))
        if clock is not None:
            return clock, []
        clock = self._clocks[tenant, space] = Clock(self._writer, tenant, space)
        if len(await self._store.find(clocks_query(tenant, space, MOST_CLOCKS))) < MOST_CLOCKS:
            return clock, []
        clock.touch_all()
        return clock, [clear_clocks(tenant, space)]

    async def _list(self, writes: list[_Write], scopes: dict[str, Scope]) -> None:
        """Have spaces, tenants and places in their lists before any vector, or nobody would find the vectors again."""
        for write in writes:
            if not write.entries:
                continue
            got = len(write.entries[0].vector)
            space = await self._space(write.space)
            if space is None:
                self._scopes.clear()  # a new index, or somebody has removed the lists
                await self._store.apply([Add([space_record(write.space, got)])])
                space = await self._space(write.space)
            if space is not None and space.data["dimensions"] != got:
                raise mismatch(write.space, space.data["dimensions"], got)
        new = {place: scope for place, scope in scopes.items() if place not in self._scopes}
        if new:
            tenants = [tenant_record(tenant) for tenant in {scope.tenant for scope in new.values()}]
            await self._store.apply([Add([*tenants, *map(place_record, new.values())])])
            self._remember(new)

    async def _scopes_of(self, places: set[str]) -> dict[str, Scope]:
        """The scopes that these are the places of, as far as they are listed."""
        known = {place: self._scopes[place] for place in places if place in self._scopes}
        if rest := sorted(places - known.keys()):
            found = {r.id: Scope(**r.data) for r in await self._store.find(listed(PLACES, *rest))}
            self._remember(found)
            known |= found
        return known

    def _remember(self, scopes: dict[str, Scope]) -> None:
        if len(self._scopes) > 65536:  # a service with millions of sessions must not keep them all
            self._scopes.clear()
        self._scopes |= scopes

    async def _forget_now(self, space: str) -> None:
        # First, so that nobody is served by what is left when this is interrupted.
        await self._store.apply([Change(query=listed(SPACES, short(space)), merge={"complete": False})])
        for tenant in await self._all_tenants():
            vectors = Query(collection=COLLECTION, kinds=(space,), scope=Scope(tenant=tenant))
            clocks = await self._store.find(clocks_query(tenant, space, 1))
            if not clocks and not (await self._store.tally(vectors)).total:
                continue  # a tenant that never had any
            clock, _ = await self._clock(tenant, space)
            clock.touch_all()
            await self._store.apply([Remove(vectors), clear_clocks(tenant, space), Add([clock.record()])])
        await self._store.apply([Remove(listed(SPACES, short(space)))])

    async def _complete(self, space: str) -> None:
        await self._store.apply([Change(query=listed(SPACES, short(space)), merge={"complete": True})])

    # Reading.

    async def _space(self, space: str) -> Record | None:
        found = await self._store.find(listed(SPACES, short(space)))
        return found[0] if found else None

    async def _all_tenants(self) -> list[str]:
        return sorted(record.data["tenant"] for record in await self._store.find(listed(TENANTS)))

    async def _spaces(self) -> list[Space]:
        spaces = [record.data for record in await self._store.find(listed(SPACES))]
        entries: dict[str, int] = {}
        for tenant in await self._all_tenants() if spaces else ():
            tally = await self._store.tally(Query(collection=COLLECTION, scope=Scope(tenant=tenant)))
            for space, count in tally.by_kind.items():
                entries[space] = entries.get(space, 0) + count
        return [Space(**data, entries=entries.get(data["name"], 0)) for data in spaces]

    async def _walk(self, space: str, size: int) -> AsyncIterator[list[tuple[EntryKey, str]]]:
        found: list[tuple[EntryKey, str]] = []
        for tenant in await self._all_tenants():
            query = Query(collection=COLLECTION, kinds=(space,), scope=Scope(tenant=tenant))
            async for page in walk(self._store, query):
                found += [(_key(record), record.metadata["digest"]) for record in page]
        found = sorted(dict(found).items())  # one that was replaced meanwhile was seen twice
        for start in range(0, len(found), size):
            yield found[start : start + size]

    async def _nearest(
        self, space: str, vector: Vector, scope: Scope, collections: list[str], limit: int
    ) -> list[Near]:
        async with self._fresh(space, scope) as sheet:
            if sheet is None:
                return []
            if sheet.dimensions != len(vector):
                raise mismatch(space, sheet.dimensions, len(vector))
            if len(sheet) <= _FEW_ROWS:
                return sheet.nearest(vector, collections, limit)
            return await asyncio.to_thread(sheet.nearest, vector, collections, limit)

    @contextlib.asynccontextmanager
    async def _fresh(self, space: str, scope: Scope) -> AsyncIterator[Sheet | None]:
        """The vectors of a scope as of now, for the length of the block; None when there is no such space."""
        held = self._held.setdefault((space, scope), _Held())
        self._held.move_to_end((space, scope))
        async with held.using:
            records = await self._store.find(clocks_query(scope.tenant, space, _FEW_CLOCKS))
            if len(records) == _FEW_CLOCKS:
                records = await self._store.find(clocks_query(scope.tenant, space))
            seen = Seen(records)
            own = self._clocks.get((scope.tenant, space))
            touched = None if held.sheet is None else seen.since(held.counts, own)
            if held.sheet is None or touched is None or len(touched) > len(held.sheet) // 2 + _PART:
                held.sheet = await self._load(space, scope)
                self._let_go()
            elif touched:
                await self._refresh(held.sheet, space, scope, touched)
                self._let_go()
            held.counts = seen.counts
            yield held.sheet

    async def _load(self, space: str, scope: Scope) -> Sheet | None:
        known = await self._space(space)
        if known is None:
            return None
        sheet = Sheet(known.data["dimensions"])
        async for page in walk(self._store, Query(collection=COLLECTION, kinds=(space,), scope=scope)):
            sheet.put(_rows(page))
        return sheet

    async def _refresh(self, sheet: Sheet, space: str, scope: Scope, touched: set[Touched]) -> None:
        """Read again what was touched inside the scope; what others write elsewhere costs nothing."""
        scopes = await self._scopes_of({place for _, place in touched})
        inside = [
            (id_, place) for id_, place in touched if place not in scopes or scope.covers(scopes[place])
        ]
        for query in _named(inside, scopes, scope, _SOME_PLACES):
            found = await self._store.find(msgspec.structs.replace(query, kinds=(space,)))
            sheet.drop(set(query.ids or ()) - {record.id for record in found})
            sheet.put(_rows(found))

    def _let_go(self) -> None:
        """Keep the memory within its bound: scopes not used for longest go first, the one just used stays."""
        total = sum(held.sheet.size_bytes for held in self._held.values() if held.sheet is not None)
        while len(self._held) > 1 and (total > self._cache_bytes or len(self._held) > _MOST_SCOPES):
            _, held = self._held.popitem(last=False)
            total -= held.sheet.size_bytes if held.sheet is not None else 0


def _weight(write: _Write) -> int:
    return len(write.entries) + len(write.keys) or _PART


def _named(touched: Iterable[Touched], scopes: dict[str, Scope], around: Scope, most: int) -> Iterator[Query]:
    """Queries for these vectors: place by place, which every store looks up at once, or all around when the places are many."""
    by_place: dict[str, list[str]] = {}
    for id_, place in touched:
        by_place.setdefault(place, []).append(id_)
    if len(by_place) <= most and by_place.keys() <= scopes.keys():
        for place, ids in by_place.items():
            for part in _parts(ids):
                yield Query(collection=COLLECTION, ids=tuple(part), scope=scopes[place])
        return
    # The ids hold their places, so that none of them names two vectors.
    for part in _parts([id_ for ids in by_place.values() for id_ in ids]):
        yield Query(collection=COLLECTION, ids=tuple(part), scope=around)


def _parts(things: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(things), _PART):
        yield things[start : start + _PART]


def _record(space: str, entry: Entry) -> Record:
    body = base64.b64encode(np.asarray(entry.vector, "<f4").tobytes()).decode()
    return Record(
        collection=COLLECTION,
        id=vector_id(space, entry.key),
        kind=space,
        scope=entry.scope,
        text=entry.digest or "-",  # a record without text would be searched by its data, all of the vector
        data={"vector": body},
        metadata={"collection": entry.collection, "id": entry.id, "digest": entry.digest},
    )


def _key(record: Record) -> EntryKey:
    return EntryKey(record.metadata["collection"], record.metadata["id"], record.scope.place)


def _rows(records: Iterable[Record]) -> Iterator[tuple[str, EntryKey, str, bytes]]:
    for record in records:
        yield (
            record.id, _key(record), record.metadata["digest"], base64.b64decode(record.data["vector"])
        )  # fmt: skip


def open_exact(url: str) -> ExactIndex:
    """Open `memory://`, or `exact+URL` with the URL of any store, such as `exact+mysql://host/database`."""
    scheme, _, rest = url.partition("://")
    kind, plus, inner = scheme.partition("+")
    if (kind == "memory") == bool(plus):
        raise ConfigError(f"{scheme}:// names no exact index; try memory:// or exact+sqlite:///octavo.db")
    return ExactIndex(open_store(f"{inner or 'memory'}://{rest}"), owned=True)
