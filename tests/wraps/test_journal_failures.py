"""What the Journal does with writes that fail by themselves, with a full disk, and when it is closed."""

import asyncio
from datetime import timedelta

import pytest
from outages import add, ids, journal_of, settled, those, unsteady

from octavo import (
    Add,
    InvalidQuery,
    InvalidRecord,
    Query,
    Record,
    Remove,
    Scope,
    open_store,
)
from octavo.errors import NotFound, StoreClosed, StoreError, StoreUnavailable
from octavo.kernel.ports import Searches
from octavo.stores.base import BaseStore
from octavo.wraps import Journal
from octavo.wraps.attempts import Attempts
from octavo.wraps.journal import Spool, inspect, peek
from virtual_time import clock, virtually

# --- writes that fail by themselves


@virtually
async def test_a_write_that_fails_alone_becomes_a_dead_letter(tmp_path, monkeypatch):
    """After its tries, with its error. Until then those of its session stay behind it, and all others pass."""
    monkeypatch.setattr(
        "random.uniform", lambda _least, most: most
    )  # or all tries may be drawn to come at once
    store = unsteady("down")
    store.poison["poison"] = StoreUnavailable("packet too large")
    async with journal_of(store, tmp_path, max_retries=3, backoff=(60, 60)) as journal:
        for name, session in (("a", "s1"), ("poison", "s1"), ("b", "s1"), ("c", "s2")):
            await journal.write([add(name, session=session)])
        store.turn("up")
        await journal.replay_now()
        assert store.committed == ["a", "c"]
        assert await ids(journal, "s2") == ["c"]
        with pytest.raises(StoreUnavailable):
            await journal.find(those("s1"))
        await settled(journal)
        assert store.committed == ["a", "c", "b"]
        assert (journal.status().buried, journal.status().dead, journal.status().replayed) == (1, 1, 3)
        [letter] = await journal.dead_letters()
        assert (letter.attempts, letter.error) == (3, "StoreUnavailable: packet too large")
        assert await journal.dead_letter(letter.id) == letter


@virtually
async def test_one_bad_write_among_many(tmp_path):
    """A write that can never be done is given up at once, and the others of its batch are stored."""
    store = unsteady("down")
    store.poison["bad"] = InvalidRecord("it grew too large")
    store.poison["worse"] = KeyError("a bug in the store")
    async with journal_of(store, tmp_path) as journal:
        for number in range(50):
            await journal.write([add("bad" if number == 20 else "worse" if number == 30 else str(number))])
        store.turn("up")
        await settled(journal)
        assert store.committed == [str(number) for number in range(50) if number not in (20, 30)]
        assert [letter.error for letter in await journal.dead_letters()] == [
            "InvalidRecord: it grew too large",
            "KeyError: 'a bug in the store'",
        ]


@virtually
async def test_a_store_that_takes_no_write_at_all_is_down(tmp_path):
    """Nobody's write is to blame when every write is refused, also when questions are answered."""
    store = unsteady("down")
    async with journal_of(store, tmp_path, max_retries=1) as journal:
        for number in range(5):
            await journal.write([add(str(number))])
        store.turn("refuse")
        await asyncio.sleep(3600)
        assert (journal.status().waiting, journal.status().dead) == (5, 0)
        assert "permission denied" in journal.status().last_error
        store.turn("after")
        await asyncio.sleep(3600)
        assert (journal.status().waiting, journal.status().dead) == (5, 0)
        store.turn("up")
        await settled(journal)
        assert len(await ids(journal)) == 5


@virtually
async def test_what_waits_too_long_for_a_store_that_is_down(tmp_path):
    """It becomes a dead letter, never nothing; what is old when the store answers is stored."""
    store = unsteady("down")
    async with journal_of(store, tmp_path, max_age=timedelta(minutes=60), backoff=(60, 60)) as journal:
        await journal.write([add("old")])
        await asyncio.sleep(50 * 60)
        await journal.write([add("young")])
        await asyncio.sleep(15 * 60)
        [letter] = await journal.dead_letters()
        assert [record.id for record in letter.ops[0].records] == ["old"]
        assert "waited longer than 1:00:00" in letter.error
        assert journal.status().waiting == 1
    store = unsteady()
    await asyncio.sleep(100 * 3600)
    async with journal_of(store, tmp_path, max_age=timedelta(minutes=60)) as journal:
        await settled(journal)
        assert await ids(journal) == ["young"]


