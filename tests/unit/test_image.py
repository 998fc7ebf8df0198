"""The memory store's indexes answer as the kernel's own functions do, and never by looking through everything."""

import random
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from documented import list_store
from octavo import START, Add, Change, Query, Record, Remove, Scope, Tally
from octavo.kernel.codec import seal
from octavo.stores.image import Ranks
from octavo.stores.memory import MemoryStore
from octavo.testing.agreement import Agreement

NOON = datetime(2024, 6, 1, 12, tzinfo=UTC)


class TestAgainstTheKernel(Agreement):
    """The memory store compared with the list of docs/custom-store.md, which is nothing but the kernel's functions."""

    async def open(self):
        return MemoryStore()

    def reference(self):
        return list_store().ListStore()


def rank(number):
    return (NOON + timedelta(seconds=number), number, str(number), Scope().place)


@pytest.mark.parametrize("order", ["rising", "falling", "shuffled"])
def test_ranks_stay_in_order(order):
    """Whatever order ranks come and go in, walks between any two bounds give what a sorted list would."""
    chance = random.Random(order)
    numbers = list(range(6000))
    if order == "falling":
        numbers.reverse()
    elif order == "shuffled":
        chance.shuffle(numbers)
    ranks, kept = Ranks(), []
    for number in numbers:
        ranks.add(
            seal(
                Record(
                    collection="log",
                    id=str(number),
                    kind="k",
                    created_at=NOON + timedelta(seconds=number),
                    seq=number,
                )
            )
        )
    for number in chance.sample(numbers, 4000):
        ranks.discard(rank(number), "k")
        kept.append(number)
    left = sorted({*numbers} - {*kept})
    assert ranks.total == len(left) == ranks.by_kind["k"]
    for low, high in [
        (None, None),
        (100, 5000),
        (0, 1),
        (5999, None),
        (None, 0),
        (3000, 3000),
        (4000, 3000),
        (7000, None),
    ]:
        for past_low in (False, True):
            inside = [
                n for n in left if (low is None or n > low - (not past_low)) and (high is None or n < high)
            ]
            for newest_first in (False, True):
                bounds = [None if bound is None else rank(bound) for bound in (low, high)]
                walked = ranks.between(*bounds, past_low=past_low, newest_first=newest_first)
                assert [one[1] for one in walked] == (inside[::-1] if newest_first else inside)
    for number in left:
        ranks.discard(rank(number), "k")
    assert (ranks.total, ranks.by_kind) == (0, {})
    assert list(ranks.between(None, None, past_low=False, newest_first=True)) == []


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


async def test_nothing_is_left_behind():
    """Removing every record leaves no index entry: a service that forgets does not grow."""
    async with MemoryStore() as store:
        await store.apply([Add([make(number) for number in range(1000)])])
        await store.apply([Change(query=EVERY, mark=("m",), kind="c")])
        await store.apply([Remove(EVERY)])
        assert await store.tally(EVERY) == Tally()
        (shelf,) = store._image.shelves.values()
        assert [held for name in vars(shelf) if (held := getattr(shelf, name))] == []


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
        (shelf,) = store._image.shelves.values()
        assert [held for name in vars(shelf) if (held := getattr(shelf, name))] == []
