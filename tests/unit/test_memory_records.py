"""The memory store's indexes answer as the kernel's own functions do, and never by looking through everything."""

import random
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from documented import list_store
from octavo import START, Add, Change, Query, Record, Remove, Scope, Tally
from octavo.stores.memory import MemoryStore
from octavo.testing.agreement import Agreement

NOON = datetime(2024, 6, 1, 12, tzinfo=UTC)


class TestAgainstTheKernel(Agreement):
    """The memory store compared with the list of docs/custom-store.md, which is nothing but the kernel's functions."""

    async def open(self):
        return MemoryStore()

    def reference(self):
        return list_store().ListStore()


def make(number):
    return Record(
        collection="messages",
        id=f"m{number}",
        kind="ab"[number % 2],
        scope=Scope(tenant="t", user=f"u{number % 10}", session=f"s{number % 50}"),
        marks=("rare",) if number % 500 == 0 else (),
        created_at=NOON + timedelta(seconds=number),
        seq=number,
    )


EVERY = Query(collection="messages", scope=Scope(tenant="t"))
ASKED = [
    msgspec.structs.replace(EVERY, **fields)
    for fields in (
        {"limit": 5},
        {"limit": 5, "newest_first": True},
        {"limit": 5, "after": START},
        {"limit": 5, "after": make(2500).cursor},
        {"limit": 5, "after": make(2500).cursor, "newest_first": True},
        {"limit": 5, "since": NOON + timedelta(seconds=4000)},
        {"limit": 5, "until": NOON + timedelta(seconds=10)},
        {"limit": 5, "scope": Scope(tenant="t", session="s7")},
        {"limit": 5, "scope": Scope(tenant="t", user="u7"), "offset": 3},
        {"limit": 5, "scope": Scope(tenant="t", user="u7", agent="", session="s7")},
        {"limit": 5, "scope": Scope(tenant="t", user="u0", agent="", session="s0"), "marks": ("rare",)},
        {"ids": ("m1", "m4999", "none")},
    )
]


async def test_pages_are_read_not_searched(monkeypatch):
    """A page out of 5,000 records looks at about as many as it gives, wherever it is cut."""
    async with MemoryStore() as store:
        await store.apply([Add([make(number) for number in range(5000)])])
        looked = []
        matches = Query.matches
        monkeypatch.setattr(Query, "matches", lambda self, record: looked.append(1) or matches(self, record))
        for query in ASKED:
            looked.clear()
            found = await store.find(query)
            assert found
            assert len(looked) <= 20, query
        looked.clear()
        assert (await store.tally(EVERY)).total == 5000
        assert (
            await store.tally(msgspec.structs.replace(EVERY, scope=Scope(tenant="t", user="u1")))
        ).total == 500
        assert looked == []


def left_behind(store):
    """What is still held of records that are gone."""
    collections = store._records._collections.values()
    return [held for one in collections for name in vars(one) if (held := getattr(one, name))]


async def test_nothing_is_left_behind():
    """Removing every record leaves no index entry: a service that forgets does not grow."""
    async with MemoryStore() as store:
        await store.apply([Add([make(number) for number in range(1000)])])
        await store.apply([Change(query=EVERY, mark=("m",), kind="c")])
        await store.apply([Remove(EVERY)])
        assert await store.tally(EVERY) == Tally()
        assert left_behind(store) == []


async def test_many_places_have_the_same_id():
    """Each keeps its own record, one and the same is kept once, and the others stay when one goes."""
    sessions = [Scope(session=str(number)) for number in range(50)]
    records = [
        Record(collection="summaries", id="the one", scope=scope, text=scope.session) for scope in sessions
    ]
    async with MemoryStore() as store:
        assert await store.apply([Add(records)]) == [50]
        assert await store.apply([Add([*records, records[0]])]) == [0]
        named = Query(collection="summaries", ids=("the one",))
        for left in range(50, 0, -1):
            found = await store.find(named)
            assert {record.scope for record in found} == {*sessions[:left]}
            own = msgspec.structs.replace(named, scope=Scope(user="", agent="", session=str(left - 1)))
            await store.apply([Change(query=own, text="changed")])
            assert [record.text for record in await store.find(own)] == ["changed"]
            assert await store.apply([Remove(own)]) == [1]
        assert await store.find(named) == []
        assert left_behind(store) == []


@pytest.mark.parametrize("order", ["rising", "falling", "shuffled"])
async def test_pages_stay_in_order(order):
    """Whatever order records come and go in, pages between any two bounds are what a sorted list would give."""
    chance = random.Random(order)
    numbers = list(range(3000))
    if order == "falling":
        numbers.reverse()
    elif order == "shuffled":
        chance.shuffle(numbers)
    gone = chance.sample(numbers, 2000)
    left = sorted({*numbers} - {*gone})
    async with MemoryStore() as store:
        for number in numbers:
            await store.apply([Add([make(number)])])
        await store.apply([Remove(msgspec.structs.replace(EVERY, ids=tuple(f"m{n}" for n in gone)))])
        for low, high in [
            (None, None),
            (100, 2500),
            (0, 1),
            (2999, None),
            (None, 0),
            (1500, 1500),
            (2000, 1500),
        ]:
            since, until = (None if n is None else NOON + timedelta(seconds=n) for n in (low, high))
            inside = [n for n in left if (low is None or n >= low) and (high is None or n < high)]
            for newest_first in (False, True):
                asked = msgspec.structs.replace(EVERY, since=since, until=until, newest_first=newest_first)
                found = [record.seq for record in await store.find(asked)]
                assert found == (inside[::-1] if newest_first else inside)
        assert (await store.tally(EVERY)).total == len(left)


async def test_what_has_ended_is_found_without_a_look_at_the_rest(monkeypatch):
    """A question for what has ended looks at what has ended, or at a scope that holds even less."""
    seen = []
    real = Query.matches
    async with MemoryStore() as store:
        records = [
            Record(
                collection="episodes",
                id=f"{user}{n}",
                scope=Scope(user=user),
                expires_at=NOON + timedelta(days=n) if n % 100 == 0 else None,
            )
            for user in "abcd"
            for n in range(1000)
        ]
        records.append(Record(collection="episodes", id="e", scope=Scope(user="e"), expires_at=NOON))
        await store.apply([Add(records)])
        ended = Query(collection="episodes", expired_at=NOON + timedelta(days=150))
        monkeypatch.setattr(
            Query, "matches", lambda query, record: seen.append(record.id) or real(query, record)
        )
        names = [f"{user}{n}" for user in "abcd" for n in (0, 100)]
        assert [record.id for record in await store.find(ended)] == [*names, "e"]
        assert len(seen) == 9
        seen.clear()
        one = Query(collection="episodes", scope=Scope(user="e"), expired_at=NOON + timedelta(days=150))
        assert [record.id for record in await store.find(one)] == ["e"]
        assert seen == ["e"]
        await store.apply([Change(query=Query(collection="episodes", ids=("e",)), expires_at=None)])
        assert await store.apply([Remove(ended)]) == [8]
        assert await store.find(ended) == []
        assert await store.apply([Remove(Query(collection="episodes"))]) == [4001 - 8]
        assert left_behind(store) == []
