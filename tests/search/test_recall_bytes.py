"""Recall within a number of bytes: the same hits in the same order as far as they fit, and never much more in memory."""

import random

import pytest

from memories import Recall, ids, keep, naming, near
from octavo import Record
from octavo.kernel.model import Head
from octavo.kernel.pages import count_fitting
from octavo.wraps.wrap import Wrap

PAGE = 20_000


class Watched(Wrap):
    """A store that notes how many bytes each reading of records answers."""

    def __init__(self, store):
        super().__init__(store)
        self.read: list[int] = []
        self.__dict__["heads"] = store.heads

    async def find(self, query):
        found = await self.inner.find(query)
        if len(found) > 1:  # one is always answered, however large it is
            self.read.append(sum(Head.of(record).size_bytes for record in found))
        return found


def large(home, n, chance):
    """A memory of tea, of up to half a page, more or less important."""
    metadata = {"importance": chance.random()} if n % 3 else {}
    return Record(
        collection="episodes",
        id=f"m{n:03}",
        scope=home,
        text=f"tea {n} " + "leaf " * chance.randrange(PAGE // 10),
        metadata=metadata,
    )


@pytest.mark.parametrize("seed", range(2))
async def test_the_hits_that_fit_are_the_best_ones(store, home, seed):
    """Whatever each memory weighs and however large it is: the beginning of the same list, and how many are left."""
    chance = random.Random(seed)
    await keep(store, *(large(home, n, chance) for n in range(60)))
    recall = Recall(store)
    for limit in (1, 7, 60):
        whole = await recall.recall("tea", home, limit, collections=("episodes",))
        assert (len(whole), whole.left_out) == (limit, 0)
        for most in (1, PAGE, 5 * PAGE):
            some = await recall.recall("tea", home, limit, collections=("episodes",), max_bytes=most)
            fit = count_fitting((Head.of(hit.record).size_bytes for hit in whole), most)
            assert ids(some) == ids(whole)[:fit]
            assert [hit.score for hit in some] == [hit.score for hit in whole][:fit]
            assert some.left_out == limit - fit
            assert some.presence == whole.presence


async def test_no_more_is_read_at_once_than_may_be_answered(store, home):
    chance = random.Random(7)
    await keep(store, *(large(home, n, chance) for n in range(60)))
    watched = Watched(store)
    hits = await Recall(watched).recall("tea", home, 60, collections=("episodes",), max_bytes=PAGE)
    assert len(hits) + hits.left_out == 60
    assert watched.read
    assert max(watched.read) <= PAGE


async def test_what_cannot_be_among_the_hits_is_not_read(in_memory, home):
    """Where words alone decide, a page is read and not the three times of the limit that might have been better."""
    texts = ["tea " * (60 - n) + "leaf " * 1000 for n in range(60)]
    records = [
        Record(collection="episodes", id=f"m{n:03}", scope=home, text=text) for n, text in enumerate(texts)
    ]
    await keep(in_memory, *records)
    watched = Watched(in_memory)
    hits = await Recall(watched).recall("tea", home, 20, collections=("episodes",), max_bytes=PAGE)
    assert 1 < len(hits) < 20
    assert sum(watched.read) < 12 * PAGE  # of 300,000 bytes


async def test_what_is_gone_meanwhile_makes_room(in_memory, home):
    """Between the look and the reading some are removed: they are neither hits nor left out."""
    chance = random.Random(3)
    await keep(in_memory, *(large(home, n, chance) for n in range(40)))

    class Leaving(Wrap):
        def __init__(self, store):
            super().__init__(store)
            self.__dict__["heads"] = store.heads

        async def find(self, query):
            return [record for record in await self.inner.find(query) if int(record.id[1:]) % 2]

    hits = await Recall(Leaving(in_memory)).recall(
        "tea", home, 30, collections=("episodes",), max_bytes=10_000_000
    )
    assert sorted(ids(hits)) == [f"m{n:03}" for n in range(1, 40, 2)]
    assert hits.left_out == 0


async def test_neighbours_are_looked_at_a_few_at_a_time(in_memory, home):
    """Records that an index of vectors names are read to see whether they are still what it knows: never all at once."""
    records = [
        Record(collection="episodes", id=f"m{n:03}", scope=home, text=f"leaf {n} " + "x" * 2**20)
        for n in range(12)
    ]
    await keep(in_memory, *records)
    watched = Watched(in_memory)
    naming(watched, *(near(record, 0.9 - n / 100) for n, record in enumerate(records)))
    hits = await Recall(watched).recall("tea", home, 12, collections=("episodes",), max_bytes=2**22)
    assert ids(hits) == ["m000", "m001", "m002"]
    assert hits.left_out == 9
    assert max(watched.read) <= 2**22
