"""The index of terms beside the memory store: made late, never seen late, and no larger than what is kept."""

import asyncio
import itertools
import time
from datetime import UTC, datetime, timedelta

import pytest

from octavo import Add, Change, Query, Record, Remove, Scope
from octavo.kernel.terms.matching import matching
from octavo.stores.memory import MemoryStore

NOON = datetime(2024, 6, 1, 12, tzinfo=UTC)
EVERY = Query(collection="messages", scope=Scope(tenant="t"))


def note(number, text="common word", users=50):
    return Record(
        collection="messages",
        id=f"m{number}",
        scope=Scope(tenant="t", user=f"u{number % users}"),
        text=f"{text} number{number}",
        created_at=NOON + timedelta(seconds=number),
        seq=number,
    )


def index_of(store):
    (shelf,) = store._image.shelves.values()
    return shelf.indexes[0]


async def ids(store, query, *terms):
    return [match.id for match in (await store.search(query, terms)).found]


async def settled(store):
    """Wait until nothing waits to be indexed, without searching."""
    async with asyncio.timeout(60):
        while (await store.verify("messages")).waiting:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("clauses", [{}, {"alive_at": NOON}, {"kinds": ("",)}])
async def test_a_search_looks_at_its_scope(monkeypatch, clauses):
    """A common word in one user's hundred records out of 5,000 is found by looking at about a hundred."""
    async with MemoryStore() as store:
        records = [note(number) for number in range(5000)]
        await store.apply([Add(records)])
        await ids(store, EVERY, "common")
        looked = []
        matches = Query.matches
        monkeypatch.setattr(Query, "matches", lambda self, record: looked.append(1) or matches(self, record))
        query = Query(collection="messages", scope=Scope(tenant="t", user="u7"), **clauses)
        assert len(await ids(store, query, "common", "word")) == 100
        assert len(looked) <= 100
        looked.clear()
        assert await ids(store, query, "number57") == ["m57"]
        assert len(looked) <= 1
        looked.clear()
        rare = Query(collection="messages", scope=Scope(tenant="t"), alive_at=NOON)
        assert await ids(store, rare, "number58") == ["m58"]
        assert len(looked) <= 1


async def test_nothing_is_indexed_before_the_first_search():
    """A store that is never searched makes no terms and starts no timer."""
    async with MemoryStore() as store:
        await store.apply([Add([note(number) for number in range(10)])])
        lexicon = await store.verify("messages")
        assert (lexicon.records, lexicon.waiting, lexicon.missing) == (10, 10, ())
        assert store._idle is None


async def test_a_long_search_lets_others_go():
    """The first search of many records does not hold up the event loop until all of them are indexed."""
    async with MemoryStore() as store:
        await store.apply([Add([note(number, "a somewhat longer text") for number in range(8000)])])
        searching = asyncio.create_task(ids(store, EVERY, "number7"))
        turns = 0
        while not searching.done():
            turns += 1
            await asyncio.sleep(0)
        assert await searching == ["m7"]
        assert turns > 4


async def test_a_search_ends_while_others_write(monkeypatch):
    """However fast others write, and however busy the machine, a search comes to an end soon, and misses nothing."""
    seconds = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(seconds)))  # no look at it without a pause
    async with MemoryStore() as store:
        await store.apply([Add([note(number) for number in range(3000)])])
        searching = asyncio.create_task(store.search(EVERY, ("number7",)))
        number = 3000
        while not searching.done() and number < 50_000:
            await store.apply([Add([note(number + more) for more in range(200)])])
            number += 200
            await asyncio.sleep(0)
        assert searching.done()
        assert [match.id for match in searching.result().found] == ["m7"]


async def test_idle_time_is_used():
    """Once a collection was searched, what is written later is indexed without another search."""
    async with MemoryStore() as store:
        await store.apply([Add([note(1)])])
        assert await ids(store, EVERY, "common") == ["m1"]
        await store.apply([Add([note(number) for number in range(2, 500)])])
        assert (await store.verify("messages")).waiting
        await settled(store)
        lexicon = await store.verify("messages")
        assert (lexicon.records, lexicon.missing, lexicon.stray) == (499, (), 0)


async def test_close_ends_the_timer():
    store = MemoryStore()
    await store.apply([Add([note(1)])])
    await ids(store, EVERY, "common")
    timer = store._idle
    await store.close()
    assert timer.cancelled()


