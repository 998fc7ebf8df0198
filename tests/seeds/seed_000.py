"""Agents as seed 000 has them, on every store."""

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from octavo import (
    Agent,
    EventType,
    FileMemoryStore,
    InMemoryMemoryStore,
    MockAdapter,
    ModelConfig,
    MySQLMemoryStore,
    PostgreSQLMemoryStore,
    RedisMemoryStore,
    SQLiteMemoryStore,
)

SERVERS = {"mysql": MySQLMemoryStore, "postgres": PostgreSQLMemoryStore, "redis": RedisMemoryStore}
KINDS = ("memory", "jsonl", "json", "one file", "sqlite", *SERVERS)
adapter = MockAdapter(config=ModelConfig(model_name="gpt-3.5-turbo"))


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Relative paths, as the document's are, end in a folder of the test."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def server_config(fresh_url) -> Callable[[str], dict]:
    """The documented keys, with the values of a server of the tests."""

    def config(kind: str) -> dict:
        url = urlsplit(fresh_url(kind))
        database = url.path.lstrip("/")
        given = {"host": url.hostname, "port": url.port, "user": url.username, "password": url.password}
        given |= {"db": int(database)} if kind == "redis" else {"database": database}
        return {key: value for key, value in given.items() if value is not None}

    return config


@pytest.fixture(params=KINDS)
async def memory_store(request):
    kind = request.param
    if kind in SERVERS:
        store = SERVERS[kind](config=request.getfixturevalue("server_config")(kind))
    elif kind == "memory":
        store = InMemoryMemoryStore()
    elif kind == "sqlite":
        store = SQLiteMemoryStore()
    else:
        store = FileMemoryStore(
            config={"format": "json" if kind == "json" else "jsonl", "file_per_session": kind != "one file"}
        )
    yield store
    await store.close()


def calculator(expression: str) -> str:
    """Work out an expression."""
    return str(eval(expression))


@pytest.fixture
async def agent(memory_store):
    """An agent that has answered one message with the help of a tool."""
    script = [MockAdapter.call("calculator", expression="2+2"), "It is 4."]
    made = Agent.create(
        name="assistant",
        model_adapter=MockAdapter(config=ModelConfig(model_name="gpt-3.5-turbo"), script=script),
        tools=[calculator],
        memory_store=memory_store,
    )
    await made.initialize()
    await made.run("What is 2+2? Use the calculator.")
    yield made
    await made.aclose()


async def types(agent, **filters):
    return [event.event_type for event in await agent.get_memory(**filters)]


async def works(agent):
    """An agent of the document's making records what it does."""
    await agent.run("Hello!")
    assert await types(agent) == [EventType.AGENT_INIT, EventType.USER_MESSAGE, EventType.MODEL_RESPONSE]
    await agent.aclose()
    await agent.memory_store.close()
