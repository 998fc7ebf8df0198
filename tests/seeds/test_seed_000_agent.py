"""Seed 000, the agent: each code block of the document runs as it stands, with only the import changed, on every store.

What a block takes for granted (`adapter`, `agent`, a running server) is made around it; the lines between the marks are
the document's own.
"""

# ruff: noqa: DTZ005, Q000, UP006, UP035 - the document's own lines stay as they are

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Dict, List
from urllib.parse import urlsplit

import pytest

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
    RedisMemoryStore,
    SQLiteMemoryStore,
)

SERVERS = {"mysql": MySQLMemoryStore, "postgres": PostgreSQLMemoryStore, "redis": RedisMemoryStore}
KINDS = ("memory", "jsonl", "json", "one file", "sqlite", *SERVERS)
adapter = MockAdapter(config=ModelConfig(model_name="gpt-3.5-turbo"))


@pytest.fixture(autouse=True)
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


async def test_custom_events(agent):
    # fmt: off
    # --- 自定义事件
    await agent._record_event(
        EventType.CUSTOM,
        {"action": "user_login", "user_id": "123"},
        metadata={"source": "web"}
    )
    # ---
    # fmt: on
    [event] = await agent.get_memory(event_type=EventType.CUSTOM)
    assert (event.data, event.metadata) == ({"action": "user_login", "user_id": "123"}, {"source": "web"})
    assert event.session_id == agent.context.session_id


async def test_in_memory_store():
    # fmt: off
    # --- InMemoryMemoryStore
    agent = Agent.create(
        name="agent",
        model_adapter=adapter,
        memory_store=InMemoryMemoryStore()
    )
    # ---
    # fmt: on
    await works(agent)


async def test_file_store(tmp_path):
    # fmt: off
    # --- FileMemoryStore
    agent = Agent.create(
        name="agent",
        model_adapter=adapter,
        memory_store=FileMemoryStore(config={
            "base_path": "./agent_memory",    # 日志目录
            "format": "jsonl",                 # "jsonl" 或 "json"
            "file_per_session": True,         # 每会话一个文件
            "rotate_size": 10 * 1024 * 1024    # 文件轮转大小（字节）
        })
    )
    # ---
    # fmt: on
    await works(agent)
    assert (tmp_path / "agent_memory" / f"session_{agent.context.session_id}.jsonl").exists()


async def test_sqlite_store(tmp_path):
    # fmt: off
    # --- SQLiteMemoryStore
    agent = Agent.create(
        name="agent",
        model_adapter=adapter,
        memory_store=SQLiteMemoryStore(config={
            "db_path": "agent_memory.db"  # 或 ":memory:" 用于内存数据库
        })
    )
    # ---
    # fmt: on
    await works(agent)
    assert (tmp_path / "agent_memory.db").exists()
    await works(
        Agent.create(
            name="agent",
            model_adapter=adapter,
            memory_store=SQLiteMemoryStore(config={"db_path": ":memory:"}),
        )
    )


async def test_mysql_store(server_config):
    """The block's keys with the values of the tests' own server."""
    there = server_config("mysql")
    # fmt: off
    # --- MySQLMemoryStore
    agent = Agent.create(
        name="agent",
        model_adapter=adapter,
        memory_store=MySQLMemoryStore(config={
            "host": there["host"],
            "port": there["port"],
            "user": there["user"],
            "password": there["password"],
            "database": there["database"]
        })
    )
    # ---
    # fmt: on
    await works(agent)


async def test_postgresql_store(server_config):
    """The block's keys with the values of the tests' own server."""
    there = server_config("postgres")
    # fmt: off
    # --- PostgreSQLMemoryStore
    agent = Agent.create(
        name="agent",
        model_adapter=adapter,
        memory_store=PostgreSQLMemoryStore(config={
            "host": there["host"],
            "port": there["port"],
            "user": there["user"],
            "password": there["password"],
            "database": there["database"]
        })
    )
    # ---
    # fmt: on
    await works(agent)


async def test_basic_use(tmp_path):
    # fmt: off
    # --- 基本使用
    # 创建带记忆的agent
    agent = Agent.create(
        name="assistant",
        model_adapter=MockAdapter(config=ModelConfig(model_name="gpt-3.5-turbo")),
        memory_store=SQLiteMemoryStore()
    )

    # 初始化（会记录AGENT_INIT事件）
    await agent.initialize()

    # 运行（自动记录所有事件）
    await agent.run("Hello!")
    # ---
    # fmt: on
    assert await types(agent) == [EventType.AGENT_INIT, EventType.USER_MESSAGE, EventType.MODEL_RESPONSE]
    await agent.aclose()
    await agent.memory_store.close()
    assert [found.name for found in tmp_path.iterdir() if found.is_dir()] == []  # no queue was needed


