"""The background task that keeps an index up to date with its store, whatever fails meanwhile."""

import asyncio
import enum
import logging
import os
import random
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from time import monotonic
from typing import TypeAlias

import msgspec

from octavo.errors import OctavoError, StoreClosed
from octavo.kernel.ids import now
from octavo.kernel.model import START, Add, Op, Record
from octavo.kernel.ports import Embedder, EntryKey, ListsTenants, Store, VectorIndex
from octavo.wraps.attempts import wait_for_event
from octavo.wraps.vectors.comparing import ComparedRecords, Comparison
from octavo.wraps.vectors.waiting import (
    Target,
    VectorOutcome,
    keys_in,
    markers,
    markers_query,
    refresh,
    remove_markers,
)

_log = logging.getLogger(__name__)
_BATCH = 128  # markers read at once, and records embedded between two removals of markers
_LOOK_SECONDS = 60.0  # between two looks for markers that a process left behind when it died
_LOOK_SECONDS_EACH = 0.05  # so that looking through very many tenants takes a small part of the time
_MOST_DELAY_SECONDS = 24 * 3600.0  # before a text that the model refused is tried again


class _Fill(enum.Enum):
    """What there is to do besides the markers of a tenant: fill the new space, and then forget the old one."""

    FILL = enum.auto()


Job: TypeAlias = "str | _Fill"  # a tenant, whose markers are to be worked off, or this


