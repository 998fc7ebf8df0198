"""Every code block of seed 000 that is about stores, run as it stands with only the import changed.

Where a block names a server, the address is that of the test's own. What comes before and after a block is marked.
"""

import asyncio
import json
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Dict, List  # noqa: UP035 - as the document's own signatures have them
from urllib.parse import unquote, urlsplit

import pytest

# --- the imports of the document, with only the package changed
from octavo import (
    Agent,
    AgentEvent,
    BaseMemoryStore,
    EventType,
    FileMemoryStore,
    InMemoryMemoryStore,
    MockAdapter,
    ModelConfig,
    MySQLMemoryStore,
    PostgreSQLMemoryStore,
    SQLiteMemoryStore,
    migrate,
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def adapter():
    return MockAdapter(config=ModelConfig(model_name="gpt-3.5-turbo"))


def address(url: str) -> dict:
    parts = urlsplit(url)
    return {
        "host": parts.hostname,
        "port": parts.port,
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "database": parts.path.strip("/"),
    }


async def lives(agent) -> list[AgentEvent]:
    """What the agent recorded of one message; both it and its store are closed afterwards."""
    await agent.initialize()
    assert (await agent.run("Hello!"))["success"] is True
    events = await agent.get_memory(limit=100)
    assert [event.event_type for event in events] == ["agent_init", "user_message", "model_response"]
    await agent.aclose()
    await agent.memory_store.close()
    return events


async def test_in_memory(adapter):
    agent = Agent.create(
        name="agent",
        model_adapter=adapter,
        memory_store=InMemoryMemoryStore()
    )  # fmt: skip
    await lives(agent)


async def test_file(adapter):
    agent = Agent.create(
        name="agent",
        model_adapter=adapter,
        memory_store=FileMemoryStore(config={
            "base_path": "./agent_memory",    # 日志目录
            "format": "jsonl",                 # "jsonl" 或 "json"
            "file_per_session": True,         # 每会话一个文件
            "rotate_size": 10 * 1024 * 1024    # 文件轮转大小（字节）
        })
    )  # fmt: skip
    events = await lives(agent)
    # The documented organisation and format of the files.
    lines = Path(f"agent_memory/session_{events[0].session_id}.jsonl").read_text().splitlines()
    assert lines[1].startswith(f'{{"event_id":"{events[1].event_id}","agent_name":"agent",')
    assert [json.loads(line)["event_type"] for line in lines] == [
        "agent_init",
        "user_message",
        "model_response",
    ]


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


async def test_sqlite(adapter):
    agent = Agent.create(
        name="agent",
        model_adapter=adapter,
        memory_store=SQLiteMemoryStore(config={
            "db_path": "agent_memory.db"  # 或 ":memory:" 用于内存数据库
        })
    )  # fmt: skip
    await lives(agent)
    assert Path("agent_memory.db").is_file()
    await lives(
        Agent.create("agent", adapter, memory_store=SQLiteMemoryStore(config={"db_path": ":memory:"}))
    )
    assert not Path(":memory:").exists()


async def test_mysql(adapter, fresh_mysql):
    agent = Agent.create(
        name="agent",
        model_adapter=adapter,
        memory_store=MySQLMemoryStore(config=address(fresh_mysql))
    )  # fmt: skip
    await lives(agent)


async def test_postgresql(adapter, fresh_postgres):
    agent = Agent.create(
        name="agent",
        model_adapter=adapter,
        memory_store=PostgreSQLMemoryStore(config=address(fresh_postgres))
    )  # fmt: skip
    await lives(agent)


async def test_time_range():
    agent = SimpleNamespace(memory_store=InMemoryMemoryStore())
    await agent.memory_store.store(AgentEvent(timestamp=datetime.now() - timedelta(hours=2)))  # noqa: DTZ005
    await agent.memory_store.store(AgentEvent("evt_now"))
    # --- the block
    recent_events = await agent.memory_store.retrieve(
        start_time=datetime.now() - timedelta(hours=1),  # noqa: DTZ005
        limit=50
    )  # fmt: skip
    # ---
    assert [event.event_id for event in recent_events] == ["evt_now"]


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


async def test_best_practice_2():
    """The document's own cleaning loop, with an hour that passes at once."""
    agent = SimpleNamespace(memory_store=InMemoryMemoryStore())
    for days in (8, 6):
        await agent.memory_store.store(
            AgentEvent(f"evt_{days}", timestamp=datetime.now() - timedelta(days=days))  # noqa: DTZ005
        )

    class asyncio:  # noqa: N801 - stands in for the module in the block
        slept = 0

        @classmethod
        async def sleep(cls, seconds):
            cls.slept += 1
            if cls.slept == 2:
                raise StopAsyncIteration

    # --- the block
    async def cleanup_old_memory():
        while True:
            await asyncio.sleep(3600)  # 每小时
            # 清理7天前的数据
            cutoff = datetime.now() - timedelta(days=7)  # noqa: DTZ005
            await agent.memory_store.clear(end_time=cutoff)

    # ---
    with pytest.raises(StopAsyncIteration):
        await cleanup_old_memory()
    assert [event.event_id for event in await agent.memory_store.retrieve()] == ["evt_6"]


async def test_best_practice_4(capsys):
    agent = SimpleNamespace(memory_store=InMemoryMemoryStore())
    kinds = [EventType.AGENT_ERROR, EventType.USER_MESSAGE, EventType.USER_MESSAGE]
    await agent.memory_store.store_many([AgentEvent(event_type=kind) for kind in kinds])
    agent.get_memory_stats = agent.memory_store.get_stats

    # --- the block
    async def monitor_agent():
        stats = await agent.get_memory_stats()

        # 检查错误率
        total = stats["total_events"]
        errors = stats["by_type"].get("AGENT_ERROR", 0)

        if errors / total > 0.1:  # 10%错误率
            print(f"警告: 高错误率 {errors/total*100:.1f}%")  # fmt: skip

    # ---
    await monitor_agent()
    assert capsys.readouterr().out == "警告: 高错误率 33.3%\n"


async def test_best_practice_5():
    agent = SimpleNamespace(memory_store=SQLiteMemoryStore())

    # --- the block
    async def batch_record_events(events: List[AgentEvent]):  # noqa: UP006
        # 对于某些后端，可以批量插入
        for event in events:
            await agent.memory_store.store(event)

    # 异步记录（不阻塞主流程）
    async def record_event_async(event: AgentEvent):
        asyncio.create_task(agent.memory_store.store(event))  # noqa: RUF006

    # ---
    await batch_record_events([AgentEvent(f"evt_{n}") for n in range(3)])
    await record_event_async(AgentEvent("evt_3"))
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
    assert [event.event_id for event in await agent.memory_store.retrieve()] == [f"evt_{n}" for n in range(4)]
    await agent.memory_store.close()


# --- the block
class CustomMemoryStore(BaseMemoryStore):
    async def initialize(self):
        # 初始化你的存储
        pass

    async def store(self, event: AgentEvent) -> bool:
        # 存储事件
        pass

    async def retrieve(self, **kwargs) -> List[AgentEvent]:  # noqa: UP006
        # 检索事件
        pass

    async def clear(self, **kwargs):
        # 清空事件
        pass

    async def get_stats(self, **kwargs) -> Dict:  # noqa: UP006
        # 获取统计
        pass

    async def search(self, query: str, **kwargs) -> List[AgentEvent]:  # noqa: UP006
        # 搜索事件
        pass

    async def close(self):
        # 清理资源
        pass


async def test_a_custom_store(adapter):
    """Even the document's own, which keeps nothing, does no harm: to an agent, or as an end of a migration."""
    agent = Agent.create(name="agent", model_adapter=adapter, memory_store=CustomMemoryStore())
    await agent.initialize()
    assert (await agent.run("Hello!"))["success"] is True
    await agent.aclose()
    assert (await migrate(CustomMemoryStore(), InMemoryMemoryStore())).read == 0
    async with InMemoryMemoryStore() as source:
        await source.store(AgentEvent())
        assert (await migrate(source, CustomMemoryStore())).read == 1


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


async def test_recording_without_waiting():
    agent = SimpleNamespace(memory_store=SQLiteMemoryStore())

    # --- the block
    # 异步记录不阻塞主流程
    async def record_non_blocking(event):
        await asyncio.create_task(agent.memory_store.store(event))

    # ---
    await record_non_blocking(AgentEvent("evt_1"))
    assert len(await agent.memory_store.retrieve()) == 1
    await agent.memory_store.close()
