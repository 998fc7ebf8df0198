"""The records of a store against the vectors of an index, however many there are; and the mending of what differs.

Both sides are walked a page at a time, and each page is looked up on the other side, so that nothing is held but what differs.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from octavo.kernel.model import Add, Query, Record, Scope, exact_scope
from octavo.kernel.ports import EntryKey, Store, list_heads, walk
from octavo.wraps.vectors.waiting import (
    Target,
    VectorOutcome,
    key_of,
    keys_in,
    markers,
    markers_query,
    passage_of,
    passages,
    refresh,
)

_MOST_COUNTED = 1000  # tenants; counting more beforehand would take longer than a progress bar is worth
_PAGE = 128  # records read at once, and differences mended: few enough that others run in between
_FEW_MARKERS = 10  # read at once: each may name hundreds of records
_PAGE_BYTES = 4 * 1024 * 1024

#: Told after each step what came of it; what it raises ends the work.
Each: TypeAlias = Callable[[VectorOutcome], Awaitable[None]]

#: For each record whose vector is not of the text it should be of, the digest of that text; None where there should be none.
Wrong: TypeAlias = dict[EntryKey, str | None]


class ComparedRecords(NamedTuple):
    """Which records are compared: these collections, of one tenant or of every one there is at that moment."""

    collections: Sequence[str]
    tenants: Callable[[], Awaitable[Sequence[str]]]
    tenant: str | None = None

    async def queries(self) -> list[Query]:
        return [
            Query(collection=collection, scope=Scope(tenant=tenant))
            for tenant in await self.tenants()
            for collection in self.collections
        ]

    def has(self, key: EntryKey) -> bool:
        return key.collection in self.collections and self.tenant in (None, key.scope.tenant)

    async def total(self, store: Store) -> int | None:
        """How many records there are now, or None when counting them would take long."""
        if len(await self.tenants()) > _MOST_COUNTED:
            return None
        return sum([(await store.tally(query)).total for query in await self.queries()])


class Differences(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a space. Records that wait to be embedded are not wrong, and only counted as `waiting`."""

    space: str
    records: int  # that were looked at
    entries: int  # of the same collections in the index
    missing: tuple[EntryKey, ...] = ()  # records that should have a vector and have none
    stale: tuple[EntryKey, ...] = ()  # records whose vector was made of another text
    stray: tuple[EntryKey, ...] = ()  # vectors of records that are gone or should have none
    waiting: int = 0  # markers

    def __bool__(self) -> bool:
        return bool(self.missing or self.stale or self.stray)


class Comparison:
    """What should be in a space, and what is there."""

    def __init__(self, store: Store, target: Target, reach: ComparedRecords) -> None:
        self._store = store
        self._target = target
        self._reach = reach
        self.records = self.entries = 0  # that have been compared
        self.total: int | None = None  # records, as many as there were at the beginning

    async def verify(self, each: Each) -> Differences:
        """Name every difference, also while others write.

        The order of the looks makes the verdict right: record and vector, then the markers, then both again. What was changed
        since the first look has a marker, or had one, and is somebody's business already.
        """
        wrong: Wrong = {}

        async def collect(found: Wrong) -> VectorOutcome:
            wrong.update(found)
            return VectorOutcome()

        await self._compare(collect, each)
        waiting = 0
        async for marker in self._walk_markers():
            waiting += 1
            for key in keys_in(marker):
                wrong.pop(key, None)
        kinds: dict[str, list[EntryKey]] = {"missing": [], "stale": [], "stray": []}
        keys = list(wrong)
        for part in [keys[start : start + _PAGE] for start in range(0, len(keys), _PAGE)]:
            now = await passages(self._store, part)
            have = await self._target.index.digests(self._target.space, part)
            for key in part:
                want = self._target.wants(now[key])
                if want == wrong[key] and want != have.get(key):
                    kinds["stray" if want is None else "stale" if key in have else "missing"].append(key)
        return Differences(
            space=self._target.space,
            records=self.records,
            entries=self.entries,
            waiting=waiting,
            **{kind: tuple(found) for kind, found in kinds.items()},
        )

    async def rebuild(self, each: Each) -> None:
        """Embed what differs, and drop what is stray; what is right is left alone, so that going on after an error costs little.

        A text that the model has refused is left to those who take care of markers, or it would hold up all others.
        """
        self.total = await self._reach.total(self._store)
        refused = [marker async for marker in self._walk_markers() if marker.data["tries"]]
        left = {key for marker in refused for key in keys_in(marker)}

        async def mend(wrong: Wrong) -> VectorOutcome:
            outcome = await refresh(self._store, [self._target], [key for key in wrong if key not in left])
            if outcome.failed:
                await self._store.apply([Add(markers(outcome.failed, tries=1))])
            return outcome

        await self._compare(mend, each)

    async def _walk_markers(self) -> AsyncIterator[Record]:
        for tenant in await self._reach.tenants():
            async for page in walk(self._store, markers_query(tenant), _FEW_MARKERS):
                for marker in page:
                    yield marker

    async def _compare(self, handle: Callable[[Wrong], Awaitable[VectorOutcome]], each: Each) -> None:
        """Have what is wrong handled, page by page: first of the records, then of the entries whose records are gone."""
        self.records = self.entries = 0
        target = self._target
        for query in await self._reach.queries():
            async for page in walk(self._store, query, _PAGE, _PAGE_BYTES):
                wants = {key_of(record): target.wants(passage_of(record)) for record in page}
                have = await target.index.digests(target.space, list(wants))
                outcome = await handle({key: want for key, want in wants.items() if want != have.get(key)})
                self.records += len(page)
                await each(outcome)
        entries = target.index.walk(target.space)
        try:
            async for found in entries:
                here = [key for key, _ in found if self._reach.has(key)]
                alive = await self._find_living(here)
                outcome = await handle({key: None for key in here if key not in alive})
                self.entries += len(here)
                await each(outcome)
        finally:
            if isinstance(entries, AsyncGenerator):  # given up half way, it may hold a connection
                await entries.aclose()

    async def _find_living(self, keys: Sequence[EntryKey]) -> set[EntryKey]:
        """Those of the keys whose records are there."""
        ids: dict[tuple[str, str], dict[str, None]] = {}
        for key in keys:
            ids.setdefault((key.collection, key.scope.tenant), {})[key.id] = None
        found: set[EntryKey] = set()
        for (collection, tenant), named in ids.items():
            asked = Query(
                collection=collection, scope=Scope(tenant=tenant), ids=tuple(named), newest_first=True
            )
            heads = await list_heads(self._store, asked)
            found.update(EntryKey(collection, head.id, exact_scope(head.scope)) for head in heads)
        return found