class Upkeep:
    """Embeds what the markers of each tenant name, a batch at a time in turn, and fills the space of a new model in between."""

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
        # What there is to do → when, by a clock that nobody sets; 0 is at once.
        self._due: dict[Job, float] = {}
        self._failures: dict[Job, int] = {}  # how often in a row it has failed
        self._look_at = 0.0  # when to look for tenants whose markers nobody here knows of
        self._at_work: Job | None = None
        self._learned = False
        self._noted = False  # whether the index knows that the new space is complete
        self._old_serves = False
        self._filling: Comparison | None = None  # while the new space lacks vectors
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
    def building(self) -> str | None:
        """The space that is being filled."""
        return None if self._filling is None else self._new.space

    @property
    def progress(self) -> tuple[int | None, int | None]:
        """How many records have their vectors in it, and how many there are."""
        return (None, None) if self._filling is None else self._filling.progress

    @property
    def busy_tenants(self) -> list[str]:
        """The tenants that may have something waiting."""
        return [job for job in dict.fromkeys([self._at_work, *self._due]) if isinstance(job, str)]

    def start(self) -> asyncio.Task[None]:
        """Have the task run, on this event loop."""
        if self._stopping:
            raise StoreClosed("this Indexed store was closed; make another one")
        if self._task is not None and not self.inherited and self._task.get_loop().is_closed():
            self._begin()
        if self._task is None or (self._task.done() and not self.inherited):
            self._process = os.getpid()
            self._task = asyncio.get_running_loop().create_task(self._run(), name="octavo-vectors")
            self._task.add_done_callback(self._note_end)
        return self._task

    def note_written(self, tenants: Iterable[str]) -> None:
        """Markers of these tenants have been written."""
        for tenant in tenants:
            self._seen[tenant] = None
            if tenant not in self._failures:  # one that fails is not hurried
                self._due[tenant] = 0.0
        self._quiet.clear()
        self._wake.set()

    def count(self, outcome: VectorOutcome) -> None:
        """Add up what was done; markers have been written for what the model refused."""
        self.embedded += outcome.embedded
        self.dropped += outcome.dropped
        for error in outcome.failed.values():
            self._note_failure(error)
        if outcome.failed:
            self.note_written({key.scope.tenant for key in outcome.failed})

    async def settle(self) -> None:
        """Return when every tenant has been looked at, nothing waits and no space is being filled."""
        task = self.start()
        self._look_at = 0.0
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
        self._end_filling()

    def reach(self, collections: Sequence[str] | None = None, tenant: str | None = None) -> ComparedRecords:
        """The records to look after, or those of them that were asked for."""
        wanted = self._collections if collections is None else tuple(collections)

        async def tenants() -> list[str]:
            return await self._tenants() if tenant is None else [tenant]

        return ComparedRecords(wanted, tenants, tenant)

    async def drain(self, tenants: Iterable[str]) -> int:
        """Embed what waits now, in the caller's own time; what fails is raised. Answers how many were embedded."""
        await self.learn()
        before = self.embedded
        for tenant in tenants:
            again: float | None = 0.0
            while again is not None and again <= monotonic():
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
            old = None if self._old is None else spaces.get(self._old.space)
            if self._old is not None and (old is None or self._old.space == self._new.space):
                # One that is not there is neither kept up to date nor forgotten; the same model twice is no change of model.
                self._old = old = None
            self._old_serves = old is not None and old.complete and not complete
            self._noted = complete
            if not complete:
                self._filling = Comparison(self._store, self._new, self.reach())
            self._due[_Fill.FILL] = 0.0
            self._learned = True

    async def note_filled(self) -> None:
        """Somebody else has seen to it that every record has its vector in the new space."""
        await self._note()
        if self._task is None:  # one that runs is at it too, and soon finds nothing to do
            self._end_filling()

    # The task.

    async def _run(self) -> None:
        failures = 0
        while not self._stopping:
            try:
                await self.learn()
                await self._do_due_jobs()
                failures = 0
                await self._wait_for_work()
            except StoreClosed as error:
                if not self._stopping:
                    self._note_failure(error)
                return
            except OctavoError as error:
                self._note_failure(error)
                failures += 1
                await wait_for_event(self._delay(failures), self._stop)

    async def _do_due_jobs(self) -> None:
        """Look for tenants whose markers nobody here knows of, if it is time, and do a batch of every job that is due."""
        if self._look_at <= monotonic():
            tenants = await self._tenants()
            for tenant in tenants:
                self._due.setdefault(tenant, 0.0)
            seconds = max(_LOOK_SECONDS, _LOOK_SECONDS_EACH * len(tenants))
            self._look_at = monotonic() + seconds
        moment = monotonic()
        while (job := next((job for job, at in self._due.items() if at <= moment), None)) is not None:
            if self._stopping:
                raise StoreClosed("this Indexed store was closed; make another one")
            self._at_work = job
            again: float | None = self._due.pop(job)  # first: a write that arrives meanwhile puts it back
            try:
                again = await (self._take(job) if isinstance(job, str) else self._fill())
                self._failures.pop(job, None)
            except StoreClosed:
                raise
            except OctavoError as error:  # of the model, the index or the store: no write may fail over it
                self._note_failure(error)
                self._failures[job] = self._failures.get(job, 0) + 1
                again = self._due[job] = monotonic() + self._delay(self._failures[job])
                # What fails one will often fail the next.
                await wait_for_event(self._retry_seconds[0], self._stop)
            finally:
                self._at_work = None
                if again is not None:
                    self._due.setdefault(job, again)

    async def _wait_for_work(self) -> None:
        """Sleep until something is due."""
        soonest = min([self._look_at, *self._due.values()])
        if not self._due and soonest > monotonic():
            self._quiet.set()
        self._wake.clear()
        if not self._stopping:  # asked to while it was at work, it would sleep through that
            await wait_for_event(soonest - monotonic(), self._wake)

    def _note_failure(self, error: BaseException) -> None:
        self.failures += 1
        self.last_error = f"{type(error).__name__}: {error}"
        _log.warning("vectors fall behind: %s", self.last_error)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._note_failure(error)

    def _delay(self, failures: int) -> float:
        """How many seconds to wait after so many failures, apart from others who wait for the same thing."""
        first, most = self._retry_seconds
        return min(most, first * 2.0 ** min(failures - 1, 30)) * random.uniform(0.5, 1)  # noqa: S311

    async def _tenants(self) -> list[str]:
        if isinstance(self._store, ListsTenants):
            return await self._store.tenants()
        return list(self._seen)

    async def _fill(self) -> None:
        """Embed every record that has no vector in the new space, with what was just written in between; forget the old one."""

        async def meanwhile(outcome: VectorOutcome) -> None:
            self.count(outcome)
            await self._do_due_jobs()

        if self._filling is not None:
            await self._filling.rebuild(meanwhile)
            await self._note()
            self._end_filling()
        if self._old is not None and not self._keep:
            await self._index.forget(self._old.space)
            self._old = None

    def _end_filling(self) -> None:
        if self._filling is not None:
            self._filling.close()
        self._filling, self._old_serves = None, False

    async def _take(self, tenant: str) -> float | None:
        """Embed what the oldest markers of a tenant name; answer when the next ones are due, None when there are none."""
        query = msgspec.structs.replace(markers_query(tenant), after=START, limit=_BATCH)
        read = await self._store.find(query)
        moment = now()
        batch: list[Record] = []
        keys: dict[EntryKey, int] = {}  # → how often it was refused
        for marker in read:
            left = (marker.created_at - moment).total_seconds()
            if marker.data["tries"] and 0 < left <= _MOST_DELAY_SECONDS:
                continue  # others that seem to be of the future were written before the clock was set back
            if keys and len(keys) + len(marker.data["keys"]) > _BATCH:
                break
            batch.append(marker)
            for key in keys_in(marker):
                keys[key] = max(keys.get(key, 0), marker.data["tries"])
        if not batch:
            return monotonic() + (read[0].created_at - moment).total_seconds() if read else None
        outcome = await refresh(self._store, self._targets(), keys)
        ops: list[Op] = [remove_markers(batch)]
        for key, error in outcome.failed.items():
            self._note_failure(error)
            ops.append(Add(markers([key], keys[key] + 1, self._retry_at(keys[key]))))
        await self._store.apply(ops)
        self.embedded += outcome.embedded
        self.dropped += outcome.dropped
        if outcome.embedded and not self._noted and self._filling is None:
            await self._note()
        return 0.0

    def _retry_at(self, tries: int) -> datetime:
        """When to try a refused text again: each time later, since it is probably the text."""
        seconds = min(self._retry_seconds[1] * 2 ** min(tries, 30), _MOST_DELAY_SECONDS)
        return now() + timedelta(seconds=seconds)

    def _targets(self) -> list[Target]:
        """Where vectors go: the new space, and the old one too for as long as it serves or is kept."""
        if self._old is not None and (self._keep or self._filling is not None):
            return [self._new, self._old]
        return [self._new]

    async def _note(self) -> None:
        """Have the index know that the new space is complete; before its first vector there is no space to know of."""
        await self._index.complete(self._new.space)
        spaces = await self._index.spaces()
        self._noted = any(space.complete for space in spaces if space.name == self._new.space)
