"""Users who come from LightAgent: its own Agent on our stores, naive times, what a store was made with."""

import importlib
import inspect
import sys
import types
from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from octavo import AgentEvent, ConfigError, EventType, FileMemoryStore, InvalidRecord, SQLiteMemoryStore


class TheirType(str, Enum):  # noqa: UP042 - what LightAgent has
    USER_MESSAGE = "user_message"
    AGENT_INIT = "agent_init"
    AGENT_ERROR = "agent_error"


class TheirEvent(BaseModel):
    """An event as LightAgent documents it: a pydantic model with a naive time."""

    event_id: str = Field(default_factory=lambda: f"evt_{datetime.now().timestamp()}")  # noqa: DTZ005
    agent_name: str
    session_id: str
    event_type: TheirType
    timestamp: datetime = Field(default_factory=datetime.now)
    data: dict = Field(default_factory=dict)
    metadata: dict = Field(default_factory=dict)


class TheirStore(ABC):
    """The class that LightAgent's Agent asks of a store, with all that it calls or shows."""

    @abstractmethod
    async def initialize(self): ...

    @abstractmethod
    async def store(self, event): ...

    @abstractmethod
    async def retrieve(
        self, agent_name=None, session_id=None, event_type=None, limit=100, start_time=None, end_time=None
    ): ...

    @abstractmethod
    async def clear(self, agent_name=None, session_id=None): ...

    @abstractmethod
    async def get_stats(self, agent_name=None, session_id=None): ...

    @abstractmethod
    async def search(self, query, agent_name=None, session_id=None, limit=10): ...

    @abstractmethod
    async def close(self): ...


class TheirAgent(BaseModel):
    """As much of an Agent as has to do with memory: pydantic looks whether a store is one."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    name: str
    memory_store: TheirStore | None = None

    async def initialize(self):
        await self.memory_store.initialize()
        await self.record(TheirType.AGENT_INIT, message="Agent initialized")

    async def record(self, event_type, **data):
        event = TheirEvent(agent_name=self.name, session_id="s", event_type=event_type, data=data)
        return await self.memory_store.store(event)


@pytest.fixture
def lightagent(monkeypatch):
    """A package that stands in for LightAgent: it has no release, and what the registry has under that name is another one."""
    made = types.ModuleType("lightagent")
    made.BaseMemoryStore = TheirStore
    monkeypatch.setitem(sys.modules, "lightagent", made)
    monkeypatch.delitem(sys.modules, "octavo.integrations.lightagent", raising=False)
    yield importlib.import_module("octavo.integrations.lightagent")
    sys.modules.pop("octavo.integrations.lightagent", None)


async def test_its_own_agent_takes_our_stores(store, lightagent):
    """It keeps its events with their times, finds them by its own types, and gets them back with the same fields."""
    assert lightagent.SQLiteMemoryStore is SQLiteMemoryStore
    agent = TheirAgent(name="assistant", memory_store=store)
    before = datetime.now()  # noqa: DTZ005
    await agent.initialize()
    assert await agent.record(TheirType.USER_MESSAGE, message="你好")
    assert await agent.record(TheirType.AGENT_ERROR, error="timeout")
    [found] = await store.retrieve(agent_name="assistant", event_type=TheirType.USER_MESSAGE)
    assert (found.event_type, found.data) == (EventType.USER_MESSAGE, {"message": "你好"})
    assert found.event_type == TheirType.USER_MESSAGE
    assert before <= found.timestamp <= datetime.now()  # noqa: DTZ005
    stats = await store.get_stats(agent_name="assistant")
    assert stats["by_type"].get(TheirType.AGENT_ERROR) == 1
    assert [event.data for event in await store.search("timeout", agent_name="assistant")] == [
        {"error": "timeout"}
    ]
    events = [
        TheirEvent(agent_name="assistant", session_id="s", event_type="user_message", event_id=f"e{n}")
        for n in "ab"
    ]
    assert await store.store_many(events) == 2


def test_a_store_takes_what_the_agent_gives():
    """Each method of LightAgent's class is there, and its arguments in the same order."""
    for name, theirs in inspect.getmembers(TheirStore, inspect.isfunction):
        wanted = [*inspect.signature(theirs).parameters]
        assert [*inspect.signature(getattr(SQLiteMemoryStore, name)).parameters][: len(wanted)] == wanted, (
            name
        )


def test_another_store_is_refused(lightagent):
    """What is registered is Octavo's store, and nothing else."""
    with pytest.raises(ValidationError):
        TheirAgent(name="assistant", memory_store=object())


def test_without_lightagent(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightagent", None)
    with pytest.raises(ConfigError, match="needs the LightAgent"):
        importlib.import_module("octavo.integrations.lightagent")


async def test_an_event_with_a_field_too_many(named):
    """It is not kept without it: False, with the reason; and so is what is no event."""

    class More(TheirEvent):
        colour: str = "red"

    async with named("memory") as store:
        assert not await store.store(More(agent_name="a", session_id="s", event_type="user_message"))
        assert "no 'colour'" in store.last_error
        with pytest.raises(InvalidRecord, match="is an AgentEvent"):
            await store.store_many(["hello"])


async def test_times_are_compared_with_naive_ones(store, monkeypatch):
    """Which are local time, on either side; differences too. What is read back equals what was stored."""
    now = datetime.now()  # noqa: DTZ005
    made = AgentEvent("e", timestamp=now - timedelta(minutes=30))
    await store.store(made)
    [event] = await store.retrieve()
    assert event == made
    for each in (made, event):
        assert now - timedelta(hours=1) < each.timestamp < now
        assert each.timestamp > now - timedelta(hours=1)
        assert each.timestamp <= now
        assert each.timestamp >= now - timedelta(minutes=30)
        assert now - each.timestamp == timedelta(minutes=30)
        assert each.timestamp - now == timedelta(minutes=-30)
        assert each.timestamp < datetime.now(UTC)
        assert each.timestamp + timedelta(hours=1) > now
        assert each.timestamp.tzinfo is UTC
        assert each.timestamp != now - timedelta(minutes=30)  # Python's rule, and what hashes rest on
    assert max([event.timestamp, made.timestamp]) == event.timestamp


def test_what_a_store_was_made_with(tmp_path):
    """Is read from it, as from LightAgent's."""
    store = FileMemoryStore({"base_path": str(tmp_path / "m"), "format": "json", "file_per_session": False})
    assert (store.base_path, store.format, store.file_per_session) == (tmp_path / "m", "json", False)
    assert store.rotate_size == 10 * 1024 * 1024
    assert FileMemoryStore().base_path == Path("agent_memory")
    assert SQLiteMemoryStore({"db_path": "x.db"}).db_path == "x.db"