async def test_queries(agent):
    agent.reset_context("session-123")
    await agent.run("another session")
    # fmt: off
    # --- 查询记忆
    # 获取所有事件
    events = await agent.get_memory(limit=100)

    # 过滤特定类型
    tool_events = await agent.get_memory(event_type=EventType.TOOL_CALL_SUCCESS)

    # 过滤特定会话
    session_events = await agent.get_memory(session_id="session-123")

    # 时间范围查询

    recent_events = await agent.memory_store.retrieve(
        start_time=datetime.now() - timedelta(hours=1),
        limit=50
    )
    # ---
    # fmt: on
    assert len(events) == 7
    assert [event.data["result"] for event in tool_events] == ["4"]
    assert [event.event_type for event in session_events] == [
        EventType.USER_MESSAGE,
        EventType.MODEL_RESPONSE,
    ]
    assert recent_events == events
    assert await agent.memory_store.retrieve(start_time=datetime.now() + timedelta(hours=1)) == []


async def test_search(agent, capsys):
    # fmt: off
    # --- 搜索记忆
    # 搜索包含特定内容的事件
    results = await agent.search_memory("calculator", limit=10)

    for event in results:
        print(f"{event.event_type}: {event.data}")
    # ---
    # fmt: on
    assert {event.event_type for event in results} >= {
        EventType.USER_MESSAGE,
        EventType.TOOL_CALL_START,
        EventType.TOOL_CALL_SUCCESS,
    }
    assert "tool_call_success: {'tool_name': 'calculator', 'result': '4'}" in capsys.readouterr().out


async def test_statistics(agent, capsys):
    # fmt: off
    # --- 统计分析
    # 获取统计信息
    stats = await agent.get_memory_stats()

    print(f"总事件数: {stats['total_events']}")
    print(f"按类型分布: {stats['by_type']}")
    print(f"首个事件: {stats.get('first_event')}")
    print(f"最后事件: {stats.get('last_event')}")
    # ---
    # fmt: on
    printed = capsys.readouterr().out
    assert "总事件数: 5\n" in printed
    assert "'tool_call_success': 1" in printed
    assert "None" not in printed


async def test_clearing(agent):
    before = agent.context.session_id
    agent.reset_context()
    await agent.run("a second session")
    # fmt: off
    # --- 清空记忆
    # 清空当前会话
    await agent.clear_memory(session_id=agent.context.session_id)
    # ---
    # fmt: on
    assert {event.session_id for event in await agent.get_memory()} == {before}
    # fmt: off
    # --- 清空所有会话
    await agent.clear_memory()
    # ---
    # fmt: on
    assert await agent.get_memory() == []


async def test_the_data_of_each_event(agent):
    """各事件的data字段: the fields of the tables and no others, with values of the same types."""

    async def data(event_type):
        return (await agent.get_memory(event_type=event_type))[0].data

    assert await data(EventType.USER_MESSAGE) == {
        "message": "What is 2+2? Use the calculator.",
        "message_length": 32,
    }
    assert await data(EventType.MODEL_RESPONSE) == {
        "response": "It is 4.",
        "tool_calls_count": 1,
        "iterations": 2,
        "success": True,
    }
    assert await data(EventType.TOOL_CALL_START) == {
        "tool_name": "calculator",
        "arguments": {"expression": "2+2"},
    }
    assert await data(EventType.TOOL_CALL_SUCCESS) == {"tool_name": "calculator", "result": "4"}
    agent.model_adapter.script.append(MockAdapter.call("calculator", expression="int('x')"))
    await agent.run("again")
    error = await data(EventType.TOOL_CALL_ERROR)
    assert {*error} == {"tool_name", "error", "error_type"}
    assert error["error_type"] == "ValueError"


async def test_all_nine_are_recorded(agent):
    """自动记录的事件: every type of the table happens, in the order of a life."""

    class Polite:
        def pre(self, message):
            return message

        def post(self, response):
            if "rude" in response:
                raise ValueError("rude")
            return response

    made = Agent.create(
        name="polite",
        model_adapter=MockAdapter(
            script=[
                [
                    MockAdapter.call("calculator", expression="1"),
                    MockAdapter.call("calculator", expression="?"),
                ],
                "one",
                "rude",
            ]
        ),
        tools=[calculator],
        middlewares=[Polite()],
        memory_store=agent.memory_store,
    )
    await made.initialize()
    await made.run("first")
    await made.run("second")
    assert [str(event) for event in await types(made)] == [
        "agent_init", "user_message", "middleware_pre", "tool_call_start", "tool_call_success", "tool_call_start",
        "tool_call_error", "model_response", "middleware_post", "user_message", "middleware_pre", "model_response",
        "agent_error",
    ]  # fmt: skip
    await made.aclose()


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
    """Even as it stands, with methods that do nothing, it does not break an agent."""

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
