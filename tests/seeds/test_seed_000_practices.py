"""Seed 000, best practices and extending: each code block of the document runs as it stands, on every store.

What a block takes for granted is made around it; the lines between the marks are the document's own.
"""

# ruff: noqa: DTZ005, Q000, UP006, UP035 - the document's own lines stay as they are

import asyncio
from datetime import datetime, timedelta
from typing import Dict, List

import pytest
from seed_000 import adapter

from octavo import (
    Agent,
    AgentEvent,
    BaseMemoryStore,
    EventType,
    InMemoryMemoryStore,
    migrate,
)

pytestmark = pytest.mark.usefixtures("elsewhere")


async def test_without_memory():
    # fmt: off
    # --- 禁用记忆存储
    agent = Agent.create(
        name="agent",
        model_adapter=adapter,
        enable_memory=False  # 禁用记忆
    )
    # ---
    # fmt: on
    assert (await agent.run("Hello!"))["success"] is True
    assert await agent.get_memory() == []


async def test_cleaning_regularly(agent):
    """The block's loop, with an hour that passes at once."""
    old = AgentEvent(
        agent_name="assistant",
        session_id="old",
        timestamp=datetime.now() - timedelta(days=8),
        data={"old": True},
    )
    assert await agent.memory_store.store(old) is True
    hours = []

    class asyncio:  # noqa: N801 - the block sleeps by this name
        @staticmethod
        async def sleep(seconds):
            hours.append(seconds)
            if len(hours) > 1:
                raise TimeoutError

    # fmt: off
    # --- 2. 定期清理
    async def cleanup_old_memory():
        while True:
            await asyncio.sleep(3600)  # 每小时
            # 清理7天前的数据
            cutoff = datetime.now() - timedelta(days=7)
            await agent.memory_store.clear(end_time=cutoff)
    # ---
    # fmt: on
    assert "old" in {event.session_id for event in await agent.get_memory()}
    with pytest.raises(TimeoutError):
        await cleanup_old_memory()
    assert hours == [3600, 3600]
    assert len(await agent.get_memory()) == 5
    assert "old" not in {event.session_id for event in await agent.get_memory()}


async def test_a_session_for_each_user(agent):
    # fmt: off
    # --- 3. 使用会话隔离
    # 每个用户一个会话
    user_sessions = {}

    async def handle_user(user_id: str, message: str):
        if user_id not in user_sessions:
            # 创建新会话
            agent.reset_context()
            user_sessions[user_id] = agent.context.session_id

        await agent.run(message)
    # ---
    # fmt: on
    await handle_user("alice", "I am Alice")
    await handle_user("bob", "I am Bob")
    for user, message in (("alice", "I am Alice"), ("bob", "I am Bob")):
        events = await agent.get_memory(event_type=EventType.USER_MESSAGE, session_id=user_sessions[user])
        assert [event.data["message"] for event in events] == [message]
    # The block runs every later message in the newest session; naming the session is what it means.
    await agent.run("Alice again", session_id=user_sessions["alice"])
    events = await agent.get_memory(event_type=EventType.USER_MESSAGE, session_id=user_sessions["alice"])
    assert [event.data["message"] for event in events] == ["I am Alice", "Alice again"]


async def test_monitoring(agent, capsys):
    # fmt: off
    # --- 4. 监控和分析
    # 定期获取统计
    async def monitor_agent():
        stats = await agent.get_memory_stats()

        # 检查错误率
        total = stats['total_events']
        errors = stats['by_type'].get('AGENT_ERROR', 0)

        if errors / total > 0.1:  # 10%错误率
            print(f"警告: 高错误率 {errors/total*100:.1f}%")
    # ---
    # fmt: on
    await monitor_agent()
    assert capsys.readouterr().out == ""
    agent.model_adapter.script.append(RuntimeError("down"))
    await agent.run("Hello?")
    await monitor_agent()
    assert capsys.readouterr().out == "警告: 高错误率 14.3%\n"


