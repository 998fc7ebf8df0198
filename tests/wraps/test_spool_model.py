"""The disk queue against a plain list: whatever is done to it, in whatever order, restarted and killed in between."""

import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from spooling import ids, write

from octavo.wraps.journal import Spool, inspect, peek
from sampled import examples

PICK = st.integers(min_value=0, max_value=10_000)


class QueueAgainstList(RuleBasedStateMachine):
    """`waiting` and `dead` are what the queue must hold."""

    durability = "flush"

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="octavo-spool-"))
        self.number = 0
        self.waiting = []
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

    @rule(count=st.integers(min_value=0, max_value=7))
    def put(self, count):
        new = [write(self.number + n) for n in range(count)]
        self.number += count
        self.spool.put(new)
        self.waiting += new

    def one(self, pick):
        """One of those that the queue hands out."""
        head = self.spool.head(9)
        return head[pick % len(head)]

    @rule(most=st.integers(min_value=0, max_value=9), picks=st.lists(PICK, max_size=4))
    def head(self, most, picks):
        skip = {self.one(pick).id for pick in picks} if self.waiting else set()
        expected = [entry for entry in self.waiting if entry.id not in skip][:most]
        found = self.spool.head(most, skip=skip)
        assert ids(found) == ids(expected[: len(found)])
        assert len(found) >= min(len(expected), most, self.options.get("max_in_memory", 1000) - len(skip))
        assert [entry.ops for entry in found] == [entry.ops for entry in expected[: len(found)]]

    @precondition(lambda self: self.waiting)
    @rule(count=st.integers(min_value=1, max_value=9))
    def done_oldest(self, count):
        found = self.spool.head(count)
        self.spool.mark_done(ids(found))
        del self.waiting[: len(found)]

    @precondition(lambda self: self.waiting)
    @rule(pick=PICK)
    def done_any(self, pick):
        entry = self.one(pick)
        self.spool.mark_done([entry.id])
        self.remove(entry)

    @precondition(lambda self: self.waiting)
    @rule(pick=PICK)
    def bury(self, pick):
        entry = self.one(pick)
        self.spool.bury([entry.id], "never")
        self.dead.append(self.remove(entry))

    def remove(self, entry):
        return self.waiting.pop(ids(self.waiting).index(entry.id))

    @precondition(lambda self: self.dead)
    @rule(pick=PICK)
    def revive(self, pick):
        entry = self.dead.pop(pick % len(self.dead))
        assert self.spool.revive([entry.id]) == 1
        self.spool.flush()
        *_, back = peek(self.folder)
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
        neighbour.mark_done(ids(neighbour.head(1)))
        assert self.spool.adopt() == 0
        neighbour.flush()
        del neighbour
        assert self.spool.adopt() == 2
        self.waiting += new[1:]

    @invariant()
    def agrees(self):
        assert self.spool.waiting == len(self.waiting)
        assert self.spool.dead.count == len(self.dead)
        assert self.spool.bad_lines == 0
        oldest_at = min((entry.queued_at for entry in self.waiting), default=None)
        assert self.spool.oldest_at == oldest_at
        if self.durability != "memory":
            assert ids(peek(self.folder)) == ids(self.waiting)
            seen = inspect(self.folder)
            assert (seen.waiting, seen.dead, seen.oldest_at) == (len(self.waiting), len(self.dead), oldest_at)


class QueueInMemoryAgainstList(QueueAgainstList):
    """Where nothing needs to be on disk, a kill may lose what is only in memory; everything else is the same."""

    durability = "memory"

    @rule()
    def kill(self):
        self.spool.flush()
        super().kill()


TestQueueAgainstList = QueueAgainstList.TestCase
TestQueueAgainstList.settings = settings(max_examples=examples(12, 25), stateful_step_count=30)
TestQueueInMemoryAgainstList = QueueInMemoryAgainstList.TestCase
TestQueueInMemoryAgainstList.settings = settings(max_examples=examples(8, 15), stateful_step_count=30)
