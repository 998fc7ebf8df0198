"""The index of terms beside the memory store: made late, never seen late, and no larger than what is kept."""

import asyncio
import itertools
import time
from datetime import UTC, datetime, timedelta

import pytest

from octavo import Add, Change, Query, Record, Remove, Scope
from octavo.kernel.terms.matching import search_records
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
    (collection,) = store._records._collections.values()
    return collection.terms


async def ids(store, query, *terms):
    return [match.id for match in (await store.search(query, terms)).found]


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
    """A store that is never searched makes no terms."""
    async with MemoryStore() as store:
        await store.apply([Add([note(number) for number in range(10)])])
        lexicon = await store.verify("messages")
        assert (lexicon.records, lexicon.waiting, lexicon.missing) == (10, 10, ())


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


async def test_what_is_written_later_is_found_by_the_next_search():
    """What comes, changes and goes after a search is noted, and the next one answers as if it had read everything."""
    async with MemoryStore() as store:
        await store.apply([Add([note(number) for number in range(300)])])
        for turn in range(4):
            assert len(await ids(store, EVERY, "common")) == 300
            await store.apply([Change(query=EVERY, text=f"turn{turn} common")])
            assert (await store.verify("messages")).waiting == 300
            assert await ids(store, EVERY, f"turn{turn - 1}") == []
            assert len(await ids(store, EVERY, f"turn{turn}")) == 300
        await store.apply([Change(query=EVERY, mark=("seen",))])
        lexicon = await store.verify("messages")
        assert (lexicon.records, lexicon.waiting, lexicon.missing, lexicon.stray) == (300, 0, (), 0)
        assert set(index_of(store)._postings) == {"turn3", "common"}


async def test_nothing_is_left_behind_by_a_search():
    """Removing every record leaves no index entry: a service that forgets does not grow."""
    async with MemoryStore() as store:
        await store.apply([Add([note(number) for number in range(1000)])])
        assert len(await ids(store, EVERY, "common")) == 1000
        await store.apply([Remove(EVERY)])
        (collection,) = store._records._collections.values()
        assert [held for name in vars(collection) if (held := getattr(collection, name))] == []
        await store.apply([Add([note(1)])])
        assert await ids(store, EVERY, "common") == ["m1"]


async def test_a_damaged_index_is_named_and_mended():
    """Verifying names every record whose entry is gone or wrong, and entries of nobody; building anew mends it."""
    async with MemoryStore() as store:
        records = [note(number) for number in range(20)]
        await store.apply([Add(records)])
        await ids(store, EVERY, "common")
        index, ranks = index_of(store), [record.rank for record in records]
        del index._postings["number3"]
        index._postings["common"][ranks[5]] = 7
        index._entries[ranks[7]] = (99, index._entries[ranks[7]][1])
        del index._entries[ranks[9]]
        index._postings["number4"][ranks[11]] = 1
        index._postings["number4"][note(99).rank] = 1
        lexicon = await store.verify("messages")
        assert lexicon.missing == ("m11", "m3", "m5", "m7", "m9")
        assert lexicon.stray == 2  # nobody's, and those of the one that has no entry
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
        lexicon = await store.verify("messages")
        assert (lexicon.records, lexicon.missing, lexicon.stray, lexicon.waiting) == (2940, (), 0, 0)


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
            assert await store.search(query, ("fox", "number7")) == search_records(
                query, ("fox", "number7"), records
            )
