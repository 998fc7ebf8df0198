"""The memory subsystem's document, sentence by sentence: each numbered line of its sections 2, 3, 4, 5 and 7 has a test.

The docstring of a test begins with the number of the line it holds us to. Sections 4 and 7 are in `test_seed_002_queue.py`.
"""

import asyncio
import inspect
import re
import sqlite3
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import test_seed_002_queue

from octavo import Query
from octavo.assemble import assemble, limit_pool
from octavo.config import load_settings
from octavo.service import (
    AgentResult,
    Core,
    GateAction,
    GateResult,
    MemoryService,
    Observation,
    ObservationType,
    WorldDataPayload,
)
from serving import said, texts

#: Section → how many numbered lines it has.
LINES = {"2": 5, "3.1": 4, "3.2": 3, "4": 5, "5": 6, "7": 8}
#: Sentences of those sections that have no number.
UNNUMBERED = {"3.1 initialize", "3.1 MySQL and SQLite"}

SESSION = "dm:alice"


def test_every_line_has_a_test():
    """Nothing was left out: the numbers in the docstrings here and there are the document's."""
    both = vars(sys.modules[__name__]) | vars(test_seed_002_queue)
    tests = [test for name, test in both.items() if name.startswith("test_") and callable(test)]
    named = {found for test in tests for found in re.findall(r"§([\d.]+\d)", inspect.getdoc(test))}
    assert named == {
        f"{section}.{line}" for section, lines in LINES.items() for line in range(1, lines + 1)
    } | {mark.split()[0] for mark in UNNUMBERED}
    told = " ".join(inspect.getdoc(test) for test in tests)
    assert all(f"§{mark}" in told for mark in UNNUMBERED)


def deliver(_):
    return GateResult(GateAction.DELIVER)


# §2 · how the core is wired


@pytest.mark.parametrize("enabled", [True, False])
async def test_the_core_has_memory_by_default(enabled, tmp_path, monkeypatch):
    """§2.1 Memory is on, configured by config/memory.yaml, and made by the core itself unless one is handed in."""
    signature = inspect.signature(Core).parameters
    assert signature["enable_memory"].default is True
    assert signature["memory_config_path"].default == "config/memory.yaml"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "memory.yaml").write_text("database:\n  dsn: sqlite:///kept.db\n")
    async with Core(enable_memory=enabled) as core:
        assert isinstance(core.memory_service, MemoryService) is enabled
        await core.handle(said("hello"))
    assert (tmp_path / "kept.db").exists() is enabled
    with MemoryService("memory://", vault_path=None) as own:
        async with Core(memory_service=own) as core:
            assert core.memory_service is own


async def test_observations_become_events(store_url, serve):
    """§2.2 After the gate's decision every observation outside the system session is an event, its id written back."""
    memory = serve(store_url)
    decided = []

    def gate(obs):
        decided.append(texts_now())
        return GateResult(GateAction(obs.metadata["fate"]), ["because"])

    def texts_now():
        return len(memory.get_recent_events(SESSION))

    async with Core(gate=gate, memory_service=memory, close_memory=False) as core:
        for fate in ("drop", "sink", "deliver"):
            obs = said(fate, metadata={"fate": fate})
            await core.handle(obs)
            event = memory.get_event(obs.metadata["memory_event_id"])
            assert event.gate_result["action"] == fate
            assert event.gate_result["reasons"] == ["because"]
        unheard = said("tick", session="system", metadata={"fate": "deliver"})
        await core.handle(unheard)
    assert decided == [0, 1, 2, 3]  # the gate decides before the event is written
    assert "memory_event_id" not in unheard.metadata
    assert memory.get_recent_events("system") == []
    assert texts(memory.get_recent_events(SESSION)) == ["deliver", "sink", "drop"]


async def test_turns_are_delivered_messages_with_an_event(store_url, serve, faulty):
    """§2.3 A turn is made for a message that is delivered, and only when its event has an id."""
    memory = serve(store_url)
    world = Observation(ObservationType.WORLD_DATA, WorldDataPayload({"t": 1}), session_key=SESSION)
    async with Core(gate=deliver, memory_service=memory, close_memory=False) as core:
        delivered = await core.handle(said("turn"))
        reading = await core.handle(world)
        core.gate = lambda _: GateResult(GateAction.SINK)
        noted = await core.handle(said("no turn"))
        core.gate = deliver
        refused = await core.handle(said("no event: \0"))
    assert delivered.turn_id is not None
    assert (reading.turn_id, noted.turn_id, refused.turn_id) == (None, None, None)
    assert reading.event_id is not None
    assert noted.event_id is not None
    assert refused.event_id is None
    [turn] = memory.get_recent_turns(SESSION)
    assert (turn.turn_id, turn.input_event_id) == (delivered.turn_id, delivered.event_id)


