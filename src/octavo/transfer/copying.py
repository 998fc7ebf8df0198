"""From one store into another, and what every move has in common: which records it reads, in which pages, and its count."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

from octavo.errors import ConfigError
from octavo.kernel.codec import encode_record
from octavo.kernel.model import Add, Cursor, Query, Record, Scope
from octavo.kernel.ports import ListsTenants, Store
from octavo.kernel.shapes import SHAPES
from octavo.kernel.text import spell
from octavo.transfer.trail import Step, Trail

PAGE_BYTES = 8 * 1024 * 1024
FIRST_PAGE = 100  # before the size of a collection's records is known, a thousand could fill the memory
MOST_COUNTED = 1000  # tenants; counting more beforehand would take longer than a progress bar is worth

#: Called after each batch with the records done so far and how many there are, or None when nobody knows.
Progress: TypeAlias = Callable[[int, int | None], None]


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """What a move came to: nothing is counted before the target has acknowledged it."""

    read: int = 0  # in this run
    added: int = 0  # of those, new to the target
    resumed: int = 0  # moved by an interrupted run before this one, and not read again
    bad: int = 0  # lines that hold no record; only an import has any
    tenants: int = 0  # looked through; only known when a store was read
    collections: dict[str, int] = {}  # read in this run, by collection


class Count:
    """The numbers of a move while it goes on."""

    def __init__(self, progress: Progress | None, total: int | None = None, tenants: int = 0) -> None:
        self._progress = progress
        self.total = total
        self.read = self.added = self.resumed = self.bad = 0
        self.tenants = tenants
        self.collections: dict[str, int] = {}

    def batch(self, records: Sequence[Record], added: int) -> None:
        """Count what the target has acknowledged and tell whoever watches."""
        for record in records:
            self.collections[record.collection] = self.collections.get(record.collection, 0) + 1
        self.read += len(records)
        self.added += added
        if self._progress is not None:
            done = self.resumed + self.read
            # A source that is written to while it is read can outgrow what it was counted as.
            self._progress(done, None if self.total is None else max(done, self.total))

    def moved(self) -> Moved:
        """What it came to so far."""
        return Moved(
            read=self.read,
            added=self.added,
            resumed=self.resumed,
            bad=self.bad,
            tenants=self.tenants,
            collections=self.collections,
        )


class Reach(msgspec.Struct, frozen=True):
    """Which records of a store are meant: these collections of these tenants, inside this scope."""

    tenants: list[str]
    collections: Sequence[str]
    scope: Scope

    @classmethod
    async def of(cls, store: Store, collections: Sequence[str] | None, scope: Scope | None) -> "Reach":
        """What was asked for; without a scope, every tenant the store can name (the empty one when it cannot)."""
        named = tuple(SHAPES) if collections is None else tuple(dict.fromkeys(collections))
        if unknown := [name for name in named if name not in SHAPES]:
            raise ConfigError(f"unknown collection {unknown[0]!r}; known: {', '.join(SHAPES)}")
        if scope is not None:
            return cls([scope.tenant], named, scope)
        return cls(await store.tenants() if isinstance(store, ListsTenants) else [""], named, Scope())

    def queries(self) -> Iterator[Query]:
        """One question for each collection of each tenant."""
        for tenant in self.tenants:
            scope = msgspec.structs.replace(self.scope, tenant=tenant)
            for collection in self.collections:
                yield Query(collection=collection, scope=scope)

    async def count(self, store: Store, progress: Progress | None) -> Count:
        """The numbers to begin with; the total only for who watches, and not when counting would take long."""
        total = None
        if progress is not None and len(self.tenants) <= MOST_COUNTED:
            total = sum([(await store.tally(query)).total for query in self.queries()])
        return Count(progress, total, len(self.tenants))

    def run(self, move: str) -> str:
        """A name for the move: the same words must be asked for again to take up its trail."""
        tenant = None if self.scope == Scope() else self.scope.tenant
        return spell([move, self.collections, tenant, self.scope.user, self.scope.agent, self.scope.session])


async def copy(
    source: Store,
    target: Store,
    *,
    collections: Sequence[str] | None = None,
    scope: Scope | None = None,
    batch: int = 1000,
    progress: Progress | None = None,
    resume: Path | str | None = None,
) -> Moved:
    """Add every record of the source to the target; what the target already keeps is left as it is.

    With `resume`, an interrupted copy that is called again with the same file goes on where it stopped.
    """
    size = checked_size(batch)
    reach = await Reach.of(source, collections, scope)
    count = await reach.count(source, progress)

    async def put(page: list[Record], step: Step) -> Step:
        [added] = await target.apply([Add(page)])
        return msgspec.structs.replace(step, added=step.added + added)

    with Trail(resume, reach.run("copy")) as trail:
        for query in reach.queries():
            begun = trail.step(query.scope.tenant, query.collection)
            afresh = Step(tenant=begun.tenant, collection=begun.collection)
            if not await begun.holds(target):
                begun = afresh
            count.resumed += begun.read
            ended = await pour(source, query, begun, size, put, trail, count)
            if begun.read and (await source.tally(query)).total > ended.read:
                # Older records arrived behind the cursor while the copy was interrupted: they would be missed.
                count.resumed -= begun.read
                await pour(source, query, afresh, size, put, trail, count)
        trail.clear()
    return count.moved()


async def pour(
    store: Store,
    query: Query,
    step: Step,
    size: int,
    put: Callable[[list[Record], Step], Awaitable[Step]],
    trail: Trail,
    count: Count,
) -> Step:
    """Put every record past the step where it belongs, page by page; answer the step behind the last one."""
    async for page in _pages(store, query, step.cursor, size):
        before = step.added
        step = await put(page, step)
        step = msgspec.structs.replace(step, cursor=page[-1].cursor, read=step.read + len(page))
        trail.mark(step)
        count.batch(page, step.added - before)
    return step


@runtime_checkable
class HasPages(Protocol):
    """A store that cannot go on from a cursor quickly, and reads page by page in a way of its own."""

    def pages(self, query: Query, after: Cursor, size: int) -> AsyncIterator[list[Record]]: ...


async def _pages(store: Store, query: Query, after: Cursor, size: int) -> AsyncIterator[list[Record]]:
    """The records past the cursor, oldest first, in pages that fit in memory."""
    if isinstance(store, HasPages):
        async for page in store.pages(query, after, size):
            yield page
        return
    limit = min(size, FIRST_PAGE)
    while True:
        page = await store.find(msgspec.structs.replace(query, after=after, limit=limit))
        if page:
            yield page
        if len(page) < limit:
            return
        after = page[-1].cursor
        weight_bytes = sum(len(encode_record(record)) for record in page)
        limit = max(1, min(size, PAGE_BYTES * len(page) // weight_bytes))


def checked_size(batch: int) -> int:
    """The size of a batch, or ConfigError."""
    if batch < 1:
        raise ConfigError(f"a batch must have 1 record or more; got {batch}")
    return batch
