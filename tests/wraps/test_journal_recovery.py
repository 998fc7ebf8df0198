"""While a store recovers: who may read, what the log says, whom an error helps."""

import asyncio

import pytest
from outages import Unsteady, add, ids, journal_of, settled, unsteady

from octavo import AsyncMemory, open_store
from octavo.errors import StoreError, StoreUnavailable
from virtual_time import virtually


class Gated(Unsteady):
    """A store that takes its time with one record, when it is told to."""

    def __init__(self, *args):
        super().__init__(*args)
        self.gate = asyncio.Event()
        self.gate.set()

    async def apply(self, ops):
        if "b" in [record.id for op in ops for record in getattr(op, "records", ())]:
            await self.gate.wait()
        return await super().apply(ops)


@virtually
async def test_a_reader_waits_for_what_stayed_behind_a_write_that_is_stored_now(tmp_path):
    """What was held is stored at last: those behind it are still to come, and nobody reads as if they were there."""
    store = Gated(open_store("memory://"), "down")
    async with journal_of(store, tmp_path, max_retries=1000) as journal:
        await journal.write([add("a")])
        await journal.write([add("b")])
        store.poison["a"] = StoreUnavailable("not this one")
        store.turn("up")
        assert await ids(journal, "s2") == []  # others pass once it is known who has to stay
        store.gate.clear()
        store.poison.clear()
        while store.committed != ["a"]:
            await asyncio.sleep(0.01)
        reading = asyncio.create_task(ids(journal))
        await asyncio.sleep(1)
        store.gate.set()
        assert await reading == ["a", "b"]
        await settled(journal)


@virtually
async def test_the_log_says_that_the_store_is_back(tmp_path, caplog):
    """As loudly as that it was away, once, and how many writes had waited."""
    store = unsteady("down")
    async with journal_of(store, tmp_path) as journal:
        for n in range(3):
            await journal.write([add(str(n))])
        store.turn("up")
        await settled(journal)
        await journal.write([add("straight")])
        store.turn("down")
        await journal.write([add("again")])
        store.turn("up")
        await settled(journal)
    away, back = "the store cannot be written to", "nothing is queued any more; "
    told = [
        message for level, message in ((r.levelname, r.message) for r in caplog.records) if level == "WARNING"
    ]
    assert [away in message or message.rpartition(back)[2] for message in told] == [
        True, "3 queued writes stored", True, "1 queued write stored"
    ]  # fmt: skip


def test_a_memory_of_another_event_loop_says_what_to_do(tmp_path, monkeypatch):
    """In words of the front door: its user has never heard of a Journal."""
    monkeypatch.chdir(tmp_path)
    memory = AsyncMemory("sqlite:///octavo.db")
    asyncio.run(memory.add("I live in Lisbon.", user_id="ann"))
    with pytest.raises(StoreError, match=r"another event loop.*use Memory.*AsyncMemory, .* in each"):
        asyncio.run(memory.add("I like tea.", user_id="ann"))
    asyncio.run(memory.store.close())
