"""`octavo queue`: what it shows, what it changes, how it ends."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from octavo import Add, Change, Query, Record, Remove, Scope, open_store
from octavo.wraps.journal import Spool, Waiting

DOWN = "postgresql://octavo:s3cret-word@127.0.0.1:1/octavo"


def write(n, **more) -> Waiting:
    return Waiting(ops=[Add([Record(collection="messages", id=f"m{n}", text=f"消息 {n}")])], **more)


@pytest.fixture
def letters():
    """A queue with two writes that wait and three that were given up."""
    entries = [write(n) for n in range(5)]
    with Spool("queue") as spool:
        spool.put(entries)
        first = spool.head(3)
        spool.note_attempt(first[0].id, "no such table")
        for entry in first:
            spool.bury([entry.id], "no such\ntable")
    return entries


def kept(url="sqlite:///new.db"):
    async def ask():
        async with open_store(url) as store:
            return [record.id for record in await store.find(Query(collection="messages"))]

    return asyncio.run(ask())


def made(url="sqlite:///new.db"):
    """An empty store that is there: the command makes none."""

    async def make():
        async with open_store(url) as store:
            await store.find(Query(collection="messages"))

    asyncio.run(make())
    return url


def test_status(octavo, letters):
    """In a few lines, while a service holds its slot and when none does."""
    told = octavo("queue", "status", "--dir", "queue")
    assert told.exit_code == 0
    size = Path("queue/failed_events.jsonl").stat().st_size
    assert told.stdout.splitlines() == [
        "queue",
        f"  waiting       2 writes, the oldest since {letters[3].queued_at.astimezone().isoformat(' ', 'seconds')}",
        "  dead letters  3",
        "  bad lines     0",
        f"  files         1, {size:,} bytes",
        "  slot 1        2 writes, for the next service to take over",
    ]
    with Spool("queue"):
        assert "slot 1        2 writes, in use" in octavo("queue", "status", "--dir", "queue").stdout
    document = json.loads(octavo("queue", "status", "--dir", "queue", "--json").stdout)
    assert document.pop("oldest_at").startswith(f"{letters[3].queued_at:%Y-%m-%dT%H:%M:%S}")
    assert document == {
        "ok": True,
        "command": "queue status",
        "directory": "queue",
        "store": "",
        "waiting": 2,
        "dead": 3,
        "bad_lines": 0,
        "bytes": size,
        "files": 1,
        "slots": [{"number": 1, "waiting": 2, "alive": False}],
    }


def test_strict(octavo, letters):
    """Dead letters and damaged lines are wrong; what waits is not."""
    assert octavo("queue", "status", "--dir", "queue", "--strict").exit_code == 1
    octavo("queue", "discard", "--all", "--yes", "--dir", "queue")
    assert octavo("queue", "status", "--dir", "queue", "--strict").exit_code == 0
    with Path("queue/failed_events.jsonl").open("ab") as log:
        log.write(b"torn")
    Spool("queue").open()
    told = octavo("queue", "status", "--dir", "queue", "--strict", "--json")
    assert told.exit_code == 1
    assert json.loads(told.stdout)["bad_lines"] == 1


def test_list(octavo, letters):
    """One line each, oldest death first; how often it was tried, and the error."""
    told = octavo("queue", "list", "--dir", "queue")
    assert told.exit_code == 0
    lines = told.stdout.splitlines()
    time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d"
    assert re.fullmatch(
        rf"{letters[0].id}  {time}  add 1 to messages after 1 attempt: no such table", lines[0]
    )
    assert re.fullmatch(rf"{letters[1].id}  {time}  add 1 to messages: no such table", lines[1])
    assert len(lines) == 3
    short = octavo("queue", "list", "--dir", "queue", "--limit", 2)
    assert short.stdout.splitlines() == lines[:2]
    assert "more than 2; --limit shows them" in short.stderr
    document = json.loads(octavo("queue", "list", "--dir", "queue", "--limit", 2, "--json").stdout)
    assert [letter["id"] for letter in document["dead"]] == [letters[0].id, letters[1].id]
    assert document["more"] is True
    assert document["dead"][0]["ops"][0]["records"][0]["text"] == "消息 0"
    assert document["dead"][0]["error"] == "no such\ntable"


def test_list_what_waits(octavo, letters):
    told = octavo("queue", "list", "--waiting", "--dir", "queue")
    assert [line.split()[0] for line in told.stdout.splitlines()] == [letters[3].id, letters[4].id]
    document = json.loads(octavo("queue", "list", "--waiting", "--dir", "queue", "--json").stdout)
    assert [entry["id"] for entry in document["waiting"]] == [letters[3].id, letters[4].id]
    Path("empty").mkdir()
    assert octavo("queue", "list", "--waiting", "--dir", "empty").stdout == "nothing waits\n"
    assert octavo("queue", "list", "--dir", "empty").stdout == "no dead letters\n"


def test_show_one(octavo, letters):
    """Whole, whether it waits or was given up."""
    dead = json.loads(octavo("queue", "list", letters[1].id, "--dir", "queue").stdout)
    assert dead["error"] == "no such\ntable"
    assert dead["ops"][0]["records"][0]["id"] == "m1"
    entry = json.loads(octavo("queue", "list", letters[4].id, "--dir", "queue", "--json").stdout)["entry"]
    assert entry["ops"][0]["records"][0]["id"] == "m4"
    none = octavo("queue", "list", "q_none", "--dir", "queue")
    assert none.exit_code == 1
    assert none.stderr == "octavo: nothing with the id q_none waits in queue or was given up there\n"


def test_every_op_is_told(octavo):
    query = Query(collection="turns", scope=Scope(session="s"))
    add = Add([Record(collection="messages"), Record(collection="log")])
    with Spool("queue") as spool:
        spool.put(
            [Waiting(ops=[add, Change(query=query, text="x"), Remove(query), Add([])]), Waiting(ops=[])]
        )
    lines = octavo("queue", "list", "--waiting", "--dir", "queue").stdout.splitlines()
    assert lines[0].endswith("  add 2 to messages, log, change turns, remove turns, add 0 to nothing")
    assert lines[1].endswith("  nothing")


def test_replay_into_the_queue(octavo, letters):
    """Without a store the letters wait again, and a service that is running takes them over."""
    service = Spool("queue")
    service.open()
    told = octavo("queue", "replay", letters[1].id, "--dir", "queue")
    assert (told.exit_code, told.stdout) == (0, "put 1 dead letter back into the queue\n")
    assert service.waiting == 2
    assert service.adopt() == 1
    assert service.head(10)[-1].ops == letters[1].ops
    partly = octavo("queue", "replay", letters[0].id, "q_none", "--dir", "queue", "--json")
    assert partly.exit_code == 1
    assert json.loads(partly.stdout) == {
        "ok": False,
        "command": "queue replay",
        "revived": 1,
        "stored": 0,
        "left": 0,
        "missing": ["q_none"],
    }
    assert "there is no dead letter q_none" in partly.stderr
    assert octavo("queue", "replay", "--all", "--dir", "queue").stdout.startswith("put 1 dead letter back")
    assert service.adopt() == 2
    service.close()


def test_replay_to_a_store(octavo, letters):
    """Everything that waits is there, in its order; then the letters."""
    url = made()
    told = octavo("queue", "replay", "--dir", "queue", "--store", url)
    assert (told.exit_code, told.stdout, told.stderr) == (0, "stored 2 writes\n", "")
    assert kept() == ["m3", "m4"]
    told = octavo("queue", "replay", "--all", "--dir", "queue", "--store", url)
    assert told.stdout == "put 3 dead letters back into the queue\nstored 3 writes\n"
    assert sorted(kept()) == ["m0", "m1", "m2", "m3", "m4"]
    assert sorted(path.name for path in Path("queue").iterdir() if "jsonl" in path.name) == []
    again = json.loads(octavo("queue", "replay", "--dir", "queue", "--store", url, "--json").stdout)
    assert (again["stored"], again["left"], again["ok"]) == (0, 0, True)


def test_replay_leaves_what_a_service_holds(octavo, letters):
    """A running service brings its own writes to the store itself."""
    service = Spool("queue")
    service.open()
    told = octavo("queue", "replay", "--all", "--dir", "queue", "--store", made())
    assert told.stdout == "put 3 dead letters back into the queue\nstored 3 writes\n"
    assert service.waiting == 2
    assert sorted(kept()) == ["m0", "m1", "m2"]
    service.close()


def test_replay_while_the_store_is_down(octavo, letters):
    """Nothing is lost; what went wrong is told, without the password."""
    told = octavo("queue", "replay", "--all", "--dir", "queue", "--store", DOWN)
    assert told.exit_code == 1
    assert told.stdout == "put 3 dead letters back into the queue\nstored 0 writes\n"
    assert told.stderr.startswith("octavo: 5 writes not stored: ")
    assert "s3cret-word" not in told.stdout + told.stderr
    assert "waiting       5 writes" in octavo("queue", "status", "--dir", "queue").stdout


def test_a_store_that_is_not_there(octavo, letters):
    """None is made: a mistyped path must not swallow what waits."""
    told = octavo("queue", "replay", "--dir", "queue", "--store", "sqlite:///mistyped.db")
    assert told.exit_code == 2
    assert not Path("mistyped.db").exists()


def test_by_configuration(octavo, letters):
    """The folder and the store are those of the service; config/memory.yaml is found by itself."""
    made()
    Path("config").mkdir()
    text = 'database:\n  dsn: "sqlite:///new.db"\nfailure_queue:\n  directory: queue\n'
    Path("config/memory.yaml").write_text(text)
    Path("other.yaml").write_text(text.replace("queue\n", "elsewhere\n"))
    assert "waiting       2 writes" in octavo("queue", "status").stdout
    assert "waiting       0 writes" in octavo("queue", "status", "--config", "other.yaml").stdout
    assert octavo("queue", "replay", letters[0].id).stdout.endswith("stored 3 writes\n")
    assert sorted(kept()) == ["m0", "m3", "m4"]
    told = octavo("queue", "replay", "--all", "--config", "other.yaml", "--dir", "queue")
    assert told.stdout == "put 2 dead letters back into the queue\nstored 2 writes\n"
    assert octavo("queue", "status", "--config", "none.yaml").exit_code == 2
    Path("off.yaml").write_text(text + "  enabled: false\n")
    off = octavo("queue", "replay", "--config", "off.yaml")
    assert off.exit_code == 2
    assert "failure_queue.enabled is off" in off.stderr


def test_discard(octavo, letters):
    """Asked for first; --yes asks nothing; what is not there is told."""
    refused = octavo("queue", "discard", letters[0].id, "--dir", "queue", input="n\n")
    assert refused.exit_code == 1
    assert "Forget 1 dead letter for ever? [y/N]" in refused.stderr
    assert len(Spool("queue").dead.list()) == 3
    told = octavo("queue", "discard", letters[0].id, "--dir", "queue", input="y\n")
    assert (told.exit_code, told.stdout) == (0, "forgot 1 dead letter\n")
    silent = octavo("queue", "discard", letters[1].id, "--dir", "queue", "--json")
    assert silent.exit_code == 2
    assert "--json needs --yes" in silent.stderr
    partly = octavo("queue", "discard", letters[0].id, letters[1].id, "--yes", "--dir", "queue", "--json")
    assert partly.exit_code == 1
    assert json.loads(partly.stdout)["discarded"] == 1
    assert json.loads(partly.stdout)["missing"] == [letters[0].id]
    assert octavo("queue", "discard", "--all", "-y", "--dir", "queue").stdout == "forgot 1 dead letter\n"
    assert octavo("queue", "discard", "--all", "--dir", "queue").stdout == "forgot 0 dead letters\n"
    assert "waiting       2 writes" in octavo("queue", "status", "--dir", "queue").stdout


@pytest.mark.parametrize("command", ["replay", "discard"])
def test_which_must_be_said(octavo, letters, command):
    for words in ([], ["--all", "q_1"]):
        told = octavo("queue", command, *words, "--dir", "queue")
        assert told.exit_code == 2
        assert "name the ids of dead letters, or --all" in told.stderr


def test_where_must_be_said(octavo):
    assert "no queue was named; give --dir or --config" in octavo("queue", "status").stderr
    told = octavo("queue", "status", "--dir", "nowhere")
    assert told.exit_code == 2
    assert told.stderr == "octavo: there is no folder nowhere; check --dir\n"
    assert not Path("nowhere").exists()


@pytest.mark.parametrize("command", ["status", "list", "replay", "discard"])
def test_every_command_helps_with_an_example(octavo, command):
    told = octavo("queue", command, "--help")
    assert told.exit_code == 0
    assert f"Example: octavo queue {command}" in told.stdout
    for option in ("--json", "--quiet", "--debug", "--dir", "--config"):
        assert option in told.stdout


# --- whose queue it is


@pytest.fixture
def meant():
    """A queue whose write is for a database that has gone."""
    with Spool("queue", store="postgresql://old:5432/octavo") as spool:
        spool.put([write(1)])


def test_replay_to_another_store_is_refused(octavo, meant):
    """With both names and the cure, before anything is touched; what waits stays."""
    told = octavo("queue", "replay", "--dir", "queue", "--store", made())
    assert told.exit_code == 2
    assert "queued for postgresql://old:5432/octavo, and not for sqlite:///" in told.stderr
    assert "--redirect" in told.stderr
    assert kept() == []
    assert json.loads(octavo("queue", "status", "--dir", "queue", "--json").stdout)["waiting"] == 1


def test_a_database_that_has_moved(octavo, meant):
    """Somebody says so, and what waits is brought there; the folder is anybody's then."""
    told = octavo("queue", "replay", "--redirect", "--dir", "queue", "--store", made())
    assert (told.exit_code, told.stdout) == (0, "stored 1 write\n")
    assert kept() == ["m1"]
    with Spool("queue", store="sqlite:///new.db") as spool:
        assert spool.directory == Path("queue")


def test_a_database_that_has_moved_by_its_settings(octavo, meant):
    """The settings name the new one, whose own folder is another: status says where the others are."""
    Path("memory.yaml").write_text(f"database:\n  dsn: {made()}\nfailure_queue:\n  directory: queue\n")
    told = octavo("queue", "status", "--config", "memory.yaml")
    assert told.stdout.splitlines()[0].startswith("queue/sqlite-")
    assert "writes for postgresql://old:5432/octavo are in queue; " in told.stderr
    refused = octavo("queue", "replay", "--config", "memory.yaml", "--dir", "queue")
    assert (refused.exit_code, "--redirect" in refused.stderr) == (2, True)
    assert kept() == []
    assert octavo("queue", "replay", "--redirect", "--config", "memory.yaml", "--dir", "queue").exit_code == 0
    assert kept() == ["m1"]


def test_status_names_the_store(octavo, meant):
    told = octavo("queue", "status", "--dir", "queue")
    assert told.stdout.splitlines()[1] == "  store         postgresql://old:5432/octavo"
    assert told.stderr == ""
