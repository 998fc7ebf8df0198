"""Keeping the index of terms: in batches, in idle time and before a search answers, so that none misses what was acknowledged."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from octavo.errors import StoreError, StoreUnavailable
from octavo.kernel.model import Query
from octavo.kernel.ports import Lexicon
from octavo.kernel.terms.matches import Matches
from octavo.stores.base import Progress
from octavo.stores.sql import searching
from octavo.stores.sql.dialects import Row
from octavo.stores.sql.drivers import Driver
from octavo.stores.sql.schema import Table
from octavo.stores.sql.searching import TermSearch
from octavo.stores.sql.statements import PAUSE_CHARACTERS, Fetch, Pause, Script, in_list
from octavo.stores.sql.term_index import IndexedRecord, SqlTermIndex, entry

T = TypeVar("T")
_SPOT = 300  # records whose terms a search makes on the spot; when more wait, they are indexed first
_ALL = 1_000_000_000  # more than there ever are
_BATCH = 200  # records indexed in one transaction while others may want to write
_PRESSED = 500  # and while a search waits for it
_MANY = 1000  # records; after indexing so many the planner should know about them
_IDLE_SECONDS = 0.2  # after a write, before what it left is indexed
_BREATH_SECONDS = 0.01  # between two transactions that nobody waits for


class TermIndexing:
    """The indexes of one store's tables, of those collections that this process searches."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._followed: dict[str, SqlTermIndex] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._turn = asyncio.Lock()
        self._wrote_at = 0.0
        self._again = False  # something was asked for while the task was at work
        self._closing = False

    async def search(self, table: Table, query: Query, terms: Sequence[str]) -> Matches:
        """Answer as `search_records` would, after indexing what waits if that is much."""
        index = table.index
        # Inside a caller's transaction nothing is indexed: its locks would keep others from doing so until it ends.
        most = _ALL if self._driver.joins else _SPOT
        self._follow(table)
        while True:
            # Made anew each time: a driver that has lost its connection asks again.
            found = await self._driver.read(lambda: TermSearch(index, query, terms).answer(most))  # noqa: B023
            if found is not None:
                return found
            with contextlib.suppress(StoreUnavailable):
                if await self._to_its_end(self._catch_up(index)):
                    continue
            most = (
                _ALL  # it may only be read, or somebody else's transaction holds what waits, perhaps for long
            )

    async def lag(self, table: Table, most: int) -> int:
        """How many records wait, counted up to one more than `most`; they are indexed in idle time."""
        self._follow(table)
        return await self._driver.read(lambda: searching.lag(table.index, most))

    async def _catch_up(self, index: SqlTermIndex) -> int:
        """Index as much as waits now, and answer how much that was; what comes meanwhile is the next one's."""
        waiting = await self._driver.read(lambda: searching.lag(index, _ALL))
        indexed, done = 0, 1
        while done and indexed < waiting:
            done = await self._index_some(index, _PRESSED)
            indexed += done
        if indexed > _MANY:
            await self._driver.write(index.analyze)
        return indexed

    async def _index_some(self, index: SqlTermIndex, most: int) -> int:
        # One at a time: what another has claimed would be passed over, and taken for done.
        async with self._turn:
            return await self._driver.write(lambda: index_some(index, most))

    async def _to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Do this to its end even if whoever asked for it gives up: half a transaction would hold its locks."""
        if self._driver.joins:  # the caller's session takes one at a time, and it is the caller's to give up
            return await work
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    # --- in idle time

    def _follow(self, table: Table) -> None:
        """Have the index of a table kept up to date; nobody waits for it."""
        if not self._driver.joins and table.name not in self._followed:
            self._followed[table.name] = table.index
            self._wake()

    def index_later(self) -> None:
        """Have what was written indexed when nothing else is to do."""
        if self._followed:
            self._wrote_at = asyncio.get_running_loop().time()
            self._wake()

    def _wake(self) -> None:
        if self._task is not None and not self._task.done():
            self._again = True  # it may be past the step that this is for
        elif self._timer is None and not self._closing:
            self._timer = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._task = asyncio.get_running_loop().create_task(self._index_all())
        self._task.add_done_callback(_check)

    async def _index_all(self) -> None:
        """Index in small transactions until nothing waits."""
        self._again = True
        while self._again and not self._closing:
            self._again = False
            for index in list(self._followed.values()):
                await self._index_waiting(index)

    async def _index_waiting(self, index: SqlTermIndex) -> None:
        loop = asyncio.get_running_loop()
        done, total, due = 1, 0, _MANY
        while done and not self._closing:
            began_at, wrote_at = loop.time(), self._wrote_at
            done = await self._index_some(index, _BATCH)
            # Others write now; where they do so all the time, four fifths of it are theirs.
            busy = 4 * (loop.time() - began_at) if self._wrote_at != wrote_at else 0.0
            total += done
            if total >= due or (not done and total >= _MANY):
                await self._driver.write(index.analyze)
                due = 2 * total
            if done:
                await asyncio.sleep(max(busy, _BREATH_SECONDS))

    async def close(self) -> None:
        """Finish what was begun."""
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._tasks.add(self._task)
        if self._tasks:
            await asyncio.wait(self._tasks)

    # --- made anew, and compared

    async def reindex(self, table: Table, progress: Progress) -> int:
        """Make every entry anew, some at a time: a search in between finds the old or the new one, which are alike."""
        index = table.index
        total = await self._driver.read(lambda: _total(table))
        # First: nothing can be taken out of an index that disagrees with its entries.
        await self._to_its_end(self._driver.write(index.mend))
        await self._to_its_end(self._driver.write(lambda: _forget_strays(index)))
        done = await self._walk(total, progress, lambda after: self._to_its_end(self._reindex(index, after)))
        await self._to_its_end(self._catch_up(index))
        return done

    async def _reindex(self, index: SqlTermIndex, after: int) -> tuple[int | None, int]:
        """Have some records indexed as if they were new; answer where to go on, and how many they were.

        In two transactions: who removes a record that is queued but not yet for all to see would not wait for its entry.
        """
        found = await self._driver.write(lambda: _queue_some(index, after, _BATCH))
        await self._index_some(index, _BATCH)
        return found

    async def verify(self, table: Table, progress: Progress) -> Lexicon:
        """Compare every record that does not wait with its entries."""
        index = table.index
        total = await self._driver.read(lambda: _total(table))
        missing: set[str] = set()
        done = await self._walk(
            total,
            progress,
            lambda after: self._driver.read(lambda: _compare_some(index, after, _BATCH, missing)),
        )
        stray = len(await self._driver.read(lambda: _strays(index)))
        waiting = await self._driver.read(lambda: searching.lag(index, _ALL))
        collection = table.shape.collection
        return Lexicon(
            collection=collection, records=done, waiting=waiting, missing=tuple(sorted(missing)), stray=stray
        )

    async def _walk(
        self, total: int, progress: Progress, step: Callable[[int], Awaitable[tuple[int | None, int]]]
    ) -> int:
        """Go through all records; a step begins after a row number, and answers where to go on and how many it had."""
        after: int | None = 0
        done = 0
        while after is not None:
            after, n = await step(after)
            done += n
            progress(done, max(total, done) if after is not None else done)
        return done


def index_some(index: SqlTermIndex, most: int) -> Script[int]:
    """Index some of what waits, in a transaction of its own; answer how many records that were."""
    numbers = yield from index.claim(most)
    if numbers:
        sql = f"SELECT {index.content} FROM {index.table.name} WHERE rowno IN ({in_list(numbers)}){index.as_claimed}"
        yield from index.put((yield from _entries_of((yield Fetch(sql)))))
        yield from index.settle(numbers)
    return len(numbers)


def _entries_of(rows: Sequence[Row]) -> Script[list[IndexedRecord]]:
    """The entries of records, of which an index's `content` was read."""
    made = []
    work = 0
    for number, tenant, user, agent, session, text, data in rows:
        made.append(entry(number, (tenant, user, agent, session), text, data))
        if (work := work + len(text) + len(data)) > PAUSE_CHARACTERS:
            work = 0
            yield Pause()
    return made


