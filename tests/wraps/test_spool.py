"""The disk queue: order, durability, dead letters, files."""

import json
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from spooling import ids, names, quick, write, writes

from octavo import (
    Add,
    Change,
    ConfigError,
    InvalidRecord,
    NotFound,
    Query,
    Record,
    Remove,
    Scope,
    StoreClosed,
)
from octavo.errors import StoreUnavailable
from octavo.wraps.journal import Spool, Waiting, inspect, peek


@pytest.fixture(params=["fsync", "flush", "memory"])
def spool(tmp_path, request):
    with Spool(tmp_path / "queue", durability=request.param, max_in_memory=4, spill_batch_size=3) as opened:
        yield opened


def reopened(spool) -> Spool:
    spool.close()
    return quick(spool.directory)


def test_first_in_first_out(spool):
    """The oldest come first, however many there are and however they were put."""
    entries = writes(20)
    spool.put(entries[:1])
    spool.put(entries[1:12])
    for entry in entries[12:]:
        spool.put([entry])
    assert spool.waiting == 20
    assert spool.head(0) == []
    assert spool.head(3) == entries[:3]
    assert spool.head(100) == entries[:4]  # as many as may be in memory
    spool.mark_done(ids(entries[:2]))
    assert spool.oldest_at == entries[2].queued_at
    found = []
    while head := spool.head(3):
        found += head
        spool.mark_done(ids(head))
    assert found == entries[2:]
    assert (spool.waiting, spool.oldest_at) == (0, None)


def test_skipping(spool):
    """What is skipped stays where it is; what comes behind it can be had and done, as far as there is room in memory."""
    entries = writes(4)
    spool.put(entries)
    blocked = ids(entries[:2])
    assert spool.head(4, skip=blocked) == entries[2:]
    spool.mark_done([entries[2].id])
    assert spool.head(2, skip=blocked) == entries[3:]
    spool.put(more := writes(5))
    assert spool.head(10, skip=blocked) == [entries[3], more[0]]  # four in memory, and no more
    spool.mark_done([entries[3].id])
    left = [*entries[:2], *more]
    assert reopened(spool).head(100) == left


def test_every_kind_of_write_comes_back_equal(spool):
    """Ops are written down whole: a transaction of several stays one, in its order."""
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    record = Record(
        collection="messages", kind="user", scope=Scope(tenant="t", user="u", agent="a", session="会话"), text='\n\r\t"{"crc":"',
        data={"a": [1, 1.0, True, None, {"b": "\u2028"}]}, metadata={"k": -0.0}, marks=("m",), expires_at=at, updated_at=at,
    )  # fmt: skip
    query = Query(collection="messages", ids=("x",), since=at, where={"k": 1}, limit=3, newest_first=True)
    change = Change(query=query, text="", merge={"n": 2**60}, expires_at=None, unmark=None, mark=("x",))
    entry = Waiting(ops=[Add([record, record]), change, Remove(query), Add([])], attempts=2, error="é")
    spool.put([entry])
    again = reopened(spool)
    assert again.head(1) == [entry]
    assert again.head(1)[0].ops[1].unmark is None
    assert list(peek(again.directory)) == [entry]


def test_a_restart_finds_everything(spool):
    entries = writes(10)
    spool.put(entries)
    spool.mark_done(ids(spool.head(2)))
    again = reopened(spool)
    assert again.head(100) == entries[2:]
    assert again.waiting == inspect(again.directory).waiting == 8


def test_an_attempt_counts(spool):
    """With its error, until the process ends; a dead letter keeps both."""
    entries = writes(3)
    spool.put(entries)
    spool.head(3)
    assert spool.note_attempt(entries[1].id, "disk on fire").attempts == 1
    tried = spool.note_attempt(entries[1].id, "again")
    assert (tried.attempts, tried.error) == (2, "again")
    assert [entry.attempts for entry in spool.head(3)] == [0, 2, 0]
    spool.bury([entries[1].id], "never")
    [letter] = spool.dead
    assert (letter.attempts, letter.error) == (2, "never")


def test_nothing_is_left_behind(tmp_path):
    """Files appear with the first write that waits, hold nothing when nothing waits, and are gone after close."""
    spool = quick(tmp_path, durability="fsync")
    assert names(tmp_path) == []
    entries = writes(3)
    spool.put(entries)
    assert names(tmp_path) == ["failed_events.jsonl"]
    spool.mark_done(ids(spool.head(3)))
    assert (tmp_path / "failed_events.jsonl").read_bytes() == b""
    spool.put(writes(1))
    spool.mark_done(ids(spool.head(1)))
    spool.close()
    spool.close()
    assert names(tmp_path) == []
    assert not (tmp_path / ".failed_events.1.lock").exists()


