"""Recording is fail-open and loses nothing: stores that are down, hang, refuse or come back; full disks."""

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

import pytest
from agents import ListStore, agent, calculator, call, lived

from octavo import (
    AgentEvent,
    ConfigError,
    EventStore,
    EventType,
    FileMemoryStore,
    InMemoryMemoryStore,
    PostgreSQLMemoryStore,
    SQLiteMemoryStore,
    StoreUnavailable,
    open_store,
)
from octavo.agent.recording import Recorder, queue_directory, shorten
from octavo.wraps import Wrap
from octavo.wraps.journal import inspect
from servers import fresh, running


class Faulty(Wrap):
    """A store in front of another: while `down` it cannot be reached, and `writes` are the sizes of what it took."""

    down = False
    writes: tuple = ()

    async def apply(self, ops):
        if self.down:
            raise StoreUnavailable("nobody there")
        self.writes = (*self.writes, sum(len(op.records) for op in ops if hasattr(op, "records")))
        return await super().apply(ops)

    async def find(self, query):
        if self.down:
            raise StoreUnavailable("nobody there")
        return await super().find(query)


@pytest.fixture
async def faulty(tmp_path):
    store = Faulty(open_store(f"sqlite:///{tmp_path}/events.db"))
    yield store
    await store.close()


def recording(store, folder, *script, **more):
    return agent(*script, memory_store=EventStore(store), journal_path=folder / "queue", **more)


async def test_nothing_is_made_while_all_is_well(faulty, tmp_path):
    """No folder for a queue appears, and a run's events go into the store in one or two writes."""
    made = recording(faulty, tmp_path, call("calculator", expression="1"), "one", tools=[calculator])
    await made.run("go")
    assert len(await made.get_memory()) == sum(faulty.writes) == 5
    await made.aclose()
    assert not (tmp_path / "queue").exists()


async def test_a_store_that_goes_away_and_comes_back(faulty, tmp_path):
    """Runs go on; reading says that memory is down; when the store is back everything is there, once and in order."""
    made = recording(faulty, tmp_path)
    await made.run("before")
    faulty.down = True
    for number in range(5):
        assert (await made.run(f"during {number}"))["success"] is True
    assert (
        inspect(tmp_path / "queue").waiting == 2 * 5
    )  # the question before the model is asked, and the answer
    with pytest.raises(StoreUnavailable):
        await made.get_memory()
    faulty.down = False
    await made.run("after")
    said = [e.data["message"] for e in await made.get_memory(EventType.USER_MESSAGE)]
    assert said == ["before", *(f"during {number}" for number in range(5)), "after"]
    assert len(await made.get_memory()) == 1 + 2 * 7
    assert made.recorder.lost == 0
    await made.aclose()
    assert inspect(tmp_path / "queue").waiting == 0


async def test_a_session_that_begins_while_the_store_is_down(faulty, tmp_path):
    """It goes on without its past, and has it again once the store is back; nothing is said twice."""
    made = recording(faulty, tmp_path)
    await made.run("long ago", session_id="s")
    again = recording(faulty, tmp_path)
    faulty.down = True
    await again.run("elsewhere")
    await again.run("during", session_id="s")
    assert [m["content"] for m in again.model_adapter.asked[-1]] == ["during"]
    faulty.down = False
    await again.get_memory()
    await again.run("after", session_id="s")
    said = [m["content"] for m in again.model_adapter.asked[-1] if m["role"] == "user"]
    assert said == ["long ago", "during", "after"]
    await again.run("still", session_id="s")
    assert len(again.model_adapter.asked[-1]) == 7
    await made.aclose()
    await again.aclose()


