"""`octavo events`: what each command shows, to people and to programs, and how it ends."""

import asyncio
import json
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from octavo import AgentEvent, EventStore, EventType

URL = "sqlite:///agent_memory.db"
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
OWN = '''
import json
from pathlib import Path
from octavo import AgentEvent, BaseMemoryStore

class Lines(BaseMemoryStore):
    """A store of the user's own: lines in a file."""
    path = Path("own.jsonl")
    async def initialize(self): self.path.touch()
    async def store(self, event):
        with self.path.open("a") as lines: lines.write(event.to_json() + "\\n")
    async def retrieve(self, limit=100, start_time=None, end_time=None, **kwargs):
        found = [AgentEvent.from_json(line) for line in self.path.read_text().splitlines()]
        found = [e for e in found if (not start_time or e.timestamp >= start_time) and (not end_time or e.timestamp < end_time)]
        return found[-limit:]
    async def clear(self, **kwargs): self.path.write_text("")
    async def get_stats(self, **kwargs): return {"total_events": len(self.path.read_text().splitlines())}
    async def search(self, query, **kwargs): return [e for e in await self.retrieve() if query in str(e.data)]
    async def close(self): pass

def make(): return Lines()
ready = Lines()
nothing = 5
'''


def said(count=5, **more) -> list[AgentEvent]:
    kinds = [*EventType]
    return [
        AgentEvent(
            **{
                "event_id": f"evt_{n}",
                "agent_name": "assistant",
                "session_id": f"s{n % 2}",
                "event_type": kinds[n % 3],
                "timestamp": NOON + timedelta(seconds=n),
                "data": {"message": f"number {n} 计算器"},
                **more,
            }
        )
        for n in range(count)
    ]


def fill(events, url=URL):
    async def store():
        async with EventStore(url) as store:
            await store.store_many(events)

    asyncio.run(store())


@pytest.fixture
def events(octavo):
    """Call `octavo events …` on a store with five events."""
    fill(said())

    def call(*words, **more):
        return octavo("events", *words, *(() if "migrate" in words else ("--store", URL)), **more)

    return call


def ids(lines: str) -> list[str]:
    return [AgentEvent.from_json(line).event_id for line in lines.splitlines()]


def test_columns_are_straight_where_a_character_is_two_wide(events):
    fill(said(1, event_id="evt_x", agent_name="潜水员小组", timestamp=NOON - timedelta(1)))
    first, second = events("list").stdout.splitlines()[:2]
    assert "  潜水员小组  s0  {" in first  # ten columns
    assert "  assistant   s0  {" in second


def test_list(events):
    """Rows for people, whole events as lines of JSON for programs; the newest last."""
    told = events("list")
    assert told.exit_code == 0
    rows = told.stdout.splitlines()
    assert len(rows) == 5
    local = f"{NOON.astimezone():%Y-%m-%d %H:%M:%S}.000"
    assert rows[0] == f'{local}  user_message     assistant  s0  {{"message":"number 0 计算器"}}'
    lines = events("list", "--json").stdout
    assert [AgentEvent.from_json(line) for line in lines.splitlines()] == said()
    assert events("list", "-n", 2, "--json").stdout == "".join(f"{e.to_json()}\n" for e in said()[-2:])
    assert (events("list", "--quiet").stdout, events("list", "-n", 0).stdout) == ("", "")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--session", "s1"], ["evt_1", "evt_3"]),
        (["--agent", "other"], []),
        (["--type", "USER_MESSAGE"], ["evt_0", "evt_3"]),
        (["--type", "user_message", "--session", "s1"], ["evt_3"]),
        (["--since", "2024-01-01T12:00:03+00:00"], ["evt_3", "evt_4"]),
        (["--until", "2024-01-01T12:00:01Z"], ["evt_0"]),
        (["--since", "1h"], []),
        (["--until", "1h"], [f"evt_{n}" for n in range(5)]),
    ],
)
def test_filters(events, words, expected):
    for command in ("list", "tail"):
        assert ids(events(command, "--json", *words).stdout) == expected


