"""Any life of a service, with a database that fails, hangs, dawdles or loses its answers, and with restarts and kills:
what was acknowledged is in the store, in the queue or among the dead letters, once and in order.
"""

import asyncio
import itertools
import os
import shutil
import tempfile
from datetime import timedelta
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from octavo import Query, Recall, StoreUnavailable, open_store
from octavo.assemble import Assembled
from octavo.config import Service, Settings, Vault
from octavo.kernel.model import Add
from octavo.service import AsyncMemoryService
from octavo.wraps.deduped import Deduped
from octavo.wraps.journal import Journal, Spool, peek
from serving import Faulty, said
from virtual_time import VirtualLoop

TIMEOUT = 5.0
SESSIONS = ("a", "b", "c")
WORDS = ("fine",) * 7 + ("poison",)
MODES = ("up", "up", "down", "hangs", "late", "slow")


class Database(Faulty):
    """The store of all lives, as one process sees it; it notes the order in which events arrive."""

    def __init__(self, store, arrived):
        super().__init__(store)
        self._owned = False
        self.arrived = arrived
        self.dead = False  # the process that asked was killed
        self.poison = self._sour

    async def _meet(self):
        if self.mode == "slow":  # so slow that nobody waits for it, and it is done all the same
            await asyncio.sleep(TIMEOUT * 1.5)
        await super()._meet()

    def _sour(self, ops):
        if self.dead:
            raise StoreUnavailable("the process is gone")
        if "poison" in repr(ops):
            raise StoreUnavailable("the server closed the connection")

    async def apply(self, ops):
        counts = None
        try:
            counts = await super().apply(ops)
        finally:
            if counts is not None or (self.mode == "late" and not self.dead and "poison" not in repr(ops)):
                for op in ops:
                    if isinstance(op, Add):
                        self.arrived.extend(
                            record.id for record in op.records if record.id not in self.arrived
                        )
        return counts


