"""The SQL store: one for every dialect and driver."""

import asyncio
import functools
import random
from collections.abc import Iterable
from typing import TYPE_CHECKING

from octavo.errors import StoreError
from octavo.kernel.codec import Kept, Prepared
from octavo.kernel.model import Head, Query, Record, Tally
from octavo.kernel.ports import Finding, Lexicon
from octavo.kernel.shapes import SHAPES
from octavo.kernel.terms.matches import Matches
from octavo.stores.base import Progress, SearchingStore
from octavo.stores.sql import counting, grams, pg_trgm, reading, substrings, writing
from octavo.stores.sql.counting import Tables
from octavo.stores.sql.drivers.port import ApplyAll, Driver
from octavo.stores.sql.schema import Table, ensure, missing, searched_among
from octavo.stores.sql.statements import Ask, Script, TooLong
from octavo.util.turns import in_turns

if TYPE_CHECKING:
    from octavo.stores.sql.upkeep import Upkeep


_LOOK_SECONDS = (
    1.0,
    60.0,
)  # after a write, until it is looked whether others search: the first time, and then

#: How each database looks for a text: answers with whether the index that helps it should be made or brought up to date.
_FIND = {"sqlite": substrings.find, "postgresql": pg_trgm.find, "mysql": grams.find}
_TALLY = {"sqlite": substrings.tally, "postgresql": pg_trgm.tally, "mysql": grams.tally}


