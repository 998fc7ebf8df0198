"""Keeping the indexes of terms: in batches, in idle time and before a search answers, so that no search misses a record."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from octavo.errors import StoreError
from octavo.kernel.model import Query
from octavo.kernel.ports import Lexicon
from octavo.kernel.terms.matches import Matches
from octavo.stores.base import Progress
from octavo.stores.sql.drivers.port import Driver
from octavo.stores.sql.migrations import index_trigrams
from octavo.stores.sql.schema import Table
from octavo.stores.sql.searching import lag, search
from octavo.stores.sql.statements import Ask, Script
from octavo.stores.sql.term_index import TermIndex, entries_of

T = TypeVar("T")
_SPOT = 300  # records whose terms a search makes on the spot; when more wait, they are indexed first
_ALL = 1_000_000_000  # more than there ever are
_BATCH = 200  # records indexed in one transaction while others may want to write
_PRESSED = 500  # and while a search waits for it
_MANY = 1000  # records; after indexing so many the planner should know about them
_IDLE_SECONDS = 0.2  # after a write, before what it left is indexed
_SHARE = 4  # times as long as it works, the indexing that nobody waits for leaves the database to others


class Indexing:
    """The indexes of one store's tables, of those collections that this process searches."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._followed: dict[str, TermIndex] = {}  # by table: those kept up to date in idle time
        self._task: asyncio.Task[None] | None = None
        self._again = False  # something was written since the task last began
        self._closing = asyncio.Event()

    async def search(self, table: Table, query: Query, terms: Sequence[str]) -> Matches:
        """Answer as `matching` would, after indexing what waits if that is much."""
        index = table.index
        # Inside a caller's transaction nothing is indexed: its locks would keep others from doing so until it ends.
        most = _ALL if self._driver.joins else _SPOT
        if table.name not in self._followed and not self._driver.joins:
            self._followed[table.name] = index
            self.wrote()
        while True:
            found = await self._driver.read(lambda: search(index, query, terms, most))  # noqa: B023
            if found is not None:
                return found
            if not await self._catch_up(index):
                most = _ALL  # somebody else's transaction holds what waits, and may do so for long

    async def _catch_up(self, index: TermIndex) -> int:
        """Index as much as waits now, and answer how much that was; what comes meanwhile is the next one's."""
        waiting = await self._driver.read(lambda: lag(index, _ALL))
        indexed, done = 0, 1
        while done and indexed < waiting:
            done = await self._write(lambda: index_some(index, _PRESSED))
            indexed += done
        if indexed > _MANY:
            await self._write(index.analyze)
        return indexed

    async def _write(self, script: Callable[[], Script[T]]) -> T:
        """Run a transaction to its end even if whoever asked gives up: half of one would hold its locks."""
        return await self._driver.to_its_end(self._driver.write(script))

    # --- in idle time

    def wrote(self) -> None:
        """Have what was written indexed when nothing else is to do."""
        self._again = True
        if self._followed and not self._closing.is_set() and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._keep_up())
            self._task.add_done_callback(_check)

    async def _keep_up(self) -> None:
        """Index in small transactions until nothing waits."""
        loop = asyncio.get_running_loop()
        while self._again and not self._closing.is_set():
            self._again = False
            await self._rest(_IDLE_SECONDS)
            for index in list(self._followed.values()):
                done = 1
                while done and not self._closing.is_set():
                    began_at = loop.time()
                    done = await self._driver.write(lambda: index_some(index, _BATCH))  # noqa: B023
                    await self._rest(_SHARE * (loop.time() - began_at) if done else 0)

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)

    async def close(self) -> None:
        """Finish what was begun."""
        self._closing.set()
        if self._task is not None:
            await asyncio.wait({self._task})

    # --- made anew, and compared

    async def reindex(self, table: Table, progress: Progress) -> int:
        """Make every entry anew, some at a time: a search in between finds the old or the new one, which are alike."""
        index = table.index
        total = await self._driver.read(lambda: _total(table))
        await self._write(
            index.mend
        )  # first: nothing can be taken out of an index that disagrees with its entries
        await self._write(lambda: _forget_strays(index))
        done = await _page_by_page(
            total, progress, lambda after: self._write(lambda: _reindex_some(index, after, _BATCH))
        )
        await self._write(lambda: index_trigrams(table))
        await self._catch_up(index)
        return done

    async def verify(self, table: Table, progress: Progress) -> Lexicon:
        """Compare every record that does not wait with its entry."""
        index = table.index
        total = await self._driver.read(lambda: _total(table))
        missing: set[str] = set()
        done = await _page_by_page(
            total,
            progress,
            lambda after: self._driver.read(lambda: _compare_some(index, after, _BATCH, missing)),
        )
        stray = len(await self._driver.read(lambda: _strays(index)))
        waiting = await self._driver.read(lambda: lag(index, _ALL))
        found = tuple(sorted(missing))
        collection = table.shape.collection
        return Lexicon(collection=collection, records=done, waiting=waiting, missing=found, stray=stray)