async def test_turns_end(store_url, serve):
    """§2.4 A turn ends as ok when the agent succeeds, as an error when it raises or reports one."""
    memory = serve(store_url)
    answers = {
        "fine": lambda: "answer",
        "report": lambda: AgentResult(error="no model"),
        "raise": lambda: 1 / 0,
    }
    async with Core(
        lambda obs: answers[obs.payload.text](), memory_service=memory, close_memory=False
    ) as core:
        for text in answers:
            await core.handle(said(text))
    raised, reported, fine = memory.get_recent_turns(SESSION)
    assert (fine.status, fine.error) == ("ok", None)
    assert fine.final_output_obs_id.startswith("obs_")
    assert (reported.status, reported.error) == ("error", "no model")
    assert raised.status == "error"
    assert "division by zero" in raised.error


async def test_closing_flushes(store_url, serve, faulty, tmp_path):
    """§2.5 Closing the core closes its memory, and what was buffered is on disk then."""
    memory = serve(store_url, queue={"durability": "memory"})
    faulty[-1].mode = "down"
    async with Core(gate=deliver, memory_service=memory) as core:
        await core.handle(said("buffered"))
        assert memory.queue_status().waiting >= 1
    assert memory.health().state == "closed"
    assert "buffered" in (tmp_path / "queue" / "failed_events.jsonl").read_text()


# §3.1 · the relational store

TABLES = {"events": "event_id, session_key, obs_type", "turns": "turn_id, session_key, status"}
DOCUMENTS = {"configs": "key", "knowledge": "key"}


async def rows(url, table, columns):
    """The table as a stranger with a SQL client sees it."""
    place = urlsplit(url)
    if url.startswith("sqlite"):
        line = sqlite3.connect(place.path.removeprefix("/") if url.startswith("sqlite:////") else place.path)
        try:
            return [tuple(row) for row in line.execute(f"SELECT {columns} FROM {table}")]
        finally:
            line.close()
    if url.startswith("postgres"):
        import asyncpg

        line = await asyncpg.connect(url)
        try:
            return [tuple(row) for row in await line.fetch(f"SELECT {columns} FROM {table}")]
        finally:
            await line.close()
    import pymysql

    named = {
        "host": place.hostname,
        "port": place.port,
        "user": place.username,
        "password": place.password or "",
    }
    line = pymysql.connect(**named, database=place.path.strip("/"))
    try:
        with line.cursor() as cursor:
            quoted = ", ".join(f"`{name.strip()}`" for name in columns.split(","))
            cursor.execute(f"SELECT {quoted} FROM `{table}`")
            return [tuple(row) for row in cursor.fetchall()]
    finally:
        line.close()


@pytest.fixture(params=["sqlite", "mysql", "postgres"])
def sql_url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/kept.db"
    return request.getfixturevalue("fresh_url")(request.param)


async def test_tables(sql_url, serve):
    """§3.1.1 events, §3.1.2 turns, §3.1.3 configs and §3.1.4 knowledge are tables, with the names readers look for."""
    memory = serve(sql_url)
    event = await memory.aappend_event(said("hi"), SESSION)
    turn = await memory.aappend_turn(SESSION, event.event_id)
    await memory.aupsert_system_prompt("be kind")
    await memory.aupsert_config("facts/sky", "it is blue")
    assert await rows(sql_url, "events", TABLES["events"]) == [(event.event_id, SESSION, "message")]
    assert await rows(sql_url, "turns", TABLES["turns"]) == [(turn.turn_id, SESSION, "running")]
    assert await rows(sql_url, "configs", "key, content") == [("system", "be kind")]
    assert await rows(sql_url, "knowledge", "key, content") == [("facts/sky", "it is blue")]


async def test_initialize_makes_the_tables(sql_url, serve):
    """§3.1 initialize makes the tables by itself, and doing it again is harmless."""
    memory = serve(sql_url)
    assert await memory.ainitialize() is True
    assert await memory.ainitialize() is True
    for table, columns in (TABLES | DOCUMENTS).items():
        assert await rows(sql_url, table, columns) == []


@pytest.mark.parametrize("spelled", ["sqlite", "sqlite+pysqlite", "mysql", "mysql+pymysql", "mysql+aiomysql"])
def test_spellings_of_addresses(spelled, serve, tmp_path, request):
    """§3.1 MySQL and SQLite are served under the addresses that SQLAlchemy has for them."""
    scheme = spelled.partition("+")[0]
    if scheme == "sqlite":
        url = f"{spelled}:///{tmp_path}/kept.db"
    else:
        url = request.getfixturevalue("fresh_url")("mysql").replace("mysql://", f"{spelled}://", 1)
    memory = serve(url)
    memory.append_event(said("hi"), SESSION)
    assert texts(memory.get_recent_events(SESSION)) == ["hi"]