@virtually
async def test_dead_letters_can_be_replayed_and_discarded(tmp_path):
    """Replayed they are as good as new; what does not exist is NotFound."""
    store = unsteady("down")
    for name in ("a", "b", "c"):
        store.poison[name] = StoreError("too long for the column")
    async with journal_of(store, tmp_path) as journal:
        for name in store.poison:
            await journal.write([add(name)])
        store.turn("up")
        await settled(journal)
        first, second, third = await journal.dead_letters()
        assert await journal.dead_letters(1, after=first.id) == [second]
        store.poison.clear()
        assert await journal.replay_dead([first.id]) == 1
        assert await ids(journal) == ["a"]
        assert await journal.discard_dead(second.id) == 1  # one id may be given as it is
        with pytest.raises(NotFound):
            await journal.dead_letter(second.id)
        assert await journal.dead_letters() == [third]
        assert await journal.replay_dead() == 1
        assert await ids(journal) == ["a", "c"]
        assert (await journal.discard_dead(), journal.status().dead) == (0, 0)


# --- a disk that is full


class FullDisk(Spool):
    """A queue on a disk that has no room while `full`."""

    full = False

    def put(self, entries):
        if self.full:
            raise StoreUnavailable(f"{self.directory}: no space left") from OSError(28, "No space left")
        super().put(entries)


async def test_how_many_dead_letters_is_a_whole_number(tmp_path):
    """A limit that is no count is refused: True is not 1, and -1 not none."""
    async with journal_of(unsteady(), tmp_path) as journal:
        for limit in (True, -1, "1", 1.5):
            with pytest.raises(InvalidQuery, match="limit must be 0 or more, or None for all"):
                await journal.dead_letters(limit)
        assert await journal.dead_letters(0) == []
        with pytest.raises(NotFound, match="q_1"):  # as if nothing were left behind one that is gone
            await journal.dead_letters(after="q_1")


@virtually
async def test_neither_stored_nor_queued_is_said_at_once(tmp_path):
    """With both reasons; and when the store or the room is back, everything goes on."""
    store, spool = unsteady(), FullDisk(tmp_path / "queue")
    async with Journal(store, spool, clock=clock) as journal:
        await journal.write([add("a")])
        store.turn("down")
        await journal.write([add("b")])
        spool.full = True
        with pytest.raises(StoreUnavailable, match=r"the store is down.*no space left"):
            await journal.write([add("lost")])
        assert journal.status().refused == 1
        spool.full = False
        assert (await journal.write([add("c")])).status == "queued"
        spool.full = True
        store.turn("up")
        await settled(journal)
        assert await ids(journal) == ["a", "b", "c"]
        assert (await journal.write([add("d")])).status == "stored"
        store.turn("down")
        with pytest.raises(StoreUnavailable):
            await journal.write([add("lost")])
        assert journal.status().waiting == 0
        store.turn("up")
        await settled(journal)
        assert (await journal.write([add("e")])).status == "stored"


# --- closing


@virtually
async def test_closing_during_an_outage(tmp_path):
    """It takes a bounded time, everything is on disk, and nothing can be asked afterwards."""
    loop = asyncio.get_running_loop()
    for mood in ("down", "hang", "refuse"):
        store = unsteady("down")
        journal = journal_of(store, tmp_path / mood, timeout=5)
        await journal.write([add("a")])
        await journal.write([add("b")])
        store.turn(mood)
        began = loop.time()
        await asyncio.gather(journal.close(), journal.close())
        await journal.close()
        assert loop.time() - began < 30
        assert [entry.ops[0].records[0].id for entry in peek(tmp_path / mood / "queue")] == ["a", "b"]
        for verb in (
            journal.write([add("c")]),
            journal.find(those()),
            journal.search(those(), ["a"]),
            journal.replay_now(),
            journal.dead_letters(),
            journal.__aenter__(),
        ):
            with pytest.raises(StoreClosed):
                await verb
        store.turn("up")


