"""The table that compares the stores is true: what lasts, what each needs, what people and tools can read."""

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from octavo import AgentEvent, ConfigError, MySQLMemoryStore, PostgreSQLMemoryStore, RedisMemoryStore
from servers import Unavailable

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
SAID = [
    AgentEvent(f"evt_{n}", "assistant", f"abc{n}", "user_message", NOON, {"message": f"你好 hello {n}"})
    for n in range(3)
]


@pytest.mark.parametrize("kind", ["file", "file-json", "file-single", "sqlite", "mysql", "postgres", "redis"])
async def test_what_lasts(named, kind):
    """Closed and opened again, every event is there."""
    async with named(kind) as store:
        await store.store_many(SAID)
    async with named(kind) as store:
        assert await store.retrieve() == SAID


async def test_what_does_not(named):
    """Memory is of one store: another is empty."""
    async with named("memory") as store:
        await store.store_many(SAID)
    async with named("memory") as store:
        assert await store.retrieve() == []


@pytest.mark.parametrize(
    ("store", "package", "extra"),
    [
        (MySQLMemoryStore, "asyncmy", "octavo[mysql]"),
        (PostgreSQLMemoryStore, "asyncpg", "octavo[postgres]"),
        (RedisMemoryStore, "redis", "octavo[redis]"),
    ],
)
def test_what_each_needs(store, package, extra):
    """Without its driver a store cannot be made, and says what to install; importing the name needs none."""
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        f"from octavo import {store.__name__}, ConfigError\n"
        f"try: {store.__name__}()\n"
        "except ConfigError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert f"pip install '{extra}'" in run.stdout
    assert issubclass(ConfigError, Exception)


def test_what_needs_nothing():
    """Memory, files and SQLite work without any optional package."""
    optional = [
        "asyncmy",
        "asyncpg",
        "redis",
        "aiosqlite",
        "aiomysql",
        "sqlalchemy",
        "click",
        "rich",
        "numpy",
    ]
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({optional!r}))\n"
        "import asyncio, tempfile\n"
        "from octavo.events import *\n"
        "async def main():\n"
        "    with tempfile.TemporaryDirectory() as folder:\n"
        "        for store in (InMemoryMemoryStore(), FileMemoryStore({'base_path': folder}), SQLiteMemoryStore({'db_path': folder + '/m.db'})):\n"
        "            async with store: print(await store.store(AgentEvent()), len(await store.retrieve()))\n"
        "asyncio.run(main())"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "True 1\n" * 3


async def test_lines_of_json_for_grep_and_jq(named, tmp_path):
    """A line is an event under the documented names, unescaped, appended; a file is a session, or all in one."""
    async with named("file") as store:
        await store.store_many(SAID)
        await store.store(
            AgentEvent("evt_9", "assistant", "abc0", "model_response", NOON, {"response": "再见"})
        )
    folder = tmp_path / "agent_memory"
    assert sorted(path.name for path in folder.glob("*.jsonl")) == [f"session_abc{n}.jsonl" for n in range(3)]
    first, second = (folder / "session_abc0.jsonl").read_text().splitlines()
    assert first.startswith(
        '{"event_id":"evt_0","agent_name":"assistant","session_id":"abc0","event_type":"user_message"'
    )
    assert "你好" in first
    assert AgentEvent.from_json(first) == SAID[0]
    assert json.loads(second)["data"] == {"response": "再见"}
    grep = subprocess.run(["grep", "-rhc", "再见", folder / "session_abc0.jsonl"], capture_output=True, text=True, check=True)  # fmt: skip
    assert grep.stdout == "1\n"
    if not shutil.which("jq"):
        raise Unavailable("jq is not installed")
    jq = ["jq", "-r", 'select(.event_type == "user_message").data.message', folder / "session_abc1.jsonl"]
    assert subprocess.run(jq, capture_output=True, text=True, check=True).stdout == "你好 hello 1\n"


async def test_one_file(named, tmp_path):
    async with named("file-single") as store:
        await store.store_many(SAID)
    lines = (tmp_path / "agent_memory" / "events.jsonl").read_text().splitlines()
    assert [AgentEvent.from_json(line) for line in lines] == SAID


async def test_a_json_file_loads_whole(named, tmp_path):
    """After every write."""
    async with named("file-json") as store:
        for n, event in enumerate(SAID, 1):
            await store.store(AgentEvent(f"e{n}", "a", "one", "custom", NOON, event.data))
            loaded = json.loads((tmp_path / "agent_memory" / "session_one.json").read_text())
            assert [each["event_id"] for each in loaded] == [f"e{m}" for m in range(1, n + 1)]
            assert AgentEvent.from_dict(loaded[-1]).data == event.data


async def test_sqlite_for_whoever_knows_sql(named, tmp_path):
    """One table under the documented names."""
    import sqlite3

    async with named("sqlite") as store:
        await store.store_many(SAID)
    with sqlite3.connect(tmp_path / "memory.db") as other:
        rows = other.execute(
            "SELECT event_id, agent_name, session_id, event_type, data FROM agent_events"
        ).fetchall()
    other.close()
    assert rows[0][:4] == ("evt_0", "assistant", "abc0", "user_message")
    assert json.loads(rows[0][4]) == SAID[0].data
