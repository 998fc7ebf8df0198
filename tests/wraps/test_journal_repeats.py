"""A commit whose answer was lost is applied again: what is done a second time leaves what the first time left."""

import asyncio
import itertools
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from cut_wire import Wire
from hypothesis import given, settings
from outages import COLLECTION, Unsteady, add, event, ids, journal_of, remove, settled, those, unsteady

from octavo import START, Add, Change, Query, Record, Remove, Scope, open_store
from octavo.errors import Conflict, StoreUnavailable
from octavo.kernel.codec import encode_ops
from octavo.kernel.ports import Written
from octavo.stores.memory import MemoryStore
from octavo.stores.redis.scripts import WRITE
from octavo.testing.agreement import outcome, spelling
from octavo.testing.strategies import COLLECTIONS, Write, programs
from octavo.wraps import Journal, Wrap
from octavo.wraps.journal import inspect
from octavo.wraps.journal.repeatable import Repeatable
from sampled import FULL
from virtual_time import virtually

KINDS = ("memory", "file", "sqlite", "postgres", "mysql", "redis")
BACKOFF = (0.01, 0.1)
EVERY = those()
NOON, HOUR = datetime(2026, 1, 1, 12, tzinfo=UTC), timedelta(hours=1)
LATER = event("f", kind="new", created_at=datetime(2100, 1, 1, tzinfo=UTC))
#: Writes that would mean something else the second time, and what is left when they are done once.
ONCE = {
    "the newest goes": ([Remove(those(limit=1))], "abcd"),
    "the oldest goes": ([Remove(those(after=START, limit=1))], "bcde"),
    "all but the newest three go": ([Remove(those(offset=3))], "cde"),
    "one that nobody has is taken": (
        [Change(query=those(without=("taken",), limit=1), mark=("taken",))],
        "abcde",
    ),
    "one comes and one goes": ([Add([LATER]), Remove(those(offset=5))], "bcdef"),
    "the old ones go and all grow old": (
        [Remove(those(kinds=("old",))), Change(query=EVERY, kind="old")],
        "abcde",
    ),
    "all are old but the new one": ([Change(query=EVERY, kind="old"), Add([LATER])], "abcdef"),
}


class Telling(Wrap):
    """Has the answer to its next commit lost, while it is `armed`."""

    def __init__(self, store, wire, words):
        super().__init__(store)
        self.armed = False
        self._wire = wire
        self._words = words

    async def apply(self, ops):
        if self.armed:
            self._wire.lose_answers(*self._words)
        return await self.inner.apply(ops)


class Forgetful(Unsteady):
    """While `forgetful`, the answer to each write is lost once."""

    forgetful = False

    def __init__(self, store):
        super().__init__(store)
        self.lost = []

    async def apply(self, ops):
        counts = await super().apply(ops)
        told = encode_ops(list(ops))
        if self.forgetful and b"probe_" not in told and told not in self.lost:
            self.lost.append(told)
            raise StoreUnavailable("the connection was lost while committing")
        return counts


async def _kept(store):
    return [(record.id, record.kind, record.marks) for record in await store.find(EVERY)]


async def _settled(journal):
    while journal.status().state != "up" or journal.status().waiting:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("name", ONCE)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_lost_answer_does_a_write_once(place, tmp_path, kind, name):
    """It is not queued; its caller is told that it may have been done, and the records are those that it leaves then."""
    ops, left = ONCE[name]
    async with MemoryStore() as model:
        await model.apply([add(*"abcde")])
        await model.apply(ops)
        expected = await _kept(model)
    assert "".join(id_ for id_, _, _ in expected) == left
    store = Unsteady(open_store(place(kind)))
    async with Journal(store, tmp_path / "queue", backoff=BACKOFF) as journal:
        await journal.write([add(*"abcde")])
        store.turn("after")
        with pytest.raises(StoreUnavailable, match=r"cannot be queued.*may have been done"):
            await journal.write(ops)
        store.turn("up")
        await _settled(journal)
        assert await _kept(journal) == expected
        assert journal.status().dead == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_writes_that_were_queued_apart_are_not_mixed_up(place, tmp_path, kind):
    """Of two queued writes, of which the second makes the first mean something else, the first is not done after the second."""
    store = Forgetful(open_store(place(kind)))
    async with Journal(store, tmp_path / "queue", backoff=BACKOFF) as journal:
        await journal.write([add(*"abc")])
        store.turn("down")
        for ops in ([Remove(those(marks=("stale",)))], [Change(query=EVERY, mark=("stale",))], [add("d")]):
            assert (await journal.write(ops)).status == "queued"
        store.forgetful = True  # what is brought is committed, and its answer is lost; a probe is answered
        store.turn("up")
        await _settled(journal)
        stale = ("stale",)
        assert await _kept(journal) == [("a", "", stale), ("b", "", stale), ("c", "", stale), ("d", "", ())]