def test_a_terminal_is_not_steered(octavo):
    """What somebody said to an agent cannot write over the reader's screen."""
    fill([AgentEvent("e", "a\x1b[2J", "s\x9b", data={"m": "\x1b]0;x\x07 \x9b2J \u202e"})])
    told = octavo("events", "list", "--store", URL).stdout
    assert told.rstrip("\n").isprintable()


def test_search(events):
    """Newest first; status 1 when there is nothing, as grep has it."""
    assert ids(events("search", "计算", "--everyone", "--json", "-n", 2).stdout) == ["evt_4", "evt_3"]
    assert ids(events("search", "NUMBER 1", "--everyone", "--json").stdout) == ["evt_1"]
    nothing = events("search", "100%", "--everyone", "--json")
    assert (nothing.exit_code, nothing.stdout) == (1, "")
    for words in (("search", "umber", "--words", "--everyone"), ("list", "--agent", "nobody")):
        nothing = events(*words)
        assert (nothing.stdout, nothing.stderr) == ("", "no such event\n")
    assert events("search", "umber", "--words", "--everyone").exit_code == 1
    assert ids(events("search", "Number 3", "--everyone", "--words", "--json").stdout) == ["evt_3"]
    assert events("search", "number", "--session", "s1").stdout.count("\n") == 2


def test_stats(events):
    assert events("stats").stdout == (
        "5 events\n"
        "  model_response                 2\n"
        "  user_message                   2\n"
        "  tool_call_start                1\n"
        "  first               2024-01-01T12:00:00+00:00\n"
        "  last                2024-01-01T12:00:04+00:00\n"
    )
    told = json.loads(events("stats", "--json", "--session", "s1").stdout)
    assert told == {
        "ok": True,
        "command": "events stats",
        "store": URL,
        "total_events": 2,
        "by_type": {"model_response": 1, "user_message": 1},
        "first_event": "2024-01-01T12:00:01+00:00",
        "last_event": "2024-01-01T12:00:03+00:00",
    }


def test_prune(events):
    """What is older goes, once; a rehearsal removes nothing; the filters hold."""
    fill([AgentEvent("fresh")])
    rehearsed = json.loads(events("prune", "--older-than", "7d", "--dry-run", "--json").stdout)
    assert (rehearsed["matching"], rehearsed["removed"]) == (5, 0)
    assert events("prune", "--older-than", "7d", "--session", "s1").stdout.startswith(
        "removed 2 events from before 2"
    )
    assert json.loads(events("prune", "--older-than", "7d", "--json").stdout)["removed"] == 3
    assert events("prune", "--older-than", "7d").stdout.startswith("removed 0 events")
    assert ids(events("list", "--json").stdout) == ["fresh"]


def test_migrate(events):
    """There, again, and back out of an own store; with a word about what was there already."""
    assert events("migrate", URL, "file://./copy").stdout == "moved 5 events\n"
    assert events("migrate", URL, "file://./copy").stdout == "moved 5 events (5 already there)\n"
    told = json.loads(events("migrate", URL, "sqlite:///other.db", "--json", "--batch", 2).stdout)
    told.pop("seconds")
    assert told == {
        "ok": True, "command": "events migrate", "source": URL, "target": "sqlite:///other.db", "read": 5,
        "added": 5, "resumed": 0,
    }  # fmt: skip


def test_an_interrupted_migration_goes_on(events, octavo, monkeypatch):
    """By itself, and it says so."""
    from octavo.transfer.copying import Trail

    mark = Trail.mark

    def interrupted(self, step):
        mark(self, step)
        if step.read == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Trail, "mark", interrupted)
        stopped = events("migrate", URL, "sqlite:///new.db", "--batch", 2)
    assert stopped.exit_code == 130
    assert stopped.stderr.endswith("run the same command again to continue\n")
    again = events("migrate", URL, "sqlite:///new.db", "--batch", 2)
    assert again.stdout == "moved 1 event (4 more by an earlier run)\n"
    assert "octavo: continuing an interrupted migration" in again.stderr
    assert ids(octavo("events", "list", "--store", "sqlite:///new.db", "--json").stdout) == [
        f"evt_{n}" for n in range(5)
    ]


@pytest.fixture
def own():
    """A module in the folder the command is called in; forgotten afterwards, since every test has another."""
    Path("own_memory.py").write_text(OWN)
    path = [*sys.path]
    yield "own_memory"
    sys.path[:] = path
    sys.modules.pop("own_memory", None)