async def test_an_agent_that_ends_while_the_store_is_down(faulty, tmp_path):
    """What it could not store waits on disk, and the next agent delivers it before its own events."""
    faulty.down = True
    made = recording(faulty, tmp_path)
    await made.initialize()
    await made.run("first")
    await made.aclose()
    assert inspect(tmp_path / "queue").waiting > 0
    faulty.down = False
    again = recording(faulty, tmp_path)
    await again.run("second")
    assert await lived(again) == [
        "AGENT_INIT", "USER_MESSAGE", "MODEL_RESPONSE", "AGENT_INIT", "USER_MESSAGE", "MODEL_RESPONSE",
    ]  # fmt: skip
    await again.aclose()


async def test_a_disk_that_takes_nothing_either(faulty, tmp_path, caplog):
    """With the store down and the queue's folder impossible, events wait in memory and are stored in the end."""
    (tmp_path / "queue").write_text("a file where a folder should be")
    faulty.down = True
    made = recording(faulty, tmp_path)
    assert (await made.run("one"))["success"] is True
    assert made.recorder.held == 3
    with pytest.raises(StoreUnavailable, match="3 events waiting to be stored"):
        await made.get_memory()
    assert (await made.run("two"))["success"] is True
    assert len([r for r in caplog.records if r.name == "octavo.agent" and r.levelno == logging.ERROR]) == 1
    faulty.down = False
    await made.run("three")
    said = [e.data["message"] for e in await made.get_memory(EventType.USER_MESSAGE)]
    assert said == ["one", "two", "three"]
    assert (made.recorder.held, made.recorder.lost) == (0, 0)
    await made.aclose()


async def test_who_asks_does_not_wait_for_what_others_do_meanwhile(faulty, tmp_path, caplog):
    """While other conversations go on, the agent tells its memory, and goes on with sessions; it said "waiting to be stored"."""
    made = recording(faulty, tmp_path)
    await made.initialize()
    runs = asyncio.gather(*(made.run(f"run {n}", session_id=f"s{n % 5}") for n in range(40)))
    while not runs.done():
        await made.get_memory()
    await runs
    assert len(await made.get_memory(EventType.USER_MESSAGE)) == 40
    assert "without its past" not in caplog.text
    await made.aclose()


async def test_what_is_held_in_memory_is_bounded(faulty, monkeypatch, caplog):
    """With nowhere to go, the oldest give way, are counted, and are named in the log."""
    monkeypatch.setattr("octavo.agent.recording._MOST_HELD", 10)
    faulty.down = True
    recorder = Recorder(EventStore(faulty))
    for number in range(15):
        recorder.note(AgentEvent(event_id=f"e{number}", agent_name="a"))
        await recorder.flush()
    assert (recorder.lost, recorder.held) == (5, 10)
    assert "event e0 of 'a' was lost" in caplog.text
    faulty.down = False
    await recorder.close()
    assert recorder.held == 0
    assert [e.event_id for e in await EventStore(faulty).retrieve()] == [f"e{n}" for n in range(5, 15)]


async def test_concurrent_runs_share_writes_and_keep_their_order(faulty, tmp_path):
    """Fifty runs at once take far fewer writes than events; each session's events are in order."""
    made = recording(faulty, tmp_path)
    await made.initialize()
    await asyncio.gather(*(made.run(f"m{number}", session_id=f"s{number}") for number in range(50)))
    assert len(faulty.writes) < 50
    for number in range(50):
        assert await lived(made, f"s{number}") == ["USER_MESSAGE", "MODEL_RESPONSE"]
    await made.aclose()


KILLED = """
import asyncio, os, sys
from octavo import Agent, MockAdapter, PostgreSQLMemoryStore, SQLiteMemoryStore

async def main():
    if sys.argv[1] == "up":
        store = SQLiteMemoryStore(config={"db_path": "events.db"})
    else:
        store = PostgreSQLMemoryStore(config={"host": "127.0.0.1", "port": 9})
    agent = Agent.create(name="a", model_adapter=MockAdapter(), memory_store=store, journal_path="queue")
    print((await agent.run("remember me"))["success"], flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


@pytest.mark.parametrize("state", ["up", "down"])
async def test_killed_after_an_answer(state, tmp_path):
    """Whoever got an answer can rely on the record: it is in the store, or on disk when nobody answers there."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, state, cwd=tmp_path, stdout=-1, stderr=-1
    )
    printed, errors = await child.communicate()
    assert (printed, child.returncode) == (b"True\n", -9), errors.decode()
    if state == "up":
        async with SQLiteMemoryStore(config={"db_path": str(tmp_path / "events.db")}) as store:
            assert len(await store.retrieve(agent_name="a")) == 3
    else:
        assert inspect(tmp_path / "queue").waiting > 0
        assert "remember me" in (tmp_path / "queue" / "failed_events.jsonl").read_text()


