"""Keeping the index of terms of a store: made by the first search, brought up to date in idle time and before it matters."""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeAlias, TypeVar

from octavo.errors import StoreError, StoreUnavailable
from octavo.kernel.model import Query
from octavo.kernel.ports import Lexicon
from octavo.kernel.terms.matches import Matches
from octavo.kernel.terms.matching import matching
from octavo.stores.base import Progress
from octavo.stores.sql import indexing, pg_trgm, reading, searching
from octavo.stores.sql.drivers.port import Driver
from octavo.stores.sql.engines import Engine
from octavo.stores.sql.gram_index import Grams
from octavo.stores.sql.schema import Table
from octavo.stores.sql.statements import Script
from octavo.stores.sql.trigrams import Substrings

T = TypeVar("T")
Write: TypeAlias = Callable[[Callable[[], Script[int]]], Awaitable[int | None]]
SPOT = 300  # records whose terms a search makes on the spot; when more wait, they are indexed first
_IDLE_SECONDS = 0.2  # after the last write, before what it left is indexed
_LATE_SECONDS = 2.0  # however much is written, some is indexed so often
_ALL = 1_000_000_000  # more than there ever are
_BREATH_SECONDS = 0.01  # between transactions that fill an index nobody waits for
_BATCH = 200  # records indexed in one transaction while others may want to write
_PRESSED = 500  # and while a search waits for it
_log = logging.getLogger(__name__)
_NEWS = 1000  # records; after indexing so many the planner should know about them, or it may read the table for each
_MANY = 5000  # records; in so many a piece of a word is worth an index
_SUBSTRINGS: dict[str, type[Substrings | Grams]] = {"sqlite": Substrings, "mysql": Grams}