def _queue_some(index: SqlTermIndex, after: int, most: int) -> Script[tuple[int | None, int]]:
    """Have some records wait as if they were new; answer where to go on, and how many they were."""
    rows = yield Fetch(
        f"SELECT rowno FROM {index.table.name} WHERE rowno > {int(after)} "
        f"ORDER BY rowno LIMIT {int(most)}{index.as_queued}"
    )
    if rows:
        yield from index.queue([row[0] for row in rows])
    return (rows[-1][0] if len(rows) == most else None), len(rows)


def _compare_some(
    index: SqlTermIndex, after: int, most: int, missing: set[str]
) -> Script[tuple[int | None, int]]:
    """Compare some records with their entries; answer where to go on and how many they were, and name the wrong ones."""
    table = index.table
    source, test = index.late
    late = f"SELECT rowno FROM {source}{f' WHERE {test}' if test else ''}"
    # In one statement, hence of one moment: a record waits or has its entry, whatever others index meanwhile.
    rows = yield Fetch(
        f"SELECT {index.content}, {table.column('id')}, rowno IN ({late}), b.length, b.bag, b.more, b.tags FROM "
        f"(SELECT * FROM {table.name} WHERE rowno > {int(after)} ORDER BY rowno LIMIT {int(most)}) AS page "
        f"LEFT JOIN {index.terms} AS b ON b.number = rowno ORDER BY rowno"
    )
    made = yield from _entries_of([row[:7] for row in rows])
    settled = [(one, row) for one, row in zip(made, rows, strict=True) if not row[8]]
    missing.update(row[7] for one, row in settled if one != (row[0], *row[9:]))
    lost = set((yield from index.find_lost([one for one, _ in settled])))
    missing.update(row[7] for row in rows if row[0] in lost)
    return (rows[-1][0] if len(rows) == most else None), len(rows)


def _strays(index: SqlTermIndex) -> Script[list[int]]:
    """The numbers of entries whose record is gone."""
    joined = f"{index.terms} AS b LEFT JOIN {index.table.name} ON rowno = b.number"
    return [row[0] for row in (yield Fetch(f"SELECT b.number FROM {joined} WHERE rowno IS NULL"))]


def _forget_strays(index: SqlTermIndex) -> Script[None]:
    if strays := (yield from _strays(index)):
        yield from index.forget(strays)


def _total(table: Table) -> Script[int]:
    return int((yield Fetch(f"SELECT COUNT(*) FROM {table.name}"))[0][0])


def _check(task: "asyncio.Task[None]") -> None:
    """Should indexing have failed, the next search does it; anything but the database's trouble is a mistake of ours."""
    if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, StoreError):
        raise error
