"""The Journal: nothing acknowledged is lost, nothing overtakes, nobody waits longer than was agreed."""

import asyncio
import logging

import pytest
from outages import COLLECTION, add, event, ids, journal_of, remove, settled, those, unsteady

from octavo import (
    Add,
    Change,
    ConfigError,
    InvalidQuery,
    InvalidRecord,
    Query,
    Remove,
    Scope,
)
from octavo.errors import StoreError, StoreUnavailable
from octavo.stores.base import BaseStore
from octavo.wraps import Journal, Written
from octavo.wraps.journal import inspect, peek
from virtual_time import clock, virtually

# --- stored or queued


@virtually
async def test_a_write_is_stored_while_the_store_answers(tmp_path):
    """With the store's own counts, and without touching the queue."""
    async with journal_of(unsteady(), tmp_path) as journal:
        assert await journal.write([add("a", "b"), remove("a")]) == Written("stored", [2, 1])
        assert await journal.apply([add("b")]) == [0]
        assert await ids(journal) == ["b"]
        status = journal.status()
    assert (status.state, status.stored, status.queued, status.waiting) == ("up", 2, 0, 0)
    assert not list(peek(tmp_path / "queue"))


@virtually
async def test_a_write_is_on_disk_when_it_is_queued(tmp_path):
    """A transaction stays one, and its counts are not known yet."""
    store = unsteady("down")
    async with journal_of(store, tmp_path) as journal:
        change = Change(query=those(ids=("a",)), merge={"seen": True})
        assert await journal.write([add("a"), change]) == Written("queued", [0, 0])
        [entry] = peek(tmp_path / "queue")
        assert [record.id for record in entry.ops[0].records] == ["a"]
        assert entry.ops[1] == change
        status = journal.status()
        assert (status.state, status.queued, status.waiting) == ("down", 1, 1)
        assert status.next_try_at >= clock()
        assert status.oldest_at == entry.queued_at == clock()
        store.turn("up")
        await settled(journal)
        [record] = await journal.find(those())
        assert (record.id, record.data) == ("a", {"seen": True})
        assert journal.status().replayed == 1
        assert await journal.write([add("b")]) == Written("stored", [1])


@virtually
async def test_it_says_once_that_the_store_is_down_and_once_that_it_is_back(tmp_path, caplog):
    """Whatever happens in between; and never a password."""
    caplog.set_level(logging.INFO, "octavo.journal")
    store = unsteady()
    async with journal_of(store, tmp_path) as journal:
        store.turn("down")
        for number in range(20):
            await journal.write([add(str(number))])
            await asyncio.sleep(10)
        store.turn("up")
        await settled(journal)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert caplog.records[-1].message.endswith("nothing is queued any more; 20 queued writes stored")
    assert "secret" not in caplog.text + str(journal.status())
    assert "ann" in caplog.text


@virtually
async def test_recovery_needs_no_restart_and_no_call(tmp_path):
    """However long the outage; in the order of the writes, many in one call."""
    store = unsteady()
    async with journal_of(store, tmp_path) as journal:
        await journal.write([add("first")])
        store.turn("down")
        names = [f"{number:04}" for number in range(1200)]
        for name in names:
            assert (await journal.write([add(name, session=f"s{int(name) % 7}")])).status == "queued"
        await asyncio.sleep(3 * 3600)
        store.turn("up")
        store.calls = 0
        await asyncio.sleep(31)
        assert journal.status().waiting == 0
        assert store.committed == ["first", *names]
        assert store.calls < 10


@virtually
async def test_a_restart_recovers_too(tmp_path):
    """A Journal that is opened on what an earlier one left brings it first, before what is new."""
    async with journal_of(unsteady("down"), tmp_path) as journal:
        await journal.write([add("a")])
        await journal.write([add("b")])
    assert inspect(tmp_path / "queue").waiting == 2
    store = unsteady()
    async with journal_of(store, tmp_path) as journal:
        await journal.write([add("c")])
        assert await ids(journal) == ["a", "b", "c"]
    assert store.committed == ["a", "b", "c"]
    assert inspect(tmp_path / "queue").waiting == 0


@virtually
async def test_a_store_that_cannot_be_opened_is_opened_later(tmp_path):
    """It starts, it queues, and it recovers by itself."""
    for mood in ("down", "hang"):
        store = unsteady(mood)
        async with journal_of(store, tmp_path / mood) as journal:
            assert journal.status().state == "down"
            assert (await journal.write([add("a")])).status == "queued"
            store.turn("up")
            await settled(journal)
            assert await ids(journal) == ["a"]


@virtually
async def test_an_opening_that_never_ends_is_begun_again(tmp_path):
    """Whoever it waits for may have gone without a word; the journal does not wait with it for ever."""

    class Lost(BaseStore):
        openings = 0

        async def _open(self):
            self.openings += 1
            if self.openings == 1:
                await asyncio.Event().wait()

        async def _apply(self, ops):
            return [1] * len(ops)

        async def _find(self, query):
            return []

    store = Lost()
    async with journal_of(store, tmp_path) as journal:
        assert (await journal.write([add("a")])).status == "queued"
        await settled(journal)
        assert store.openings == 2
        assert (await journal.write([add("b")])).status == "stored"


