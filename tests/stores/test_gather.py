"""Group commit by itself: who goes together, who may go side by side, and who has to wait."""

import asyncio

import pytest

from octavo.errors import StoreError, StoreUnavailable
from octavo.stores.gather import Gathering


class Bench:
    """Commits that last until they are let go; works in capitals may not stand beside others."""

    def __init__(self, lanes):
        self.under_way = []
        self.done = []
        self.gathering = Gathering(self.commit, most=500, lanes=lanes, beside=str.islower)

    async def commit(self, group):
        ends = asyncio.Event()
        self.under_way.append((group, ends))
        await ends.wait()
        self.under_way.remove((group, ends))
        if "bad" in group:
            raise StoreError("bad")
        self.done.append(group)
        return [work.upper() for work in group]

    def submit(self, *works):
        return [asyncio.create_task(self.gathering.submit(work)) for work in works]

    @property
    def groups(self):
        return [group for group, _ in self.under_way]

    async def turn(self):
        for _ in range(5):
            await asyncio.sleep(0)

    async def finish(self, which=0):
        self.under_way[which][1].set()
        await self.turn()


async def test_one_lane_goes_after_the_other():
    """Those who come while a group is under way are the next group."""
    bench = Bench(lanes=1)
    tasks = bench.submit(*"abc")
    await bench.turn()
    tasks += bench.submit(*"de")
    await bench.turn()
    assert bench.groups == [["a", "b", "c"]]
    await bench.finish()
    assert bench.groups == [["d", "e"]]
    await bench.finish()
    assert await asyncio.gather(*tasks) == list("ABCDE")
    assert bench.gathering.idle


async def test_two_lanes_side_by_side():
    """A second group does not wait for the first, and may be done before it."""
    bench = Bench(lanes=2)
    tasks = bench.submit("a")
    await bench.turn()
    tasks += bench.submit("b", "c")
    await bench.turn()
    tasks += bench.submit("d")
    await bench.turn()
    assert bench.groups == [["a"], ["b", "c"]]
    await bench.finish(1)
    assert bench.groups == [["a"], ["d"]]
    await bench.finish(0)
    await bench.finish(0)
    assert await asyncio.gather(*tasks) == list("ABCD")


@pytest.mark.parametrize(("callers", "sizes"), [(15, [15]), (16, [8, 8]), (51, [26, 25])])
async def test_many_callers_are_shared_out(callers, sizes):
    """Few are better off together."""
    bench = Bench(lanes=2)
    tasks = bench.submit(*["x"] * callers)
    await bench.turn()
    assert [len(group) for group in bench.groups] == sizes
    while bench.under_way:
        await bench.finish()
    assert len(await asyncio.gather(*tasks)) == callers


async def test_what_may_not_stand_beside_others_keeps_its_place():
    """It waits for all that came before it, is alone with those behind it in its group, and nobody overtakes it."""
    bench = Bench(lanes=2)
    tasks = bench.submit("a")
    await bench.turn()
    tasks += bench.submit("b")
    await bench.turn()
    tasks += bench.submit("X", "c")
    await bench.turn()
    assert bench.groups == [["a"], ["b"]]
    await bench.finish(0)
    assert bench.groups == [["b"]]
    await bench.finish(0)
    assert bench.groups == [["X", "c"]]
    tasks += bench.submit("d")
    await bench.turn()
    assert bench.groups == [["X", "c"]]
    await bench.finish(0)
    assert bench.groups == [["d"]]
    await bench.finish(0)
    assert await asyncio.gather(*tasks) == ["A", "B", "X", "C", "D"]
    assert bench.done == [["a"], ["b"], ["X", "c"], ["d"]]


async def test_a_group_ends_before_it():
    """Work that may stand beside others is not put into one group with work that may not, when that comes later."""
    bench = Bench(lanes=2)
    tasks = bench.submit("a", "X", "b")
    await bench.turn()
    assert bench.groups == [["a"]]
    await bench.finish()
    assert bench.groups == [["X", "b"]]
    await bench.finish()
    assert await asyncio.gather(*tasks) == ["A", "X", "B"]


async def test_a_bad_one_fails_alone():
    """Its neighbours are tried again one by one; the other lane does not notice."""
    bench = Bench(lanes=2)
    tasks = bench.submit("a", "bad", "b")
    await bench.turn()
    tasks += bench.submit("c")
    await bench.turn()
    while bench.under_way:
        await bench.finish()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(answer) for answer in done] == ["A", "bad", "B", "C"]
    assert isinstance(done[1], StoreError)


async def test_settling_waits_for_every_lane():
    bench = Bench(lanes=2)
    tasks = bench.submit("a")
    await bench.turn()
    tasks += bench.submit("b")
    await bench.turn()
    settled = asyncio.create_task(bench.gathering.settle())
    await bench.finish()
    assert not settled.done()
    await bench.finish()
    await settled
    assert await asyncio.gather(*tasks) == ["A", "B"]


async def test_nobody_waits_for_a_lane_that_was_cancelled():
    """When the loop ends, whoever waits is told."""
    bench = Bench(lanes=2)
    tasks = bench.submit("a", "X", "b")
    await bench.turn()
    for lane in bench.gathering._tasks:
        lane.cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(answer) for answer in done] == [StoreUnavailable] * 3
    bench.under_way.clear()
    again = bench.submit("c")
    await bench.turn()
    await bench.finish()
    assert await asyncio.gather(*again) == ["C"]


async def test_a_mistake_in_a_commit_is_raised_as_itself():
    """To the caller whose part is to blame, and to nobody else: as StoreUnavailable it would be queued and tried again."""

    async def commit(group):
        return [len(work) for work in group]

    gathering = Gathering(commit, most=500)
    alone = gathering.submit(None)
    with pytest.raises(TypeError, match="has no len"):
        await alone
    works = ["a", None, "bb", 7]
    answers = await asyncio.gather(*map(gathering.submit, works), return_exceptions=True)
    assert [answer if isinstance(answer, int) else type(answer) for answer in answers] == [
        1,
        TypeError,
        2,
        TypeError,
    ]
    assert answers[1] is not answers[3]
    assert await gathering.submit("ccc") == 3
