"""What this process has just stored is not sent again; the counts, and the records, are those of the store alone."""

import asyncio
import os

import pytest
from outages import Unsteady, add, event, ids, remove, those

from octavo import (
    Add,
    Change,
    ConfigError,
    InvalidRecord,
    Query,
    Record,
    Remove,
    Scope,
    StoreUnavailable,
    open_store,
)
from octavo.kernel.ids import new_id, now
from octavo.testing.agreement import assert_same, outcome, run_programs, spelling
from octavo.testing.strategies import Write, programs
from octavo.wraps import Deduped, Wrap


class Sent(Wrap):
    """Remembers which ids it was sent."""

    def __init__(self, store):
        super().__init__(store)
        self.ids = []
        self.calls = 0

    async def apply(self, ops):
        self.calls += 1
        self.ids += [record.id for op in ops if isinstance(op, Add) for record in op.records]
        return await self.inner.apply(ops)


class Time:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
async def sent():
    async with Sent(open_store("memory://")) as store:
        yield store


async def test_what_was_stored_is_not_sent_again(sent):
    """Its count is 0, as the store itself would say; the rest of the call is as it was."""
    deduped = Deduped(sent)
    assert await deduped.apply([add("a", "b")]) == [2]
    assert await deduped.apply([add("b", "c"), add("a")]) == [1, 0]
    assert sent.ids == ["a", "b", "c"]
    assert deduped.skipped == 2
    assert await deduped.apply([add("a", "b", "c")]) == [0]
    assert sent.calls == 2
    assert await deduped.apply([add("a"), Change(query=those(), kind="seen"), remove("b")]) == [0, 3, 1]
    assert await ids(deduped) == ["a", "c"]


async def test_the_same_id_elsewhere_is_another_record(sent):
    """Another session, another tenant, another collection."""
    deduped = Deduped(sent)
    assert await deduped.apply([add("a")]) == [1]
    assert await deduped.apply([add("a", session="s2")]) == [1]
    assert await deduped.apply([Add([Record(collection="turns", id="a", scope=Scope(session="s1"))])]) == [1]
    assert await deduped.apply([Add([Record(collection="turns", id="a", scope=Scope(tenant="t"))])]) == [1]


async def test_the_window_has_an_end(sent):
    """After so many ids, and after so many seconds, the store is asked again."""
    time = Time()
    deduped = Deduped(sent, window=2, seconds=60, clock=time)
    await deduped.apply([add("a", "b", "c")])
    await deduped.apply([add("a", "b", "c")])
    assert sent.ids == ["a", "b", "c", "a"]
    time.now = 60
    assert await deduped.apply([add("a", "b", "c")]) == [0]
    assert sent.ids[4:] == ["a", "b", "c"]
    for setting in ({"window": -1}, {"seconds": -1}):
        with pytest.raises(ConfigError, match="must be 0 or more"):
            Deduped(sent, **setting)
    await Deduped(sent, window=0).apply([add("a")])


@pytest.mark.parametrize(
    "removal",
    [
        remove("a"),
        Remove(those()),
        Remove(Query(collection=those().collection)),
        Remove(those(ids=("a", "z"), kinds=("",))),
        Remove(
            Query(collection=those().collection, scope=Scope(user="", agent="", session="s1"), ids=("a",))
        ),
    ],
)
async def test_what_was_removed_can_be_added_again(sent, removal):
    """Whether the removal names it or not; also within one call."""
    deduped = Deduped(sent)
    await deduped.apply([add("a")])
    assert await deduped.apply([removal]) == [1]
    assert await deduped.apply([add("a")]) == [1]
    assert await deduped.apply([removal, add("a")]) == [1, 1]
    assert await deduped.apply([add("a"), removal, add("a"), removal]) == [0, 1, 1, 1]
    assert await deduped.apply([add("a")]) == [1]


async def test_a_record_with_an_end_is_always_sent(sent):
    """The store may have taken it away by itself."""
    deduped = Deduped(sent)
    for _ in range(2):
        await deduped.apply([Add([event("a", expires_at=now())])])
        await deduped.apply([add("b")])
    await deduped.apply([Change(query=those(), expires_at=now())])
    await deduped.apply([add("b")])
    assert sent.ids == ["a", "b", "a", "b"]


async def test_a_bad_record_under_a_known_id_is_refused(sent):
    """As the store would."""
    deduped = Deduped(sent)
    await deduped.apply([add("a")])
    with pytest.raises(InvalidRecord, match="NUL"):
        await deduped.apply([Add([event("a", data={"x": "\0"})])])
    with pytest.raises(InvalidRecord):
        await deduped.apply([Add([event(["a"])])])
    await deduped.apply([add("a")])
    assert sent.ids.count("a") == 1


async def test_a_failure_forgets():
    """Only what was really stored is known: after a failure nobody knows what was."""
    store = Unsteady(open_store("memory://"))
    async with Deduped(store) as deduped:
        await deduped.apply([add("a")])
        store.turn("down")
        with pytest.raises(StoreUnavailable):
            await deduped.apply([add("b")])
        store.turn("up")
        assert await deduped.apply([add("a", "b")]) == [1]
        store.turn("after")
        with pytest.raises(StoreUnavailable):
            await deduped.apply([add("c")])
        store.turn("up")
        assert await deduped.apply([add("c")]) == [0]


async def test_a_removal_under_way():
    """Whatever is added while something is removed is not remembered: nobody knows which came first."""
    store = Unsteady(open_store("memory://"))
    async with Deduped(store) as deduped:
        await deduped.apply([add("a")])
        store.turn("hang")
        calls = [asyncio.create_task(deduped.apply([op])) for op in (add("b"), remove("a", "b"), add("a"))]
        await asyncio.sleep(0)
        store.turn("up")
        await asyncio.gather(*calls)
        assert await deduped.apply([remove("a", "b"), add("a", "b")]) in ([1, 2], [2, 2])
        store.turn("hang")
        given_up = asyncio.create_task(deduped.apply([remove("a")]))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        store.turn("up")
        calls = store.calls
        for _ in range(2):
            await deduped.apply([add("a")])
        assert store.calls == calls + 2


def test_it_answers_as_the_store_does():
    """After any writes at all, each sent twice: counts and records are those of the memory store."""

    async def follow(program):
        async with Deduped(open_store("memory://")) as deduped, open_store("memory://") as right:
            for step in program.under(new_id()):
                if isinstance(step, Write):
                    for _ in range(2):
                        assert await outcome(deduped, step.ops) == await outcome(right, step.ops)
            for tenant in await right.tenants():
                for collection in ("events", "messages"):
                    query = Query(collection=collection, scope=Scope(tenant=tenant))
                    await assert_same(deduped, right, query)
                    assert spelling(await deduped.find(query)) == spelling(await right.find(query))

    with asyncio.Runner() as runner:
        most = int(os.environ.get("OCTAVO_PROGRAMS", "200"))
        run_programs(programs(), lambda program: runner.run(follow(program)), most, 60)