def _next_version(name):
    """A change of version 1 to version 2, with its row in a log, as one writer makes it."""
    found = those(ids=("a",), kinds=("v1",))
    return [Change(query=found, kind="v2", expect=1), Add([event(f"log of {name}")], expect=1)]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_expects_something_is_done_once(place, tmp_path, kind):
    """Its commit succeeded, its answer was lost: brought again it is done, and neither a conflict nor a dead letter."""
    store = Unsteady(open_store(place(kind)))
    async with Journal(store, tmp_path / "queue", backoff=BACKOFF) as journal:
        await journal.write([Add([event("a", kind="v1")])])
        store.turn("after")
        assert (await journal.write(_next_version("mine"))).status == "queued"
        assert (await journal.write([add("b")])).status == "queued"
        store.turn("up")
        await _settled(journal)
        assert sorted(await _kept(journal)) == [("a", "v2", ()), ("b", "", ()), ("log of mine", "", ())]
        assert (journal.status().dead, journal.status().replayed) == (0, 2)
        with pytest.raises(Conflict, match="expected 1 record and met 0"):
            await journal.write(_next_version("another"))


@pytest.mark.parametrize("lost", [False, True])
@virtually
async def test_new_records_that_expect_to_be_new_are_brought_together(tmp_path, lost):
    """Or a busy server would queue faster than it brings; each is kept once, also when the answer to all of them is lost."""
    store = Forgetful(open_store("memory://"))
    store.turn("down")
    names = [f"{n:02}" for n in range(40)]
    async with journal_of(store, tmp_path) as journal:
        for name in names:
            expecting = Add([event(name)], expect=None if name == "07" else 1)
            assert (
                await journal.write([expecting, Add([event(f"log {name}")], expect=1)])
            ).status == "queued"
        assert (await journal.write([remove("03")])).status == "queued"
        store.calls, store.forgetful = 0, lost
        store.turn("up")
        await settled(journal)
        assert store.calls < 10 or lost
        assert sorted(await ids(journal)) == sorted({*names, *(f"log {name}" for name in names)} - {"03"})
        assert (journal.status().dead, journal.status().replayed) == (0, 41)


@virtually
async def test_what_expects_something_that_others_changed_is_a_dead_letter(tmp_path):
    """Nothing of it is done, those behind it are brought all the same, and a person can see it."""
    store = unsteady()
    async with journal_of(store, tmp_path, max_retries=2) as journal:
        await journal.write([Add([event("a", kind="v1")])])
        store.turn("down")
        assert (await journal.write(_next_version("mine"))).status == "queued"
        assert (await journal.write([add("b", session="s2")])).status == "queued"
        await store.inner.apply(_next_version("theirs"))
        store.turn("up")
        await settled(journal)
        assert sorted(await ids(journal)) == ["a", "log of theirs"]
        assert await ids(journal, "s2") == ["b"]
        assert journal.status().dead == 1
        [letter] = await journal.dead_letters()
        assert "Conflict" in letter.error


