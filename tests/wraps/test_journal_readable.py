"""A store that takes no write and answers questions: it is read, and what is queued is counted in."""

import asyncio
import tempfile
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from outages import COLLECTION, Unsteady, add, event, ids, remove, those, unsteady

from octavo import START, Add, Change, Query, Remove, Scope, open_store
from octavo.errors import StoreUnavailable
from octavo.kernel.pages import find_within
from octavo.kernel.terms.terms import terms
from octavo.stores.memory import MemoryStore
from octavo.testing.agreement import assert_same, spelling
from octavo.testing.strategies import Seek, Write, programs, searching_programs
from octavo.wraps import Journal
from octavo.wraps.journal import Spool, delivery
from octavo.wraps.journal.repeatable import Repeatable
from sampled import examples

pytestmark = pytest.mark.every_store

KINDS = ("memory", "file", "sqlite", "postgres", "mysql", "redis")
BACKOFF = (0.01, 0.1)
FAR = (1e6, 1e6)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def said(number, text):
    at = NOON + number * timedelta(hours=1)
    kind = "odd" if number % 2 else "even"
    made = event(f"e{number}", kind=kind, created_at=at, seq=number)
    return msgspec.structs.replace(made, text=text)


#: Each is queued by itself, in this order.
QUEUED = [
    [Add([said(20, "the newest owl"), said(3, "is there already"), said(0, "the oldest owl")])],
    [Change(query=those(ids=("e4", "e20")), text="a changed crow", mark=("seen",), updated_at=NOON)],
    [remove("e5")],
    [Add([event("elsewhere", "s2")]), Remove(those("s2", ids=("gone",)))],
    [Add([said(21, "expected")], expect=1)],
    [Remove(Query(collection=COLLECTION, ids=("e20",), after=START, offset=1))],
    [Remove(those(kinds=("even",), until=NOON + timedelta(hours=3)))],
]
ASKED = [
    those(), those(limit=3), those(limit=3, offset=2), those(limit=4, newest_first=True), those(after=START, limit=3),
    those(kinds=("odd",), limit=2), those(marks=("seen",)), those(text="owl"), those(ids=("e0", "e4", "e5", "e20")),
    those(limit=0), those("s2"), those("s3"), Query(collection=COLLECTION), Query(collection="messages"),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
async def test_questions_are_answered_while_writes_are_refused(place, tmp_path, kind):
    """At once, and as they are answered when all is stored: records, heads, counts and terms."""
    store = Unsteady(open_store(place(kind)))
    async with Journal(store, tmp_path / "queue", backoff=FAR, timeout=60) as journal:
        await journal.write([Add([said(number, f"crow {number}") for number in range(1, 12)])])
        await journal.write([Add([event("gone", "s2")])])
        store.turn("read-only")
        for ops in QUEUED:
            assert (await journal.write(ops)).status == "queued"
        early = [await _answers(journal, query) for query in ASKED]
        assert journal.status().waiting == len(QUEUED)
        store.turn("up")
        await journal.replay_now()
        assert (journal.status().waiting, journal.status().dead) == (0, 0)
        for query, answers in zip(ASKED, early, strict=True):
            assert answers == await _answers(journal, query), query


async def _answers(store, query):
    found = await store.search(query, terms("owl crow"))
    heads = await store.heads(query)
    whole, too_large = await find_within(store, query, 10**6), await find_within(store, query, 1)
    assert not whole or (spelling(whole) == spelling(await store.find(query)) and too_large is None)
    return spelling(await store.find(query)), heads, await store.tally(query), found


async def test_who_is_not_concerned_is_not_held_up(tmp_path):
    """Of somebody else the store lacks nothing; who is there at all cannot be said, and that is told at once."""
    store = unsteady()
    async with Journal(store, tmp_path / "queue", backoff=FAR, timeout=5) as journal:
        await journal.write([add("a"), add("b", session="s2")])
        store.turn("read-only")
        await journal.write(
            [Add([event("c")]), Remove(Query(collection=COLLECTION, scope=Scope(session="s1"), ids=("a",)))]
        )
        assert await ids(journal, "s2") == ["b"]
        assert (await journal.names(COLLECTION, "user", Scope(session="s2"))) == []
        for question in (journal.names(COLLECTION, "session", Scope()), journal.tenants()):
            with pytest.raises(StoreUnavailable, match=r"cannot be counted in: .*disk is full"):
                await question


async def test_a_queue_left_by_a_killed_process_is_counted_in(tmp_path):
    """A process that starts on a store that takes no write reads what an earlier one has queued."""
    store = unsteady()
    async with Journal(store, tmp_path / "queue", backoff=FAR, owned=False) as journal:
        await journal.write([add("a")])
        store.turn("read-only")
        await journal.write([add("b")])
    async with Journal(store, tmp_path / "queue", backoff=BACKOFF) as journal:
        assert await ids(journal) == ["a", "b"]
        assert journal.status().state == "down"


async def test_more_than_can_be_counted_in_is_no_answer(tmp_path, monkeypatch):
    """Too many writes, or too many records that one of them touches: StoreUnavailable, never a part of the truth."""
    monkeypatch.setattr(delivery, "_MOST_ENTRIES", 3)
    monkeypatch.setattr("octavo.wraps.journal.queued_answers._MOST", 4)
    store = unsteady()
    async with Journal(store, tmp_path / "queue", backoff=FAR, timeout=1) as journal:
        await journal.write([add(*"abcde")])
        store.turn("read-only")
        await journal.write([remove(*"abcd")])
        assert await ids(journal) == ["e"]
        await journal.write([Remove(those())])
        with pytest.raises(StoreUnavailable):
            await ids(journal)
        assert await ids(journal, "s2") == []
        await journal.write([add("f")])
        await journal.write([add("g")])
        with pytest.raises(StoreUnavailable):
            await ids(journal, "s2")


@settings(max_examples=examples(40, 100))
@given(programs() | searching_programs())
def test_what_is_asked_is_answered_as_it_will_be(program):
    """Whatever is queued, and whatever is asked: the answer is that of a store which has done it."""

    async def compare(folder):
        store, right = unsteady(), MemoryStore()
        spool = Spool(folder, durability="memory")
        async with right, Journal(store, spool, backoff=FAR, timeout=60) as journal:
            for step in program.under("t"):
                if isinstance(step, Write):
                    await _write_both(journal, right, list(step.ops))
                    store.turn("read-only")
                elif isinstance(step, Seek):
                    assert await journal.search(step.query, step.terms) == await right.search(
                        step.query, step.terms
                    )
                else:
                    await assert_same(journal, right, step.query)
            store.turn("up")

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(folder))


async def _write_both(journal, right, ops):
    """Have a write queued, and done beside it; one that cannot be queued, or does not meet what it expects, is left out."""
    if not Repeatable().take(ops) or any(op.expect is not None for op in ops):
        return
    await journal.write(ops)
    await right.apply(ops)


async def test_what_is_too_much_to_be_counted_in_is_waited_for(tmp_path):
    """The store is well again, but has not been tried yet: whoever asks then waits for that, and is not turned away."""
    store = Unsteady(open_store("memory://"), "down")
    spool = Spool(tmp_path / "queue", max_in_memory=5, spill_batch_size=3)
    async with Journal(store, spool, backoff=(0.05, 0.1)) as journal:
        for number in range(6):
            await journal.write([add(f"e{number}")])
        store.turn("up")
        assert await ids(journal) == [f"e{number}" for number in range(6)]
