"""The code blocks of seed 000 that need no agent, run as they stand with only the import changed; the others are in the files beside this one.

What comes before and after a block is marked.
"""

import asyncio
import json
from datetime import datetime
from pathlib import Path

import pytest

# --- the imports of the document, with only the package changed
from octavo import (
    AgentEvent,
    EventType,
    FileMemoryStore,
    InMemoryMemoryStore,
    SQLiteMemoryStore,
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("per_session", [True, False])
async def test_file_organisation(per_session):
    """The trees and the JSON array that the document shows."""
    for format_ in ("jsonl", "json"):
        config = {"base_path": f"./{format_}", "format": format_, "file_per_session": per_session}
        async with FileMemoryStore(config=config) as store:
            for session in ("abc123", "def456", "ghi789"):
                await store.store(AgentEvent(agent_name="assistant", session_id=session))
        names = sorted(path.name for path in Path(format_).iterdir() if path.is_file())
        assert names == (
            [f"session_{session}.{format_}" for session in ("abc123", "def456", "ghi789")]
            if per_session
            else [f"events.{format_}"]
        )
    loaded = json.loads(Path("json", names[0]).read_text())
    assert isinstance(loaded, list)
    assert loaded[0]["event_id"].startswith("evt_")


async def test_event_structure():
    event = AgentEvent(
        event_id="evt_1234567890.123",
        agent_name="assistant",
        session_id="uuid-string",
        event_type=EventType.USER_MESSAGE,
        timestamp=datetime(2024, 1, 1, 12, 0, 0),  # noqa: DTZ001
        data={
            "message": "Hello",
            "message_length": 5
        },
        metadata={}
    )  # fmt: skip
    store = InMemoryMemoryStore()
    assert await store.store(event) is True
    assert await store.retrieve() == [event]
    assert event.timestamp == datetime(2024, 1, 1, 12, 0, 0).astimezone()


async def test_best_practice_1():
    memory_store=InMemoryMemoryStore()  # fmt: skip
    assert await memory_store.retrieve() == []
    memory_store=SQLiteMemoryStore(config={"db_path": "memory.db"})  # fmt: skip
    assert await memory_store.retrieve() == []
    await memory_store.close()


async def test_migration():
    # --- the block
    # 1. 创建两个store
    memory_store = InMemoryMemoryStore()
    sqlite_store = SQLiteMemoryStore(config={"db_path": "memory.db"})

    # 2. 初始化
    await memory_store.initialize()
    await sqlite_store.initialize()
    # ---
    said = [AgentEvent(f"evt_{n}", data={"n": n}) for n in range(5)]
    await memory_store.store_many(said)
    # --- the block
    # 3. 迁移数据
    events = await memory_store.retrieve()
    for event in events:
        await sqlite_store.store(event)
    # ---
    assert await sqlite_store.retrieve() == said
    await sqlite_store.close()


async def test_a_locked_file():
    # --- the block
    # 使用WAL模式
    memory_store = SQLiteMemoryStore(config={
        "db_path": "memory.db",
        "wal_mode": True
    })  # fmt: skip
    # ---
    other = SQLiteMemoryStore(config={"db_path": "memory.db"})
    kept = await asyncio.gather(
        *(store.store(AgentEvent()) for _ in range(50) for store in (memory_store, other))
    )
    assert all(kept)
    assert (await memory_store.get_stats())["total_events"] == 100
    await memory_store.close()
    await other.close()