@virtually
async def test_an_expectation_that_nothing_new_tells_apart_is_not_queued(tmp_path):
    """Nobody could say later whether it was done."""
    store = unsteady()
    async with journal_of(store, tmp_path) as journal:
        await journal.write([add("a", "b")])
        store.turn("down")
        for ops in (
            [Remove(those(ids=("a",)), expect=1)],
            [Change(query=those(ids=("a",)), kind="k", expect=1), add("c")],
            [Add([event("a")], expect=0)],
        ):
            with pytest.raises(StoreUnavailable, match="cannot be queued"):
                await journal.write(ops)
        assert inspect(tmp_path / "queue").waiting == 0


@pytest.mark.parametrize(
    ("kind", "words"),
    [("postgres", (b"COMMIT\0",)), ("mysql", (b"COMMIT",)), ("redis", (WRITE.sha,))],
)
async def test_a_wire_that_is_cut_behind_the_commit(fresh_url, tmp_path, kind, words):
    """The server has done it and nobody was told: it is done again, and leaves what it left the first time."""
    url = fresh_url(kind)
    async with (
        open_store(url) as there,
        Wire(url) as wire,
        Journal(
            Telling(open_store(wire.url), wire, words), tmp_path, timeout=2.0, backoff=BACKOFF
        ) as journal,
    ):
        await journal.write([add(*"abcdef")])
        await journal.write([remove("f")])  # so that the words of a removal are known to the server
        journal.inner.armed = True
        assert (await journal.write([remove("e"), add("g")])).status == "queued"
        journal.inner.armed = False
        assert await ids(there) == list("abcdg")  # or nothing would be shown
        await wire.cut()
        await wire.mend()
        await _settled(journal)
        assert await ids(there) == list("abcdg")
        assert journal.status().replayed == 1


@virtually
async def test_what_cannot_be_known_is_not_queued(tmp_path):
    """While the store is away, nobody can say which record the newest one is: refused, with the cure, and nothing waits."""
    store = unsteady()
    async with journal_of(store, tmp_path) as journal:
        await journal.write([add("a", "b")])
        store.turn("down")
        assert (await journal.write([add("c")])).status == "queued"
        for ops in (
            [Remove(those(limit=1))],
            [Change(query=those(offset=1), mark=("m",))],
            ONCE["all are old but the new one"][0],
        ):
            with pytest.raises(StoreUnavailable, match=r"cannot be queued.*ids"):
                await journal.write(ops)
        assert inspect(tmp_path / "queue").waiting == 1
        assert (
            await journal.write([Remove(those(limit=0))])
        ).status == "queued"  # which is nothing, now and later
        store.turn("up")
        await settled(journal)
        assert await ids(journal) == ["a", "b", "c"]
        assert (await journal.write([Remove(those(limit=1))])).counts == [1]
        assert await ids(journal) == ["a", "b"]


@virtually
async def test_ids_of_several_scopes_are_told_apart(tmp_path):
    """The newest record of a tenant goes, and not the one of the same id in another session; counts are as without a queue."""
    async with journal_of(unsteady(), tmp_path) as journal:
        await journal.write([add("a", session="s1"), add("a", session="s2")])
        every = Query(collection=EVERY.collection)
        assert (await journal.write([Remove(every), Remove(those(limit=1))])).counts == [2, 0]
        await journal.write([add("a", session="s1"), add("a", session="s2")])
        newest = Query(collection=EVERY.collection, limit=1)
        assert (await journal.write([Remove(newest)])).counts == [1]
        assert [await ids(journal, "s1"), await ids(journal, "s2")] == [["a"], []]
        await journal.write([add("a", "b", session="s2")])
        three = Query(collection=EVERY.collection, limit=3)
        assert (await journal.write([add("z", session="s3"), Change(query=EVERY, kind="k")])).counts == [1, 1]
        assert (await journal.write([Remove(three)])).counts == [3]
        assert await ids(journal, "s1") == ["a"]


@pytest.mark.torture
@settings(max_examples=200 if FULL else 50)
@given(programs())
def test_what_is_called_repeatable_is(program):
    """Done a second time, it changes nothing: no record more or less, and none that says something else."""

    async def done_twice():
        async with MemoryStore() as store:
            for step in program.steps:
                if isinstance(step, Write):
                    ops = list(step.ops)
                    named_anew = await _named_anew(store, ops)
                    if isinstance(await outcome(store, ops), str):
                        continue
                    if Repeatable().take(ops) and not named_anew:
                        before = await _everything(store)
                        await outcome(store, ops)
                        assert await _everything(store) == before

    asyncio.run(done_twice())