async def test_recording_in_batches_and_in_the_background(agent):
    # fmt: off
    # --- 5. 性能优化
    # 使用批量操作
    async def batch_record_events(events: List[AgentEvent]):
        # 对于某些后端，可以批量插入
        for event in events:
            await agent.memory_store.store(event)

    # 异步记录（不阻塞主流程）
    async def record_event_async(event: AgentEvent):
        asyncio.create_task(agent.memory_store.store(event))  # noqa: RUF006
    # ---
    # --- 问题3: 性能问题
    # 异步记录不阻塞主流程
    async def record_non_blocking(event):
        await asyncio.create_task(agent.memory_store.store(event))
    # ---
    # fmt: on
    made = [AgentEvent(agent_name="assistant", session_id="batch", data={"n": n}) for n in range(5)]
    await batch_record_events(made[:3])
    await record_event_async(made[3])
    await record_non_blocking(made[4])
    async with asyncio.timeout(60):
        while len(await agent.get_memory(session_id="batch")) < 5:
            await asyncio.sleep(0)
    assert sorted(e.data["n"] for e in await agent.get_memory(session_id="batch")) == list(range(5))


async def test_using_less_memory(agent):
    old_session = agent.context.session_id
    agent.reset_context()
    await agent.run("newer")
    # fmt: off
    # --- 问题2: 内存占用过大
    # 限制事件数量
    events = await agent.get_memory(limit=1000)

    # 定期清理
    await agent.clear_memory(session_id=old_session)
    # ---
    # fmt: on
    assert len(events) == 7
    assert {event.session_id for event in await agent.get_memory()} == {agent.context.session_id}


async def test_a_store_of_ones_own(tmp_path):
    """The block's class, filled in as its comments say, under an agent."""
    kept: list[AgentEvent] = []

    # fmt: off
    # --- 实现自定义存储后端
    class CustomMemoryStore(BaseMemoryStore):
        async def initialize(self):
            # 初始化你的存储
            pass

        async def store(self, event: AgentEvent) -> bool:
            # 存储事件
            kept.append(event)
            return True

        async def retrieve(self, **kwargs) -> List[AgentEvent]:
            # 检索事件
            wanted = kwargs.get("event_type")
            return [event for event in kept if wanted in (None, event.event_type)]

        async def clear(self, **kwargs):
            # 清空事件
            kept.clear()

        async def get_stats(self, **kwargs) -> Dict:
            # 获取统计
            return {"total_events": len(kept), "by_type": {}}

        async def search(self, query: str, **kwargs) -> List[AgentEvent]:
            # 搜索事件
            return [event for event in kept if query in event.to_json()]

        async def close(self):
            # 清理资源
            pass
    # ---
    # fmt: on
    agent = Agent.create(name="agent", model_adapter=adapter, memory_store=CustomMemoryStore())
    await agent.initialize()
    await agent.run("Hello!")
    assert [event.event_type.name for event in kept] == ["AGENT_INIT", "USER_MESSAGE", "MODEL_RESPONSE"]
    assert await agent.get_memory(event_type=EventType.USER_MESSAGE) == [kept[1]]
    assert (await agent.search_memory("Hello!"))[0].event_type == EventType.USER_MESSAGE
    assert (await agent.get_memory_stats())["total_events"] == 3
    await agent.clear_memory()
    assert kept == []
    await agent.aclose()
    assert list(tmp_path.iterdir()) == []


async def test_the_bare_class_of_the_document():
    """Even as it stands, with methods that do nothing, it does no harm: to an agent, or as an end of a migration."""

    class CustomMemoryStore(BaseMemoryStore):
        async def initialize(self):
            pass

        async def store(self, event: AgentEvent) -> bool:
            pass

        async def retrieve(self, **kwargs) -> List[AgentEvent]:
            pass

        async def clear(self, **kwargs):
            pass

        async def get_stats(self, **kwargs) -> Dict:
            pass

        async def search(self, query: str, **kwargs) -> List[AgentEvent]:
            pass

        async def close(self):
            pass

    agent = Agent.create(name="agent", model_adapter=adapter, memory_store=CustomMemoryStore())
    await agent.initialize()
    assert (await agent.run("Hello!"))["success"] is True
    assert (await agent.run("Hello!", session_id="named"))["success"] is True
    assert not await agent.get_memory()
    await agent.aclose()
    assert (await migrate(CustomMemoryStore(), InMemoryMemoryStore())).read == 0
    async with InMemoryMemoryStore() as source:
        await source.store(AgentEvent())
        assert (await migrate(source, CustomMemoryStore())).read == 1
