"""Damaged logs: opening never fails, whole lines are kept, what is bad is set aside with its bytes and counted once."""

import logging
import shutil
from datetime import UTC, datetime

import pytest
from spooling import ids, names, quick, write, writes

from octavo import Add, Record
from octavo.wraps.journal import DeadLetter, Waiting, inspect, peek
from octavo.wraps.journal.files import seal_line

LOG = "failed_events.jsonl"
BAD = "failed_events.bad.jsonl"


@pytest.fixture(autouse=True)
def quiet():
    """Thousands of warnings, one for each damage, would only slow the tests down."""
    logging.getLogger("octavo.journal").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("octavo.journal").setLevel(logging.NOTSET)


def small(n) -> Waiting:
    """A write with a short line: every byte of it is damaged in turn."""
    record = Record(
        collection="log", id=f"r{n}", text="é", created_at=datetime(2026, 1, 1, tzinfo=UTC), seq=n
    )
    return Waiting(id=f"q_{n}", queued_at=datetime(2026, 1, 1, tzinfo=UTC), ops=[Add([record])])


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """A log with every kind of line, and what waits after each of them."""
    folder = tmp_path_factory.mktemp("sample")
    spool = quick(folder)
    entries = [small(n) for n in range(4)]
    states = [[]]

    def step(act):
        act()
        states.append(ids(spool.head(100)))

    for entry in entries[:3]:
        step(lambda entry=entry: spool.put([entry]))
    step(lambda: spool.mark_done(["q_1"]))
    step(lambda: spool.put(entries[3:]))
    data = (folder / LOG).read_bytes()
    assert len(data.splitlines()) == len(states) - 1 == 5
    return data, states


def state(spool):
    return ids(spool.head(100))


def opened(folder, data):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / LOG).write_bytes(data)
    return quick(folder)


def again_the_same(spool, folder):
    """A second start finds what the first found, and nothing bad any more that was not counted before."""
    found, bad, kept = state(spool), spool.bad_lines, (folder / BAD).read_bytes() if spool.bad_lines else b""
    spool.put([small(9)])
    spool.close()
    again = quick(folder)
    assert state(again) == [*found, "q_9"]
    assert again.bad_lines == bad == inspect(folder).bad_lines
    assert not bad or (folder / BAD).read_bytes() == kept
    again.close()


def test_cut_at_every_byte(sample, tmp_path):
    """Every whole line counts; a torn one is set aside, and the next write begins on a line of its own."""
    data, states = sample
    for cut in range(len(data) + 1):
        spool = opened(tmp_path / "q", data[:cut])
        whole = data[:cut].count(b"\n")
        torn = data[:cut].rpartition(b"\n")[2]
        if torn and data[cut:].startswith(b"\n"):  # all of the line but its newline
            whole, torn = whole + 1, b""
        assert state(spool) == states[whole], cut
        assert spool.bad_lines == bool(torn), cut
        if torn:
            assert (tmp_path / "q" / BAD).read_bytes() == torn + b"\n"
        if cut % 11 == 0:
            again_the_same(spool, tmp_path / "q")
        spool.close()


@pytest.mark.parametrize("damage", [b"\0", b"\n", b"\xff", b"}"])
def test_a_byte_damaged(sample, tmp_path, damage):
    """Only the line that is hit is lost to the queue, or both where it was the newline between them; the bytes are kept."""
    data, _ = sample
    ends = [at for at, byte in enumerate(data) if byte == ord("\n")]
    for at in sorted({*range(0, len(data), 5), *ends}):
        if data[at : at + 1] == damage:
            continue
        damaged = data[:at] + damage + data[at + 1 :]
        spool = opened(tmp_path / "q", damaged)
        hit = sum(end < at for end in ends)
        assert state(spool) == (without(hit, hit + 1) if at in ends[:-1] else without(hit)), at
        assert spool.bad_lines in (1, 2), at
        kept = (tmp_path / "q" / BAD).read_bytes().replace(b"\n", b"")
        assert damaged[ends[hit - 1] + 1 if hit else 0 : ends[hit]].replace(b"\n", b"") in kept, at
        if at % 35 == 0:
            again_the_same(spool, tmp_path / "q")
        spool.close()


def without(*hit):
    """What waits when these of the five lines of the sample say nothing."""
    gone = {0: "q_0", 1: "q_1", 2: "q_2", 4: "q_3"}
    entries = ["q_0", "q_1", "q_2", "q_3"] if 3 in hit else ["q_0", "q_2", "q_3"]
    return [entry for entry in entries if entry not in {gone.get(each) for each in hit}]


def test_damage_everywhere(tmp_path):
    """Of a log full of rubbish every whole line is found, in order."""
    folder = tmp_path / "q"
    spool = quick(folder)
    entries = writes(6)
    spool.put(entries)
    spool.close()
    line = (folder / LOG).read_bytes().splitlines(keepends=True)
    rubbish = [
        b"\0" * 4096 + b"\n",
        b"hello\n",
        b"\n\n   \n",
        b'{"crc":"\n',
        b"\xff\xfe\n",
        b"{}\n",
        line[0][:50],
    ]
    data = b"".join(part for pair in zip(rubbish, [*line, b""], strict=True) for part in pair)
    spool = opened(folder, data)
    assert spool.head(100) == entries
    assert spool.bad_lines == 6
    bad = (folder / BAD).read_bytes()
    assert bad == b"\0" * 4096 + b"\nhello\n" + b'{"crc":"\n' + b"\xff\xfe\n{}\n" + line[0][:50] + b"\n"
    again_the_same(spool, folder)