async def test_a_users_own_store(tmp_path, monkeypatch):
    """A subclass with the seven methods records, answers, counts and clears; an exception or False queues."""
    monkeypatch.chdir(tmp_path)
    store = ListStore()
    made = agent(memory_store=store)
    await made.run("calculator")
    assert len(store.events) == 3
    assert [e.data["message"] for e in await made.search_memory("calculator") if "message" in e.data] == [
        "calculator"
    ]
    assert not list(tmp_path.iterdir())
    store.down = True
    assert (await made.run("down"))["success"] is True
    store.down, store.answers = False, False
    assert (await made.run("refused"))["success"] is True
    [folder] = (tmp_path / ".octavo" / "queue").iterdir()
    assert folder.name.startswith("ListStore-assistant-")
    assert inspect(folder).waiting == 2 * 2
    store.answers = True
    said = [e.data["message"] for e in await made.get_memory("user_message")]
    assert said == ["calculator", "down", "refused"]
    assert (await made.get_memory_stats())["total_events"] == 7
    assert await made.clear_memory() == 0  # this store does not say how many
    assert store.events == []
    await made.aclose()


async def test_a_store_that_hangs(tmp_path):
    """The run ends after the recorder's patience, the events are queued, and they arrive when the store wakes up."""
    store = ListStore()
    made = agent(memory_store=store, journal_path=tmp_path / "queue")
    made.recorder._timeout = 0.1
    store.hanging = asyncio.Event()
    assert (await made.run("hello"))["success"] is True
    assert inspect(tmp_path / "queue").waiting > 0
    store.hanging.set()
    made.recorder._journal._timeout = 60
    assert await lived(made) == ["AGENT_INIT", "USER_MESSAGE", "MODEL_RESPONSE"]
    await made.aclose()


async def test_a_store_that_cannot_work_is_told_at_once(tmp_path, caplog):
    """`initialize` raises what only the user can mend; `run` goes on without, and says so in the log."""

    class Broken(ListStore):
        async def initialize(self):
            raise ConfigError("no such driver: pip install it")

    made = agent(memory_store=Broken(), journal_path=tmp_path / "queue")
    with pytest.raises(ConfigError, match="pip install it"):
        await made.initialize()
    assert (await made.run("hello"))["success"] is True
    assert "pip install it" in caplog.text
    await made.aclose()


async def test_a_closed_store(faulty, caplog):
    """A store closed under the agent does not break a run."""
    store = SQLiteMemoryStore(config={"db_path": ":memory:"})
    made = agent(memory_store=store)
    await made.run("one")
    await store.close()
    assert (await made.run("two"))["success"] is True
    assert "StoreClosed" in caplog.text


async def test_what_is_too_large_is_cut(faulty, tmp_path):
    """A result larger than any store keeps is recorded with its beginning and its length; the model gets all of it."""

    def everything() -> str:
        return "x" * 17_000_000

    made = recording(faulty, tmp_path, call("everything"), "done", tools=[everything])
    result = await made.run("go")
    assert len(result["tool_calls"][0]["result"]) == 17_000_000
    [event] = await made.get_memory(EventType.TOOL_CALL_SUCCESS)
    assert event.data["result"].startswith("xxx")
    assert event.data["result"].endswith("… (17,000,000 characters in all)")
    assert len(await made.get_memory()) == 5
    assert made.recorder.lost == 0
    assert shorten({"a": ["b" * 100_001, 3]})["a"][1] == 3
    await made.aclose()


