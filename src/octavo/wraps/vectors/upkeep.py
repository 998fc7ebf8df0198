"""The background task that keeps an index up to date with its store, whatever fails meanwhile."""

import asyncio
import contextlib
import enum
import logging
import os
import random
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

import msgspec

from octavo.errors import OctavoError, StoreClosed
from octavo.kernel.ids import now
from octavo.kernel.model import START, Add, Op, Record
from octavo.kernel.ports import Embedder, ListsTenants, Store, VectorIndex
from octavo.wraps.vectors.comparing import Reach, Rebuild
from octavo.wraps.vectors.embedding import Outcome, Target, refresh
from octavo.wraps.vectors.waiting import Key, keys_in, markers, removal, waiting

_log = logging.getLogger(__name__)
_BATCH = 128  # markers read at once, and records embedded between two removals of markers
_LOOK_SECONDS = 60.0  # between two looks for markers that a process left behind when it died
_LOOK_SECONDS_EACH = 0.05  # so that looking through very many tenants takes a small part of the time
_MOST_DELAY_SECONDS = 24 * 3600.0  # before a text that the model refused is tried again


class _Job(enum.Enum):
    """What there is to do besides the markers of a tenant."""

    LOOK = enum.auto()  # for tenants whose markers nobody here knows of
    FILL = enum.auto()  # the new space, and then forget the old one


Job: TypeAlias = "str | _Job"  # a tenant, whose markers are to be worked off, or one of these


class _Turn(NamedTuple):
    """When a job is to be done, and how often in a row it has failed."""

    at: datetime
    failures: int = 0