class SQLStore(SearchingStore):
    """Records in SQL tables under their documented names; an acknowledgement means COMMIT has returned."""

    def __init__(self, driver: Driver, prefix: str = "", together: Iterable[str] = ()) -> None:
        super().__init__()
        self._together = frozenset(together)  # collections whose tables are made before any of them is used
        self._driver = driver
        self._prefix = prefix
        self._tables: Tables  # both from the moment the store is open
        self._apply_all: ApplyAll
        self._unsure: set[str] = set()  # collections to look for again before every use
        self._begin()

    def _begin(self) -> None:
        """Have nothing that belongs to an event loop."""
        self._making = asyncio.Lock()
        self._sweeps: set[asyncio.Task[None]] = set()
        self._upkeep: Upkeep | None = None  # from the first search on
        self._looking: asyncio.TimerHandle | None = None
        self._looked = False

    async def _open(self) -> None:
        await self._driver.open()
        dialect = self._driver.dialect
        # Where appends count at once, each process counts in one of sixteen rows.
        slot = 0 if dialect.counts_later else random.randrange(16)  # noqa: S311 - spreads load
        tables = Tables(dialect, dialect.quote(f"{self._prefix}octavo_counts"), slot)
        self._tables, self._apply_all = tables, functools.partial(writing.apply_all, tables)

    async def _leave(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        if self._upkeep is not None:
            await self._upkeep.close()
        if self._sweeps:
            await asyncio.wait(self._sweeps)
        await self._driver.leave()

    def _abandon(self) -> None:
        self._begin()
        self._driver.abandon()

    async def _close(self) -> None:
        await self._leave()
        await self._driver.close()

    async def _apply(self, ops: list[Prepared]) -> list[int]:
        tables = self._tables
        if self._unsure or not _all_known(ops, tables.by_collection):
            await self._having(_touched(ops))
        if not tables.by_collection:  # only empty adds so far
            return [0] * len(ops)
        for sealed in (sealed for op in ops if isinstance(op, Kept) for sealed in op.records):
            if sealed.slow_to_fold:  # here, and not while a transaction keeps others from writing
                await in_turns(sealed.folding())
        counts = await self._driver.commit(ops, self._apply_all)
        if tables.due is not None:
            self._sweep(tables, tables.due)
        if self._upkeep is not None:
            self._upkeep.wrote()
        if self._looking is None and not self._driver.joins:
            loop = asyncio.get_running_loop()
            self._looking = loop.call_later(_LOOK_SECONDS[self._looked], self._look, loop)
        return counts

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Find out whether what is written here is searched elsewhere, so that this process indexes its share."""
        self._looked = True
        task = loop.create_task(self._adopt())
        self._sweeps.add(task)
        task.add_done_callback(self._swept)

    async def _adopt(self) -> None:
        try:
            tables = dict(self._tables.by_collection)
            found = await self._driver.read(lambda: searched_among(list(tables.values()), self._prefix))
            for collection, ending in found:
                self._indexes().adopt(tables[collection], ending)
        finally:
            self._looking = None

    def _sweep(self, tables: Tables, collection: str) -> None:
        """Have waiting rows counted while others go on; should that fail, tallies go on counting them on the spot."""
        tables.due = None
        if self._sweeps or self._driver.joins:  # one at a time, and never inside a caller's transaction
            return
        task = asyncio.create_task(self._driver.write(lambda: counting.sweep(tables, collection)))
        self._sweeps.add(task)
        task.add_done_callback(self._swept)

    def _swept(self, task: "asyncio.Task[None]") -> None:
        self._sweeps.discard(task)
        if (
            not task.cancelled()
            and (error := task.exception()) is not None
            and not isinstance(error, StoreError)
        ):
            raise error

    async def _find(self, query: Query) -> list[Record]:
        table = self._tables.by_collection.get(query.collection)
        if table is None or self._unsure:
            table = await self._table_to_read(query.collection)
        if table is None:
            return []
        if query.text and (find := _FIND.get(table.dialect.name)):
            found, late = await self._driver.read(lambda: find(table, self._prefix, query))
            if late and not self._driver.joins:
                self._indexes().follow(table)
            return found
        if table.dialect.listed and reading.is_few(query):
            try:
                return await self._driver.read(lambda: reading.find(table, query, as_text=True))
            except TooLong:
                pass
        return await self._driver.read(lambda: reading.find(table, query))

    async def _heads(self, query: Query) -> list[Head]:
        if query.text:  # found by an index of its own, together with the records
            return await super()._heads(query)
        table = await self._table_to_read(query.collection)
        return [] if table is None else await self._driver.read(lambda: reading.heads(table, query))

    async def _tally(self, query: Query) -> Tally:
        if await self._table_to_read(query.collection) is None:
            return Tally()
        tables = self._tables
        if query.text and (tally := _TALLY.get(tables.dialect.name)):
            counted, late = await self._driver.read(lambda: tally(tables, self._prefix, query))
            if late and not self._driver.joins:
                self._indexes().follow(tables[query.collection])
            return counted
        answer, lags = await self._driver.read(lambda: reading.tally_and_lag(tables, query))
        if lags:
            self._sweep(tables, query.collection)
        return answer

    async def _search(self, query: Query, terms: tuple[str, ...]) -> Matches:
        if await self._table_to_read(query.collection) is None:
            return Matches(held=(0,) * len(terms))
        return await self._indexes().search(query, terms)

    async def _reindex(self, collection: str, progress: Progress) -> int:
        if await self._table_to_read(collection) is None:
            return 0
        return await self._indexes().reindex(collection, progress)

    async def _verify(self, collection: str, progress: Progress) -> Lexicon:
        if await self._table_to_read(collection) is None:
            return Lexicon(collection=collection, records=0)
        return await self._indexes().verify(collection, progress)

    def _indexes(self) -> "Upkeep":
        if self._upkeep is None:
            from octavo.stores.sql.upkeep import Upkeep  # here, since only a search needs the tokenizer

            self._upkeep = Upkeep(self._driver, self._prefix, self._table)
        return self._upkeep

    async def _table(self, collection: str) -> Table:
        return (await self._having({collection}))[collection]

    async def _table_to_read(self, collection: str) -> Table | None:
        """The table, or None where nothing was ever written: looking makes nothing."""
        known = self._tables.by_collection.get(collection)
        if known is not None and not self._unsure:
            return known
        # A caller's transaction in MySQL cannot come to a table that is made after it has begun to read.
        if not self._driver.joins:
            table = Table(SHAPES[collection], self._driver.dialect, self._prefix)
            if await self._driver.read(lambda: missing(table, self._prefix)):
                return None
        return await self._table(collection)

    async def tenants(self) -> list[str]:
        """Every tenant that has records here."""
        await self._ready()
        found: set[str] = set()
        for table in [await self._table_to_read(collection) for collection in SHAPES]:
            if table is None:
                continue
            found.update(await self._driver.read(lambda table=table: _tenants(table)))  # type: ignore[misc]
        return sorted(found)

    async def describe(self) -> list[Finding]:
        """What this database is, how durable it is and what is dangerous about it."""
        await self._ready()
        return await self._driver.describe()

    async def _having(self, collections: set[str]) -> Tables:
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
                    lambda table=table: ensure(table, self._prefix),  # type: ignore[misc]
                )
                tables.by_collection[collection] = table
                if revocable:  # the caller may yet roll the new table back
                    self._unsure.add(collection)
        return tables


def _all_known(ops: list[Prepared], known: dict[str, Table]) -> bool:
    """Whether all that these ops touch has its table already, as nearly always."""
    for op in ops:
        if isinstance(op, Kept):
            for sealed in op.records:
                if sealed.collection not in known:
                    return False
        elif op.query.collection not in known:
            return False
    return True


def _touched(ops: list[Prepared]) -> set[str]:
    """The collections these ops touch."""
    touched: set[str] = set()
    for op in ops:
        touched.update([s.collection for s in op.records] if isinstance(op, Kept) else [op.query.collection])
    return touched


def _tenants(table: Table) -> Script[list[str]]:
    """Step from one tenant to the next along the index, however many records each has."""
    tenant, hole = table.column("tenant"), table.dialect.hole(1)
    found: list[str] = []
    rows = yield Ask(f"SELECT MIN({tenant}) FROM {table.name}")
    while rows[0][0] is not None:
        found.append(rows[0][0])
        rows = yield Ask(f"SELECT MIN({tenant}) FROM {table.name} WHERE {tenant} > {hole}", (found[-1],))
    return found