class Upkeep:
    """The indexes of one store's tables."""

    def __init__(self, driver: Driver, prefix: str, table: Callable[[str], Awaitable[Table]]) -> None:
        self._driver = driver
        self._prefix = prefix
        self._table = table
        self._engines: dict[str, Engine] = {}  # of the collections that are searched
        self._substrings: dict[str, Substrings | Grams] = {}  # of those in which texts are looked for
        self._filling: set[str] = set()
        self._refused: set[str] = set()  # collections whose index of substrings the database would not make
        self._building: set[asyncio.Task[Any]] = (
            set()
        )  # by a single statement, which nobody wants to wait for
        self._making = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._wrote_at = self._waits_since = 0.0
        self._closing = False

    async def search(self, query: Query, terms: Sequence[str]) -> Matches:
        """Answer as `matching` would, after indexing what waits if that is much."""
        if self._driver.joins:
            return await self._search_joined(query, terms)
        engine = self._engines.get(query.collection)
        if engine is None:
            engine = await self._whole(self._engine(query.collection))
        while True:
            found = await self._driver.read(functools.partial(searching.search, engine, query, terms, SPOT))
            if found is not None:
                return found
            await self._whole(self._catch_up(engine, self._driver.write))

    async def _catch_up(self, engine: Engine, write: Write) -> None:
        """Index as much as waits now; what comes meanwhile is the next one's."""
        waiting = await self._driver.read(lambda: engine.lag(_ALL))
        news = waiting > _NEWS
        while waiting > 0:
            done = await write(lambda: indexing.index(engine, _PRESSED))
            if not done:
                break
            waiting -= done
        if news:
            await write(engine.learn)

    # --- inside a caller's transaction

    async def _search_joined(self, query: Query, terms: Sequence[str]) -> Matches:
        """What only the caller's transaction can see is looked at on the spot, whatever there is of it."""
        engine = await self._joined(query.collection)
        if engine is None:
            table = await self._table(query.collection)
            return matching(query, terms, await self._driver.read(lambda: reading.find(table, query)))
        if await self._driver.read(lambda: engine.lag(SPOT)) > SPOT:
            sqlite = engine.table.dialect.name == "sqlite"
            await self._catch_up(engine, self._driver.write if sqlite else self._driver.aside)
        found = await self._driver.read(lambda: searching.search(engine, query, terms, _ALL))
        return found or Matches(held=(0,) * len(terms))

    async def _joined(self, collection: str) -> Engine | None:
        """The index of a collection if it is there or can be made now; asked each time, for it may be rolled back.

        SQLite's tables are made in the caller's transaction, which has the whole database to itself. Elsewhere that would
        hold off every other writer until the caller commits, so they are made beside it.
        """
        engine = indexing.engine_of(await self._table(collection), self._prefix)
        tables = indexing.migrating(engine, self._prefix)
        if engine.table.dialect.name == "sqlite":
            if not await self._driver.read(tables.current):
                await self._driver.write(tables.ensure)
            return engine
        await self._driver.aside(tables.ensure)
        return engine if await self._driver.read(tables.current) else None

    async def _whole(self, work: Coroutine[Any, Any, T]) -> T:
        """Do this to its end even if whoever asked for it gives up: half a transaction would hold its locks."""
        if self._driver.joins:  # the caller's session takes one at a time, and it is the caller's to give up
            return await work
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    def _over(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever still waits is told; if nobody does, it is no news

    async def _engine(self, collection: str) -> Engine:
        """The index of a collection, made if it is not there."""
        table = await self._table(collection)
        async with self._making:
            engine = self._engines.get(collection)
            if engine is None:
                engine = indexing.engine_of(table, self._prefix)
                await self._driver.migrate(indexing.migrating(engine, self._prefix).ensure)
                self._engines[collection] = engine
        return engine

    async def reindex(self, collection: str, progress: Progress) -> int:
        """Make every entry anew, some at a time: a search in between finds the old or the new one, which are alike."""
        engine = await (
            self._joined(collection) if self._driver.joins else self._whole(self._engine(collection))
        )
        if engine is None:
            raise StoreUnavailable(
                f"the index of {collection!r} cannot be made while this transaction uses its table: commit it first"
            )
        total = await self._driver.read(lambda: indexing.total(engine))
        after: int | None = 0
        done = 0
        while after is not None:
            start = after
            step = self._driver.write(lambda: indexing.reindex(engine, start, _BATCH))  # noqa: B023
            after, n = await self._whole(step)
            done += n
            progress(done, max(total, done) if after is not None else done)
        await self._whole(self._driver.write(engine.mend))
        await self._whole(self._catch_up(engine, self._driver.write))
        if engine.table.dialect.name == "postgresql" and self._driver.alone and total > _MANY:
            await self._build(engine.table)  # for whoever never stays long enough to have it made
        if (substrings := await self._made(engine.table)) is not None:
            await self._whole(self._driver.write(substrings.clear))
            await self._whole(self._catch_up(substrings, self._driver.write))
        return done

    async def verify(self, collection: str, progress: Progress) -> Lexicon:
        """Compare every record with its entry; what looks wrong is looked at again while nobody indexes."""
        table = await self._table(collection)
        engine = indexing.engine_of(table, self._prefix)
        total = await self._driver.read(lambda: indexing.total(engine))
        if collection not in self._engines and not await self._driver.read(
            indexing.migrating(engine, self._prefix).current
        ):
            missing = await self._lost_substrings(table)
            progress(total, total)
            return Lexicon(
                collection=collection, records=total, waiting=total, missing=tuple(sorted(missing))
            )
        after: int | None = 0
        done = 0
        suspects: list[int] = []
        while after is not None:
            start = after
            after, n, wrong = await self._driver.read(lambda: indexing.compare(engine, start, _BATCH))  # noqa: B023
            done += n
            suspects += wrong
            progress(done, max(total, done) if after is not None else done)
        missing = [*await self._lost(engine), *await self._lost_substrings(table)]
        stray = waiting = 0
        for start in range(0, len(suspects) or 1, 1000):
            some = suspects[start : start + 1000]
            step = self._driver.write(lambda: indexing.judge(engine, some))  # noqa: B023
            names, strays, waiting = await self._whole(step)
            missing += names
            stray += strays
        return Lexicon(
            collection=collection,
            records=done,
            waiting=waiting,
            missing=tuple(sorted(set(missing))),
            stray=stray,
        )

    async def _lost(self, engine: Engine) -> list[str]:
        """The ids of records that have their entry, but are not found by it."""
        try:
            await self._whole(self._driver.write(engine.check))
        except StoreUnavailable:
            raise
        except StoreError:  # the database says that its index is not right, but not where
            lost: list[str] = []
            after: int | None = 0
            while after is not None:
                start = after
                after, some = await self._driver.read(lambda: indexing.lost(engine, start, _BATCH))  # noqa: B023
                lost += some
            return lost
        return []

    # --- the index of substrings

    def follow(self, table: Table) -> None:
        """Have the index of substrings made, or brought up to date; nobody waits for it."""
        collection = table.shape.collection
        if self._closing or collection in self._filling or collection in self._refused:
            return
        self._filling.add(collection)
        if table.dialect.name == "postgresql":
            task = asyncio.create_task(self._build(table))
            self._building.add(task)
            task.add_done_callback(self._building.discard)
        else:
            task = asyncio.create_task(self._fill(table))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_done)

    async def _build(self, table: Table) -> None:
        """Have the database make its own index, if it can."""
        collection = table.shape.collection
        try:
            if self._driver.alone:
                await self._driver.read(lambda: pg_trgm.make(table))
            else:
                self._refused.add(collection)
        except asyncio.CancelledError:  # at the end of this store
            with contextlib.suppress(StoreError):
                await self._driver.read(lambda: pg_trgm.drop_unfinished(table))
            raise
        except StoreUnavailable:
            raise
        except StoreError as error:
            self._refused.add(collection)
            _log.warning("texts in %s are looked for without an index: %s", table.plain_name, error)
        finally:
            self._filling.discard(collection)

    async def _fill(self, table: Table) -> None:
        collection = table.shape.collection
        try:
            engine = _SUBSTRINGS[table.dialect.name](table, self._prefix)
            await self._driver.migrate(lambda: _made_soon(engine))
            self._substrings[collection] = engine
            loop = asyncio.get_running_loop()
            done = 1
            while done and not self._closing:
                began_at, wrote_at = loop.time(), self._wrote_at
                done = await self._driver.write(lambda: indexing.index(engine, _BATCH))
                # Others write now; where they do so all the time, four fifths of it are theirs.
                busy = 4 * (loop.time() - began_at) if self._wrote_at != wrote_at else 0.0
                await asyncio.sleep(max(busy, _BREATH_SECONDS))
        finally:
            self._filling.discard(collection)

    async def _made(self, table: Table) -> Substrings | Grams | None:
        """The index of substrings, if it is there and ours to keep."""
        if table.dialect.name not in _SUBSTRINGS:
            return None
        engine = _SUBSTRINGS[table.dialect.name](table, self._prefix)
        return engine if await self._driver.read(engine.tables().current) else None

    async def _lost_substrings(self, table: Table) -> list[str]:
        """The ids of records that have been indexed, but are not found by what they say."""
        lost: list[str] = []
        engine = await self._made(table)
        after = None if engine is None else 0
        while engine is not None and after is not None:
            start, index = after, engine
            step = self._driver.write(lambda: index.lost(start, _BATCH))  # noqa: B023
            after, some = await self._whole(step)
            lost += some
        return lost

    # --- in idle time

    def adopt(self, table: Table, ending: str) -> None:
        """Index in idle time what others search, by the index whose name ends so."""
        collection = table.shape.collection
        if ending == "_terms" and collection not in self._engines:
            self._engines[collection] = indexing.engine_of(table, self._prefix)
        if ending == "_substrings" and collection not in self._substrings:
            self._substrings[collection] = _SUBSTRINGS[table.dialect.name](table, self._prefix)

    def wrote(self) -> None:
        """Have what was written indexed when nothing else is to do."""
        if not (self._engines or self._substrings) or self._closing or self._driver.joins:
            return
        loop = asyncio.get_running_loop()
        self._wrote_at = loop.time()
        if self._timer is None and (self._task is None or self._task.done()):
            self._waits_since = self._wrote_at
            self._timer = loop.call_later(_IDLE_SECONDS, self._rouse, loop)

    def _rouse(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        quiet_at = self._wrote_at + _IDLE_SECONDS
        if now < quiet_at and now < self._waits_since + _LATE_SECONDS:
            self._timer = loop.call_later(quiet_at - now, self._rouse, loop)
            return
        self._timer = None
        self._task = loop.create_task(self._work(loop))
        self._task.add_done_callback(_done)

    async def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        """Index in small transactions until nothing waits; give way as soon as somebody writes."""
        wrote_at = self._wrote_at
        for engine in [*self._engines.values(), *self._substrings.values()]:
            while await self._driver.write(lambda: indexing.index(engine, _BATCH)):  # noqa: B023
                if self._closing:
                    return
                if self._wrote_at != wrote_at:
                    self._waits_since = loop.time()
                    self._timer = loop.call_later(_IDLE_SECONDS, self._rouse, loop)
                    return

    async def close(self) -> None:
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._tasks.add(self._task)
        for task in self._building:  # whoever asks next begins anew
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


def _made_soon(engine: Substrings | Grams) -> Script[bool]:
    """Have the tables of an index; nobody else is kept waiting for long while somebody holds what is to be changed."""
    ensure = engine.tables().ensure
    return ensure() if engine.table.dialect.name == "sqlite" else engine.table.dialect.hurried(ensure())


def _done(task: "asyncio.Task[None]") -> None:
    """Should indexing have failed, the next search does it; anything but the database's trouble is a mistake of ours."""
    if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, StoreError):
        raise error
