"""Seed 000, the agent: each code block of the document runs as it stands, with only the import changed, on every store.

What a block takes for granted (`adapter`, `agent`, a running server) is made around it; the lines between the marks are
the document's own.
"""

# ruff: noqa: DTZ005 - the document's own lines stay as they are

import json
from datetime import datetime, timedelta

import pytest
from seed_000 import adapter, calculator, types, works

from octavo import (
    Agent,
    EventType,
    FileMemoryStore,
    InMemoryMemoryStore,
    MockAdapter,
    ModelConfig,
    MySQLMemoryStore,
    PostgreSQLMemoryStore,
    SQLiteMemoryStore,
)

pytestmark = pytest.mark.usefixtures("elsewhere")


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
    # The documented organisation and format of the files.
    text = (tmp_path / "agent_memory" / f"session_{agent.context.session_id}.jsonl").read_text()
    told = [json.loads(line) for line in text.splitlines()]
    assert [event["event_type"] for event in told] == ["agent_init", "user_message", "model_response"]
    assert text.startswith(f'{{"event_id":"{told[0]["event_id"]}","agent_name":"agent",')


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
    assert (tmp_path / "agent_memory.db").is_file()
    await works(
        Agent.create(
            name="agent",
            model_adapter=adapter,
            memory_store=SQLiteMemoryStore(config={"db_path": ":memory:"}),
        )
    )
    assert not (tmp_path / ":memory:").exists()


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