@pytest.mark.parametrize("name", ["Lines", "make", "ready"])
def test_a_store_of_your_own(events, octavo, own, name):
    """A class, a function or an object, wherever a URL may stand."""
    where = f"{own}:{name}"
    assert events("migrate", URL, where).stdout == "moved 5 events\n"
    assert events("migrate", URL, where).stdout == "moved 5 events (5 already there)\n"
    for command in (["list"], ["tail"], ["search", "number", "--everyone"]):
        assert len(ids(octavo("events", *command, "--store", where, "--json").stdout)) == 5
    assert octavo("events", "stats", "--store", where).stdout == "5 events\n"
    assert events("migrate", where, "sqlite:///back.db").stdout == "moved 5 events\n"
    assert octavo("events", "prune", "--older-than", "1d", "--store", where).exit_code == 0
    assert octavo("events", "list", "--store", where).stdout == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["list"], "there is no store at octavo.db"),
        (["list", "--store", "sqlite:///nowhere.db"], "there is no store at nowhere.db"),
        (["list", "--store", "nosuch:Thing"], "cannot be loaded: No module named 'nosuch'"),
        (["list", "--store", "own_memory:Nothing"], "has no attribute 'Nothing'"),
        (["list", "--store", "own_memory:nothing"], "is a int, not a BaseMemoryStore"),
        (
            ["search", "x", "--session", "s", "--words", "--store", "own_memory:Lines"],
            "--words needs a built-in store",
        ),
        (["search", "x", "--store", "own_memory:Lines"], "--agent or --session, or everyone by --everyone"),
        (["search", "x", "--store", "memory://"], "--agent or --session, or everyone by --everyone"),
        (["list", "--store", "nonsense"], "not the URL of a store"),
        (["list", "--store", "memory://", "--since", "soon"], "--since 'soon' is no time"),
        (["prune", "--store", "memory://", "--older-than", "7"], "not a length of time: '7'"),
        (["tail", "--store", "memory://", "--every", "often"], "not a length of time"),
        (["migrate", "sqlite:///nowhere.db", "memory://"], "there is no store at nowhere.db"),
    ],
)
def test_mistakes(octavo, own, words, expected):
    """Said in one sentence, with status 2."""
    told = octavo("events", *words)
    assert (told.exit_code, told.stdout) == (2, "")
    assert expected in told.stderr
    assert told.stderr.count("\n") == 1


def test_follow():
    """The last ones, then those that come, each once, until interrupted; one that comes late is not missed."""
    fill(said())
    command = [sys.executable, "-m", "octavo.cli", "events", "tail", "-f", "-n", "2", "--json"]
    with subprocess.Popen(
        [*command, "--every", "0.05s", "--store", URL],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as tail:
        try:
            first = tail.stdout.readline() + tail.stdout.readline()
            assert ids(first) == ["evt_3", "evt_4"]
            now = NOON + timedelta(seconds=5)
            fill([AgentEvent("evt_5", timestamp=now)])
            assert ids(tail.stdout.readline()) == ["evt_5"]
            late = AgentEvent("late", timestamp=now - timedelta(seconds=20))
            fill([late, AgentEvent("evt_6", timestamp=now)])
            assert sorted(ids(tail.stdout.readline() + tail.stdout.readline())) == ["evt_6", "late"]
            tail.send_signal(signal.SIGINT)
            rest, errors = tail.communicate(timeout=30)
        finally:
            tail.kill()  # nothing to do when it has ended
    assert (tail.returncode, rest, errors) == (130, "", "")


def test_every_option_is_documented(octavo):
    """And every command has an example."""
    from octavo.cli.events import events as group

    page = (Path(__file__).parents[2] / "docs" / "events.md").read_text()
    assert set(group.commands) == {"list", "migrate", "prune", "search", "stats", "tail"}
    for name, command in group.commands.items():
        assert f"octavo events {name}" in page
        assert f"Example: octavo events {name}" in octavo("events", name, "--help").stdout
        for option in command.params:
            for word in option.opts:
                assert not word.startswith("-") or f"`{word}`" in page, (name, word)
