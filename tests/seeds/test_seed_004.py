"""Every code block of the document on chat memory runs, with only its imports changed, and prints what is shown.

The blocks are in seed_004.md. A real Redis stands where the document has a fake one.
"""

import asyncio
import os
import re
import subprocess
import sys
import types
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from redis.asyncio import ConnectionPool

from octavo.chat import AsyncSQLAlchemyMemory, ChatMemory, InMemoryMemory, MemoryBase, Msg, RedisMemory
from warm import programs

PAGE = Path(__file__).with_name("seed_004.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^## ([\w ]+)\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
CHANGED = {
    "from agentscope.memory import": "from octavo import",
    "from agentscope.message import": "from octavo import",
    "import fakeredis": "import redis_here as fakeredis",
    "from agentscope.agent import": "from agents_here import",
    "from agentscope.pipeline import": "from agents_here import",
}
#: `fakeredis.aioredis.FakeRedis(...)`, as a client of the test's own server.
REDIS_HERE = """
import functools
import redis.asyncio

class aioredis:
    FakeRedis = functools.partial(redis.asyncio.Redis, host={host!r}, port={port}, db={db})
"""


def code(name, *, fake=False):
    """A block with its imports changed, and nothing else; of Redis there is the test's own, or a `fake` one as written."""
    block = BLOCKS[name]
    for old, new in CHANGED.items():
        if not (fake and "fakeredis" in old):
            block = block.replace(old, new)
    assert "agentscope" not in block
    return block


def plain(printed):
    """What was printed, without ids and times."""
    printed = re.sub(r"(id='|\"id\": \")\w+", r"\1…", printed)
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", "…", printed).strip()


def server(url):
    parts = urlsplit(url)
    return {"host": parts.hostname, "port": parts.port, "db": int(parts.path.strip("/") or 0)}


def run(program, folder):
    """What a program prints; anything on stderr is a failure.

    The document's programs leave their engine and their client open, so that warnings about that stay off.
    """
    done = subprocess.run(
        [f"{programs()}/python", "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path, fresh_redis):
    (tmp_path / "redis_here.py").write_text(REDIS_HERE.format(**server(fresh_redis)))
    return tmp_path


def test_no_block_is_left_out():
    assert list(BLOCKS) == [
        "imports",
        "in_memory",
        "in_memory output",
        "sqlalchemy",
        "sqlalchemy output",
        "context",
        "context output",
        "fastapi sqlalchemy",
        "redis",
        "redis output",
        "fastapi redis",
    ]


@pytest.mark.parametrize("name", ["in_memory", "sqlalchemy", "redis"])
def test_the_block_prints_what_is_shown(name, folder):
    printed = run(code("imports") + code(name), folder)
    assert plain(printed) == plain(BLOCKS[f"{name} output"])


def test_the_redis_block_runs_as_written(tmp_path):
    """With fakeredis, as the document has it."""
    printed = run(code("imports", fake=True) + code("redis", fake=True), tmp_path)
    assert plain(printed) == plain(BLOCKS["redis output"])


def test_the_second_program_finds_what_the_first_kept(folder):
    """The block with `async with` shows the messages of the block before, and one of its own."""
    run(code("imports") + code("sqlalchemy"), folder)
    printed = run(code("imports") + code("context"), folder)
    assert plain(printed) == plain(BLOCKS["context output"])


class ReActAgent:
    """Answers with what it was told, and remembers both."""

    def __init__(self, memory):
        self.memory = memory

    async def __call__(self, message):
        await self.memory.add(message)
        told = [one.content for one in await self.memory.get_memory()]
        await self.memory.add(Msg("bot", f"so far {len(told)}", "assistant"))


async def stream_printing_messages(agents, coroutine_task):
    await coroutine_task
    for agent in agents:
        for message in await agent.memory.get_memory():
            yield message, True


@pytest.fixture
def agents_here(monkeypatch):
    """A small agent in place of the document's, whose other settings are left out there."""
    module = types.ModuleType("agents_here")
    module.ReActAgent, module.stream_printing_messages = ReActAgent, stream_printing_messages
    monkeypatch.setitem(sys.modules, "agents_here", module)


async def asked(app, path, many):
    """The status of many requests at once, five from each of the users."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
        answers = await asyncio.gather(
            *(
                client.post(
                    path, params={"user_id": f"u{n % (many // 5)}", "session_id": "s", "input": str(n)}
                )
                for n in range(many)
            )
        )
    return {answer.status_code for answer in answers}


async def test_fastapi_with_sqlalchemy(agents_here, tmp_path, monkeypatch):
    """The service answers, keeps each user's messages, and gives every connection back."""
    monkeypatch.chdir(tmp_path)
    app = {"AsyncSQLAlchemyMemory": AsyncSQLAlchemyMemory, "Msg": Msg}
    exec(compile(code("fastapi sqlalchemy"), "seed_004.md", "exec"), app)
    try:
        assert await asked(app["app"], "/chat", 20) == {200}
        assert app["engine"].pool.checkedout() == 0
        for n in range(4):
            memory = AsyncSQLAlchemyMemory(app["engine"], f"u{n}", "s")
            assert await memory.size() == 10
    finally:
        await app["engine"].dispose()


async def test_fastapi_with_redis(fresh_redis):
    """The handler gets its memory from the pool of the application, and closes only its client."""
    kept = []

    class Kept(RedisMemory):
        def __init__(self, **settings):
            super().__init__(**settings)
            kept.append(self)

    where = server(fresh_redis)
    block = (
        code("fastapi redis")
        .replace("port=6379", f"port={where['port']}")
        .replace("db=0", f"db={where['db']}")
    )
    app = {"RedisMemory": Kept, "ConnectionPool": ConnectionPool}
    exec(compile(block, "seed_004.md", "exec"), app)
    async with app["lifespan"](app["app"]):
        assert await asked(app["app"], "/chat_endpoint", 20) == {200}
        pool = app["redis_pool"]
        assert len(kept) == 20
        await asyncio.gather(*(memory.add(Msg("user", "hi", "user")) for memory in kept))
        assert {await memory.size() for memory in kept} == {5}
        assert not pool._in_use_connections


def test_all_are_memories():
    """Every memory inherits from MemoryBase, with the methods of the document's table."""
    for kind in (InMemoryMemory, AsyncSQLAlchemyMemory, RedisMemory, ChatMemory):
        assert issubclass(kind, MemoryBase)
        for method in [
            "add",
            "delete",
            "delete_by_mark",
            "size",
            "clear",
            "get_memory",
            "update_messages_mark",
            "update_compressed_summary",
            "state_dict",
            "load_state_dict",
        ]:
            assert callable(getattr(kind, method))


async def test_the_summary_is_an_attribute():
    """update_compressed_summary: 更新存储在记忆中的摘要属性."""
    memory = InMemoryMemory()
    assert memory._compressed_summary == ""
    await memory.update_compressed_summary("总结")
    assert memory._compressed_summary == memory.state_dict()["_compressed_summary"] == "总结"
