"""The Journal against a plain list of what was acknowledged, whatever the store does meanwhile and whoever is killed when."""

import asyncio
import shutil
import tempfile
from datetime import timedelta
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from outages import COLLECTION, Unsteady, add, event, remove, those

from octavo import Add, Change, Query, open_store
from octavo.errors import StoreError, StoreUnavailable
from octavo.kernel.ids import now
from octavo.testing.agreement import spelling
from octavo.wraps import Deduped, Journal
from octavo.wraps.journal import Spool, inspect
from sampled import examples
from virtual_time import START, VirtualLoop

SESSIONS = ("s1", "s2", "s3")
MOODS = st.sampled_from(["up", "down", "hang", "after", "refuse", "read-only"])
PAUSES = st.sampled_from([0.0, 0.01, 0.5, 3.0, 40.0])
#: A store that is well again is tried after at most half a minute, for which a reader waits five seconds.
NOTICED = timedelta(seconds=35)
EVERYTHING = Query(collection=COLLECTION)


class JournalAgainstList(RuleBasedStateMachine):
    """What was acknowledged is in the store, in the queue or among the dead letters; each id once; in order per session."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.records = open_store("memory://")  # what outlives every process
        self.acknowledged = {session: [] for session in SESSIONS}
        self.poison = set()
        self.perhaps = set()  # ids whose caller gave up
        self.mood = "up"
        self.names = 0
        self.passed = 0.0  # seconds of the lives before this one
        self.turned = START

    # --- lives

    @initialize()
    def begin(self):
        self.runner = asyncio.Runner(loop_factory=VirtualLoop)
        self.loop = self.runner.get_loop()
        self.run(self.open())

    async def open(self):
        self.store = Unsteady(self.records, self.mood)
        self.store.poison = {name: StoreUnavailable("packet too large") for name in self.poison}
        spool = Spool(
            self.folder, durability="flush", max_in_memory=5, spill_batch_size=3, max_file_bytes=2000
        )
        deduped = Deduped(self.store, clock=self.loop.time, owned=False)
        self.journal = Journal(deduped, spool, clock=self.clock, max_retries=2, max_age=timedelta(days=1))
        await self.journal.dead_letters()  # which opens the queue, and leaves the store for later

    def clock(self):
        return START + timedelta(seconds=self.passed + self.loop.time())

    def run(self, work):
        return self.runner.run(work)

    def end(self):
        """What the system does with a killed process: its files stay as they are, its locks are let go."""
        self.passed += self.loop.time()
        queue = self.journal._queue
        if queue._thread is not None:
            queue._thread.shutdown()
        self.runner.close()
        for log in queue.spool._logs:
            log._lock.release()  # the system does so at once, the garbage collector when it likes
        queue.spool = None

    @rule()
    def restart(self):
        self.run(self.journal.close())
        self.end()
        self.begin()

    @rule()
    def kill(self):
        self.end()
        self.begin()

    # --- writes

    def name(self):
        self.names += 1
        return f"{self.names:03}"

    async def write(self, ops, session):
        try:
            answer = await self.journal.write(ops)
        except StoreError:
            assert self.mood == "refuse"  # nothing else may be refused
            return
        # What is known to be stored need not be sent again: then there is nothing to wait for.
        known = answer.counts == [0] and isinstance(ops[0], Add)
        assert self.mood == "up" or answer.status == "queued" or known
        self.acknowledged[session].append(ops)

    def ops(self, kind, session):
        """An add, the same add again, a change that every later one overwrites, a removal, or all of them in one call."""
        name, board = self.name(), those(session, ids=("board",))
        changed = [
            Add([event("board", session)]),
            Change(query=board, merge={"last": name}, updated_at=now()),
        ]
        before = f"{self.names // 2:03}"
        return {
            "add": [add(name, session=session)],
            "again": [add(before, session=session)],
            "change": changed,
            "remove": [remove(before, session=session)],
            "all": [remove(before, session=session), add(name, session=session), *changed],
        }[kind]

    KINDS = st.sampled_from(["add", "again", "change", "remove", "all"])

    @rule(kind=KINDS, session=st.sampled_from(SESSIONS))
    def one(self, kind, session):
        self.run(self.write(self.ops(kind, session), session))

    @rule(kinds=st.lists(KINDS, min_size=3, max_size=3))
    def at_once(self, kinds):
        """In every session one."""

        async def all_of_them():
            writes = [
                (self.ops(kind, session), session) for kind, session in zip(kinds, SESSIONS, strict=True)
            ]
            await asyncio.gather(*(self.write(*write) for write in writes))

        self.run(all_of_them())

    @rule(turns=st.integers(min_value=0, max_value=8))
    def given_up(self, turns):
        """A caller that is cancelled at some moment; nobody knows whether its write was done."""
        name = self.name()
        self.perhaps.add(name)

        async def give_up():
            task = asyncio.create_task(self.journal.write([add(name, session="given-up")]))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self.run(give_up())

    @rule(session=st.sampled_from(SESSIONS))
    def read(self, session):
        """Whoever gets an answer gets all that was acknowledged, wherever it is; a store that takes no write answers."""

        async def ask():
            try:
                return await self.journal.find(those(session)), await self.journal.tally(those(session))
            except StoreError:
                assert self.mood != "up" or self.clock() - self.turned < NOTICED
                return None

        if (answer := self.run(ask())) is not None:
            right = self.right(session)
            assert spelling(answer[0]) == spelling(self.run(right.find(those(session))))
            assert answer[1] == self.run(right.tally(those(session)))

    def right(self, session):
        """A store with all that was acknowledged of a session."""
        store = open_store("memory://")
        for ops in self.acknowledged[session]:
            self.run(store.apply(ops))
        return store

    @precondition(lambda self: self.mood in ("down", "hang"))
    @rule()
    def poisoned(self):
        """A write that the store will never take, in a session of its own."""
        name = f"poison-{self.name()}"
        self.poison.add(name)
        self.store.poison[name] = StoreUnavailable("packet too large")
        self.run(self.journal.write([add(name, session="poisoned")]))

    # --- what happens meanwhile

    @rule(mood=MOODS)
    def turn(self, mood):
        self.mood, self.turned = mood, self.clock()
        self.store.turn(mood)

    @rule(seconds=PAUSES)
    def pause(self, seconds):
        self.run(asyncio.sleep(seconds))

    @rule()
    def replay_now(self):
        self.run(self.journal.replay_now())

    @rule()
    def recover(self):
        """When the store is well for a while, everything is as if it had never been otherwise."""
        self.turn("up")
        self.run(self.settled())
        status = self.journal.status()
        dead = self.run(self.journal.dead_letters())
        assert {letter.ops[0].records[0].id for letter in dead} == self.poison
        assert (status.waiting, status.bad_lines) == (0, 0)
        found = self.run(self.journal.find(EVERYTHING))
        assert {r.id for r in found if r.scope.session == "given-up"} <= self.perhaps
        for session in SESSIONS:
            mine = [record for record in found if record.scope.session == session]
            assert spelling(mine) == spelling(self.run(self.right(session).find(those(session))))

    async def settled(self):
        for _ in range(300):
            status = self.journal.status()
            if status.state == "up" and not status.waiting:
                return
            await asyncio.sleep(1)
        raise AssertionError(f"still not settled: {self.journal.status()}")

    @invariant()
    def nothing_is_lost(self):
        """What waits is on disk, and nobody was turned away."""
        queue = self.journal._queue
        counts = queue.run(lambda: (queue.spool.waiting, inspect(self.folder).waiting))
        mine, on_disk = self.run(counts)  # in the queue's thread, or it would be at work in between
        assert mine == on_disk
        assert self.journal.status().refused == 0

    def teardown(self):
        try:
            self.recover()
            self.run(self.journal.close())
        finally:
            self.end()
            shutil.rmtree(self.folder)


TestJournalAgainstList = JournalAgainstList.TestCase
TestJournalAgainstList.settings = settings(max_examples=examples(25, 50), stateful_step_count=30)