async def _page_by_page(
    total: int, progress: Progress, step: Callable[[int], Awaitable[tuple[int | None, int]]]
) -> int:
    """Take steps until there are no more rows; each is told after which row, and answers the next one and how many it saw."""
    after: int | None = 0
    done = 0
    while after is not None:
        after, n = await step(after)
        done += n
        progress(done, max(total, done) if after is not None else done)
    return done


def index_some(index: TermIndex, most: int) -> Script[int]:
    """Index some of what waits, in a transaction of its own; answer how many records that were."""
    numbers = yield from index.claim(most)
    if numbers:
        yield from index.index(numbers)
        yield from index.settle(numbers)
    return len(numbers)


def _reindex_some(index: TermIndex, after: int, most: int) -> Script[tuple[int | None, int]]:
    """Have some records indexed as if they were new; answer where to go on, and how many they were."""
    rows = yield Ask(
        f"SELECT rowno FROM {index.table.name} WHERE rowno > {int(after)} ORDER BY rowno LIMIT {int(most)}"
    )
    if rows:
        yield from index.queue([row[0] for row in rows])
        yield from index_some(index, most)
    return (rows[-1][0] if len(rows) == most else None), len(rows)


def _compare_some(
    index: TermIndex, after: int, most: int, missing: set[str]
) -> Script[tuple[int | None, int]]:
    """Compare some records with their entries, and note the ids of the wrong ones; answer as `_reindex_some` does."""
    table = index.table
    # In one statement, hence of one moment: a record waits or has its entry, whatever others index meanwhile.
    rows = yield Ask(
        f"SELECT {index.content}, {table.column('id')}, rowno IN (SELECT rowno FROM {index.late}), b.length, b.bag, "
        f"b.more, b.tags FROM (SELECT * FROM {table.name} WHERE rowno > {int(after)} ORDER BY rowno LIMIT {int(most)}) "
        f"AS page LEFT JOIN {index.entries} AS b ON b.number = rowno ORDER BY rowno"
    )
    made = yield from entries_of([row[:7] for row in rows])
    pairs = zip(made, rows, strict=True)
    missing.update([row[7] for one, row in pairs if not row[8] and one != (row[0], *row[9:])])
    return (rows[-1][0] if len(rows) == most else None), len(rows)


def _strays(index: TermIndex) -> Script[list[int]]:
    """The numbers of entries whose record is gone."""
    joined = f"{index.entries} AS b LEFT JOIN {index.table.name} ON rowno = b.number"
    return [row[0] for row in (yield Ask(f"SELECT b.number FROM {joined} WHERE rowno IS NULL"))]


def _forget_strays(index: TermIndex) -> Script[None]:
    if strays := (yield from _strays(index)):
        yield from index.forget(strays)


def _total(table: Table) -> Script[int]:
    return int((yield Ask(f"SELECT COUNT(*) FROM {table.name}"))[0][0])


def _check(task: "asyncio.Task[None]") -> None:
    """Should indexing have failed, the next search does it; anything but the database's trouble is a mistake of ours."""
    if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, StoreError):
        raise error
