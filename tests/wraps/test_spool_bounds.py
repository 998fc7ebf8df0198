"""Bounded memory and files: what waits may be much, what is held of it in memory may not."""

import gc
import re
from pathlib import Path

import pytest
from spooling import ids, names, quick, write, writes

from octavo import Record
from octavo.wraps.journal import Waiting, inspect, peek

LOG = "failed_events.jsonl"


def alive(kind) -> int:
    return sum(type(each) is kind for each in gc.get_objects())


@pytest.mark.torture
@pytest.mark.parametrize("durability", ["flush", "memory"])
def test_memory_with_many_waiting(tmp_path, durability, size):
    """At most max_in_memory writes and one batch are in memory: while they come, after a restart, while they go."""
    count = size(6_000, 100_000)
    most, batch = 1000, 200
    spool = quick(tmp_path, durability=durability)
    before = alive(Waiting), alive(Record)

    def bounded():
        assert alive(Waiting) - before[0] <= most + batch
        assert alive(Record) - before[1] <= most + batch

    for start in range(0, count, 500):
        spool.put([write(n, text="x") for n in range(start, start + 500)])
        if start % 5_000 == 0:
            bounded()
    assert spool.waiting == count
    bounded()
    spool.close()
    del spool
    spool = quick(tmp_path, durability=durability)
    assert spool.waiting == inspect(tmp_path).waiting == count
    bounded()
    done = 0
    for turn in range(10_000):
        found = spool.head(200)
        if not found:
            break
        assert found[0].ops[0].records[0].id == f"r{done}"
        spool.mark_done(ids(found))
        done += len(found)
        del found
        if turn % 100 == 0:
            bounded()
            assert spool.waiting - spool.unread <= most
    assert (done, spool.waiting) == (count, 0)
    assert (tmp_path / LOG).stat().st_size == 0
    assert names(tmp_path) == [LOG]


def test_what_is_done_out_of_order(tmp_path):
    """Every second write done, none of the others: a line says which are left, and the next start finds those."""
    spool = quick(tmp_path)
    entries = writes(2000)
    spool.put(entries)
    spool.head(1000)
    spool.mark_done(ids(entries[:1000:2]))
    spool.close()
    again = quick(tmp_path, max_in_memory=10_000)
    assert ids(again.head(10_000)) == ids(entries[1:1000:2] + entries[1000:])


def test_large_writes_fill_the_memory_sooner(tmp_path):
    """However few they are."""
    spool = quick(tmp_path, spill_batch_size=3, max_file_bytes=2**30)
    entries = [write(n, text="x" * 30 * 2**20) for n in range(5)]
    spool.put(entries)
    assert len(spool.head(5)) == 3
    spool.mark_done(ids(entries[:3]))
    assert spool.head(5) == entries[3:]


def test_a_long_row_is_one_line(tmp_path):
    """A thousand done at once, or the rest of a row, is one number."""
    spool = quick(tmp_path)
    entries = writes(1001)
    spool.put(entries)
    size = (tmp_path / LOG).stat().st_size
    spool.mark_done(ids(spool.head(1000)))
    assert (tmp_path / LOG).stat().st_size - size < 80
    assert (tmp_path / LOG).read_text().endswith('"upto":1000,"left":[]}\n')


def parts(folder) -> list[int]:
    return sorted(int(name.rpartition(".")[2]) for name in names(folder) if re.search(r"\.jsonl\.\d+$", name))


def test_files_are_cut_by_size(tmp_path):
    """No file is larger than it may be, and one that is full gets a number and is never written to again."""
    spool = quick(tmp_path, max_file_bytes=2000)
    entries = writes(50)
    seen = {}
    for entry in entries:
        spool.put([entry])
        for path in tmp_path.glob(f"{LOG}.*"):
            assert seen.setdefault(path.name, path.read_bytes()) == path.read_bytes()
    assert parts(tmp_path) == list(range(1, len(seen) + 1))
    assert len(seen) > 5
    assert all(path.stat().st_size <= 2000 for path in tmp_path.iterdir())
    assert inspect(tmp_path).files == len(seen) + 1
    assert inspect(tmp_path).bytes == sum(path.stat().st_size for path in tmp_path.glob("failed_*"))
    assert list(peek(tmp_path)) == entries


