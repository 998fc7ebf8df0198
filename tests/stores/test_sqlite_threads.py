"""SQLite's work is done by threads of its own: no event loop waits for a disk or a lock, and waiting writes share a commit."""

import asyncio
import contextlib
import threading
import time

import apsw
import pytest

from octavo import Add, Change, Query, Record, Remove, Scope, open_store
from octavo.stores.sql.drivers import sqlite
from octavo.stores.sql.drivers.sqlite import Worker, connect, go_over_to_wal, read
from octavo.stores.sql.statements import Fetch

EVENTS = Query(collection="events")


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/a.db?durability=fast"


def record(number, **more):
    return Record(collection="events", id=str(number), scope=Scope(agent="a", session="s"), **more)


@pytest.fixture
def threads(monkeypatch):
    """The threads that opened a SQLite connection or had one run a statement."""
    seen = set()

    def watch(connection):
        seen.add(threading.get_ident())
        connection.exec_trace = lambda *_: seen.add(threading.get_ident()) or True

    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, watch])
    return seen


@pytest.mark.parametrize("place", ["a.db", ":memory:"])
async def test_nothing_is_done_on_the_event_loop(tmp_path, threads, place):
    """Neither opening nor reading nor writing, small or large, alone or in a crowd, ever runs in the caller's thread."""
    path = place if place == ":memory:" else tmp_path / place
    async with open_store(f"sqlite:///{path}") as store:
        for number in range(20):
            await store.apply([Add([record(number, text="one two")])])
        await asyncio.gather(*(store.apply([Add([record(f"crowd {n}")])]) for n in range(50)))
        await store.apply([Add([record(f"batch {n}") for n in range(500)])])
        await store.find(Query(collection="events", scope=Scope(session="s"), limit=50))
        await store.find(Query(collection="events", ids=("1", "2")))
        await store.tally(EVENTS)
        await store.search(EVENTS, ["two"])
        await store.apply([Change(query=Query(collection="events", ids=("1",)), kind="seen")])
        await store.apply([Remove(Query(collection="events", ids=("1",)))])
    assert threads
    assert threading.get_ident() not in threads


async def test_the_loop_goes_on_while_a_lock_is_waited_for(url, tmp_path):
    """While another process writes, an append waits in its thread."""
    async with open_store(url) as store:
        await store.apply([Add([record(0)])])
        with contextlib.closing(apsw.Connection(str(tmp_path / "a.db"))) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = asyncio.create_task(store.apply([Add([record(1)])]))
            for _ in range(100):  # the loop turns, or this would never end
                await asyncio.sleep(0)
            assert len(await store.find(EVENTS)) == 1
            assert not waiting.done()
            other.execute("ROLLBACK")
        assert await waiting == [1]


async def test_the_loop_is_held_up_for_a_moment_at_most(tmp_path, monkeypatch):
    """It waits for what is over at once; where something is not, it goes on, and the next calls do not hold it up either."""
    waits, turns, done, awaited = [], 0, threading.Event(), threading.Event()
    wait, later = sqlite._Call.wait, sqlite._Call.later
    monkeypatch.setattr(
        sqlite._Call, "wait", lambda call, seconds: waits.append(seconds) or wait(call, seconds)
    )
    monkeypatch.setattr(sqlite._Call, "later", lambda call: awaited.set() or later(call))

    async def beat():
        nonlocal turns
        while not done.is_set():
            turns += 1
            await asyncio.sleep(0)

    worker = Worker(lambda: connect(str(tmp_path / "a.db"), "fast", 10), "reader")
    beating = asyncio.create_task(beat())
    try:
        assert await asyncio.gather(*(worker.run(lambda _: time.sleep(0.02)) for _ in range(4))) == [None] * 4
        assert turns > 100  # while nobody was answered
        waits.clear()
        for _ in range(40):
            awaited.clear()
            await worker.run(lambda _: awaited.wait(60))
        assert 0 < len(waits) < 8  # fewer and fewer
        assert max(waits) <= 0.0005
        monkeypatch.setattr(
            sqlite, "_MOMENT_SECONDS", 60
        )  # each is answered at once, however busy the machine is
        for number in range(100):
            assert await worker.run(lambda _, number=number: number) == number
        waits.clear()
        turns = 0
        for number in range(6000):
            assert await worker.run(lambda _, number=number: number) == number
        assert len(waits) == 6000
        assert turns > 5
    finally:
        done.set()
        await beating
        await worker.stop()


async def test_what_fails_at_once_and_what_fails_later_is_told(tmp_path):
    """An error reaches its caller, whether the loop waited for it or not; a caller that gives up harms nobody."""
    worker = Worker(lambda: connect(str(tmp_path / "a.db"), "fast", 10), "reader")

    def fail(seconds):
        time.sleep(seconds)
        raise ValueError(seconds)

    for seconds in (0, 0.01, 0, 0.01):
        with pytest.raises(ValueError, match=f"^{seconds}$"):
            await worker.run(lambda _, seconds=seconds: fail(seconds))
    waiting = asyncio.create_task(worker.run(lambda _: time.sleep(0.05)))
    await asyncio.sleep(0.01)
    waiting.cancel()
    assert await worker.run(lambda _: "next") == "next"
    await worker.stop()


async def test_tasks_that_write_at_once_share_a_commit(url, monkeypatch):
    """While one commit is under way the next callers gather; one that writes alone is on its own."""
    commits = []
    real = sqlite.transact

    def counted(connection, work, *reading):
        if not reading:
            commits.append(1)
        return real(connection, work, *reading)

    monkeypatch.setattr(sqlite, "transact", counted)
    async with open_store(url) as store:
        await store.apply([Add([record("first")])])
        commits.clear()

        async def writer(name):
            for number in range(5):
                assert await store.apply([Add([record(f"{name}-{number}")])]) == [1]

        await asyncio.gather(*(writer(name) for name in range(20)))
        assert len(commits) <= 50
        commits.clear()
        await writer("alone")
        assert len(commits) == 5
        assert (await store.tally(EVENTS)).total == 106


async def test_the_log_is_written_back(url, tmp_path, monkeypatch):
    """However much is appended, the write-ahead log stays bounded."""
    monkeypatch.setattr(sqlite, "_PAGES", 50)
    async with open_store(url) as store:
        for number in range(2000):
            await store.apply([Add([record(number)])])
        assert (tmp_path / "a.db-wal").stat().st_size < 2_000_000  # 2,000 appends write about 40 MB of pages
        assert (await store.tally(EVENTS)).total == 2000


async def test_waiting_work_survives_close(url):
    """What was handed in before close is kept, and its caller told so."""
    store = open_store(url)
    await store.apply([Add([record(0)])])
    waiting = [asyncio.create_task(store.apply([Add([record(number)])])) for number in range(1, 30)]
    await asyncio.sleep(0)
    await store.close()
    assert await asyncio.gather(*waiting) == [[1]] * 29
    async with open_store(url) as again:
        assert (await again.tally(EVENTS)).total == 30


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

    def find():
        return (yield Fetch("SELECT body FROM found('hello')"))

    making = threading.Thread(target=make_tables)
    making.start()
    try:
        for _ in range(200):
            reader = Worker(lambda: connect(path, "fast", 10), "reader")
            rows = await reader.run(lambda c: read(c, find()))
            await reader.stop()
            assert rows == [("hello",)]
    finally:
        done.set()
        making.join()
        first.close()
