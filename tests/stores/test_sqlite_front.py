"""Small work on the event loop's own connection: the same answers as from the threads, and it gives way in time."""

import asyncio
import contextlib
import threading
import time

import apsw
import pytest

from octavo import Add, Query, Record, Scope, open_store
from octavo.stores.sql.drivers import sqlite_front
from octavo.stores.sql.drivers.sqlite import connect, go_over_to_wal
from octavo.stores.sql.drivers.sqlite_thread import Worker, transact_reading


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/a.db?durability=fast"


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """A busy machine must not look like a slow disk."""
    monkeypatch.setattr(sqlite_front, "_SLOW_SECONDS", 60)


@pytest.fixture
def taken(monkeypatch):
    """What goes to the worker, as a list that grows."""
    calls = []
    real = sqlite_front.Worker.take

    def take(self, given):
        given = list(given)
        calls.extend(given)
        real(self, given)

    monkeypatch.setattr(sqlite_front.Worker, "take", take)
    return calls


def record(number, **more):
    return Record(collection="events", id=str(number), scope=Scope(agent="a", session="s"), **more)


async def test_small_work_needs_no_thread(url, taken):
    """Single appends, the last of a session and a tally are done on the spot."""
    async with open_store(url) as store:
        await store.apply([Add([record(0)])])
        taken.clear()
        for number in range(1, 20):
            await store.apply([Add([record(number)])])
        assert len(await store.find(Query(collection="events", scope=Scope(session="s"), limit=50))) == 20
        assert taken == []


async def test_large_work_goes_to_the_thread(url, taken):
    """A batch that would hold up the event loop is done in the worker."""
    async with open_store(url) as store:
        await store.apply([Add([record(number) for number in range(1000)])])
        assert len(taken) == 1
        assert (await store.tally(Query(collection="events"))).total == 1000


async def test_a_lock_is_waited_for_in_the_thread(url, tmp_path, taken):
    """While another process writes, an append waits, and the event loop goes on meanwhile."""
    async with open_store(url) as store:
        await store.apply([Add([record(0)])])
        other = apsw.Connection(str(tmp_path / "a.db"))
        other.execute("BEGIN IMMEDIATE")
        taken.clear()
        waiting = asyncio.create_task(store.apply([Add([record(1)])]))
        turns = 0
        while not taken:  # the loop is free, or this would never end
            await asyncio.sleep(0)
            turns += 1
        assert not waiting.done()
        other.execute("ROLLBACK")
        other.close()
        assert await waiting == [1]


async def test_a_slow_disk_is_left_to_the_threads(url, taken, monkeypatch):
    """After two slow commits in a row the event loop does no more of them for a while."""
    real = sqlite_front.commit
    monkeypatch.setattr(sqlite_front, "_SLOW_SECONDS", 0.005)
    monkeypatch.setattr(sqlite_front, "commit", lambda *given: (time.sleep(0.006), real(*given))[1])
    async with open_store(url) as store:
        await store.apply([Add([record(0)])])
        taken.clear()
        for number in range(1, 6):
            assert await store.apply([Add([record(number)])]) == [1]
        assert len(taken) >= 3


async def test_the_log_is_written_back(url, tmp_path, monkeypatch):
    """However much is appended on the spot, the write-ahead log stays bounded."""
    monkeypatch.setattr(sqlite_front, "PAGES", 50)
    async with open_store(url) as store:
        for number in range(2000):
            await store.apply([Add([record(number)])])
        assert (tmp_path / "a.db-wal").stat().st_size < 2_000_000  # 2,000 appends write about 40 MB of pages
        assert (await store.tally(Query(collection="events"))).total == 2000


async def test_waiting_work_survives_close(url):
    """What was handed in before close is kept, and its caller told so."""
    store = open_store(url)
    await store.apply([Add([record(0)])])
    waiting = [asyncio.create_task(store.apply([Add([record(number)])])) for number in range(1, 30)]
    await asyncio.sleep(0)
    await store.close()
    assert await asyncio.gather(*waiting) == [[1]] * 29
    async with open_store(url) as again:
        assert (await again.tally(Query(collection="events"))).total == 30