def test_lines_of_another_version(tmp_path):
    """A line that is whole but says something unknown is quarantined, at the start or when it is read."""
    folder = tmp_path / "q"
    spool = quick(folder)
    entries = writes(2)
    spool.put(entries)
    spool.close()
    first, second = (folder / LOG).read_bytes().splitlines(keepends=True)
    kinds = [
        seal_line(b'"is":"merged","id":"q_later"}'),
        seal_line(b'"is":"queued","n":2,"id":"q_later","ops":["x"]}'),
    ]
    spool = opened(folder, first + b"".join(kinds))
    assert spool.head(100) == entries[:1]
    assert spool.bad_lines == 2
    assert (folder / BAD).read_bytes().count(b"q_later") == 2
    spool.close()
    spool = opened(folder, first + kinds[0] + second)
    assert spool.head(100) == entries
    assert spool.bad_lines == 1
    again_the_same(spool, folder)


def test_damage_that_appears_while_running(tmp_path):
    """What goes bad on disk after it was counted is passed over; nobody waits for it for ever."""
    spool = quick(tmp_path, max_in_memory=1, spill_batch_size=1)
    entries = writes(4)
    spool.put(entries)
    data = (tmp_path / LOG).read_bytes()
    (tmp_path / LOG).write_bytes(data.replace("消息 2".encode(), "消息 X".encode()))
    found = []
    while head := spool.head(1):
        found += head
        spool.mark_done(ids(head))
    assert found == [entries[0], entries[1], entries[3]]
    assert (spool.waiting, spool.bad_lines) == (0, 1)


def test_damaged_parts(tmp_path):
    """A part that was numbered is read and mended like the one being written."""
    spool = quick(tmp_path, max_file_bytes=700)
    entries = writes(8)
    for entry in entries:
        spool.put([entry])
    spool.close()
    part = tmp_path / f"{LOG}.2"
    part.write_bytes(part.read_bytes()[:-20])
    (tmp_path / f"{LOG}.3").write_bytes(b"")
    spool = quick(tmp_path)
    assert ids(spool.head(100)) == ids(entries[:3] + entries[6:])
    assert spool.bad_lines == 1
    again_the_same_ids = ids(spool.head(100))
    spool.close()
    spool = quick(tmp_path)
    assert ids(spool.head(100)) == again_the_same_ids
    assert spool.bad_lines == 1
    spool.close()


def test_damaged_dead_letters(tmp_path):
    """Whole letters are found; damaged ones are kept in place until the file is rewritten, then set aside."""
    spool = quick(tmp_path)
    entries = writes(3)
    spool.put(entries)
    for entry in spool.head(3):
        spool.bury([entry.id], "x")
    dead = tmp_path / "failed_events.dead.jsonl"
    first, second, third = dead.read_bytes().splitlines(keepends=True)
    dead.write_bytes(first + second[:30] + b"\n" + third[:-1])
    assert ids(spool.dead.list()) == ids([entries[0], entries[2]])
    assert spool.dead.count == 2
    spool.put([write(5)])
    spool.bury([spool.head(1)[0].id], "later")
    assert spool.dead.count == 3
    assert spool.dead.discard([entries[0].id]) == 1
    assert ids(spool.dead.list())[0] == entries[2].id
    assert (tmp_path / BAD).read_bytes() == second[:30] + b"\n"
    assert (spool.dead.count, spool.bad_lines) == (2, 1)
    assert spool.dead.discard() == 2
    assert names(tmp_path) == [BAD, LOG]


def test_a_letter_cut_at_every_byte(tmp_path):
    """The letters before it stay, and the next one is whole."""
    spool = quick(tmp_path)
    dead = tmp_path / "failed_events.dead.jsonl"
    letters = [
        DeadLetter(id=f"q_{n}", queued_at=datetime(2026, 1, 1, tzinfo=UTC), ops=[], error="é")
        for n in range(3)
    ]
    spool.dead.add(letters[:2])
    data = dead.read_bytes()
    last = data.rindex(b"\n", 0, -1) + 1
    for cut in range(last, len(data) + 1):
        dead.write_bytes(data[:cut])
        spool.dead.add(letters[2:])
        assert spool.dead.list() == letters[:1] + letters[1 : 1 + (cut >= len(data) - 1)] + letters[2:]
        assert spool.dead.count == len(spool.dead.list())


def test_what_cannot_be_set_aside_stays(tmp_path):
    """Even when the log is cleared: then its whole file is kept under another name."""
    spool = quick(tmp_path)
    entries = writes(2)
    spool.put(entries)
    spool.close()
    damaged = (tmp_path / LOG).read_bytes() + b"rubbish\n"
    (tmp_path / LOG).write_bytes(damaged)
    (tmp_path / BAD).mkdir()
    for _ in range(2):
        spool = quick(tmp_path)
        assert spool.head(100) == list(peek(tmp_path)) == entries
        assert spool.bad_lines == 1
        spool.close()
    spool = quick(tmp_path)
    spool.mark_done(ids(spool.head(2)))
    assert (tmp_path / f"{LOG}.1.damaged").read_bytes() == damaged
    spool.put(writes(1))
    assert len(list(peek(tmp_path))) == 1
    spool.close()
