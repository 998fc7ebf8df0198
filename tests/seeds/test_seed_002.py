"""The memory subsystem's document, sentence by sentence: each numbered line of its sections 2, 3, 4, 5 and 7 has a test.

The docstring of a test begins with the number of the line it holds us to.
"""

import asyncio
import inspect
import re
import sqlite3
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from octavo import Query, StoreError, StoreUnavailable
from octavo.assemble import assemble, pooled
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
    """Nothing was left out: the numbers in the docstrings here are the document's."""
    tests = [test for name, test in vars(sys.modules[__name__]).items() if name.startswith("test_")]
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


# §4 · the failure queue


def test_failed_writes_are_queued(store_url, serve, faulty):
    """§4.1 An event that the database did not take waits in the failure queue, and can be read meanwhile."""
    memory = serve(store_url)
    faulty[-1].mode = "down"
    event = memory.append_event(said("waits"), SESSION)
    assert event.status == "queued"
    assert memory.queue_status().waiting == 1
    assert texts(memory.get_recent_events(SESSION)) == ["waits"]
    faulty[-1].mode = "up"
    memory.replay_queue()
    assert memory.queue_status().waiting == 0
    assert texts(memory.get_recent_events(SESSION)) == ["waits"]


def test_memory_is_bounded(store_url, serve, faulty, tmp_path):
    """§4.2 What is more than the queue may hold in memory goes to disk in batches."""
    memory = serve(store_url, queue={"durability": "memory", "max_in_memory": 10, "spill_batch_size": 5})
    faulty[-1].mode = "down"
    for n in range(10):
        memory.append_event(said(f"n{n}"), SESSION)
    file = tmp_path / "queue" / "failed_events.jsonl"
    assert not file.exists() or "n0" not in file.read_text()
    for n in range(10, 32):
        memory.append_event(said(f"n{n}"), SESSION)
    on_disk = file.read_text()
    assert all(f'"n{n}"' in on_disk for n in range(20))
    assert memory.queue_status().waiting == 32
    faulty[-1].mode = "up"
    memory.replay_queue()
    assert texts(memory.get_recent_events(SESSION)) == [f"n{n}" for n in reversed(range(32))]


def test_rotation(store_url, serve, faulty, tmp_path):
    """§4.3 A queue file that is large enough is rotated, and nothing in it is lost by that."""
    memory = serve(store_url, queue={"max_dump_file_size_mb": 0.005})
    faulty[-1].mode = "down"
    said_ = [f"{n} " + "x" * 500 for n in range(40)]
    for text in said_:
        memory.append_event(said(text), SESSION)
    assert len(list((tmp_path / "queue").glob("failed_events*.jsonl*"))) > 1
    faulty[-1].mode = "up"
    memory.replay_queue()
    assert texts(memory.get_recent_events(SESSION)) == said_[::-1]


def poisoned(ops):
    """A database that takes everything but one event."""
    if "poison" in repr(ops):
        raise StoreUnavailable("the server closed the connection")


def refusing(ops):
    if "poison" in repr(ops):
        raise StoreError("value out of range")


def test_dead_letters(store_url, serve, faulty, tmp_path):
    """§4.4 What fails again and again is moved to the dead letters, with its error, and holds nothing else up."""
    memory = serve(store_url, queue={"max_retries": 3})
    faulty[-1].mode = "down"
    for text, session in (("poison", SESSION), ("behind it", SESSION), ("elsewhere", "other")):
        memory.append_event(said(text), session)
    faulty[-1].poison = poisoned
    faulty[-1].mode = "up"
    for _ in range(20):
        memory.replay_queue()
        if not memory.queue_status().waiting:
            break
    [letter] = memory.dead_letters()
    assert letter.attempts >= 3
    assert "closed the connection" in letter.error
    assert "poison" in (tmp_path / "queue" / "failed_events.dead.jsonl").read_text()
    assert texts(memory.get_recent_events(SESSION)) == ["behind it"]
    assert texts(memory.get_recent_events("other")) == ["elsewhere"]
    assert memory.dead_letter(letter.id) == letter
    faulty[-1].poison = None
    assert memory.replay_dead_letters([letter.id]) == 1
    memory.replay_queue()
    assert texts(memory.get_recent_events(SESSION)) == ["behind it", "poison"]
    assert memory.dead_letters() == []


def test_a_restart_recovers(store_url, serve, faulty, tmp_path):
    """§4.5 What an earlier life left in the queue is loaded and stored at the next start, without being asked."""
    memory = serve(store_url)
    faulty[-1].mode = "down"
    for text in ("one", "two"):
        memory.append_event(said(text), SESSION)
    memory.close()
    again = serve(store_url)
    assert texts(again.get_recent_events(SESSION)) == ["two", "one"]
    assert again.queue_status().waiting == 0


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
    assert "pool_size=3" in pooled(url, 3)

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


# §7 · what the document says is tested