def test_one_store_in_two_loops():
    """A timer left behind in a loop that has ended does not keep the next one from being set."""
    store = MemoryStore()

    async def use(number):
        await store.apply([Add([note(number)])])
        assert len(await ids(store, EVERY, "common")) == number
        assert store._idle is not None

    async def use_again():
        await use(2)
        async with asyncio.timeout(30):
            while store._idle is not None:  # one that was set in this loop goes off
                await asyncio.sleep(0.01)

    asyncio.run(use(1))
    asyncio.run(use_again())


async def test_a_worn_index_is_replaced():
    """Records whose text changes again and again do not make the index grow for ever."""
    async with MemoryStore() as store:
        await store.apply([Add([note(number) for number in range(1500)])])
        for turn in range(4):
            await store.apply([Change(query=EVERY, text=f"turn{turn} common")])
            assert await ids(store, EVERY, f"turn{turn - 1}") == []
            assert len(await ids(store, EVERY, f"turn{turn}")) == 1500
        async with asyncio.timeout(60):
            while (
                len(index_of(store)._ranks) > 2 * 1500 + 1000
                or len(store._image.shelves["messages"].indexes) > 1
            ):
                await asyncio.sleep(0.01)
        records = await store.find(EVERY)
        assert await store.search(EVERY, ("turn3", "turn2")) == matching(EVERY, ("turn3", "turn2"), records)
        assert set(index_of(store)._postings) <= {f"turn{turn}" for turn in range(4)} | {"common"}


async def test_nothing_is_left_behind_by_a_search():
    """Removing every record leaves no index entry: a service that forgets does not grow."""
    async with MemoryStore() as store:
        await store.apply([Add([note(number) for number in range(1000)])])
        assert len(await ids(store, EVERY, "common")) == 1000
        await store.apply([Remove(EVERY)])
        (shelf,) = store._image.shelves.values()
        assert [held for name in vars(shelf) if (held := getattr(shelf, name))] == []
        await store.apply([Add([note(1)])])
        assert await ids(store, EVERY, "common") == ["m1"]


async def test_a_damaged_index_is_named_and_mended():
    """Verifying names every record whose entry is gone or wrong, and entries of nobody; building anew mends it."""
    async with MemoryStore() as store:
        records = [note(number) for number in range(20)]
        await store.apply([Add(records)])
        await ids(store, EVERY, "common")
        index = index_of(store)
        del index._postings["number3"]
        index._postings["common"].append((index._numbers[records[5].rank] << 24) + 1)
        index._lengths[index._numbers[records[7].rank]] += 1
        index._ranks[index._numbers.pop(records[9].rank)] = None
        index._numbers[note(99).rank] = 0
        lexicon = await store.verify("messages")
        assert (lexicon.missing, lexicon.stray) == (("m3", "m5", "m7", "m9"), 1)
        assert await store.reindex("messages") == 20
        lexicon = await store.verify("messages")
        assert (lexicon.missing, lexicon.stray, lexicon.waiting) == ((), 0, 0)
        assert await ids(store, EVERY, "number3", "number9") == ["m3", "m9"]


async def test_two_rebuild_at_once():
    """Two callers that rebuild the same index at the same time both come to an end."""
    async with MemoryStore() as store:
        await store.apply([Add([note(number) for number in range(3000)])])
        assert await asyncio.gather(*(store.reindex("messages") for _ in range(3))) == [3000] * 3
        given_up = asyncio.create_task(store.reindex("messages"))
        await asyncio.sleep(0)
        given_up.cancel()
        await store.apply([Remove(Query(collection="messages", scope=Scope(tenant="t", user="u1")))])
        assert await store.reindex("messages") == 2940
        assert len(store._image.shelves["messages"].indexes) == 1


async def test_very_common_terms_are_counted_exactly():
    """A record that holds a common term more than 254 times is counted as exactly as any other."""
    async with MemoryStore() as store:
        records = [note(number, "fox " * (number % 3 * 200)) for number in range(600)]
        await store.apply([Add(records)])
        for scope in (
            Scope(tenant="t"),
            Scope(tenant="t", user="u1"),
            Scope(tenant="t", user="u1", agent="", session=""),
        ):
            query = Query(collection="messages", scope=scope)
            assert await store.search(query, ("fox", "number7")) == matching(
                query, ("fox", "number7"), records
            )
