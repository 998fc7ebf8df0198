"""The background task that keeps an index up to date with its store, whatever fails meanwhile."""

import asyncio
import logging
import os
import random
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from octavo.errors import OctavoError, StoreClosed
from octavo.kernel.ids import now
from octavo.kernel.model import START, Add, Op, Record
from octavo.kernel.ports import Embedder, ListsTenants, Store, VectorIndex
from octavo.wraps.comparing import Reach
from octavo.wraps.embedding import Outcome, Target, freshen
from octavo.wraps.marking import Key, keys_in, markers, removal, waiting
from octavo.wraps.rebuilding import Rebuild

_log = logging.getLogger(__name__)
_MARKERS = 128  # read at once
_BATCH = 128  # records embedded between two removals of markers
_LOOK_SECONDS = 60.0  # between two looks for markers that a process left behind when it died
_LOOK_SECONDS_EACH = 0.05  # so that looking through very many tenants takes a small part of the time
_MOST_DELAY_SECONDS = 24 * 3600.0  # before a text that the model refused is tried again


class Upkeep:
    """Embeds what the markers name, and fills the space of a new model, one batch after the other."""

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
        self._lists = isinstance(store, ListsTenants)
        self._seen: dict[str, None] = {"": None}  # tenants, for a store that cannot list them
        self._taking: str | None = None  # the tenant whose markers are being worked at
        self._dirty: dict[str, None] = {}  # tenants that may have markers
        self._later: dict[str, datetime] = {}  # tenants whose markers are all for later
        self._fails: dict[str, int] = {}  # how often in a row a tenant's markers failed
        self._look = True  # whether every tenant has to be looked at
        self._look_seconds = _LOOK_SECONDS
        self._learned = False
        self._noted = False  # whether the index knows that the new space is complete
        self._old_lives = False
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
    def restless(self) -> list[str]:
        """The tenants that may have something waiting."""
        at_work = () if self._taking is None else (self._taking,)
        return list(dict.fromkeys([*at_work, *self._dirty, *self._later]))

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
            self._dirty[tenant] = None
            if not self._lists:
                self._seen[tenant] = None
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
        self._look = True
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

        async def only() -> list[str]:
            return await self._tenants() if tenant is None else [tenant]

        every = tenant is None and isinstance(self._store, ListsTenants)
        return Reach(wanted, only, every_tenant=every)

    async def drain(self, tenants: Iterable[str]) -> int:
        """Embed what waits now, in the caller's own time; what fails is raised. Answers how many were embedded."""
        await self.learn()
        before = self.embedded
        for tenant in tenants:
            more = True
            while more:
                more, _ = await self._take(tenant)
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
            self._old_lives = old is not None and (old.complete or self._keep)
            self._old_serves = old is not None and old.complete and not complete
            self._noted = complete
            if not complete:
                self._rebuild = Rebuild(self._store, self._new, self.reach())
            self._learned = True

    async def filled(self) -> None:
        """Somebody else has seen to it that every record has its vector in the new space."""
        await self._note()
        if self._task is None:  # one that runs is at it too, and soon finds nothing to do
            self._rebuild, self._old_serves = None, False

    # The task.

    async def _run(self) -> None:
        tries = 0
        while not self._stopping:
            try:
                await self.learn()
                worked = await self._turn()
            except StoreClosed as error:
                self._failed(error)
                return
            except (
                OctavoError
            ) as error:  # of the model or the index, or of the store: no write may fail over it
                self._failed(error)
                tries += 1
                await _within(self._delay(tries), self._stop)
                continue
            tries = 0
            if not worked:
                await self._idle()

    def _failed(self, error: BaseException) -> None:
        self.failures += 1
        self.last_error = f"{type(error).__name__}: {error}"
        _log.warning("vectors fall behind: %s", self.last_error)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    def _delay(self, tries: int) -> float:
        """How many seconds to wait after so many failures, apart from others who wait for the same thing."""
        first, most = self._retry_seconds
        return min(most, first * 2.0 ** min(tries - 1, 30)) * random.uniform(0.5, 1)  # noqa: S311

    async def _idle(self) -> None:
        if not (self._look or self._dirty or self._later):
            self._quiet.set()
        seconds = self._look_seconds
        if self._later:
            seconds = min(seconds, max(0.0, (min(self._later.values()) - now()).total_seconds()))
        if not (self._look or self._dirty) and not await _within(seconds, self._wake):
            self._look = seconds >= self._look_seconds
        self._wake.clear()

    async def _turn(self) -> bool:
        """Do one batch of each thing there is to do; answer whether there was any."""
        if self._old is not None and not self._old_serves and not self._keep and self._rebuild is None:
            await self._index.forget(self._old.space)
            self._old, self._old_lives = None, False
        if self._look:
            await self._look_around()
        moment = now()
        self._dirty.update({tenant: None for tenant, due in self._later.items() if due <= moment})
        worked = False
        while self._dirty and not worked and not self._stopping:
            tenant = next(iter(self._dirty))
            del self._dirty[tenant]  # first, so that a write that arrives meanwhile puts it back
            self._later.pop(tenant, None)
            worked = await self._look_after(tenant)
        if self._rebuild is not None and not self._stopping:
            outcome = await self._rebuild.step()
            if outcome is None:
                await self._note()
                self._rebuild, self._old_serves = None, False
            else:
                self._count(outcome)
                self.refused(outcome)
            worked = True
        return worked

    async def _look_after(self, tenant: str) -> bool:
        """Do one batch of a tenant's; answer whether there was any. One that fails must not keep the others waiting."""
        self._taking = tenant
        try:
            worked, due = await self._take(tenant)
        except OctavoError:
            self._fails[tenant] = self._fails.get(tenant, 0) + 1
            self._later[tenant] = now() + timedelta(seconds=self._delay(self._fails[tenant]))
            raise
        except BaseException:
            self._dirty[tenant] = None
            raise
        finally:
            self._taking = None
        self._fails.pop(tenant, None)
        if worked:
            self._dirty[tenant] = None
        elif due is not None and tenant not in self._dirty:
            self._later[tenant] = due
        return worked

    async def _look_around(self) -> None:
        self._look = False  # first, so that whoever asks for another look meanwhile gets one
        try:
            tenants = await self._tenants()
        except OctavoError:
            self._look = True
            raise
        for tenant in tenants:
            self._dirty[tenant] = None
        self._look_seconds = max(_LOOK_SECONDS, _LOOK_SECONDS_EACH * len(tenants))

    async def _tenants(self) -> list[str]:
        if isinstance(self._store, ListsTenants):
            return await self._store.tenants()
        return list(self._seen)

    async def _take(self, tenant: str) -> tuple[bool, datetime | None]:
        """Embed what the oldest markers of a tenant name; whether there were any, or else when there will be."""
        query = msgspec.structs.replace(waiting(tenant), after=START, limit=_MARKERS)
        read = await self._store.find(query)
        moment = now()
        batch: list[Record] = []
        keys: dict[Key, int] = {}  # → how often it was refused
        for marker in read:
            if marker.created_at > moment or (keys and len(keys) + len(marker.data["keys"]) > _BATCH):
                break
            batch.append(marker)
            for key in keys_in(marker):
                keys[key] = max(keys.get(key, 0), marker.data.get("tries", 0))
        if not batch:
            return False, read[0].created_at if read else None
        outcome = await freshen(self._store, self._targets(), keys)
        ops: list[Op] = [removal(batch)]
        for key, error in outcome.failed.items():
            self._failed(error)
            ops.append(Add(markers([key], keys[key] + 1, self._due(keys[key]))))
        await self._store.apply(ops)
        self._count(outcome)
        if outcome.embedded and not self._noted and self._rebuild is None:
            await self._note()
        return True, None

    def _due(self, tries: int) -> datetime:
        """When to try a refused text again: each time later, since it is probably the text."""
        seconds = min(self._retry_seconds[1] * 2 ** min(tries, 30), _MOST_DELAY_SECONDS)
        return now() + timedelta(seconds=seconds)

    def _targets(self) -> list[Target]:
        both = self._old is not None and self._old_lives and (self._keep or self._rebuild is not None)
        return [self._new, *([self._old] if both and self._old is not None else [])]

    async def _note(self) -> None:
        """Have the index know that the new space is complete; before its first vector there is no space to know of."""
        await self._index.complete(self._new.space)
        spaces = await self._index.spaces()
        self._noted = any(space.complete for space in spaces if space.name == self._new.space)

    def _count(self, outcome: Outcome) -> None:
        self.embedded += outcome.embedded
        self.dropped += outcome.dropped


async def _within(seconds: float, event: asyncio.Event) -> bool:
    """Whether the event comes to pass within so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
