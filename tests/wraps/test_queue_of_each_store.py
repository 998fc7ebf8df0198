"""A queued write goes to the store it was meant for, whoever else uses the folder."""

import subprocess
from pathlib import Path

import pytest

from octavo import Add, Memory, Record
from octavo.assemble import name_store, queue_folder
from octavo.config import Database, FailureQueue, Settings
from octavo.wraps.journal import Spool, Waiting, inspect, peek
from warm import programs

REDIS, MYSQL = "redis://127.0.0.1:1/0", "mysql://127.0.0.1:1/octavo"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(id_="m1"):
    return Waiting(ops=[Add([Record(collection="messages", id=id_, text="words")])])


def open_spool(store, folder="queue"):
    spool = Spool(folder, store=store)
    spool.open()
    return spool


def test_words_for_one_store_do_not_reach_another(caplog):
    """Two memories of one working directory: what waits for Redis stays there, and says so."""
    with Memory(REDIS) as away:
        assert away.add("I live in Lisbon.", user_id="ann").status == "queued"
    with Memory("sqlite:///q.db") as near:
        assert near.add("I like tea.", user_id="ann").status == "stored"
        assert [hit.text for hit in near.search("Lisbon", user_id="ann") if "Lisbon" in hit.text] == []
        assert near.stats()["queued"] == 0
    assert [entry.ops[0].records[0].text for entry in peek("octavo_queue")] == ["I live in Lisbon."]
    assert "octavo_queue holds writes for redis://localhost:1/0; those for sqlite:///" in caplog.text


def test_each_store_finds_its_own_again():
    """The first has the folder, the second a subfolder: also when the other is gone, and after both were emptied."""
    first, second = open_spool(REDIS), open_spool(MYSQL)
    assert first.directory == Path("queue") != second.directory == Path("queue", second.directory.name)
    first.put([write("one")])
    second.put([write("two")])
    first.close()
    second.close()
    for store, folder, id_ in ((MYSQL, second.directory, "two"), (REDIS, first.directory, "one")):
        assert (inspect(folder).store, inspect(folder).waiting) == (store, 1)
        with Spool("queue", store=store) as again:
            assert again.directory == folder
            [entry] = again.head(2)
            assert entry.ops[0].records[0].id == id_
            again.mark_done([entry.id])
    with Spool("queue", store=MYSQL) as again:
        assert again.directory == second.directory


def test_dead_letters_are_the_other_stores_too():
    with Spool("queue", store=REDIS) as first:
        first.put([entry := write()])
        first.bury([entry.id], "no")
    with Spool("queue", store=MYSQL) as second:
        assert (second.directory == first.directory, second.dead.count) == (False, 0)


def test_a_folder_in_which_nothing_is_left_is_anybodys():
    """So a database that moved while nothing waited keeps its folder, and a try in memory takes it from nobody."""
    open_spool("memory://").close()
    with Spool("queue", store=REDIS) as spool:
        assert spool.directory == Path("queue")
    assert inspect("queue").store == REDIS


def test_a_folder_of_an_older_version_is_taken_over():
    """It names no store: whoever opens it first has it, and all that waits there."""
    with Spool("queue") as old:
        old.put([write()])
    assert inspect("queue").store == ""
    with Spool("queue", store=REDIS) as spool:
        assert (spool.directory, spool.waiting) == (Path("queue"), 1)
    assert inspect("queue").store == REDIS


def test_processes_that_open_at_once_agree():
    """Those of one store share a folder, those of two do not, however they race for it."""
    program = (
        "import sys; from octavo.wraps.journal import Spool; sys.stdin.readline()\n"
        "spool = Spool(sys.argv[2], store=sys.argv[1]); spool.open(); print(spool.directory, flush=True); sys.stdin.readline()"
    )
    for round_ in range(3):
        children = [
            subprocess.Popen(
                [f"{programs()}/python", "-c", program, store, f"queue{round_}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for store in (REDIS, MYSQL) * 3
        ]
        for child in children:
            child.stdin.write("\n")
            child.stdin.flush()
        folders = [child.stdout.readline() for child in children]
        for child in children:
            child.communicate("\n")
        assert len(set(folders[::2])) == len(set(folders[1::2])) == 1
        assert len(set(folders)) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("redis://:secret@Host/0", "rediss://ann:other@host:6379?socket_timeout=3"),
        ("postgres://ann@db/octavo", "postgresql+asyncpg://bob:x@db:5432/octavo?pool_size=3&sslmode=require"),
        ("postgresql://a:1,b/octavo", "postgresql://b:5432,a:1/octavo"),
        ("postgresql://localhost/octavo", "postgresql://127.0.0.1:5432/octavo"),
        ("mysql://[::1]/octavo", "mariadb://[::1]:3306/octavo"),
        ("sqlite:///q.db", "sqlite:///./q.db?timeout=3"),
        ("file://folder", "file://./folder/?sync=fsync"),
        ("redis+sentinel://a:1,b:2/main", "redis+sentinel://:pw@b:2,a:1/main/0"),
    ],
)
def test_one_store_however_it_is_spelled(one, other):
    """A changed password, user, order of hosts or option is the same store, and none of it is in the name."""
    assert name_store(one) == name_store(other)
    assert not any(secret in name_store(one) + name_store(other) for secret in ("secret", "pw", "ann", "bob"))


def test_relative_and_absolute_path_are_one_store():
    for spelled in ("sqlite:///{}q.db", "file://{}folder"):
        assert name_store(spelled.format("")) == name_store(spelled.format(f"{Path.cwd()}/"))


@pytest.mark.parametrize(
    "other",
    [
        "redis://host/1", "redis://host:1/0", "redis://elsewhere/0", "redis://host/0?prefix=own", "redis://host?db=1",
        "mysql://host/0", "unix:///host/0",
    ],
)  # fmt: skip
def test_what_makes_another_store(other):
    """Kind, host, port, database, and what its tables or keys begin with."""
    assert name_store(other) != name_store("redis://host/0")


def test_retention_and_erasing_look_into_the_stores_own_folder():
    """The dead letters of another store are not theirs to remove."""
    with Spool("queue", store=name_store(REDIS)) as first:
        first.put([entry := write()])
        first.bury([entry.id], "no")
    settings = Settings(
        database=Database(dsn="sqlite:///q.db"), failure_queue=FailureQueue(directory="queue")
    )
    assert queue_folder(settings) not in (Path("queue"), Path())
    assert queue_folder(Settings(database=Database(dsn=REDIS), failure_queue=settings.failure_queue)) == Path(
        "queue"
    )