class Upkeep:
    """Does one job after the other, a batch at a time: the markers of each tenant, and the space of a new model."""

    def __init__(
        self,
        store: Store,
        index: VectorIndex,
        embedder: Embedder,
        previous: Embedder | None,
        *,
        collections: tuple[str, ...],
        keep: bool,
        retry_seconds: tuple[float, float],
    ) -> None:
        self._store = store
        self._index = index
        self._new = Target(index, embedder)
        self._old = Target(index, previous) if previous is not None else None
        self._collections = collections
        self._keep = keep
        self._retry_seconds = retry_seconds
        self._seen: dict[str, None] = {"": None}  # tenants, for a store that cannot list them
        self._turns: dict[Job, _Turn] = {_Job.LOOK: _Turn(now())}
        self._at_work: Job | None = None
        self._learned = False
        self._noted = False  # whether the index knows that the new space is complete
        self._old_serves = False
        self._rebuild: Rebuild | None = None
        self._stopping = False
        self._begin()
        self.embedded = self.dropped = self.failures = 0
        self.last_error: str | None = None

    def _begin(self) -> None:
        """Have nothing that belongs to an event loop."""
        self._task: asyncio.Task[None] | None = None
        self._process = os.getpid()
        self._learning = asyncio.Lock()
        self._stop = asyncio.Event()
        self._wake = asyncio.Event()
        self._quiet = asyncio.Event()

    # What others ask of it.

    @property
    def inherited(self) -> bool:
        """Whether it was begun before the process was forked, and is the parent's."""
        return self._task is not None and self._process != os.getpid()

    @property
    def serving(self) -> Target:
        """The space that answers: the previous model's while the new one's is filled, if there is one."""
        return self._old if self._old is not None and self._old_serves else self._new

    @property
    def building(self) -> Rebuild | None:
        return self._rebuild

    @property
    def busy_tenants(self) -> list[str]:
        """The tenants that may have something waiting."""
        return [job for job in dict.fromkeys([self._at_work, *self._turns]) if isinstance(job, str)]

    def start(self) -> asyncio.Task[None]:
        """Have the task run, on this event loop."""
        if self._stopping:
            raise StoreClosed("this Indexed store was closed; make another one")
        if self._task is not None and not self.inherited and self._task.get_loop().is_closed():
            self._begin()
        if self._task is None or (self._task.done() and not self.inherited):
            self._process = os.getpid()
            self._task = asyncio.get_running_loop().create_task(self._run(), name="octavo-vectors")
            self._task.add_done_callback(self._ended)
        return self._task

    def written(self, tenants: Iterable[str]) -> None:
        """Markers of these tenants have been written."""
        for tenant in tenants:
            self._seen[tenant] = None
            turn = self._turns.get(tenant)
            if turn is None or not turn.failures:  # one that fails is not hurried
                self._turns[tenant] = _Turn(now())
        self._quiet.clear()
        self._wake.set()

    def refused(self, outcome: Outcome) -> None:
        """Markers have been written for what the model refused."""
        for error in outcome.failed.values():
            self._failed(error)
        if outcome.failed:
            self.written({key.scope.tenant for key in outcome.failed})

    async def settle(self) -> None:
        """Return when every tenant has been looked at, nothing waits and no space is being filled."""
        task = self.start()
        self._turns[_Job.LOOK] = _Turn(now())
        self._quiet.clear()
        self._wake.set()
        quiet = asyncio.ensure_future(self._quiet.wait())
        try:
            await asyncio.wait({quiet, task}, return_when=asyncio.FIRST_COMPLETED)
            if quiet.done():  # that it was so is enough: somebody may have written since
                return
        finally:
            quiet.cancel()
        if not task.cancelled():
            task.result()  # whatever it died of
        raise StoreClosed("the store was closed while something waited to be embedded")

    async def stop(self) -> None:
        """End the task after the batch it is at; what still waits is in the store."""
        self._stopping = True
        self._stop.set()
        self._wake.set()
        here = asyncio.get_running_loop()
        if self._task is not None and not self._task.done() and self._task.get_loop() is here:
            await asyncio.wait({self._task})  # cancelling the wait does not cancel the batch
        if self._rebuild is not None:
            await self._rebuild.close()

    def reach(self, collections: Sequence[str] | None = None, tenant: str | None = None) -> Reach:
        """The records to look after, or those of them that were asked for."""
        wanted = self._collections if collections is None else tuple(collections)

        async def tenants() -> list[str]:
            return await self._tenants() if tenant is None else [tenant]

        every = tenant is None and isinstance(self._store, ListsTenants)
        return Reach(wanted, tenants, every_tenant=every)

    async def drain(self, tenants: Iterable[str]) -> int:
        """Embed what waits now, in the caller's own time; what fails is raised. Answers how many were embedded."""
        await self.learn()
        before = self.embedded
        for tenant in tenants:
            again: datetime | None = now()
            while again is not None and again <= now():
                again = await self._take(tenant)
        return self.embedded - before

    async def learn(self) -> None:
        """Find out, once, which spaces there are and what has to be done about them."""
        async with self._learning:
            if self._learned:
                return
            spaces = {space.name: space for space in await self._index.spaces()}
            new = spaces.get(self._new.space)
            complete = new is not None and new.complete
            if self._old is not None and self._old.space == self._new.space:
                self._old = None  # the same model twice is no change of model
            old = None if self._old is None else spaces.get(self._old.space)
            if old is None:
                self._old = None  # one that is not there is neither kept up to date nor forgotten
            self._old_serves = old is not None and old.complete and not complete
            self._noted = complete
            if not complete:
                self._rebuild = Rebuild(self._store, self._new, self.reach())
            self._turns[_Job.FILL] = _Turn(now())
            self._learned = True

    async def filled(self) -> None:
        """Somebody else has seen to it that every record has its vector in the new space."""
        await self._note()
        if self._task is None:  # one that runs is at it too, and soon finds nothing to do
            self._rebuild, self._old_serves = None, False

    # The task.

    async def _run(self) -> None:
        while not self._stopping:
            moment = now()
            job = next((job for job, turn in self._turns.items() if turn.at <= moment), None)
            if job is None:
                await self._idle()
                continue
            turn = self._turns.pop(job)  # first, so that a write that arrives meanwhile puts it back
            self._at_work = job
            try:
                await self.learn()
                again = await self._work(job)
                if again is not None:
                    self._turns.setdefault(job, _Turn(again))
            except StoreClosed as error:
                self._turns[job] = turn
                self._failed(error)
                return
            except OctavoError as error:  # of the model, the index or the store: no write may fail over it
                self._failed(error)
                failures = turn.failures + 1
                self._turns[job] = _Turn(now() + timedelta(seconds=self._delay(failures)), failures)
                await _within(
                    self._retry_seconds[0], self._stop
                )  # what fails one job will often fail the next
            except BaseException:
                self._turns[job] = turn
                raise
            finally:
                self._at_work = None

    async def _idle(self) -> None:
        if self._turns.keys() <= {_Job.LOOK}:
            self._quiet.set()
        soonest = min(turn.at for turn in self._turns.values())
        self._wake.clear()
        await _within((soonest - now()).total_seconds(), self._wake)

    def _failed(self, error: BaseException) -> None:
        self.failures += 1
        self.last_error = f"{type(error).__name__}: {error}"
        _log.warning("vectors fall behind: %s", self.last_error)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    def _delay(self, failures: int) -> float:
        """How many seconds to wait after so many failures, apart from others who wait for the same thing."""
        first, most = self._retry_seconds
        return min(most, first * 2.0 ** min(failures - 1, 30)) * random.uniform(0.5, 1)  # noqa: S311

    async def _work(self, job: Job) -> datetime | None:
        """Do a batch of a job; answer when to come back to it, None when nothing is left to do."""
        if job is _Job.LOOK:
            return await self._look_around()
        if job is _Job.FILL:
            return await self._fill()
        return await self._take(str(job))

    async def _look_around(self) -> datetime:
        tenants = await self._tenants()
        for tenant in tenants:
            self._turns.setdefault(tenant, _Turn(now()))
        return now() + timedelta(seconds=max(_LOOK_SECONDS, _LOOK_SECONDS_EACH * len(tenants)))

    async def _tenants(self) -> list[str]:
        if isinstance(self._store, ListsTenants):
            return await self._store.tenants()
        return list(self._seen)

    async def _fill(self) -> datetime | None:
        if self._rebuild is not None:
            outcome = await self._rebuild.step()
            if outcome is not None:
                self._count(outcome)
                self.refused(outcome)
                return now()
            await self._note()
            self._rebuild, self._old_serves = None, False
        if self._old is not None and not self._keep:
            await self._index.forget(self._old.space)
            self._old = None
        return None

    async def _take(self, tenant: str) -> datetime | None:
        """Embed what the oldest markers of a tenant name."""
        query = msgspec.structs.replace(waiting(tenant), after=START, limit=_BATCH)
        read = await self._store.find(query)
        moment = now()
        batch: list[Record] = []
        keys: dict[Key, int] = {}  # → how often it was refused
        for marker in read:
            if marker.created_at > moment or (keys and len(keys) + len(marker.data["keys"]) > _BATCH):
                break
            batch.append(marker)
            for key in keys_in(marker):
                keys[key] = max(keys.get(key, 0), marker.data["tries"])
        if not batch:
            return read[0].created_at if read else None
        outcome = await refresh(self._store, self._targets(), keys)
        ops: list[Op] = [removal(batch)]
        for key, error in outcome.failed.items():
            self._failed(error)
            ops.append(Add(markers([key], keys[key] + 1, self._due(keys[key]))))
        await self._store.apply(ops)
        self._count(outcome)
        if outcome.embedded and not self._noted and self._rebuild is None:
            await self._note()
        return now()

    def _due(self, tries: int) -> datetime:
        """When to try a refused text again: each time later, since it is probably the text."""
        seconds = min(self._retry_seconds[1] * 2 ** min(tries, 30), _MOST_DELAY_SECONDS)
        return now() + timedelta(seconds=seconds)

    def _targets(self) -> list[Target]:
        """Where vectors go: the new space, and the old one too for as long as it serves or is kept."""
        if self._old is not None and (self._keep or self._rebuild is not None):
            return [self._new, self._old]
        return [self._new]

    async def _note(self) -> None:
        """Have the index know that the new space is complete; before its first vector there is no space to know of."""
        await self._index.complete(self._new.space)
        spaces = await self._index.spaces()
        self._noted = any(space.complete for space in spaces if space.name == self._new.space)

    def _count(self, outcome: Outcome) -> None:
        self.embedded += outcome.embedded
        self.dropped += outcome.dropped


async def _within(seconds: float, event: asyncio.Event) -> None:
    """Wait for the event, but no longer than so many seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, seconds)):
            await event.wait()