def test_only_the_owner_may_read(tmp_path):
    """The files hold people's words."""
    spool = quick(tmp_path / "a" / "queue", max_file_bytes=1)
    spool.put(writes(1))
    spool.put(writes(2))
    spool.bury([spool.head(1)[0].id], "x")
    assert stat.S_IMODE((tmp_path / "a" / "queue").stat().st_mode) == 0o700
    kept = [path for path in (tmp_path / "a" / "queue").iterdir() if ".jsonl" in path.name]
    assert len(kept) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}


def test_lines_can_be_read_and_searched(tmp_path):
    """One JSON object a line, text as it is."""
    spool = quick(tmp_path)
    spool.put(writes(2))
    lines = (tmp_path / "failed_events.jsonl").read_text().splitlines()
    assert [json.loads(line)["ops"][0]["records"][0]["text"] for line in lines] == ["消息 0", "消息 1"]
    assert all("消息" in line for line in lines)


def test_dead_letters(spool):
    """Listed oldest death first, in pages; found by id; put back or forgotten."""
    entries = writes(8)
    spool.put(entries)
    spool.head(4)
    spool.note_attempt(entries[1].id, "first")
    spool.bury([entries[1].id], "no such table")
    spool.bury(ids(spool.head(4)[:3]), "too old")
    assert (spool.dead.count, spool.waiting) == (4, 4)
    letters = spool.dead.list()
    assert ids(letters) == ids([entries[1], entries[0], *entries[2:4]])
    first = letters[0]
    assert (first.attempts, first.error, first.ops, first.queued_at) == (
        1,
        "no such table",
        entries[1].ops,
        entries[1].queued_at,
    )
    assert first.died_at.tzinfo is UTC
    assert spool.dead.list(limit=2) == letters[:2]
    assert spool.dead.list(limit=2, after=letters[1].id) == letters[2:]
    assert spool.dead.get(letters[2].id) == letters[2]
    with pytest.raises(NotFound, match="q_none"):
        spool.dead.get("q_none")
    assert spool.dead.discard(["q_none"]) == 0
    assert spool.dead.discard([]) == 0
    assert spool.dead.discard([letters[1].id]) == 1
    assert spool.dead.list() == [letters[0], *letters[2:]]
    assert spool.revive([letters[2].id, "q_none"]) == 1
    assert spool.dead.list() == [letters[0], letters[3]]
    spool.mark_done(ids(spool.head(4)))
    [back] = spool.head(100)
    assert (back.ops, back.attempts, back.error) == (letters[2].ops, 0, "")
    assert back.id > entries[-1].id
    assert back.queued_at > letters[2].queued_at
    assert spool.revive() == 2
    assert spool.dead.count == spool.revive() == spool.dead.discard() == 0
    assert "failed_events.dead.jsonl" not in names(spool.directory)
    assert spool.waiting == 3


def test_a_dead_letter_leaves_the_queue_only_when_it_is_kept(tmp_path):
    spool = quick(tmp_path)
    spool.put(writes(2))
    assert len(spool.head(2)) == 2
    (tmp_path / "failed_events.dead.jsonl").mkdir()
    with pytest.raises(StoreUnavailable, match=r"failed_events\.dead\.jsonl"):
        spool.bury([spool.head(1)[0].id], "x")
    assert spool.waiting == 2


def test_unknown_ids(spool):
    """Done twice is done; an attempt of what does not wait is a mistake."""
    spool.put(writes(2))
    first = spool.head(1)[0].id
    spool.mark_done([first])
    spool.mark_done([first, "q_none"])
    assert spool.waiting == 1
    with pytest.raises(NotFound, match="q_none"):
        spool.note_attempt("q_none", "x")


def test_memory_is_written_in_batches(tmp_path):
    """The seed's own way: up to max_in_memory in memory, then the oldest in batches, the rest when it is wanted or at close."""
    spool = quick(tmp_path, durability="memory", max_in_memory=10, spill_batch_size=4)
    entries = writes(15)
    for entry in entries[:10]:
        spool.put([entry])
    assert names(tmp_path) == []
    assert (spool.waiting, spool.oldest_at) == (10, entries[0].queued_at)
    spool.put(entries[10:11])
    assert ids(peek(tmp_path)) == ids(entries[:4])
    spool.put(entries[11:])
    assert len(list(peek(tmp_path))) == 8
    assert spool.head(10) == entries[:10]
    spool.mark_done(ids(entries[:1]))
    spool.close()
    assert ids(peek(tmp_path)) == ids(entries[1:])


