"""A database that is not there, goes away, hangs or loses its answers: the service starts, waits no longer than it may,
and loses nothing.
"""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from octavo import ConfigError, StoreClosed, StoreUnavailable
from octavo.service import Core, MemoryService
from serving import LASTING, SETTLED, said, texts, url_of

TIMEOUT = 0.5
GENEROUS = 20  # times the time-out, on a machine that is busy with other tests


@pytest.fixture
def silent_port():
    """A port that accepts every connection and never says a word."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=200)
    accepted, ending = [], threading.Event()

    def accept():
        with contextlib.suppress(OSError):
            while not ending.is_set():
                accepted.append(listening.accept()[0])

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield listening.getsockname()[1]
    ending.set()
    with contextlib.suppress(OSError):
        listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join()
    for line in accepted:
        line.close()


@pytest.fixture
def closed_port():
    """A port that refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and nobody listens
        yield taken.getsockname()[1]


URLS = [
    "postgresql://u:hunter2@127.0.0.1:{}/d",
    "mysql://u:hunter2@127.0.0.1:{}/d",
    "redis://:hunter2@127.0.0.1:{}/0",
]


@pytest.mark.parametrize("url", URLS, ids=lambda url: url.partition(":")[0])
@pytest.mark.parametrize("trouble", ["closed_port", "silent_port"])
def test_a_degraded_start(url, trouble, request, serve, tmp_path):
    """Refused or unanswered, the service starts; every call answers within its time-out, and what was said is queued."""
    port = request.getfixturevalue(trouble)
    memory = serve(url.format(port), timeout_seconds=TIMEOUT)

    def bounded(call, *args, **named):
        start = time.monotonic()
        try:
            return call(*args, **named)
        finally:
            assert time.monotonic() - start < TIMEOUT * GENEROUS, call

    assert bounded(memory.initialize) is False
    event = bounded(memory.append_event, said("hello"), "s")
    turn = bounded(memory.append_turn, "s", event.event_id)
    assert (event.status, turn.written) == ("queued", "queued")
    assert bounded(memory.finish_turn, turn.turn_id) == "queued"
    # What this process knows, it tells; what only the database knows is not "nothing".
    assert texts(bounded(memory.get_recent_events, "s")) == ["hello"]
    assert bounded(memory.get_event, event.event_id).payload["text"] == "hello"
    assert [turn.status for turn in bounded(memory.get_recent_turns, "s")] == ["ok"]
    for call, *args in (
        (memory.get_recent_events, "other"),
        (memory.get_recent_turns, "other"),
        (memory.get_event, "evt_other"),
        (memory.get_turn, "turn_other"),
    ):
        with pytest.raises(StoreUnavailable):
            bounded(call, *args)
    assert bounded(memory.replay_queue) == 0
    health = bounded(memory.health)
    assert health.state == "down"
    assert health.queue["waiting"] == 3
    assert "hunter2" not in f"{health} {memory.settings}"
    assert bounded(memory.upsert_system_prompt, "be kind").status == "queued"
    assert bounded(memory.get_system_prompt) == "be kind"
    bounded(memory.close)
    bounded(memory.close)
    assert "hello" in (tmp_path / "queue" / "failed_events.jsonl").read_text()


@pytest.mark.parametrize("kind", LASTING)
def test_the_database_comes_later(kind, tmp_path, request, serve, faulty):
    """Started first and the database later: all that was said is stored without a restart, once and in order."""
    url = url_of(kind, tmp_path, request.getfixturevalue("fresh_url"))
    faulty.first = "down"
    memory = serve(url)
    events = [memory.append_event(said(f"n{n}"), f"s{n % 3}") for n in range(12)]
    turn = memory.append_turn("s0", events[0].event_id)
    assert memory.finish_turn(turn.turn_id, "out") == "queued"
    assert {event.status for event in events} == {"queued"}
    faulty[-1].mode = "up"
    memory.replay_queue()
    assert memory.queue_status().waiting == 0
    for session in range(3):
        assert texts(memory.get_recent_events(f"s{session}")) == [
            f"n{n}" for n in reversed(range(session, 12, 3))
        ]
    assert memory.get_turn(turn.turn_id).status == "ok"
    assert memory.health().state == "up"
    assert memory.append_event(said("direct"), "s0").status == "stored"


@pytest.mark.parametrize("mode", ["down", "hangs", "late"])
def test_a_turn_across_an_outage(mode, faulty, serve):
    """A turn whose beginning is still queued can be ended; both arrive, in order."""
    memory = serve("memory://", timeout_seconds=TIMEOUT)
    faulty[-1].mode = mode
    event = memory.append_event(said("hi"), "s")
    turn = memory.append_turn("s", event.event_id, {"p": 1})
    memory.finish_turn(turn.turn_id, status="error", error="x")
    faulty[-1].mode = "up"
    memory.replay_queue()
    kept = memory.get_turn(turn.turn_id)
    assert (kept.status, kept.error, kept.plan) == ("error", "x", {"p": 1})


def test_down_is_not_nothing(faulty, serve):
    """A read that the database did not answer is an error, or this process's own part: never an empty list."""
    memory = serve("memory://", timeout_seconds=TIMEOUT)
    memory.append_event(said("mine"), "mine")
    assert memory.get_recent_events("nobody's") == []
    for mode in ("down", "hangs"):
        faulty[-1].mode = mode
        assert texts(memory.get_recent_events("mine")) == ["mine"]
        with pytest.raises(StoreUnavailable):
            memory.get_recent_events("nobody's")
        assert memory.get_recent_events("nobody's", 0) == []
    faulty[-1].mode = "up"