@virtually
async def test_the_oldest_of_an_id_stays(tmp_path):
    """All but the oldest can be removed later as now, and is the same done twice, unless an op behind it touches them."""
    one, two = (
        Record(collection=COLLECTION, id="a", scope=Scope(user=user, session="s"), created_at=NOON + n * HOUR)
        for n, user in enumerate(("lin", "ann"))
    )
    repeats = Remove(those("s", ids=("a",), after=START, offset=1))
    ops = [
        Add([one]),
        Add([two]),
        repeats,
        Remove(those("s", ids=("a",))),
        Remove(Query(collection=COLLECTION, ids=("a",), scope=Scope(user="ann"))),
        Remove(those("s")),
        Change(query=those("s", ids=("a",)), text="changed", updated_at=NOON),
    ]
    assert Repeatable().take([Add([two]), repeats])
    assert not Repeatable().take([Add([two]), repeats, Add([one])])
    assert not Repeatable().take([Remove(those("s", after=START, offset=1))])
    assert not Repeatable().take([Remove(those("s", ids=("a",), offset=1))])  # all but the newest
    for batch in (list(batch) for n in (1, 2, 3) for batch in itertools.product(ops, repeat=n)):
        if repeats in batch and Repeatable().take(batch):
            for kept in ([], [one], [two], [one, two]):
                async with MemoryStore() as store:
                    await store.apply([Add(kept)])
                    await store.apply(batch)
                    before = spelling(await store.find(those("s")))
                    await store.apply(batch)
                    assert spelling(await store.find(those("s"))) == before
    store = unsteady()
    async with journal_of(store, tmp_path) as journal:
        await journal.write([Add([one])])
        store.turn("down")
        assert await journal.write([Add([two])], later=[repeats]) == Written("queued", [0])
        store.turn("up")
        await settled(journal)
        assert await journal.find(those("s")) == await journal.find(
            Query(collection=COLLECTION, scope=one.scope)
        )


@virtually
async def test_removals_that_find_nothing_are_not_brought(tmp_path):
    """Many events that were queued reach the store in one write of adds; only what was there already is removed again."""
    store = unsteady()
    brought = []
    apply = store.apply

    async def noted(ops):
        brought.append([type(op) for op in ops if getattr(op, "query", None) is None or op.query.offset])
        return await apply(ops)

    store.apply = noted
    async with journal_of(store, tmp_path) as journal:
        await journal.write(
            [Add([msgspec.structs.replace(event("7"), scope=Scope(user="ann", session="s1"))])]
        )
        store.turn("down")
        for n in range(100):
            repeats = Remove(those(ids=(str(n),), after=START, offset=1))
            assert (await journal.write([add(str(n))], later=[repeats])).status == "queued"
        brought.clear()
        store.turn("up")
        await settled(journal)
        assert [ops for ops in brought if len(ops) > 1 or Remove in ops] == [[Add] * 100, [Remove]]
        assert sorted(map(int, await ids(journal))) == list(range(100))


async def _named_anew(store, ops):
    """Whether an id is given to another record than the one it names: such an add is passed over, and counts for nothing."""
    added = [record for op in ops if isinstance(op, Add) for record in op.records]
    kept = await _all(store)
    return len({(one.collection, one.key, *spelling([one])) for one in (*added, *kept)}) > len(
        {(one.collection, one.key) for one in (*added, *kept)}
    )


async def _everything(store):
    # The order of marks is not looked at: one that is taken away and given again in one change goes to the end.
    return spelling(
        [msgspec.structs.replace(record, marks=tuple(sorted(record.marks))) for record in await _all(store)]
    )


async def _all(store):
    return [
        record
        for tenant in await store.tenants()
        for collection in COLLECTIONS
        for record in await store.find(Query(collection=collection, scope=Scope(tenant=tenant)))
    ]