class Lives(RuleBasedStateMachine):
    events, turns = Bundle("events"), Bundle("turns")

    @initialize()
    def begin(self):
        self.root = Path(tempfile.mkdtemp(prefix="octavo-machine-"))
        self.folders = itertools.count()
        self.folder = self.root / "queue"
        self.loop = VirtualLoop()
        self.truth = open_store("memory://")
        self.arrived = []
        self.said = {}  # event id → session, in the order they were acknowledged
        self.ends = {}  # turn id → how it should end
        self.numbers = itertools.count()
        self.live()

    def live(self, mode="up"):
        self.database = Database(self.truth, self.arrived)
        self.database.mode = mode
        spool = Spool(
            self.folder, max_in_memory=5, spill_batch_size=2, max_file_bytes=3000, durability="flush"
        )
        journal = Journal(
            Deduped(self.database, clock=self.loop.time),
            spool,
            timeout=TIMEOUT,
            max_retries=3,
            max_age=timedelta(days=7),
            clock=self.loop.now,
        )
        settings = Settings(vault=Vault(enabled=False), service=Service(timeout_seconds=TIMEOUT))
        assembled = Assembled(
            settings=settings, store=journal, journal=journal, indexed=None, recall=Recall(journal)
        )
        self.memory = AsyncMemoryService(assembled, clock=self.loop.now)
        self.own = []  # events of this life
        self.again = set()  # of them, those of an earlier one: until the store is asked they look new
        self.run(self.memory.start())

    def run(self, work):
        async def bounded():
            begun = self.loop.time()
            answer = await work
            return answer, self.loop.time() - begun

        answer, seconds = self.loop.run_until_complete(bounded())
        self.took = seconds
        return answer

    @rule(
        target=events,
        session=st.sampled_from(SESSIONS),
        words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
    )
    def append(self, session, words):
        return self.say(session, words)

    @rule(mode=st.sampled_from(MODES), rounds=st.integers(1, 3))
    def all_at_once(self, mode, rounds):
        """Every session speaks, side by side, while the database turns."""

        async def crowd():
            talks = [asyncio.create_task(self.speak(session, ["fine"] * rounds)) for session in SESSIONS]
            await asyncio.sleep(0)
            self.database.mode = mode
            await asyncio.gather(*talks)

        self.run(crowd())
        assert self.took <= rounds * TIMEOUT

    def say(self, session, words):
        made = self.run(self.speak(session, words))
        assert self.took <= len(words) * TIMEOUT
        return made[-1]

    async def speak(self, session, words):
        made = []
        for word in words:
            obs = said(f"{word} {next(self.numbers)}", session)
            event = await self.memory.append_event(obs, session)
            assert event.event_id not in self.said
            self.said[event.event_id] = session
            self.own.append(event.event_id)
            made.append((obs, event.event_id))
        return made

    @rule(event=events)
    def append_again(self, event):
        obs, event_id = event
        again = self.run(self.memory.append_event(obs, self.said[event_id]))
        assert self.took <= 2 * TIMEOUT  # a write, and a look at what was there before
        assert again.event_id == event_id
        if event_id not in self.own:
            self.again.add(event_id)
        self.own.append(event_id)

    @rule(target=turns, event=events)
    def begin_turn(self, event):
        session = self.said[event[1]]
        turn = self.run(self.memory.append_turn(session, event[1], {"n": None}))
        assert self.took <= TIMEOUT
        self.ends[turn.turn_id] = "running"
        return turn.turn_id

    @rule(turn=turns, status=st.sampled_from(["ok", "error"]))
    def finish_turn(self, turn, status):
        self.end(turn, status)

    def end(self, turn, status):
        if turn in self.given_up():  # its beginning is a dead letter: there may be nothing to end
            return
        self.run(self.memory.finish_turn(turn, status=status))
        assert self.took <= 2 * TIMEOUT  # a write, and a look at whether it is there
        self.ends[turn] = status

    @rule(event=events, mode=st.sampled_from(MODES), status=st.sampled_from(["ok", "error"]))
    def whole_turn(self, event, mode, status):
        turn = self.run(self.memory.append_turn(self.said[event[1]], event[1]))
        self.ends[turn.turn_id] = "running"
        self.database.mode = mode
        self.end(turn.turn_id, status)

    @rule(session=st.sampled_from(SESSIONS))
    def read(self, session):
        mine = [event for event in dict.fromkeys(self.own) if self.said[event] == session]
        try:
            found = [event.event_id for event in self.run(self.memory.get_recent_events(session, None))]
        except StoreUnavailable:
            assert not mine, "what this process wrote it can tell"
            return
        finally:
            assert self.took <= TIMEOUT
        order = [event for event, place in self.said.items() if place == session]
        known = [event for event in found if event not in self.again]
        assert known == [event for event in reversed(order) if event in {*known}]
        assert {*mine} - self.given_up() <= {*found}

    @rule(mode=st.sampled_from(MODES), target=events, session=st.sampled_from(SESSIONS))
    def database_turns(self, mode, session):
        self.database.mode = mode
        return self.say(session, ["fine"])

    @rule(seconds=st.sampled_from([0.05, 1.0, 7.0, 60.0]))
    def time_passes(self, seconds):
        self.run(asyncio.sleep(seconds))

    @rule(days=st.sampled_from([0.5, 8]))
    def the_machine_sleeps(self, days):
        self.loop.seconds += days * 24 * 3600
        self.run(asyncio.sleep(60))

    @rule()
    def recover(self):
        self.database.mode = "up"
        self.run(self.memory.replay_queue())

    @rule(killed=st.booleans(), outage=st.booleans())
    def restart(self, killed, outage):
        """After a kill only what is on disk at this moment goes on: the copy is what a kill -9 would have left."""
        folder = self.folder
        if killed:
            while self.loop.threads:  # a copy that somebody writes into is no moment
                self.run(asyncio.sleep(0))
            self.folder = self.root / f"after-kill-{next(self.folders)}"
            if folder.exists():
                shutil.copytree(folder, self.folder)
            self.database.dead = True
            self.database.mode = "down"
        self.run(self.memory.close())
        assert self.took <= 4 * TIMEOUT
        self.live("down" if outage else "up")

    def given_up(self):
        """The ids of what is among the dead letters."""
        letters = self.run(self.memory.dead_letters())
        return {id_ for letter in letters for op in letter.ops for id_ in _ids(op)}

    @invariant()
    def nothing_is_lost(self):
        if not hasattr(self, "loop"):
            return
        waiting = [id_ for entry in peek(self.folder) for op in entry.ops for id_ in _ids(op)]
        stored = [record.id for record in self.everything("observations")]
        assert len({*stored}) == len(stored)
        kept = {*stored, *waiting, *self.given_up(), *(record.id for record in self.everything("turns"))}
        assert {*self.said} <= kept
        assert {*self.ends} <= kept

    def everything(self, collection):
        return self.loop.run_until_complete(self.truth.find(Query(collection=collection)))

    def teardown(self):
        if not hasattr(self, "loop"):
            return
        try:
            self.database.mode = "up"
            for _ in range(20):
                self.run(self.memory.replay_queue())
                if not self.run(self.memory.queue_status()).waiting:
                    break
                self.run(asyncio.sleep(60))
            assert self.run(self.memory.queue_status()).waiting == 0
            dead = self.given_up()
            stored = [record.id for record in self.everything("observations")]
            assert {*self.said} - dead == {*stored} - dead
            for session in SESSIONS:
                order = [event for event in self.said if self.said[event] == session and event not in dead]
                assert [event for event in stored if event in {*order}] == order
                assert [event for event in self.arrived if event in {*order}] == order
            for turn in self.everything("turns"):
                if turn.id not in dead:
                    assert turn.kind == self.ends[turn.id]
            self.run(self.memory.close())
        finally:
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.run_until_complete(asyncio.sleep(0))
            self.loop.close()
            shutil.rmtree(self.root, ignore_errors=True)


def _ids(op):
    return [record.id for record in op.records] if isinstance(op, Add) else list(op.query.ids or ())


most = int(os.environ.get("OCTAVO_PROGRAMS", "300")) // 10
Lives.TestCase.settings = hypothesis.settings(
    max_examples=max(most, 5),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
TestLives = Lives.TestCase
