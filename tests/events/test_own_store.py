"""A memory store with the seven documented methods works wherever a built-in one does."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from own_stores import ListMemoryStore

from octavo import (
    Add,
    AgentEvent,
    BaseMemoryStore,
    Change,
    EventStore,
    InMemoryMemoryStore,
    Query,
    Remove,
    Scope,
    SQLiteMemoryStore,
    Store,
    StoreError,
    StoreUnavailable,
    as_store,
    open_store,
)
from octavo.events import to_record

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
EVENTS = Query(collection="events")


def event(n, **more) -> AgentEvent:
    return AgentEvent(**{
        "event_id": f"evt_{n}", "agent_name": "a", "session_id": "s", "event_type": "user_message",
        "timestamp": NOON + timedelta(seconds=n // 2), "data": {"n": n}, **more,
    })  # fmt: skip


class Slow(ListMemoryStore):
    async def initialize(self):
        await asyncio.sleep(0)
        await super().initialize()


class TestBase:
    async def test_first_use_initializes_once(self):
        """However many tasks come first, and in a subclass whose own `initialize` calls the one above."""
        store = Slow()
        await asyncio.gather(*(store.store(event(n)) for n in range(5)), store.retrieve(), store.initialize())
        assert store.calls.count("initialize") == 1
        assert len(store.events) == 5
        await store.close()
        await store.retrieve()
        assert store.calls.count("initialize") == 2  # after close, it is used anew

    async def test_a_failed_initialize_is_tried_again(self):
        class Down(ListMemoryStore):
            tries = 0

            async def initialize(self):
                self.tries += 1
                if self.tries == 1:
                    raise ConnectionError("down")

        store = Down()
        with pytest.raises(ConnectionError):
            await store.store(event(1))
        assert await store.store(event(1))
        assert store.tries == 2

    async def test_verbs_used_while_opening(self):
        """`initialize` may use the store itself, also from tasks it starts."""

        class Seeded(ListMemoryStore):
            async def initialize(self):
                await asyncio.gather(self.store(event(1)), self.store(event(2)))
                await self.store(event(3))

        assert len(await asyncio.wait_for(Seeded().retrieve(), 5)) == 3

    async def test_the_rest_comes_from_the_base(self):
        """`async with`, `store_many` and the config."""
        async with ListMemoryStore() as store:
            assert await store.store_many([event(1), event(2)]) == 2
            store.failing = False
            assert await store.store_many([event(3)]) == 0
        assert store.calls[-1] == "close"

        class Plain(ListMemoryStore):
            __init__ = BaseMemoryStore.__init__

        assert Plain({"a": 1}).config == {"a": 1}
        assert Plain().config == {}

    async def test_methods_of_a_mixin(self):
        """Wherever a method comes from, the first use initializes."""

        class Kept:
            async def store(self, event):
                self.kept = [*self.kept, event]
                return True

        class Mixed(Kept, ListMemoryStore):
            async def initialize(self):
                self.kept = []

        store = Mixed()
        assert await store.store(event(1)) is True
        assert await store.store(event(2)) is True
        assert len(store.kept) == 2

    def test_all_seven_are_needed(self):
        class Unfinished(BaseMemoryStore):
            async def initialize(self): ...

        with pytest.raises(TypeError, match="abstract"):
            Unfinished()


class TestAsStore:
    async def test_built_in_ones_are_their_own(self):
        """The kernel store itself; a store handed in is the one handed in and stays open."""
        memory = InMemoryMemoryStore()
        assert as_store(memory) is memory.kernel
        kernel = open_store("memory://")
        async with EventStore(kernel) as store:
            await store.store(event(1))
        assert len(await kernel.find(EVENTS)) == 1

    async def test_a_changed_method_is_never_passed_by(self):
        class Redacted(SQLiteMemoryStore):
            async def store(self, event):
                event.data = {"redacted": True}
                return await super().store(event)

        async with Redacted({"db_path": ":memory:"}) as store:
            await as_store(store).apply([Add([to_record(event(1))])])
            assert [each.data for each in await store.retrieve()] == [{"redacted": True}]

    async def test_add_find_tally_remove(self):
        own = ListMemoryStore()
        async with as_store(own) as store:
            assert isinstance(store, Store)
            records = [to_record(event(n)) for n in range(6)]
            assert await store.apply([Add(records)]) == [6]
            found = await store.find(EVENTS)
            assert [record.id for record in found] == [f"evt_{n}" for n in range(6)]
            assert found[0].scope == Scope(agent="a", session="s")
            newest = Query(collection="events", limit=2, kinds=("user_message",))
            assert [record.id for record in await store.find(newest)] == ["evt_4", "evt_5"]
            assert [r.id for r in await store.find(Query(collection="events", ids=("evt_1",), limit=1))] == [
                "evt_1"
            ]
            assert (await store.tally(EVENTS)).by_kind == {"user_message": 6}
            # Pages, though three pairs share their moment.
            after = Query(collection="events", after=found[2].cursor, limit=2)
            assert [record.id for record in await store.find(after)] == ["evt_3", "evt_4"]
            gone = Remove(Query(collection="events", until=NOON + timedelta(seconds=1)))
            assert await store.apply([gone]) == [2]
            assert await store.find(Query(collection="messages")) == []
            assert await store.find(Query(collection="events", scope=Scope(tenant="other"))) == []
        assert own.calls[0] == "initialize"
        assert own.calls[-1] == "close"

    async def test_users_of_a_store_that_knows_none(self):
        """It is handed events with their user, and what it gives back is asked by it; it clears nobody's by mistake."""
        async with as_store(ListMemoryStore()) as store:
            events = [event(n, user_id="lin" if n % 2 else "") for n in range(6)]
            await store.apply([Add([to_record(each) for each in events])])
            mine = Query(collection="events", scope=Scope(user="lin"), limit=2)
            assert [record.id for record in await store.find(mine)] == ["evt_3", "evt_5"]
            assert (await store.tally(Query(collection="events", scope=Scope(user="")))).total == 3
            for whose in ("lin", ""):
                with pytest.raises(StoreError, match="only store events and clear"):
                    await store.apply([Remove(Query(collection="events", scope=Scope(user=whose)))])

    async def test_what_it_cannot_do_is_said(self):
        store = as_store(ListMemoryStore())
        with pytest.raises(StoreError, match="only store events and clear"):
            await store.apply([Change(query=EVENTS, text="x")])
        with pytest.raises(StoreError, match="only store events and clear"):
            await store.apply([Remove(Query(collection="events", ids=("evt_1",)))])

    @pytest.mark.parametrize("failing", [False, RuntimeError("boom"), StoreUnavailable("down")])
    async def test_not_kept_is_unavailable(self, failing):
        """False or any exception, so that the Journal queues the event; retried, nothing is kept twice."""
        own = ListMemoryStore()
        store = as_store(own)
        assert await store.apply([Add([to_record(event(0))])]) == [1]
        kept_one = own.store

        async def second_fails(each):
            if each.event_id == "evt_2":
                own.failing = failing
            return await kept_one(each)

        own.store = second_fails
        batch = Add([to_record(event(n)) for n in (1, 2, 3)])
        with pytest.raises(StoreUnavailable):
            await store.apply([batch])
        own.store, own.failing = kept_one, None
        assert await store.apply([batch]) == [3]
        assert [each.event_id for each in own.events] == ["evt_0", "evt_1", "evt_2", "evt_3"]

    async def test_no_answer_is_a_yes(self):
        """Methods that return nothing, as in the document's own example, have done their work."""

        class Silent(ListMemoryStore):
            async def store(self, event):
                self.events.append(event)

            async def retrieve(self, **kwargs):
                return None

            async def clear(self, **kwargs):
                self.events.clear()

        store = as_store(Silent())
        assert await store.apply([Add([to_record(event(1))]), Remove(EVENTS)]) == [1, 0]
        assert await store.find(EVENTS) == []