def test_own_memory_is_bounded(faulty, serve):
    """Of each session the newest are held, and of sessions those used last; 0 holds nothing."""
    memory = serve("memory://", recent_events=3, recent_sessions=2)
    for session in ("a", "b", "c"):
        for n in range(5):
            memory.append_event(said(f"{session}{n}"), session)
    none = serve("memory://", recent_events=0)
    none.append_event(said("x"), "a")
    for store in faulty:
        store.mode = "down"
    assert texts(memory.get_recent_events("c")) == ["c4", "c3", "c2"]
    assert texts(memory.get_recent_events("b", 1)) == ["b4"]
    for service in (memory, none):
        with pytest.raises(StoreUnavailable):
            service.get_recent_events("a")


def test_without_a_queue(faulty, serve):
    """With the queue off a write is stored or an error, within the time-out, and the queue's methods say what is off."""
    memory = serve("memory://", queue={"enabled": False}, timeout_seconds=TIMEOUT)
    assert memory.append_event(said("hi"), "s").status == "stored"
    for mode in ("down", "hangs"):
        faulty[-1].mode = mode
        with pytest.raises(StoreUnavailable):
            memory.append_event(said("lost, and told so"), "s")
        assert memory.health().state == "down"
    faulty[-1].mode = "up"
    assert texts(memory.get_recent_events("s")) == ["hi"]
    assert memory.health().queue is None
    with pytest.raises(ConfigError, match="enabled"):
        memory.dead_letters()


def test_after_close(serve, tmp_path):
    """A closed service says so, again and again, and its health is still answered."""
    memory = serve("memory://")
    memory.append_event(said("hi"), "s")
    memory.close()
    memory.close()
    for call in (lambda: memory.append_event(said("late"), "s"), lambda: memory.get_recent_events("s")):
        with pytest.raises(StoreClosed):
            call()
    assert memory.health().state == "closed"
    assert asyncio.run(memory.ahealth()).state == "closed"
    asyncio.run(memory.aclose())


def test_closing_under_load(tmp_path):
    """Closed while fifty threads append: every call answers, and what was acknowledged is there afterwards."""
    url = f"sqlite:///{tmp_path}/kept.db"
    memory = MemoryService(url, vault_path=None, queue_path=tmp_path / "queue")
    acknowledged, odd, begun = [], [], threading.Event()

    def write(thread):
        for n in range(50):
            try:
                event = memory.append_event(said(f"{thread}.{n}"), "s")
            except StoreClosed:
                return
            except BaseException as error:
                odd.append(error)
                return
            acknowledged.append(event.event_id)
            if len(acknowledged) > 60:
                begun.set()

    threads = [threading.Thread(target=write, args=(n,)) for n in range(50)]
    for thread in threads:
        thread.start()
    assert begun.wait(SETTLED)
    closing = [threading.Thread(target=memory.close) for _ in range(3)]
    for thread in closing:
        thread.start()
    for thread in [*threads, *closing]:
        thread.join()
    assert odd == []
    with MemoryService(url, vault_path=None, queue_path=tmp_path / "queue") as again:
        kept = {event.event_id for event in again.get_recent_events("s", None)}
    assert {*acknowledged} <= kept


async def test_a_core_in_an_outage(faulty, serve):
    """An agent whose database goes away and comes back notices nothing, and its events and turns are all there."""
    memory = serve("memory://", timeout_seconds=TIMEOUT)
    async with Core(lambda obs: f"re: {obs.payload.text}", memory_service=memory, close_memory=False) as core:
        for n, mode in enumerate(["up", "down", "down", "hangs", "late", "up", "up"]):
            faulty[-1].mode = mode
            handled = await core.handle(said(f"n{n}"))
            assert handled.output.payload.text == f"re: n{n}"
            assert handled.turn_id is not None
    assert core.memory_failures == 0
    await memory.areplay_queue()
    assert texts(await memory.aget_recent_events("dm:alice")) == [f"n{n}" for n in reversed(range(7))]
    assert [turn.status for turn in await memory.aget_recent_turns("dm:alice")] == ["ok"] * 7


def test_a_fork(tmp_path):
    """A service made before a fork serves parent and child, each with connections of its own."""
    program = f"""
        import os, sys
        from octavo.service import MemoryService, MessagePayload, Observation, ObservationType

        memory = MemoryService("sqlite:///{tmp_path}/kept.db", vault_path=None, queue_path="{tmp_path}/queue")
        say = lambda text: memory.append_event(Observation(ObservationType.MESSAGE, MessagePayload(text)), "s")
        say("before")
        used, idle = os.fork(), None
        if used == 0:
            say("child")
            memory.close()
            os._exit(0)
        assert os.waitpid(used, 0)[1] == 0
        idle = os.fork()
        if idle == 0:
            memory.close()
            assert memory.health().state == "closed"
            os._exit(0)
        assert os.waitpid(idle, 0)[1] == 0
        say("parent")
        print([event.payload["text"] for event in memory.get_recent_events("s")])
        memory.close()
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=SETTLED,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['parent', 'child', 'before']"