# §3.2 · the vault


def test_vault_folders(store_url, serve, tmp_path):
    """§3.2.1 md/ holds configuration, §3.2.2 knowledge/ what was learnt, §3.2.3 metadata.json each file's summary."""
    memory = serve(store_url)
    memory.upsert_system_prompt("You are kind.\n")
    memory.upsert_user_profile("alice", "likes tea\n")
    memory.upsert_config("experiences/first", "it went well\n")
    memory.upsert_config("facts/sky", "blue\n")
    vault = tmp_path / "vault"
    assert (vault / "md" / "system.md").read_text() == "You are kind.\n"
    assert (vault / "md" / "users" / "alice.md").read_text() == "likes tea\n"
    assert (vault / "knowledge" / "experiences" / "first.md").read_text() == "it went well\n"
    assert (vault / "knowledge" / "facts" / "sky.md").read_text() == "blue\n"
    summary = (vault / "metadata.json").read_text()
    for key in ("system", "users/alice", "experiences/first", "facts/sky"):
        assert key in summary
    for field in ("md5", "synced_at", "size", "version", "file_type"):
        assert f'"{field}"' in summary
    assert memory.get_system_prompt() == "You are kind.\n"
    assert memory.get_user_profile("alice") == "likes tea\n"
    assert memory.get_user_profile("bob") is None


# §5 · configuration


def test_the_dsn_chooses_the_store(tmp_path, store_url):
    """§5.1 database.dsn says where everything is kept."""
    memory = MemoryService.from_config(written(tmp_path, f"database:\n  dsn: '{store_url}'\n"))
    with memory:
        memory.append_event(said("hi"), SESSION)
        assert texts(memory.get_recent_events(SESSION)) == ["hi"]
        assert memory.settings.database.dsn == store_url


def test_the_pool(tmp_path, fresh_url):
    """§5.2 database.pool_size and §5.3 database.max_overflow bound the connections to a database server."""
    url = fresh_url("postgres")
    path = written(tmp_path, f"database:\n  dsn: '{url}'\n  pool_size: 2\n  max_overflow: 1\n")
    settings = load_settings(path)
    assert (settings.database.pool_size, settings.database.max_overflow) == (2, 1)
    assert "pool_size=3" in limit_pool(url, 3)

    async def most_at_once():
        assembled = assemble(settings)
        sql = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{urlsplit(url).path.strip('/')}'"
        reading = [assembled.store.find(Query(collection="observations")) for _ in range(40)]
        await asyncio.gather(*reading)
        [(count,)] = await rows(url, f"({sql}) AS counted", "count")
        await assembled.close()
        return count - 1  # the one that counts

    assert 1 <= asyncio.run(most_at_once()) <= 3


def test_the_vault_path(tmp_path):
    """§5.4 vault.root_path says where the documents are."""
    with MemoryService.from_config(written(tmp_path, "")) as memory:
        memory.upsert_system_prompt("hi")
    assert (tmp_path / "vault" / "md" / "system.md").read_text() == "hi"


def test_vectors_are_optional(tmp_path):
    """§5.5 vector.* is off unless it is asked for, and a service without it searches by words."""
    settings = load_settings(written(tmp_path, ""))
    assert settings.vector.enabled is False
    assert assemble(settings).indexed is None


def test_the_queue_settings(tmp_path):
    """§5.6 failure_queue.* is read, each setting by the document's name for it."""
    text = "failure_queue:\n  max_in_memory: 7\n  spill_batch_size: 3\n  max_dump_file_size_mb: 2\n"
    text += "  max_dump_backups: 4\n  max_retries: 9\n"
    queue = load_settings(written(tmp_path, text)).failure_queue
    assert (queue.max_in_memory, queue.spill_batch_size, queue.max_dump_file_size_mb) == (7, 3, 2)
    assert (queue.max_dump_backups, queue.max_retries) == (4, 9)


def written(folder: Path, text: str) -> Path:
    """A settings file that keeps everything in the test's folder."""
    path = folder / "memory.yaml"
    if "dsn" not in text:
        text += f"database:\n  dsn: sqlite:///{folder}/kept.db\n"
    if "failure_queue" not in text:
        text += f"failure_queue:\n  directory: {folder}/queue\n"
    path.write_text(f"{text}vault:\n  root_path: {folder}/vault\n")
    return path
