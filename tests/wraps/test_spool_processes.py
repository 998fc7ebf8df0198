"""Several processes on one directory, killed at any moment: what was said to be kept is found by whoever is left."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from spooling import ids, names, quick, writes

from octavo.wraps.journal import Spool, inspect, peek

CHILD = Path(__file__).parent / "spool_child.py"


class Child:
    """A process that queues; `kept` and `done` are what it has said, each in its order."""

    def __init__(self, folder, name, **options) -> None:
        self.kept, self.done = [], []
        self._many = threading.Event()
        self._process = subprocess.Popen(
            [sys.executable, CHILD, folder, name, json.dumps(options)], stdout=subprocess.PIPE, text=True
        )
        self._enough = 0
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout:
            if line.endswith("\n"):
                word, *said = line.split()
                getattr(self, word).extend(said)
                if len(self.kept) >= self._enough:
                    self._many.set()
        self._many.set()

    def wait_for(self, count) -> None:
        self._enough = count
        self._many.clear()
        while len(self.kept) < count:
            assert self._process.poll() is None, "the child ended by itself"
            self._many.wait(60)
            self._many.clear()

    def pause(self) -> None:
        """Do nothing until `resume`: a queue that grows while others are looked at only makes the test long."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()

    def check(self, found) -> None:
        """All that was kept and not said to be done is there, in order; of what was not said, a little may be."""
        kept, done = set(self.kept), set(self.done)
        mine = [each for each in found if each in kept]
        said = [each for each in self.kept if each not in done]
        # Killed between doing and saying so, the two oldest may be gone without a word.
        assert mine in (said, said[2:])


@pytest.mark.parametrize("durability", ["fsync", "flush"])
def test_killed_and_adopted(tmp_path, durability, size):
    """Three processes write, each in a slot of its own, with small files; they are killed one after the other."""
    for round_ in range(size(2, 20)):
        folder = tmp_path / f"{round_}"
        options = {
            "durability": durability,
            "max_file_bytes": 5000,
            "max_in_memory": 7,
            "spill_batch_size": 3,
        }
        children = [Child(folder, f"c{n}", **options) for n in range(3)]
        for child in children:
            child.wait_for(50 + 37 * round_)
            child.pause()
        survivor = Spool(folder, max_in_memory=1_000_000)
        survivor.open()
        assert survivor.waiting == survivor.adopt() == 0
        assert all(slot.alive for slot in inspect(folder).slots)
        for child in children:
            child.resume()
            child.wait_for(len(child.kept) + 15 + round_)  # so that it is in the midst of it
            child.kill()
            assert survivor.adopt() > 0
            assert survivor.adopt() == 0
            child.check(ids(survivor.head(1_000_000)))
        found = ids(survivor.head(1_000_000))
        assert len(found) == len(set(found)) == survivor.waiting
        assert survivor.bad_lines <= 3  # at most one torn line each
        for start in range(0, len(found), 50):
            survivor.mark_done(found[start : start + 50])
        survivor.close()
        assert [name for name in names(folder) if ".bad." not in name] == []


def test_a_restart_takes_the_first_slot_and_adopts_the_others(tmp_path):
    """Nobody survives: the next one to start finds everything, in one order."""
    children = [Child(tmp_path, f"c{n}") for n in range(2)]
    for child in children:
        child.wait_for(30)
    for child in children:
        child.kill()
    waiting = ids(peek(tmp_path))
    with Spool(tmp_path, max_in_memory=1_000_000) as spool:
        assert [slot.number for slot in inspect(tmp_path).slots] == [1, 2]
        found = ids(spool.head(1_000_000))
        assert found == waiting
        assert found == sorted(found)
        for child in children:
            child.check(found)


def test_two_survivors_share_what_is_left(tmp_path):
    """A slot is adopted by one process, never by two."""
    dying = [quick(tmp_path) for _ in range(4)]
    for spool in dying:
        spool.put(writes(5))
    survivors = [quick(tmp_path), quick(tmp_path)]
    dying.clear()
    del spool
    came = [survivor.adopt() for survivor in survivors]
    assert came == [20, 0]
    assert [survivor.waiting for survivor in survivors] == [20, 0]
    assert inspect(tmp_path).waiting == 20


def test_what_is_left_at_close_is_adopted(tmp_path):
    """A process that ends in an orderly way while its store is down leaves its writes to the others."""
    one, two = quick(tmp_path), quick(tmp_path)
    entries = writes(6)
    two.put(entries[3:])
    one.put(entries[:3])
    one.close()
    assert two.adopt() == 3
    assert two.head(10) == entries  # the older ones first, whoever queued them
    two.mark_done(ids(two.head(10)))
    two.close()
    assert names(tmp_path) == []


def test_dead_letters_are_shared(tmp_path):
    """Both see, put back and forget the same ones, and neither writes over the other."""
    one, two = quick(tmp_path), quick(tmp_path)
    for number, spool in enumerate((one, two)):
        spool.put(writes(6))
        for entry in spool.head(3):
            spool.bury([entry.id], f"by {number}")
    assert one.dead.count == two.dead.count == 6
    assert one.dead.list() == two.dead.list()
    assert two.dead.discard([one.dead.list()[0].id]) == 1
    assert one.dead.count == 5
    assert one.revive() == 5
    assert two.dead.count == 0
    assert (one.waiting, two.waiting) == (8, 3)


def test_many_threads_bury_and_forget_at_once(tmp_path):
    """No letter is lost to a rewrite by somebody else."""
    spools = [quick(tmp_path) for _ in range(4)]
    troubles = []

    def live(spool, number):
        try:
            for turn in range(15):
                spool.put(writes(2))
                stays, goes = spool.head(2)
                spool.bury([stays.id, goes.id], f"{number} {turn}")
                assert spool.dead.discard([goes.id]) == 1
        except Exception as error:
            troubles.append(error)

    threads = [threading.Thread(target=live, args=(spool, n)) for n, spool in enumerate(spools)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert troubles == []
    assert sorted(letter.error for letter in spools[0].dead) == sorted(
        f"{n} {turn}" for n in range(4) for turn in range(15)
    )
    assert [spool.dead.count for spool in spools] == [60] * 4


def test_a_child_opens_its_own(tmp_path):
    """A forked child is refused, as by every store; what it opens is its own, and it keeps no lock of its parent's."""
    program = """
import os, sys
sys.path.insert(0, sys.argv[2])
from octavo.errors import StoreClosed
from spooling import ids, quick, write
spool = quick(sys.argv[1])
entry = write("parent")
spool.put([entry])
said, saying = os.pipe()
child = os.fork()
if child == 0:
    try:
        spool.put([write("child")])
    except StoreClosed:
        os.write(saying, b"x")
    spool.close()
    with quick(sys.argv[1]) as own:
        own.put([write("child")])
    os._exit(0)
os.close(saying)
assert os.read(said, 1) == b"x"
assert os.waitpid(child, 0)[1] == 0
assert spool.head(10) == [entry]
assert spool.adopt() == 1
assert [each.ops[0].records[0].id for each in spool.head(10)] == ["rparent", "rchild"]
if os.fork() == 0:
    os.close(1)
    os.read(0, 1)  # lives on, and never touches the queue
os._exit(0)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program, tmp_path, CHILD.parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout.read() == b""  # the parent is gone, and the child that is left has come to life
        assert parent.wait() == 0
        assert quick(tmp_path).waiting == 2  # the child that is left keeps no lock; it ends with this block
