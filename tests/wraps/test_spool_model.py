"""The disk queue against a plain list: whatever is done to it, in whatever order, restarted and killed in between."""

import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from spooling import ids, write

from octavo.wraps.spool import Spool, inspect, peek

PICK = st.integers(min_value=0, max_value=10_000)


class QueueAgainstList(RuleBasedStateMachine):
    """`waiting` and `dead` are what the queue must hold."""

    durability = "flush"

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="octavo-spool-"))
        self.number = 0
        self.waiting = []
        self.attempts = {}
        self.dead = []
        self.options = {}
        self.spool = self.opened()

    def opened(self) -> Spool:
        spool = Spool(self.folder, durability=self.durability, **self.options)
        spool.open()
        return spool

    def teardown(self) -> None:
        self.spool.close()
        assert ids(peek(self.folder)) == ids(self.waiting)
        shutil.rmtree(self.folder)

    def one(self, pick):
        return self.waiting[pick % len(self.waiting)]

    @rule(count=st.integers(min_value=0, max_value=7))
    def put(self, count):
        new = [write(self.number + n) for n in range(count)]
        self.number += count
        self.spool.put(new)
        self.waiting += new

    @rule(most=st.integers(min_value=0, max_value=9), picks=st.lists(PICK, max_size=4))
    def head(self, most, picks):
        skip = {self.one(pick).id for pick in picks} if self.waiting else set()
        expected = [entry for entry in self.waiting if entry.id not in skip][:most]
        found = self.spool.head(most, skip=skip)
        assert ids(found) == ids(expected)
        assert [entry.ops for entry in found] == [entry.ops for entry in expected]
        assert [entry.attempts for entry in found] == [self.attempts.get(e.id, 0) for e in expected]

    @precondition(lambda self: self.waiting)
    @rule(count=st.integers(min_value=1, max_value=9))
    def done_oldest(self, count):
        self.spool.done(ids(self.spool.head(count)))
        del self.waiting[:count]

    @precondition(lambda self: self.waiting)
    @rule(pick=PICK)
    def done_any(self, pick):
        entry = self.one(pick)
        self.spool.done([entry.id])
        self.waiting.remove(entry)

    @precondition(lambda self: self.waiting)
    @rule(pick=PICK)
    def tried(self, pick):
        entry = self.one(pick)
        self.attempts[entry.id] = self.attempts.get(entry.id, 0) + 1
        assert self.spool.tried(entry.id, "no").attempts == self.attempts[entry.id]

    @precondition(lambda self: self.waiting)
    @rule(pick=PICK)
    def bury(self, pick):
        entry = self.one(pick)
        self.spool.bury([entry.id], "never")
        self.waiting.remove(entry)
        self.dead.append(entry)

    @precondition(lambda self: self.dead)
    @rule(pick=PICK)
    def revive(self, pick):
        entry = self.dead.pop(pick % len(self.dead))
        assert self.spool.revive([entry.id]) == 1
        *_, back = self.spool.head(10_000)
        assert back.ops == entry.ops
        self.waiting.append(back)

    @precondition(lambda self: self.dead)
    @rule(pick=PICK)
    def discard(self, pick):
        assert self.spool.dead.discard([self.dead.pop(pick % len(self.dead)).id]) == 1

    @rule(
        max_in_memory=st.integers(min_value=1, max_value=6),
        spill_batch_size=st.integers(min_value=1, max_value=4),
        max_file_bytes=st.sampled_from([1, 500, 1500, 10_000]),
        max_backups=st.integers(min_value=0, max_value=2),
    )
    def restart(self, **options):
        """A new process, whose settings may be others."""
        self.spool.close()
        self.options = options
        self.spool = self.opened()

    @rule()
    def kill(self):
        """What the system does with a killed process: its files stay as they are, its locks are let go."""
        del self.spool
        self.spool = self.opened()

    @rule()
    def a_neighbour_dies(self):
        """Another process that shared the directory is killed; its writes are taken over, in their order."""
        neighbour = self.opened()
        new = [write(self.number + n) for n in range(3)]
        self.number += 3
        neighbour.put(new)
        neighbour.done([new[0].id])
        assert self.spool.adopt() == 0
        neighbour.flush()
        del neighbour
        assert self.spool.adopt() == 2
        self.waiting += new[1:]

    @invariant()
    def agrees(self):
        status = self.spool.status()
        assert status.waiting == self.spool.waiting == len(self.waiting)
        assert status.dead == len(self.dead)
        assert status.bad_lines == 0
        assert status.oldest_at == min((entry.queued_at for entry in self.waiting), default=None)
        if self.durability != "memory":
            assert ids(peek(self.folder)) == ids(self.waiting)
            seen = inspect(self.folder)
            assert (seen.waiting, seen.dead) == (len(self.waiting), len(self.dead))
            assert seen.oldest_at == status.oldest_at
            assert seen.bytes == status.bytes


class QueueInMemoryAgainstList(QueueAgainstList):
    """Where nothing needs to be on disk, a kill may lose what is only in memory; everything else is the same."""

    durability = "memory"

    @rule()
    def kill(self):
        self.spool.flush()
        super().kill()


TestQueueAgainstList = QueueAgainstList.TestCase
TestQueueAgainstList.settings = settings(max_examples=60, stateful_step_count=40)
TestQueueInMemoryAgainstList = QueueInMemoryAgainstList.TestCase
TestQueueInMemoryAgainstList.settings = settings(max_examples=40, stateful_step_count=40)