async def test_a_search_table_is_read_while_others_make_tables(tmp_path):
    """SQLite gives up opening a virtual table when the schema changes under it; reading as of one moment helps."""
    path, done = str(tmp_path / "busy.db"), threading.Event()
    first = connect(path, "fast", 10)
    go_over_to_wal(first, 10)
    first.execute("CREATE VIRTUAL TABLE found USING fts5(body)")
    first.execute("INSERT INTO found VALUES ('hello')")

    def make_tables() -> None:
        with contextlib.closing(connect(path, "fast", 10)) as busy:
            while not done.is_set():
                busy.execute("CREATE TABLE made (a)")
                busy.execute("DROP TABLE made")

    def find(connection):
        return connection.execute("SELECT body FROM found('hello')").fetchall()

    making = threading.Thread(target=make_tables)
    making.start()
    try:
        for _ in range(200):
            reader = Worker(lambda: connect(path, "fast", 10), "reader")
            rows = await reader.run(lambda c: transact_reading(c, find))
            await reader.stop()
            assert rows == [("hello",)]
    finally:
        done.set()
        making.join()
        first.close()


async def test_a_task_that_writes_alone_is_not_kept_waiting(url):
    """Its appends need no turn of the event loop; the store is open, and the table is there."""
    async with open_store(url) as store:
        await store.apply([Add([record(0)])])
        await asyncio.sleep(0)
        turns = []
        asyncio.get_running_loop().call_soon(turns.append, 1)
        assert await store.apply([Add([record(1)])]) == [1]
        assert turns == []


async def test_a_task_that_never_waits_lets_others_go(url):
    """However many appends it makes in a row, the event loop turns every few milliseconds."""
    async with open_store(url) as store:
        turns = 0

        async def other():
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        counting = asyncio.create_task(other())
        for number in range(500):
            await store.apply([Add([record(number)])])
        assert turns > 5  # 500 appends take 40 ms at least
        counting.cancel()


async def test_tasks_that_write_at_once_share_a_commit(url, monkeypatch):
    """The first may be on its own; after that they gather, until one is alone again."""
    sizes = []
    real = sqlite_front.commit

    def counted(connection, batches, apply_all):
        sizes.append(len(batches))
        return real(connection, batches, apply_all)

    monkeypatch.setattr(sqlite_front, "commit", counted)
    async with open_store(url) as store:
        await store.apply([Add([record("first")])])
        sizes.clear()

        async def writer(name):
            for number in range(5):
                assert await store.apply([Add([record(f"{name}-{number}")])]) == [1]

        await asyncio.gather(*(writer(name) for name in range(20)))
        assert sum(sizes) == 100
        assert max(sizes) >= 19
        assert len(sizes) <= 12
        sizes.clear()
        await writer("alone")
        assert sizes == [1] * 5
        assert (await store.tally(Query(collection="events"))).total == 106


async def test_a_log_that_is_slow_to_write_back_stops_growing(url, tmp_path, monkeypatch):
    """While the worker is busy the event loop goes on writing, up to twice the size, and then queues behind it."""
    monkeypatch.setattr(sqlite_front, "PAGES", 50)
    async with open_store(url) as store:
        await store.apply([Add([record(0)])])
        busy = threading.Event()
        occupied = asyncio.create_task(store._driver._writer.run(lambda _: busy.wait(30)))
        await asyncio.sleep(0.05)
        written = [asyncio.create_task(store.apply([Add([record(number)])])) for number in range(1, 400)]
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert any(not task.done() for task in written)
        assert (tmp_path / "a.db-wal").stat().st_size < 1_000_000
        busy.set()
        await occupied
        assert sum(count for [count] in await asyncio.gather(*written)) == 399
        assert (await store.tally(Query(collection="events"))).total == 400