def test_what_json_cannot_say_is_refused(spool):
    """At once, with nothing of it kept; the queue goes on."""
    bad = Waiting(ops=[Remove(Query(collection="log", ids=("\ud800",)))])
    with pytest.raises(InvalidRecord, match="cannot be queued"):
        spool.put([write(1), bad])
    assert (spool.waiting, spool.head(5)) == (0, [])
    spool.put([write(2)])
    assert spool.waiting == 1


def test_settings_that_make_no_sense(tmp_path):
    for setting in ("max_in_memory", "spill_batch_size", "max_file_bytes"):
        with pytest.raises(ConfigError, match=f"{setting} must be at least 1; got 0"):
            Spool(tmp_path, **{setting: 0})
    with pytest.raises(ConfigError, match="max_backups must be at least 0; got -1"):
        Spool(tmp_path, max_backups=-1)
    with pytest.raises(ConfigError, match="durability must be"):
        Spool(tmp_path, durability="always")


def test_a_folder_that_cannot_be_used(tmp_path):
    Path(tmp_path / "occupied").write_text("")
    with pytest.raises(ConfigError, match=r"the failure queue cannot use .*occupied"):
        Spool(tmp_path / "occupied").open()


def test_after_close(tmp_path):
    spool = quick(tmp_path)
    spool.close()
    with pytest.raises(StoreClosed, match="was closed"):
        spool.put(writes(1))
    Spool(tmp_path).close()  # never opened


def test_opens_on_first_use(tmp_path):
    spool = Spool(tmp_path)
    assert (spool.waiting, spool.bad_lines) == (0, 0)
    spool.put(writes(1))
    assert spool.waiting == 1
    spool.close()


def test_a_deleted_file_is_begun_again(tmp_path):
    """Whoever deletes the file under a running service loses nothing that the service still has in memory."""
    spool = quick(tmp_path)
    entries = writes(4)
    spool.put(entries[:2])
    (tmp_path / "failed_events.jsonl").unlink()
    spool.put(entries[2:])
    assert spool.head(10) == list(peek(tmp_path)) == entries
    spool.mark_done([entries[0].id])
    for path in tmp_path.iterdir():
        path.unlink()
    tmp_path.rmdir()
    spool.mark_done([entries[1].id])
    assert spool.head(10) == list(peek(tmp_path)) == entries[2:]
    other = quick(tmp_path)
    assert other.waiting == 0
    spool.close()
    assert other.adopt() == 2


def test_an_empty_slot_is_cleared_away(tmp_path):
    """What a process that died with nothing waiting left behind is removed, and its slot is free."""
    one, two = quick(tmp_path), quick(tmp_path)
    one.put(writes(2))
    one.mark_done(ids(one.head(2)))
    del one
    assert names(tmp_path) == ["failed_events.jsonl"]
    assert two.adopt() == 0
    assert names(tmp_path) == []


def test_a_deleted_part_is_told_and_passed_over(tmp_path, caplog):
    spool = quick(tmp_path, max_file_bytes=700, max_in_memory=2, spill_batch_size=1)
    entries = writes(9)
    for entry in entries:
        spool.put([entry])
    assert names(tmp_path)[1:4] == [f"failed_events.jsonl.{n}" for n in (1, 2, 3)]
    (tmp_path / "failed_events.jsonl.2").unlink()
    found = []
    while head := spool.head(2):
        found += head
        spool.mark_done(ids(head))
    assert found == entries[:2] + entries[4:]
    assert spool.waiting == 0
    assert "failed_events.jsonl.2 was deleted" in caplog.text


def test_looking_changes_nothing(tmp_path):
    """A folder that is not there stays so; a queue in use is told with all its slots."""
    nothing = inspect(tmp_path / "none")
    assert (nothing.waiting, nothing.dead, nothing.slots) == (0, 0, ())
    assert list(peek(tmp_path / "none")) == []
    assert not (tmp_path / "none").exists()
    one, two = quick(tmp_path), quick(tmp_path)
    entries = writes(4)
    one.put(entries[::2])
    two.put(entries[1::2])
    before = {path: path.stat() for path in tmp_path.iterdir()}
    status = inspect(tmp_path)
    assert (status.waiting, status.files, status.oldest_at) == (4, 2, entries[0].queued_at)
    assert status.bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert [(slot.number, slot.waiting, slot.alive) for slot in status.slots] == [(1, 2, True), (2, 2, True)]
    assert ids(peek(tmp_path)) == ids(entries)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == {
        path: there.st_mtime_ns for path, there in before.items()
    }
    two.close()
    assert [slot.alive for slot in inspect(tmp_path).slots] == [True, False]