def test_a_write_larger_than_a_file(tmp_path):
    spool = quick(tmp_path, max_file_bytes=100)
    entries = [write(n, text="x" * 1000) for n in range(3)]
    for entry in entries:
        spool.put([entry])
    assert parts(tmp_path) == [1, 2]
    spool.close()
    assert quick(tmp_path).head(10) == entries


def test_a_file_goes_only_when_all_of_it_is_recovered(tmp_path):
    """One write that stays keeps its file, and every later one: those may say what of the older ones is done."""
    spool = quick(tmp_path, max_file_bytes=1000)
    entries = writes(30)
    for entry in entries:
        spool.put([entry])
    before = parts(tmp_path)
    stuck = entries[4]
    assert len(spool.head(25)) == 25
    spool.mark_done(ids([entry for entry in entries[:25] if entry is not stuck]))
    left = parts(tmp_path)
    assert left == list(range(left[0], left[-1] + 1))
    assert left[0] > before[0]
    assert left[-1] >= before[-1]
    assert stuck.id in (tmp_path / f"{LOG}.{left[0]}").read_text()
    del spool
    spool = quick(tmp_path, max_file_bytes=1000)
    assert spool.head(100) == [stuck, *entries[25:]]
    spool.mark_done([stuck.id])
    assert entries[25].id in (tmp_path / f"{LOG}.{parts(tmp_path)[0]}").read_text()
    assert spool.head(100) == entries[25:]
    spool.mark_done(ids(entries[25:]))
    assert names(tmp_path) == [LOG]


@pytest.mark.parametrize("backups", [1, 2, 100])
def test_recovered_files_are_kept_if_asked_for(tmp_path, backups):
    """The newest ones, under names that are not read again."""
    spool = quick(tmp_path, max_file_bytes=1000, max_backups=backups)
    entries = writes(30)
    for entry in entries:
        spool.put([entry])
    full = parts(tmp_path)
    spool.mark_done(ids(spool.head(30)))
    kept = sorted(tmp_path.glob("*.bak"), key=lambda path: int(path.name.split(".")[-2]))
    assert [path.name for path in kept] == [f"{LOG}.{n}.bak" for n in full][-backups:]
    spool.put(entries[:1])
    spool.close()
    again = quick(tmp_path, max_file_bytes=1, max_backups=backups)
    assert again.head(100) == entries[:1]
    again.put(entries[1:2])
    assert parts(tmp_path) == [full[-1] + 1]  # a number is not given twice while its backup is there
    assert inspect(tmp_path).bytes == sum(
        Path(tmp_path / n).stat().st_size for n in names(tmp_path) if ".bak" not in n
    )


def test_a_queue_that_is_never_empty_does_not_grow(tmp_path):
    """Under steady traffic with something always waiting, old files go as their writes are recovered."""
    spool = quick(tmp_path, max_file_bytes=5000)
    spool.put(writes(10))
    most = 0
    for n in range(1000):
        spool.put([write(n)])
        spool.mark_done(ids(spool.head(1)))
        most = max(most, inspect(tmp_path).bytes)
    assert spool.waiting == 10
    assert most <= 4 * 5000
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= most


def test_a_clock_that_was_set_back_does_not_hold_the_queue_up(tmp_path):
    """However many wait, they come in the order in which they were put: ids say the time, and that may be wrong."""
    late, early = ([Waiting(id=f"q_{n}", ops=[]) for n in range(start, start + 7)] for start in (90, 10))
    spool = quick(tmp_path, max_in_memory=5, spill_batch_size=2)
    spool.put(late)
    spool.close()
    spool = quick(tmp_path, max_in_memory=5, spill_batch_size=2)
    spool.put(early)
    found = []
    while batch := spool.head(3):
        found += ids(batch)
        spool.mark_done(ids(batch))
    assert found == ids(late + early)
    assert spool.waiting == 0