async def test_a_bad_event_goes_alone(faulty, caplog):
    """One that no store takes is counted and named; those beside it are kept."""
    recorder = Recorder(EventStore(faulty))
    for event_id in ("good", "x" * 300, "better"):
        recorder.note(AgentEvent(event_id=event_id, agent_name="a"))
    await recorder.flush()
    assert [e.event_id for e in await EventStore(faulty).retrieve()] == ["good", "better"]
    assert (recorder.lost, recorder.held) == (1, 0)
    assert "was lost: InvalidRecord" in caplog.text


def test_two_event_loops(tmp_path):
    """An agent used from one asyncio.run() after another goes on recording."""
    store = FileMemoryStore(config={"base_path": str(tmp_path / "events")})
    made = agent(memory_store=store)
    asyncio.run(made.run("one"))
    asyncio.run(made.run("two"))
    assert len(asyncio.run(made.get_memory())) == 5
    asyncio.run(made.aclose())
    asyncio.run(store.close())


async def test_where_events_wait(tmp_path):
    """Beside a database or folder of its own; elsewhere under a name that is only this store's, and never with a password."""
    assert queue_directory(InMemoryMemoryStore(), "a") is None
    assert queue_directory(SQLiteMemoryStore(config={"db_path": ":memory:"}), "a") is None
    assert queue_directory(EventStore(open_store("memory://")), "a") is None
    assert queue_directory(SQLiteMemoryStore(), "a") == Path("agent_memory.db.queue")
    absolute = SQLiteMemoryStore(config={"db_path": "/data/my events.db"})
    assert queue_directory(absolute, "a") == Path("/data/my events.db.queue")
    assert queue_directory(FileMemoryStore(), "a") == Path("agent_memory.queue")
    assert queue_directory(FileMemoryStore(config={"base_path": "/var/log/a"}), "a") == Path(
        "/var/log/a.queue"
    )

    def postgres(**config):
        return queue_directory(PostgreSQLMemoryStore(config=config), "a")

    one = postgres(password="s3cret", database="d")
    assert one.parent == Path(".octavo/queue")
    assert one.name.startswith("postgresql-localhost-5432-d-")
    assert one == postgres(password="changed", database="d", host="127.0.0.1", user="other")
    assert (
        len({one, postgres(database="e"), postgres(database="d", port=6), postgres(database="d", host="h")})
        == 4
    )
    configured = ListStore()
    assert queue_directory(configured, "a") != queue_directory(configured, "b")
    other = ListStore()
    other.config = {"dsn": "x", "password": "p"}
    assert queue_directory(other, "a") not in (queue_directory(configured, "a"), None)


@pytest.mark.timeout(180)
async def test_a_database_that_really_goes_away(tmp_path):
    """PostgreSQL is stopped, halted and started again under an agent: every run answers, every event arrives, in order."""
    with running("postgres") as server, fresh("postgres", server.url) as url:
        async with EventStore(url) as store:
            made = agent(memory_store=store, journal_path=tmp_path / "queue")
            made.recorder._timeout = 1.0
            await made.initialize()
            await made.run("up")
            await asyncio.to_thread(server.stop)
            for number in range(3):
                assert (await made.run(f"stopped {number}"))["success"] is True
            await asyncio.to_thread(server.start)
            await eventually_there(made)
            os.kill(server.pid, signal.SIGSTOP)
            try:
                assert (await made.run("halted"))["success"] is True
            finally:
                os.kill(server.pid, signal.SIGCONT)
            await eventually_there(made)
            said = [e.data["message"] for e in await made.get_memory(EventType.USER_MESSAGE)]
            assert said == ["up", "stopped 0", "stopped 1", "stopped 2", "halted"]
            assert made.recorder.lost == 0
            await made.aclose()


async def eventually_there(made):
    async with asyncio.timeout(60):
        while True:
            try:
                return await made.get_memory()
            except StoreUnavailable:
                await asyncio.sleep(0.05)
