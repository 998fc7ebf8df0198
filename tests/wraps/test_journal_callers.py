"""The Journal and those who call it: readers who see what was queued, and many writers at once."""

import asyncio

import pytest
from outages import add, ids, journal_of, settled, those, unsteady

from octavo.errors import StoreUnavailable
from octavo.kernel.terms.terms import terms
from octavo.wraps import Journal
from octavo.wraps.journal import Spool
from virtual_time import clock, virtually


@virtually
async def test_a_reader_sees_what_was_queued_before(tmp_path):
    """It waits for the store to come back, as long as its time allows."""
    store = unsteady("down")
    async with journal_of(store, tmp_path, backoff=(0.1, 1.0)) as journal:
        await journal.write([add("a")])
        reads = [
            asyncio.create_task(read)
            for read in (
                journal.find(those()),
                journal.tally(those()),
                journal.search(those(), terms("event")),
            )
        ]
        await asyncio.sleep(2)
        store.turn("up")
        found, tally, matches = await asyncio.gather(*reads)
        assert [record.id for record in found] == ["a"]
        assert tally.total == 1
        assert [match.id for match in matches.found] == ["a"]


@virtually
async def test_memory_is_down_is_never_nothing_found(tmp_path):
    """And who would wait in vain is told at once."""
    store = unsteady()
    loop = asyncio.get_running_loop()
    async with journal_of(store, tmp_path, backoff=(1_000_000, 1_000_000)) as journal:
        await journal.write([add("a")])
        store.turn("down")
        with pytest.raises(StoreUnavailable, match="down"):
            await journal.find(those())
        await journal.write([add("b")])
        await asyncio.sleep(0)
        began = loop.time()
        with pytest.raises(StoreUnavailable, match="1 queued"):
            await journal.find(those())
        assert loop.time() == began
        store.turn("up")
        assert await journal.replay_now() == 1
        assert await ids(journal) == ["a", "b"]


@virtually
async def test_a_reader_who_fails_makes_the_journal_look(tmp_path):
    """The state tells the truth also to a program that only reads; a slow question alone is no outage."""
    store = unsteady()
    async with journal_of(store, tmp_path) as journal:
        await journal.write([add("a")])
        store.turn("down")
        with pytest.raises(StoreUnavailable):
            await journal.find(those())
        await asyncio.sleep(1)
        assert journal.status().state == "down"
        store.turn("up")
        await settled(journal)
        store.turn("hang")
        with pytest.raises(StoreUnavailable):
            await journal.find(those())
        store.turn("up")
        await asyncio.sleep(1)
        assert journal.status().state == "up"
        assert (await journal.write([add("b")])).status == "stored"


@virtually
async def test_writes_of_one_moment_share_one_write_to_the_disk(tmp_path):
    """A hundred callers pay for two or three."""
    puts = []

    class Counted(Spool):
        def put(self, entries):
            puts.append(len(entries))
            super().put(entries)

    async with Journal(unsteady("down"), Counted(tmp_path), clock=clock) as journal:
        await asyncio.gather(*(journal.write([add(str(n))]) for n in range(100)))
        assert sum(puts) == 100
        assert len(puts) <= 3


async def test_a_busy_program_gets_to_the_end_of_its_queue(tmp_path):
    """Writers who never pause do not keep the queue from becoming empty."""
    store = unsteady("down")
    async with Journal(store, tmp_path, backoff=(0.01, 0.05)) as journal:
        stored = asyncio.Event()
        told = []

        async def write(writer):
            number = 0
            while not stored.is_set():
                name = f"{writer}-{number}"
                told.append(name)
                if (await journal.write([add(name, session=writer)])).status == "stored":
                    stored.set()
                number += 1
                if number == 20:
                    store.turn("up")

        await asyncio.wait_for(asyncio.gather(*(write(f"w{n}") for n in range(8))), 120)
        assert await ids(journal, "w0")
        assert sorted(store.committed) == sorted(told)
        for writer in range(8):
            mine = [name for name in store.committed if name.startswith(f"w{writer}-")]
            assert mine == sorted(mine, key=lambda name: int(name.partition("-")[2]))


@virtually
async def test_callers_who_give_up(tmp_path):
    """Whenever a caller is cancelled, what was acknowledged to others is there, and the Journal goes on."""
    for mood in ("up", "down", "hang", "after"):
        store = unsteady()
        async with journal_of(store, tmp_path / mood, timeout=2) as journal:
            await journal.write([add("first")])
            store.turn(mood)
            acknowledged = []

            async def write(name, journal=journal, acknowledged=acknowledged):
                await journal.write([add(name, f"{name}'")])
                acknowledged.append(name)

            for turns in range(12):
                tasks = [asyncio.create_task(write(f"{turns}-{n}")) for n in range(6)]
                for _ in range(turns):
                    await asyncio.sleep(0)
                for task in tasks[::2]:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            store.turn("up")
            await settled(journal)
            found = await ids(journal)
            assert len(acknowledged) >= 36
            assert {*acknowledged} <= {*found}
            assert all((name in found) == (f"{name}'" in found) for name in found[1:] if "'" not in name)
            assert (await journal.write([add("last")])).status == "stored"
