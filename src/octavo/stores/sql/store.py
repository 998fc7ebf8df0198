"""The SQL store: one for every dialect and driver."""

import asyncio
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from octavo.kernel.codec import CheckedAdd, Prepared, check_query, is_answerable
from octavo.kernel.model import Head, NameCount, Query, Record, ScopePart, Tally, check_expected
from octavo.kernel.ports import Finding, Lexicon, PoolUse, Scrubbed
from octavo.kernel.shapes import SHAPES
from octavo.kernel.terms.matches import Matches
from octavo.stores.base import Progress, SearchingStore, ignore_progress
from octavo.stores.sql import reading, searching, writing
from octavo.stores.sql.drivers import Driver
from octavo.stores.sql.indexing import TermIndexing
from octavo.stores.sql.migrations import ensure, is_missing, list_tables, names_of
from octavo.stores.sql.schema import Table, Tables
from octavo.stores.sql.statements import Fetch, Script
from octavo.util.sync import run_in_turns


class SQLStore(SearchingStore):
    """Records in SQL tables under their documented names; an acknowledgement means COMMIT has returned."""

    def __init__(self, driver: Driver, prefix: str = "", together: Iterable[str] = ()) -> None:
        super().__init__()
        self._together = frozenset(together)  # collections whose tables are made before any of them is used
        self._driver = driver
        self._prefix = prefix
        self._tables: Tables  # from the moment the store is open
        self._unsure: set[str] = set()  # collections to look for again before every use
        #: Collections without a table when last looked at, and the name it will have.
        self._unused: dict[str, str] = {}
        self._begin()

    def _begin(self) -> None:
        """Have nothing that belongs to an event loop."""
        self._making = asyncio.Lock()
        self._looking: asyncio.Task[frozenset[str]] | None = None  # that has not begun to read yet
        self._indexing: TermIndexing | None = None  # from the first search on

    async def _open(self) -> None:
        await self._driver.open()
        self._tables = Tables(self._driver.dialect, self._prefix)
        self._driver.apply_all = partial(writing.apply_all, self._tables)

    async def _leave(self) -> None:
        if self._indexing is not None:
            await self._indexing.close()
        await self._driver.leave()

    def _abandon(self) -> None:
        self._begin()
        self._driver.abandon()

    async def _close(self) -> None:
        await self._leave()
        await self._driver.close()

    async def _apply(self, ops: list[Prepared]) -> list[int]:
        tables = self._tables
        await self._ensure_tables(_touched_collections(ops))
        if not tables.by_collection:  # only empty adds so far
            for op in ops:
                check_expected(op.expect, 0)
            return [0] * len(ops)
        for sealed in (sealed for op in ops if isinstance(op, CheckedAdd) for sealed in op.records):
            if sealed.slow_to_fold:  # here, and not while a transaction keeps others from writing
                await run_in_turns(sealed.fold_in_steps())
        counts = await self._driver.commit(ops)
        if self._indexing is not None:
            self._indexing.index_later()
        return counts

    async def _find(self, query: Query) -> list[Record]:
        table = await self._table_to_read(query.collection)
        return [] if table is None else await self._driver.read(lambda: reading.find(table, query))

    async def find_within(self, query: Query, max_bytes: int) -> list[Record] | None:
        """Answer the query, unless texts and bodies of that take more than so many bytes."""
        query = check_query(query)
        await self._ensure_open()
        if not is_answerable(query) or (table := await self._table_to_read(query.collection)) is None:
            return []
        return await self._driver.read(lambda: reading.find_within(table, query, max_bytes))

    async def _heads(self, query: Query) -> list[Head]:
        table = await self._table_to_read(query.collection)
        return [] if table is None else await self._driver.read(lambda: reading.heads(table, query))

    async def _tally(self, query: Query) -> Tally:
        table = await self._table_to_read(query.collection)
        if table is None:
            return Tally()
        return await self._driver.read(lambda: reading.tally(self._tables, query))

    async def _names(self, query: Query, part: ScopePart, after: str) -> list[NameCount]:
        if await self._table_to_read(query.collection) is None:
            return []
        return await self._driver.read(lambda: reading.names(self._tables, query, part, after))

    async def _search(self, query: Query, terms: tuple[str, ...]) -> Matches:
        table = await self._table_to_read(query.collection)
        return (
            Matches(held=(0,) * len(terms))
            if table is None
            else await self._indexes().search(table, query, terms)
        )

    async def lag(self, collection: str, most: int) -> int:
        """How many records wait to be indexed, counted up to one more than `most`; from now on they are, in idle time."""
        check_query(Query(collection=collection))
        await self._ensure_open()
        table = await self._table_to_read(collection)
        return 0 if table is None else await self._indexes().lag(table, most)

    async def unindexed(self, query: Query) -> set[str]:
        """The ids of the records that answer the query and wait to be indexed."""
        query = check_query(query)
        await self._ensure_open()
        if not is_answerable(query) or (table := await self._table_to_read(query.collection)) is None:
            return set()
        return await self._driver.read(lambda: searching.unindexed(table.index, query))

    async def _reindex(self, collection: str, progress: Progress) -> int:
        table = await self._table_to_read(collection)
        return 0 if table is None else await self._indexes().reindex(table, progress)

    async def _verify(self, collection: str, progress: Progress) -> Lexicon:
        table = await self._table_to_read(collection)
        if table is None:
            return Lexicon(collection=collection, records=0)
        return await self._indexes().verify(table, progress)

    def pool_use(self) -> PoolUse | None:
        """How the connections are used now; None for a driver without a pool of its own."""
        return self._driver.pool_use()

    async def scrub(self, progress: Progress | None = None) -> Scrubbed:
        """Have the tables written anew without what was removed from them; in a caller's transaction nothing can be done."""
        await self._ensure_open()
        if self._driver.joins:
            return Scrubbed(
                unreached=("the database: what is removed in a caller's transaction is not gone yet",)
            )
        there = [await self._table_to_read(collection) for collection in SHAPES]
        if any(there):
            await self._driver.write(lambda: writing.drop_counters(self._tables))
        quote = self._driver.dialect.quote
        names = [quote(name) for table in there if table is not None for name in names_of(table)]
        tables = [*names, self._tables.counts] if names else []
        return await self._driver.scrub(tables, progress or ignore_progress)

    def _indexes(self) -> TermIndexing:
        if self._indexing is None:
            self._indexing = TermIndexing(self._driver)
        return self._indexing

    async def _table(self, collection: str) -> Table:
        return (await self._ensure_tables({collection}))[collection]

    async def _table_to_read(self, collection: str) -> Table | None:
        """The table, or None where nothing was ever written: looking makes nothing."""
        known = self._tables.by_collection.get(collection)
        if known is not None and not self._unsure:
            return known
        # A caller's transaction in MySQL cannot come to a table that is made after it has begun to read.
        if not self._driver.joins:
            if (unused := self._unused.get(collection)) is not None:
                if unused not in await self._list_tables():
                    return None
                self._unused.pop(collection, None)
            table = Table(SHAPES[collection], self._driver.dialect, self._prefix)
            if await self._driver.read(lambda: is_missing(table)):
                self._unused[collection] = table.plain_name
                return None
        return await self._table(collection)

    async def _list_tables(self) -> frozenset[str]:
        """The names of all tables there are now: a search asks for many collections at once, and looks once for all."""
        if self._looking is None:
            self._looking = asyncio.create_task(self._read_tables())
            self._looking.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._looking)

    async def _read_tables(self) -> frozenset[str]:
        self._looking = None  # who asks from now on may miss what is made after this reads, and looks again
        return await self._driver.read(lambda: list_tables(self._driver.dialect, self._prefix))

    @property
    def path(self) -> Path | None:
        """The file of this disk that the records are in, if they are in one."""
        path = getattr(self._driver, "path", ":memory:")
        return None if path == ":memory:" else Path(path)

    async def tenants(self) -> list[str]:
        """Every tenant that has records here."""
        await self._ensure_open()
        found: set[str] = set()
        for table in [await self._table_to_read(collection) for collection in SHAPES]:
            if table is None:
                continue
            found.update(await self._driver.read(lambda table=table: _tenants(table)))  # type: ignore[misc]
        return sorted(found)

    async def describe(self) -> list[Finding]:
        """What this database is, how durable it is and what is dangerous about it."""
        await self._ensure_open()
        return await self._driver.describe()

    async def _ensure_tables(self, collections: set[str]) -> Tables:
        """The tables, after making those that are used for the first time."""
        tables = self._tables
        if collections & self._together:
            collections = collections | self._together
        # Those that are unsure stay listed while they are looked for: others may be in the middle of using them.
        if collections <= tables.by_collection.keys() and not self._unsure & collections:
            return tables
        async with self._making:
            for collection in sorted(
                (collections - tables.by_collection.keys()) | self._unsure & collections
            ):
                table = Table(SHAPES[collection], self._driver.dialect, self._prefix)
                revocable = await self._driver.make(
                    table.plain_name,
                    lambda table=table: ensure(table),  # type: ignore[misc]
                )
                tables.by_collection[collection] = table
                if revocable:  # the caller may yet roll the new table back
                    self._unsure.add(collection)
        return tables


def _touched_collections(ops: list[Prepared]) -> set[str]:
    """The collections these ops touch."""
    touched: set[str] = set()
    for op in ops:
        touched.update(
            [s.collection for s in op.records] if isinstance(op, CheckedAdd) else [op.query.collection]
        )
    return touched


def _tenants(table: Table) -> Script[list[str]]:
    """Step from one tenant to the next along the index, however many records each has."""
    tenant, placeholder = table.column("tenant"), table.dialect.placeholder(1)
    found: list[str] = []
    rows = yield Fetch(f"SELECT MIN({tenant}) FROM {table.name}")
    while rows[0][0] is not None:
        found.append(rows[0][0])
        rows = yield Fetch(
            f"SELECT MIN({tenant}) FROM {table.name} WHERE {tenant} > {placeholder}", (found[-1],)
        )
    return found
