"""The index of substrings in SQLite beside others: stores, processes, kills, a caller's engine or transaction."""

import asyncio
import random
import signal
import sys

import apsw
import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlite_texts import EVENTS, NASTY, agrees, event, indexed, nominates, settled

from octavo import Add, Change, Query, Remove, open_store
from octavo.stores.sql import SQLAlchemyStore, substrings


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/a.db"


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch):
    """Few records suffice for an index here."""
    monkeypatch.setattr(substrings, "_SMALL", 0)


async def test_three_stores_at_once(url):
    """Whoever writes finds it at once, while others write, change, remove, and make the index anew."""
    async with open_store(url) as one, open_store(url) as two, open_store(url) as three:
        await one.apply([Add([event(n, f"filler {n}") for n in range(200)])])
        await settled(one)
        done = 0

        async def ids(store, text):
            return {record.id for record in await store.find(Query(collection="events", text=text))}

        async def write(store, name):
            nonlocal done
            for number in range(30):
                mine = event(number, f"common {name}{number}.", id=f"{name}{number}")
                await store.apply([Add([mine])])
                assert mine.id in await ids(store, f"on {name}{number}.")
                named = Query(collection="events", ids=(mine.id,))
                if number % 5 == 0:
                    await store.apply([Change(query=named, text=f"other {name}{number}.")])
                    assert await ids(store, f"er {name}{number}.") == {mine.id}
                    assert not await ids(store, f"on {name}{number}.")
                if number % 7 == 0:
                    await store.apply([Remove(named)])
                    assert not await ids(store, f"{name}{number}.")
            done += 1

        async def rebuild(store):
            while done < 3:
                await store.reindex("events")

        await asyncio.gather(write(one, "x"), write(two, "y"), write(three, "z"), rebuild(two))
        everything = await three.find(EVENTS)
        assert len(everything) == 200 + 3 * 25
        await settled(three)
        for text in ("common", "other", "ler 1", "x1", " y"):
            await agrees(three, everything, text=text)
        assert (await three.verify("events")).missing == ()


PROCESS = """
import asyncio, sys
from octavo import Add, Query, Record, open_store
from octavo.stores.sql import substrings
substrings._SMALL = 5
async def main(url, name):
    async with open_store(url) as store:
        for n in range(60):
            await store.apply([Add([Record(collection="events", id=f"{name}{n}", text=f"common {name}{n}.")])])
            found = await store.find(Query(collection="events", text=f"on {name}{n}."))
            assert [record.id for record in found] == [f"{name}{n}"]
asyncio.run(main(*sys.argv[1:]))
"""


async def test_processes_on_a_new_database(url):
    """Processes that make the same index at the same moment all succeed, and miss nothing."""
    runs = [await asyncio.create_subprocess_exec(sys.executable, "-c", PROCESS, url, name) for name in "abc"]
    assert [await run.wait() for run in runs] == [0, 0, 0]
    async with open_store(url) as store:
        for _ in range(2):
            assert await nominates(store, text="a59.")
            assert len(await store.find(Query(collection="events", text="common"))) == 180
            assert len(await store.find(Query(collection="events", text="9."))) == 18
            assert (await store.verify("events")).missing == ()
            await store.reindex("events")


KILLED = """
import asyncio, sys
from octavo import Query, open_store
from octavo.stores.sql import indexing, substrings
substrings._SMALL, indexing._IDLE_SECONDS, indexing._BATCH = 5, 0.0, 20
async def main(url):
    async with open_store(url) as store:
        await store.find(Query(collection="events", text="number"))
        print("asked", flush=True)
        await asyncio.sleep(600)
asyncio.run(main(*sys.argv[1:]))
"""


async def test_killed_while_it_is_made(url, tmp_path, monkeypatch):
    """Whenever its maker is killed, what is there of the index is right, and the next one goes on from there."""
    # A few that are left over would be looked at besides, for good.
    monkeypatch.setattr(substrings, "_LATE", 0)
    chance = random.Random(3)
    records = [event(n, f"number {n:05}") for n in range(2000)]
    async with open_store(url) as store:
        await store.apply([Add(records)])
    upto = []
    for _ in range(3):
        maker = await asyncio.create_subprocess_exec(
            sys.executable, "-c", KILLED, url, stdout=asyncio.subprocess.PIPE
        )
        assert await maker.stdout.readline() == b"asked\n"
        await asyncio.sleep(chance.uniform(0.05, 0.4))
        maker.send_signal(signal.SIGKILL)
        await maker.wait()
        connection = apsw.Connection(f"{tmp_path}/a.db")
        sql = "SELECT COALESCE(MAX(id), 0) FROM agent_events_substrings_docsize"
        upto.append(connection.execute(sql).fetchall()[0][0])
        connection.close()
        found, expected = indexed(tmp_path / "a.db")
        assert found == {(term, number) for term, number in expected if number <= upto[-1]}
    assert upto == sorted(upto)
    async with open_store(url) as store:
        await agrees(store, records, text="01234")
        await settled(store)
        await agrees(store, records, text="01234")
    found, expected = indexed(tmp_path / "a.db")
    assert found == expected


async def test_inside_a_callers_transaction(url):
    """A session uses the index that is there, sees its own writes, and leaves nothing when rolled back."""
    engine = create_async_engine(url.replace("sqlite://", "sqlite+aiosqlite://"))
    records = [event(n, f"number {n:05}") for n in range(30)]
    async with AsyncSession(engine) as session, SQLAlchemyStore(session) as store:
        await store.apply([Add(records)])
        await agrees(store, records, text="00007")
        await session.commit()
    async with open_store(url) as store:
        await settled(store)
    async with AsyncSession(engine) as session, SQLAlchemyStore(session) as store:
        changed = Change(query=Query(collection="events", ids=("e7",)), text="another")
        await store.apply(
            [changed, Add([event(90, "number 00090")]), Remove(Query(collection="events", ids=("e8",)))]
        )
        assert await nominates(store, text="00090")
        now = [changed.applied_to(r) if r.id == "e7" else r for r in records if r.id != "e8"]
        now.append(event(90, "number 00090"))
        for text in ("00090", "00007", "00008", "nother", "number"):
            await agrees(store, now, text=text)
        await session.rollback()
        for text in ("00090", "00007", "00008", "nother", "number"):
            await agrees(store, records, text=text)
    await engine.dispose()


async def test_through_the_callers_engine(url):
    """An engine of the caller's makes the index in the background, and finds by it, with the SQLite that Python has."""
    engine = create_async_engine(url.replace("sqlite://", "sqlite+aiosqlite://"))
    records = [event(n, text) for n, text in enumerate(NASTY)]
    async with SQLAlchemyStore(engine) as store:
        await store.apply([Add(records)])
        await settled(store)
        for text in ("50% off", "人工智能", "🎉🎊🎈", 'say "no"', "x" * 4000):
            assert await nominates(store, text=text)
            assert await agrees(store, records, text=text)
    await engine.dispose()