@virtually
async def test_closing_delivers_what_it_can(tmp_path):
    """The store is back and nobody has noticed yet: the last thing that is done is to bring it what waits."""
    store = unsteady("down")
    inner = store.inner
    async with Journal(store, tmp_path, clock=clock, owned=False, backoff=(1000, 1000)) as journal:
        await journal.write([add("a")])
        store.turn("up")
    assert await ids(inner) == ["a"]
    assert inspect(tmp_path).waiting == 0
    await store.close()


@virtually
async def test_a_closing_that_is_given_up_comes_to_its_end(tmp_path):
    """A second call waits for it."""
    store = unsteady("down")
    journal = journal_of(store, tmp_path)
    await journal.write([add("a")])
    closing = asyncio.create_task(journal.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    await journal.close()
    with Spool(tmp_path / "queue") as spool:
        assert spool.waiting == 1


# --- its surroundings


def test_it_can_do_what_its_store_can(tmp_path):
    """Exactly that."""
    assert isinstance(Journal(open_store("memory://"), tmp_path), Searches)
    bare = Journal(BaseStore(), tmp_path)
    assert not isinstance(bare, Searches)
    for name in ("tenants", "describe", "resembling"):
        assert not hasattr(bare, name)


@virtually
async def test_it_says_what_waits(tmp_path):
    """Whoever describes the store hears of the queue, and of what was given up."""
    store = unsteady()
    store.poison["bad"] = InvalidRecord("no")
    async with journal_of(store, tmp_path) as journal:
        assert (await journal.tenants(), (await journal.describe())[-1].warning) == ([], "")
        store.turn("down")
        await journal.write([add("bad")])
        store.turn("up")
        await settled(journal)
        queue = (await journal.describe())[-1]
        assert (queue.name, queue.value) == ("queue", "0 writes waiting, 1 given up")
        assert "octavo queue list" in queue.warning


@virtually
async def test_two_share_a_directory(tmp_path):
    """What one leaves behind when it ends, the other brings to the store, soon and by itself."""
    store = unsteady()
    async with journal_of(store, tmp_path) as journal:
        await journal.write([add("a")])
        async with journal_of(unsteady("down"), tmp_path) as other:
            await other.write([add("b")])
            await asyncio.sleep(60)
            assert await ids(journal) == ["a"]
        await asyncio.sleep(60)
        assert await ids(journal) == ["a", "b"]
    assert inspect(tmp_path / "queue").waiting == 0


def test_it_belongs_to_one_event_loop_and_one_process(tmp_path, monkeypatch):
    """Another one is told so, rather than made to hang."""
    with asyncio.Runner() as first, asyncio.Runner() as second:
        journal = Journal(open_store("memory://"), tmp_path)
        first.run(journal.write([add("a")]))
        with pytest.raises(StoreError, match="event loop"):
            second.run(journal.write([add("b")]))
        monkeypatch.setattr("os.getpid", lambda: -1)
        with pytest.raises(StoreClosed, match="forked"):
            first.run(journal.find(those()))
        monkeypatch.undo()
        first.run(journal.close())


@virtually
async def test_scopes_that_overlap(tmp_path):
    """A write about every session of a tenant stays behind a failed one of any; other tenants pass."""
    store = unsteady("down")
    store.poison["poison"] = StoreUnavailable("packet too large")
    async with journal_of(store, tmp_path, max_retries=2, backoff=(60, 60)) as journal:
        await journal.write([add("poison")])
        await journal.write([Remove(Query(collection=those().collection, scope=Scope()))])
        await journal.write([add("after", session="s9")])
        elsewhere = Record(collection=those().collection, id="elsewhere", scope=Scope(tenant="t2"))
        await journal.write([Add([elsewhere])])
        store.turn("up")
        await journal.replay_now()
        assert store.committed == ["elsewhere"]
        await settled(journal)
        assert store.committed == ["elsewhere", "after"]
        assert await ids(journal, "s9") == ["after"]


async def test_a_read_that_closing_ends():
    """Whoever waits for it is told that the store was closed: a cancellation would end their task without a word."""
    attempts = Attempts()
    waiting = asyncio.create_task(attempts.read(asyncio.Event().wait(), 60))
    await asyncio.sleep(0)
    attempts.cancel()
    with pytest.raises(StoreClosed, match="before it had answered"):
        await waiting