def test_events_and_turns(store_url, serve):
    """§7.1 Events and turns are written and read."""
    memory = serve(store_url)
    event = memory.append_event(said("hi"), SESSION)
    turn = memory.append_turn(SESSION, event.event_id, {"steps": []})
    memory.finish_turn(turn.turn_id, "obs_1")
    assert memory.get_event(event.event_id) == event
    [kept] = memory.get_recent_turns(SESSION)
    assert (kept.turn_id, kept.status, kept.final_output_obs_id) == (turn.turn_id, "ok", "obs_1")


@pytest.mark.parametrize(
    "plan", [None, {}, [], "", 0, {"a": None, "计划": [1, 2.5, {"b": True}]}, ["x", None]]
)
def test_plans(plan, store_url, serve):
    """§7.2 `plan=None` stays None, and JSON comes back as it was given."""
    memory = serve(store_url)
    turn = memory.append_turn(SESSION, "evt_1", plan=plan)
    kept = memory.get_turn(turn.turn_id).plan
    assert kept == plan
    assert type(kept) is type(plan)


def test_ids(store_url, serve):
    """§7.3 No two events and no two turns have the same id."""
    memory = serve(store_url)
    events = [memory.append_event(said("same words"), SESSION).event_id for _ in range(20)]
    turns = [memory.append_turn(SESSION, events[0]).turn_id for _ in range(20)]
    assert len({*events}) == len({*turns}) == 20


def test_duplicates(store_url, serve, faulty, tmp_path):
    """§7.4 The same observation is one event: L1 does not send it again, and L2, after a restart, does not keep it twice."""
    memory = serve(store_url)
    for _ in range(3):
        memory.append_event(said("once", obs_id="o1"), SESSION)
    assert len(memory.get_recent_events(SESSION)) == 1
    faulty[-1].mode = "late"  # committed, but the answer was lost
    memory.append_event(said("lost answer", obs_id="o2"), SESSION)
    faulty[-1].mode = "up"
    memory.replay_queue()
    assert texts(memory.get_recent_events(SESSION)) == ["lost answer", "once"]
    if store_url != "memory://":
        again = serve(store_url)
        again.append_event(said("once", obs_id="o1"), SESSION)
        assert texts(again.get_recent_events(SESSION)) == ["lost answer", "once"]


def test_retries_limits_rotation(store_url, serve, faulty, tmp_path):
    """§7.5 With a small memory, small files and an outage that comes and goes, every event arrives once and in order."""
    queue = {"max_in_memory": 4, "spill_batch_size": 2, "max_dump_file_size_mb": 0.002}
    memory = serve(store_url, queue=queue)
    for n in range(30):
        faulty[-1].mode = ["up", "down", "late"][n % 3]
        memory.append_event(said(f"n{n}"), SESSION)
    faulty[-1].mode = "up"
    memory.replay_queue()
    assert texts(memory.get_recent_events(SESSION)) == [f"n{n}" for n in reversed(range(30))]
    assert memory.queue_status().waiting == 0


def test_a_refused_write_is_a_dead_letter(store_url, serve, faulty):
    """§7.6 What the database refuses for good while it was queued is a dead letter at once; discarded, it is gone."""
    memory = serve(store_url)
    faulty[-1].mode = "down"
    memory.append_event(said("poison"), SESSION)
    faulty[-1].poison = refusing
    faulty[-1].mode = "up"
    memory.replay_queue()
    [letter] = memory.dead_letters()
    assert "value out of range" in letter.error
    assert memory.discard_dead_letters([letter.id]) == 1
    assert memory.dead_letters() == []


def test_what_was_dumped_is_loaded(store_url, serve, faulty, tmp_path):
    """§7.7 What was spilled and rotated before the process ended is loaded by the next one, whole and in order."""
    queue = {"max_in_memory": 4, "spill_batch_size": 2, "max_dump_file_size_mb": 0.002}
    memory = serve(store_url, queue=queue)
    faulty[-1].mode = "down"
    for n in range(25):
        memory.append_event(said(f"n{n}"), SESSION)
    memory.close()
    again = serve(store_url, queue=queue)
    assert texts(again.get_recent_events(SESSION)) == [f"n{n}" for n in reversed(range(25))]
    assert not list((tmp_path / "queue").glob("failed_events*.jsonl")) or again.queue_status().waiting == 0


async def test_append_event_failing(store_url, serve, faulty, monkeypatch):
    """§7.8 A core whose memory fails at append_event, in whatever way, still answers; it makes no turn of it."""
    memory = serve(store_url)

    async def broken(*_, **__):
        raise RuntimeError("a bug in memory")

    monkeypatch.setattr(memory, "aappend_event", broken)
    async with Core(lambda obs: "answer", memory_service=memory) as core:
        handled = await core.handle(said("hello"))
    assert handled.output.payload.text == "answer"
    assert (handled.event_id, handled.turn_id) == (None, None)
    assert core.memory_failures == 1