@virtually
async def test_a_wrong_setting_is_not_an_outage(tmp_path):
    """What only the user can mend is raised at the first use, not queued."""

    class Misconfigured(BaseStore):
        opener = "nothing"

        async def _open(self):
            raise ConfigError("no such driver")

    journal = journal_of(Misconfigured(), tmp_path)
    with pytest.raises(ConfigError, match="no such driver"):
        await journal.write([add("a")])
    with pytest.raises(ConfigError, match="no such driver"):
        await journal.__aenter__()
    assert journal.status().waiting == 0
    await journal.close()
    for wrong in ({"timeout": 0}, {"max_retries": -1}, {"backoff": (2, 1)}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            Journal(unsteady(), tmp_path, **wrong)


@virtually
async def test_a_bad_record_is_an_error_whatever_the_state_of_the_store(tmp_path):
    """It is refused as the store would refuse it, and nothing of its call is queued."""
    for mood in ("up", "down"):
        async with journal_of(unsteady(mood), tmp_path / mood) as journal:
            with pytest.raises(InvalidRecord, match="NUL"):
                await journal.write([add("good"), add("bad\0")])
            with pytest.raises(InvalidQuery):
                await journal.find(Query(collection=those().collection, limit=-1))
            assert journal.status().waiting == 0
            assert await journal.apply([]) == []


@virtually
async def test_an_error_that_is_no_outage_is_the_callers(tmp_path):
    """Only StoreUnavailable is queued."""
    store = unsteady()
    async with journal_of(store, tmp_path) as journal:
        await journal.write([add("a")])
        store.turn("refuse")
        with pytest.raises(StoreError, match="permission denied"):
            await journal.write([add("b")])
        assert journal.status().waiting == 0


@virtually
async def test_what_is_queued_is_the_callers_no_longer(tmp_path):
    """Changing an object after the call changes nothing that was queued; naive times are fixed when they are given."""
    store = unsteady("down")
    async with journal_of(store, tmp_path) as journal:
        data = {"n": [1]}
        await journal.write([Add([event("a", data=data)])])
        data["n"].append(2)
        store.turn("up")
        await settled(journal)
        [record] = await journal.find(those())
        assert record.data == {"n": [1]}


# --- time


@virtually
async def test_no_call_waits_longer_than_its_timeout(tmp_path):
    """While the store hangs, the first write takes less than the timeout and the following ones no time at all."""
    store = unsteady()
    loop = asyncio.get_running_loop()
    async with journal_of(store, tmp_path, timeout=5.0) as journal:
        await journal.write([add("first")])
        store.turn("hang")
        began = loop.time()
        answers = await asyncio.gather(*(journal.write([add(str(n))]) for n in range(50)))
        assert {answer.status for answer in answers} == {"queued"}
        assert loop.time() - began < 5
        for number in range(50, 60):
            began = loop.time()
            assert (await journal.write([add(str(number))])).status == "queued"
            assert loop.time() - began <= 1
        for read in (journal.find(those()), journal.tally(those()), journal.search(those(), ["event"])):
            began = loop.time()
            with pytest.raises(StoreUnavailable):
                await read
            assert loop.time() - began <= 5
        store.turn("up")
        await settled(journal)
        assert len(await ids(journal)) == 61


@virtually
async def test_a_write_that_ends_late_does_not_overtake(tmp_path):
    """It was queued because it took too long; when it is done at last, what was removed after it stays removed."""
    store = unsteady()
    async with journal_of(store, tmp_path) as journal:
        await journal.write([add("x")])
        store.turn("hang")
        assert (await journal.write([add("a")])).status == "queued"
        assert (await journal.write([remove("a")])).status == "queued"
        await asyncio.sleep(100)
        store.turn("up")
        await settled(journal)
        assert await ids(journal) == ["x"]


@virtually
async def test_a_write_that_picks_by_count_and_ends_late_is_not_done_twice(tmp_path):
    """Removing the newest record, twice, would remove two: it is not queued, and its caller is told that it may be done."""
    store = unsteady()
    async with journal_of(store, tmp_path) as journal:
        await journal.write([add("a", "b", "c")])
        store.turn("hang")
        with pytest.raises(StoreUnavailable, match="may have been done"):
            await journal.write([Remove(those(limit=1))])
        await asyncio.sleep(0.001)
        store.turn("up")
        await settled(journal)
        assert await ids(journal) == ["a", "b"]


@virtually
async def test_a_store_that_fails_after_committing(tmp_path):
    """Each id is there once, in order."""
    store = unsteady()
    async with journal_of(store, tmp_path) as journal:
        await journal.write([add("0")])
        store.turn("after")
        for number in range(1, 5):
            assert (await journal.write([add(str(number))])).status == "queued"
        store.turn("up")
        await settled(journal)
        assert await ids(journal) == [str(number) for number in range(5)]


@virtually
async def test_who_there_is_waits_for_what_was_queued(tmp_path):
    """Names are read as records are: with this process's own writes in them, or not at all."""
    store = unsteady("down")
    async with journal_of(store, tmp_path) as journal:
        await journal.write([add("a", session="queued")])
        with pytest.raises(StoreUnavailable):
            await journal.names(COLLECTION, "session", limit=5)
        store.turn("up")
        await settled(journal)
        [session] = await journal.names(COLLECTION, "session", Scope(), after="", limit=5)
        assert (session.name, session.total) == ("queued", 1)
