"""A full disk: whoever puts learns it at once, nothing half is kept, and everything goes on when there is room."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from spooling import ids, names, quick, write, writes

from octavo.errors import StoreUnavailable
from octavo.wraps.journal import peek
from servers.verdict import NOT_TESTED

HERE = Path(__file__).parent
LOG = "failed_events.jsonl"


@pytest.fixture
def limit():
    """`limit(bytes)`: no file of this process may grow past that; what EFBIG is to a file, ENOSPC is to a disk."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limited(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (old[1] if size is None else size, old[1]))

    yield limited
    resource.setrlimit(resource.RLIMIT_FSIZE, old)


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 256 KiB of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"{NOT_TESTED}a small tmpfs cannot be mounted here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder) -> None:
    with (folder / "ballast").open("wb", buffering=0) as ballast:
        while True:
            try:
                ballast.write(b"x" * 4096)
            except OSError:
                return


@pytest.mark.parametrize("durability", ["fsync", "flush"])
def test_put_on_a_full_disk(small_disk, durability):
    """It names the path and the reason, keeps nothing of the batch, and works again when there is room."""
    folder = small_disk / "queue"
    spool = quick(folder, durability=durability)
    entries = writes(3)
    spool.put(entries)
    fill(small_disk)
    before = (folder / LOG).read_bytes()
    with pytest.raises(StoreUnavailable, match=rf"queue/{LOG}: No space left on device") as failed:
        spool.put([write(10), write(11, text="x" * 100_000), write(12)])
    assert isinstance(failed.value.__cause__, OSError)
    assert (folder / LOG).read_bytes() == before
    assert (spool.waiting, spool.head(10)) == (3, entries)
    spool.mark_done([entries[0].id])  # a few bytes may or may not fit: that is nobody's error
    assert spool.head(10) == entries[1:]
    (small_disk / "ballast").unlink()
    more = writes(2)
    spool.put(more)
    assert spool.head(10) == list(peek(folder)) == entries[1:] + more
    spool.close()
    again = quick(folder)
    assert again.head(10) == entries[1:] + more
    assert again.bad_lines == 0
    again.close()


def test_everything_recovered_on_a_full_disk(small_disk):
    """When nothing waits any more that is on disk at once, since it needs no room."""
    spool = quick(small_disk, durability="fsync", max_file_bytes=5000)
    for n in range(100):
        spool.put([write(n)])
    fill(small_disk)
    while found := spool.head(7):
        spool.mark_done(ids(found))
    assert (small_disk / LOG).read_bytes() == b""
    del spool
    assert list(peek(small_disk)) == []
    spool = quick(small_disk)
    assert spool.waiting == 0
    spool.close()


def test_opening_on_a_full_disk(small_disk):
    """What waits is found, damage too; only what needs room is left for later."""
    spool = quick(small_disk / "queue")
    entries = writes(3)
    spool.put(entries)
    spool.close()
    with (small_disk / "queue" / LOG).open("ab") as log:
        log.write(b"x" * 3000 + b"\n")
    fill(small_disk)
    spool = quick(small_disk / "queue", durability="fsync")
    assert spool.head(10) == entries
    assert spool.bad_lines == 1
    (small_disk / "ballast").unlink()
    spool.put(writes(1))
    spool.close()
    spool = quick(small_disk / "queue")
    assert (spool.waiting, spool.bad_lines) == (4, 1)
    assert (small_disk / "queue" / "failed_events.bad.jsonl").read_bytes() == b"x" * 3000 + b"\n"
    spool.close()


def test_done_is_remembered(tmp_path, limit):
    """What could not be said when it was done is said with the next line that can be written."""
    spool = quick(tmp_path)
    entries = writes(6)
    spool.put(entries)
    assert spool.head(10) == entries
    limit((tmp_path / LOG).stat().st_size)
    spool.mark_done([entries[0].id])
    spool.mark_done([entries[2].id, entries[1].id])
    assert ids(spool.head(10)) == ids(entries[3:])
    assert list(peek(tmp_path)) == entries
    with pytest.raises(StoreUnavailable, match="File too large"):
        spool.put(writes(1))
    limit(None)
    more = writes(1)
    spool.put(more)
    assert ids(peek(tmp_path)) == ids(entries[3:] + more)


def test_a_dead_letter_needs_room(tmp_path, limit):
    """It stays in the queue until it can be kept as a dead letter."""
    spool = quick(tmp_path)
    entries = writes(2)
    spool.put(entries)
    spool.head(2)
    limit(100)
    with pytest.raises(StoreUnavailable, match=r"failed_events\.dead\.jsonl: File too large"):
        spool.bury([entries[0].id], "x")
    assert (spool.waiting, spool.dead.count) == (2, 0)
    assert (tmp_path / "failed_events.dead.jsonl").read_bytes() == b""
    limit(None)
    spool.bury([entries[0].id], "x")
    assert ids(spool.dead.list()) == [entries[0].id]
    limit(100)
    with pytest.raises(StoreUnavailable):
        spool.revive()
    limit(None)
    assert ids(spool.dead.list()) == [entries[0].id]
    assert spool.waiting == 1


def test_memory_that_cannot_be_spilled(tmp_path, limit):
    """The newcomers are refused, those before them stay; close says what it could not write, and can be called again."""
    spool = quick(tmp_path, durability="memory", max_in_memory=3, spill_batch_size=2)
    entries = writes(3)
    spool.put(entries)
    limit(10)
    with pytest.raises(StoreUnavailable, match="File too large"):
        spool.put(writes(4))
    assert spool.waiting == 3
    with pytest.raises(StoreUnavailable, match="File too large"):
        spool.close()
    limit(None)
    spool.close()
    assert list(peek(tmp_path)) == entries


def test_a_child_that_runs_full_and_is_killed(tmp_path):
    """Everything said to be kept is there after the process is gone, and nothing else of it is bad."""
    program = """
import os, resource, signal, sys
sys.path.insert(0, sys.argv[2])
from spooling import quick, write
from octavo.errors import StoreUnavailable
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
spool = quick(sys.argv[1], durability="fsync")
refused = 0
for n in range(200):
    entry = write(n, text="x" * (n * 37 % 900))
    try:
        spool.put([entry])
    except StoreUnavailable:
        refused += 1
    else:
        print(entry.id, flush=True)
print(refused, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path, HERE],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == -9, done.stderr
    *kept, refused = done.stdout.split()
    assert int(refused) + len(kept) == 200
    assert len(kept) > 10
    spool = quick(tmp_path)
    assert ids(spool.head(1000)) == kept
    assert spool.bad_lines == 0
    assert (tmp_path / LOG).stat().st_size <= 20_000
    assert names(tmp_path) == [LOG]
