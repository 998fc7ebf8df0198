"""The documented configs: their keys, their defaults, and what is said of a mistake."""

import asyncio
from pathlib import Path

import pytest

from octavo import (
    ConfigError,
    EventStore,
    FileMemoryStore,
    InMemoryMemoryStore,
    MySQLMemoryStore,
    PostgreSQLMemoryStore,
    RedisMemoryStore,
    SQLiteMemoryStore,
    StoreUnavailable,
)
from octavo.events import AgentEvent
from octavo.events.store import FileKeys, MySQLKeys, PostgreSQLKeys, RedisKeys, SQLiteKeys

NAMED = (InMemoryMemoryStore, FileMemoryStore, SQLiteMemoryStore, MySQLMemoryStore, PostgreSQLMemoryStore, RedisMemoryStore)  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "url"),
    [
        (SQLiteKeys(), "sqlite:///agent_memory.db"),
        (SQLiteKeys(db_path=":memory:"), "sqlite:///:memory:"),
        (SQLiteKeys(db_path="/tmp/a b?#%.db"), "sqlite:////tmp/a%20b%3F%23%25.db"),
        (FileKeys(), "file://agent_memory?format=jsonl&per_session=true&rotate_bytes=10485760"),
        (FileKeys(base_path="./m", format="json", file_per_session=False, rotate_size=5), "file://./m?format=json&per_session=false&rotate_bytes=5"),
        (MySQLKeys(), "mysql://root@localhost:3306/agent_memory"),
        (PostgreSQLKeys(), "postgresql://postgres@localhost:5432/agent_memory"),
        (PostgreSQLKeys(user="a@b", password="p:/?#@ü", host="::1", database="d b"), "postgresql://a%40b:p%3A%2F%3F%23%40%C3%BC@[::1]:5432/d%20b"),
        (RedisKeys(), "redis://localhost:6379/0?prefix=octavo"),
        (RedisKeys(password="x", db=3, prefix="p", ttl=60), "redis://:x@localhost:6379/3?prefix=p&ttl=60"),
    ],
)  # fmt: skip
def test_a_config_is_a_url(keys, url):
    assert keys.url() == url


@pytest.mark.parametrize("store", NAMED)
def test_unknown_keys_are_refused(store):
    """By name, with the ones there are; so is a value of the wrong type, which is not shown."""
    with pytest.raises(ConfigError, match=rf"'hots' in the config of {store.__name__}; known: .*retention"):
        store(config={"hots": "localhost"})
    with pytest.raises(ConfigError):
        store(config={"retention": "soon"})


@pytest.mark.parametrize(
    ("store", "config", "said"),
    [
        (FileMemoryStore, {"format": "xml"}, "format"),
        (FileMemoryStore, {"rotate_size": "10MB"}, "rotate_size"),
        (FileMemoryStore, {"rotate_size": 0}, "rotate_bytes must be 1 or more"),
        (FileMemoryStore, {"file_per_session": "yes"}, "file_per_session"),
        (FileMemoryStore, {"base_path": ""}, "names no directory"),
        (SQLiteMemoryStore, {"db_path": 5}, "db_path"),
        (MySQLMemoryStore, {"port": "secret-in-the-wrong-place"}, "port"),
        (RedisMemoryStore, {"ttl": 0}, "ttl"),
        (
            SQLiteMemoryStore,
            "sqlite:///secret.db",
            "is a dict of db_path, wal_mode, retention; EventStore takes a URL",
        ),
    ],
)
def test_bad_values(store, config, said):
    with pytest.raises(ConfigError, match=said) as caught:
        store(config=config)
    assert "secret" not in str(caught.value)


async def test_defaults_as_documented(tmp_path, monkeypatch):
    """In the working directory, under the documented names."""
    monkeypatch.chdir(tmp_path)
    for store in (FileMemoryStore(), SQLiteMemoryStore(), SQLiteMemoryStore(config={})):
        async with store:
            assert await store.store(AgentEvent(session_id="abc123"))
    assert (tmp_path / "agent_memory" / "session_abc123.jsonl").is_file()
    assert (tmp_path / "agent_memory.db").is_file()


async def test_odd_paths(tmp_path):
    """Whatever a folder may be called; a Path is a path."""
    odd = tmp_path / "a b?#%25 ü 计"
    odd.mkdir()
    async with SQLiteMemoryStore({"db_path": str(odd / "m?#%.db")}) as store:
        await store.store(AgentEvent())
    async with FileMemoryStore({"base_path": odd / "f?#%"}) as store:
        await store.store(AgentEvent(session_id="s"))
    assert (odd / "m?#%.db").is_file()
    assert (odd / "f?#%" / "session_s.jsonl").is_file()


async def test_the_config_stays_the_callers(tmp_path):
    config = {"db_path": str(tmp_path / "m.db")}
    store = SQLiteMemoryStore(config)
    assert store.config == config
    store.config["x"] = 1
    assert config == {"db_path": str(tmp_path / "m.db")}
    await store.close()


async def test_wal_is_on(tmp_path):
    import apsw

    async with SQLiteMemoryStore({"db_path": str(tmp_path / "m.db"), "wal_mode": True}) as store:
        await store.store(AgentEvent())
        with apsw.Connection(str(tmp_path / "m.db")) as other:
            assert other.pragma("journal_mode") == "wal"


@pytest.mark.parametrize("store", [MySQLMemoryStore, PostgreSQLMemoryStore, RedisMemoryStore])
async def test_a_server_that_is_not_there(store, unused_tcp_port, caplog):
    """`store` answers False and says why without the password; everything else raises."""
    down = store(config={"host": "127.0.0.1", "port": unused_tcp_port, "password": "hush-hush"})
    assert await down.store(AgentEvent()) is False
    assert down.failures == 1
    for use in (down.initialize, down.retrieve, down.get_stats, down.clear):
        with pytest.raises(StoreUnavailable) as caught:
            await use()
        assert "hush-hush" not in str(caught.value)
    assert "hush-hush" not in caplog.text
    await down.close()


def test_one_store_in_several_loops():
    """A program that calls asyncio.run twice meets the same events."""
    store = InMemoryMemoryStore()
    assert asyncio.run(store.store(AgentEvent("evt_1"))) is True
    assert [event.event_id for event in asyncio.run(store.retrieve())] == ["evt_1"]


def test_no_folder_before_first_use(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for store in NAMED:
        store()
    EventStore()
    assert list(Path().iterdir()) == []
