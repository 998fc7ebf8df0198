"""A store that loses no write: what it cannot take now waits on disk, in order, until it can."""

import asyncio
import functools
import logging
import os
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from octavo.errors import ConfigError, OctavoError, StoreClosed, StoreError, StoreUnavailable
from octavo.kernel.codec import check_query
from octavo.kernel.ids import now
from octavo.kernel.model import Op, Query, Record, Scope, Tally
from octavo.kernel.ports import Finding, Store, Written
from octavo.kernel.text import pluralize
from octavo.util.tracing import span
from octavo.wraps.attempts import Attempts, late_error, outcome_of
from octavo.wraps.journal.delivery import Delivery, Queue, UncountedError, describe_error
from octavo.wraps.journal.files import DeadLetter, Erased, Left, Waiting
from octavo.wraps.journal.queued_answers import QueuedAnswers
from octavo.wraps.journal.repeatable import Repeatable, check_ops
from octavo.wraps.journal.replay import Clock, Replay, State
from octavo.wraps.journal.spool import Spool
from octavo.wraps.wrap import Wrap

T = TypeVar("T")
_log = logging.getLogger("octavo.journal")
_DISK_SECONDS = 1.0  # of a call's time, kept back for the journal's own disk
_STOP_SECONDS = 1.0  # for the replay to end after what it is at
#: Why a write is not queued that would mean something else later.
_UNREPEATABLE = (
    "the store is away, and this write cannot be queued, since what it picks may be another record then; name the records by "
    "ids, or write again when the store is back"
)


class JournalStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a Journal stands, and what became of the writes of this process."""

    state: State
    directory: str
    waiting: int  # queued now, in the slots of this process
    dead: int  # dead letters in the directory
    bad_lines: int  # damaged lines in the directory
    stored: int  # written straight to the store
    queued: int
    replayed: int  # queued ones that reached the store
    buried: int  # queued ones that became dead letters
    refused: int  # neither stored nor queued, as their callers were told
    oldest_at: datetime | None = None  # when the oldest of those that wait was queued
    last_error: str | None = None
    queue_error: str | None = None  # why nothing can be queued, if that is so
    next_try_at: datetime | None = None


class Journal(Wrap):
    """Queues on disk what the store cannot take, and brings it there, in order, when it can again.

    A write is `stored` or `queued`, and either way it is not lost; only when neither is possible it raises StoreUnavailable.
    A read answers what is true, or raises StoreUnavailable: it waits for this process's queued writes, and `timeout` seconds
    at most, or counts them in where the store can be read and takes no write. A record that no store would take is refused
    at once, whatever the state of the store.

    A Journal belongs to one event loop and one process. Several may share a directory.
    """

    def __init__(
        self,
        store: Store,
        directory: str | Path | Spool,
        *,
        timeout: float = 5.0,
        max_retries: int = 5,
        max_age: timedelta | None = timedelta(days=7),
        backoff: tuple[float, float] = (0.1, 30.0),
        clock: Clock | None = None,
        owned: bool = True,
    ) -> None:
        super().__init__(store, owned=owned)
        if timeout <= 0:
            raise ConfigError(f"timeout must be more than 0 seconds; got {timeout}")
        if max_retries < 0:
            raise ConfigError(f"max_retries must be 0 or more; got {max_retries}")
        if not 0 < backoff[0] <= backoff[1]:
            raise ConfigError(f"backoff must be two numbers of seconds, the smaller first; got {backoff}")
        self._timeout = timeout
        self._clock = clock or now
        self._queue = Queue(directory if isinstance(directory, Spool) else Spool(directory))
        self._attempts = Attempts()
        self._delivery = Delivery(
            store, self._queue, self._attempts, timeout=timeout, max_retries=max_retries, backoff=backoff
        )
        self._replay = Replay(
            self._delivery, self._queue, max_age=max_age, backoff=backoff, clock=self._clock
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0
        self._opened = False
        self._opening: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._busy = 0  # writes under way
        self._quiet = asyncio.Event()
        self._stored = self._queued = self._refused = 0
        for name in ("heads", "find_within", "names", "search", "resembling", "tenants"):
            if callable(getattr(store, name, None)):
                self.__dict__[name] = functools.partial(self._ask, name)
        if callable(getattr(store, "describe", None)):
            self.__dict__["describe"] = self._describe

    # --- writing

    async def write(self, ops: Sequence[Op], *, queue: bool = True, later: Sequence[Op] = ()) -> Written:
        """Store the ops, all or none, or queue them; `queued` ones are on disk when this returns.

        Without `queue` they are stored now or not at all. So are those that would mean something else later. `later` is
        done behind them if they are queued: what the caller does by itself once they are stored.
        """
        deadline = asyncio.get_running_loop().time() + self._timeout
        ops = list(ops)
        await self._ensure_open(deadline)
        self._busy += 1
        try:
            whole = [*ops, *later]
            queued = whole if queue and Repeatable().take(whole) else None
            return await self._write(ops, queued, deadline)
        finally:
            self._busy -= 1
            if not self._busy:
                self._quiet.set()

    async def apply(self, ops: Sequence[Op]) -> list[int]:
        """Store or queue all of the ops in order, or none; answer how many records each added, changed or removed."""
        return (await self.write(ops)).counts

    async def _write(self, ops: list[Op], queued: list[Op] | None, deadline: float) -> Written:
        """Store these ops, or else queue those, if there are any that may be queued."""
        loop = asyncio.get_running_loop()
        until = deadline - min(_DISK_SECONDS, self._timeout / 2)
        replay = self._replay
        await replay.wait_for_last(until - loop.time())
        await self._open_store(until)
        under_way: asyncio.Task[list[int]] | None = None
        if not replay.behind:
            under_way = self._attempts.write(self.inner.apply(ops))
            try:
                await asyncio.wait({under_way}, timeout=max(until - loop.time(), 0))
            except asyncio.CancelledError:
                under_way.cancel()
                raise
            error = outcome_of(under_way) if under_way.done() else late_error("the store", self._timeout)
            if error is None:
                self._stored += 1
                return Written("stored", under_way.result())
            if not isinstance(error, StoreUnavailable):
                raise error
            replay.note_failure(error, ops)
        if queued is not None:
            answer = await self._enqueue(queued, under_way, deadline)
            return Written(answer.status, answer.counts[: len(ops)])
        check_ops(ops)  # what no store would take is refused as such
        self._refused += 1
        done = "was not done" if under_way is None else "may have been done all the same"
        raise StoreUnavailable(
            f"{_UNREPEATABLE}; it {done}: {replay.last_error or 'the store is being caught up with'}"
        )

    async def _enqueue(
        self, ops: list[Op], under_way: asyncio.Task[list[int]] | None, deadline: float
    ) -> Written:
        entry = Waiting(queued_at=self._clock(), ops=check_ops(ops))
        if not ops:  # nothing to keep, and nothing to wait for
            return Written("stored", [])
        if under_way is not None:
            self._attempts.note_queued(under_way, entry.id)
        loop = asyncio.get_running_loop()
        try:
            # Nothing is awaited between looking at the queue and this: or it might be called empty in between.
            until = max(deadline, loop.time() + min(_DISK_SECONDS, self._timeout / 2))
            with span("octavo.journal.queue", {"octavo.ops": len(ops)}):
                async with asyncio.timeout_at(until):
                    await self._queue.put(entry)
        except (TimeoutError, StoreUnavailable, ConfigError) as error:
            self._refused += 1
            why = self._replay.last_error or "it is being caught up with"
            disk = describe_error(error) if str(error) else "the disk did not answer in time"
            self._queue.note_failure(disk)
            raise StoreUnavailable(
                f"the write could be neither stored ({why}) nor queued in {self._queue.spool.directory} ({disk})"
            ) from error
        self._queued += 1
        self._replay.note_queued()
        return Written("queued", [0] * len(ops))

    # --- reading

    async def find(self, query: Query) -> list[Record]:
        """Answer the query as `Query.over` would from all records kept, those that were queued before among them."""
        found: list[Record] = await self._ask("find", query)
        return found

    async def tally(self, query: Query) -> Tally:
        """Count as `Tally.of` would from all records kept, those that were queued before among them."""
        tally: Tally = await self._ask("tally", query)
        return tally

    async def _ask(self, verb: str, *args: Any, **named: Any) -> Any:
        """Ask the store something, once it has what was queued before and may concern the question."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout
        query = check_query(args[0]) if args and isinstance(args[0], Query) else None
        if query is not None:
            args = (query, *args[1:])
        scope = query.scope if query else next((arg for arg in args if isinstance(arg, Scope)), None)
        await self._ensure_open(deadline)
        await self._open_store(deadline)
        while True:
            has_all = await self._replay.wait_for_scope(scope, deadline)
            ask = getattr(self.inner, verb) if has_all else functools.partial(self._ask_behind, verb, scope)
            try:
                return await self._attempts.read(ask(*args, **named), deadline - loop.time())
            except UncountedError:  # the store may have all of it after the next try
                if not await self._replay.wait_for_try(deadline):
                    raise
            except StoreUnavailable:
                self._replay.check_store(query)
                if has_all:
                    raise

    async def _ask_behind(self, verb: str, scope: Scope | None, *args: Any, **named: Any) -> Any:
        """Ask a store that takes no write, and count in what is queued and may concern the question."""
        store: Any = self.inner
        # What is found by meaning may be stale anyway.
        if verb != "resembling" and (ops := await self._delivery.waiting_ops(scope)):
            store = QueuedAnswers(store, ops)
            if not hasattr(store, verb):
                raise UncountedError(f"what is queued cannot be counted in: {self._replay.last_error}")
        return await getattr(store, verb)(*args, **named)

    async def _describe(self) -> list[Finding]:
        """What the store says of itself, and how much waits for it."""
        await self.__aenter__()
        found: list[Finding] = await self._attempts.read(self.inner.describe(), self._timeout)  # type: ignore[attr-defined]
        status = self.status()
        if status.queue_error is not None:
            lost = f"what the store does not take is refused: {status.queue_error}"
            return [*found, Finding("queue", "it cannot be written to", lost)]
        cure = "octavo queue list shows what was given up and why" if status.dead else ""
        told = f"{pluralize(status.waiting, 'write')} waiting, {status.dead} given up"
        return [*found, Finding("queue", told, cure)]

    # --- how it stands

    def status(self) -> JournalStatus:
        """How it stands now; it asks nobody, so it answers at once."""
        replay, delivery, queue = self._replay, self._delivery, self._queue
        return JournalStatus(
            state=replay.state,
            directory=str(queue.spool.directory),
            waiting=queue.waiting,
            dead=queue.dead,
            bad_lines=queue.bad_lines,
            stored=self._stored,
            queued=self._queued,
            replayed=delivery.replayed,
            buried=delivery.buried,
            refused=self._refused,
            oldest_at=queue.oldest_at if queue.waiting else None,
            last_error=replay.last_error,
            queue_error=queue.error,
            next_try_at=replay.next_try_at,
        )

    async def refusal(self, query: Query) -> str | None:
        """Why a write to such records would be neither stored nor queued now; None when it would be one of the two."""
        await self._ensure_open()
        if self._replay.state != "up" or self._queue.error is not None:
            try:
                async with asyncio.timeout(self._timeout):
                    await self._queue.check()
            except TimeoutError:
                self._queue.note_failure("the disk did not answer in time")
        if self._queue.error is None or self._replay.state != "up":
            return self._queue.error
        self._delivery.collection = query.collection
        error = await self._delivery.refusal()
        return None if error is None else f"{describe_error(error)}; {self._queue.error}"

    async def replay_now(self) -> int:
        """Try at once to bring what waits to the store, whatever the backoff says; answer how many writes got there."""
        await self._ensure_open()
        return await self._replay.try_now()

    async def dead_letters(self, limit: int | None = None, after: str | None = None) -> list[DeadLetter]:
        """Writes that were given up, oldest first, from the one after that id on."""
        return await self._with_queue(lambda: self._queue.spool.dead.list(limit, after))

    async def dead_letter(self, id: str) -> DeadLetter:  # noqa: A002 - the name the rest of Octavo uses
        """One write that was given up, or NotFound."""
        return await self._with_queue(lambda: self._queue.spool.dead.get(id))

    async def replay_dead(self, ids: str | Sequence[str] | None = None) -> int:
        """Put these dead letters, or all, back into the queue as if they were new; answer how many there were."""
        meant = [ids] if isinstance(ids, str) else ids
        revived = await self._with_queue(lambda: self._queue.spool.revive(meant))
        if revived:
            self._replay.note_queued()
        return revived

    async def discard_dead(self, ids: str | Sequence[str] | None = None) -> int:
        """Forget these dead letters, or all, for ever; answer how many there were."""
        meant = [ids] if isinstance(ids, str) else ids
        return await self._with_queue(lambda: self._queue.spool.dead.discard(meant))

    async def erase(self, left: Left, names: Collection[bytes] = ()) -> Erased:
        """Take out of the queue and the dead letters what is not `left` of each write; see `Spool.erase`."""
        await self._ensure_open()
        erased = await self._delivery.erase(left, names)
        await self._queue.look()
        return erased

    async def _with_queue(self, work: Callable[[], T]) -> T:
        await self._ensure_open()
        result = await self._queue.run(work)
        await self._queue.look()
        return result

    # --- opening and closing

    async def __aenter__(self) -> Self:
        await self._ensure_open()
        await self._open_store(asyncio.get_running_loop().time() + self._timeout)
        return self

    async def close(self) -> None:
        """Try once more to bring what waits to the store, leave the rest on disk, and close; a second call does nothing."""
        if self._loop is not None and self._process != os.getpid():  # all of it is the parent's
            return
        if self._loop is not None and not self._loop.is_closed():
            self._claim()
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)  # given up by one caller, it still comes to its end

    async def _ensure_open(self, deadline: float | None = None) -> None:
        """Open the queue at the first call; every call is refused that comes from elsewhere, or too late."""
        if self._closing is not None:
            raise StoreClosed("this store was closed; open another one")
        self._claim()
        if self._opened:
            return
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())
        opening = self._opening
        seconds = None if deadline is None else max(deadline - asyncio.get_running_loop().time(), 0)
        await asyncio.wait({opening}, timeout=seconds)
        if not opening.done():
            folder = self._queue.spool.directory
            raise late_error(f"the queue in {folder}, which is being read,", self._timeout)
        if (error := outcome_of(opening)) is not None:
            self._opening = None
            raise error

    def _claim(self) -> None:
        """Belong to this event loop and process, or say that it belongs to another."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop, self._process = loop, os.getpid()
        if self._process != os.getpid():
            raise StoreClosed(
                "this Journal was opened before the process was forked; open another in the child"
            )
        if self._loop is not loop:
            raise StoreError(
                "this memory belongs to another event loop, the one it was first used in; use Memory, which serves all of "
                "them, or open an AsyncMemory, or a Journal, in each"
            )

    async def _open(self) -> None:
        await self._queue.open()
        self._replay.start()
        self._opened = True

    async def _open_store(self, deadline: float) -> None:
        """Open the store unless it is open, or fall behind; what only the user can mend is raised."""
        if self._replay.behind or self._delivery.store_open:
            return
        error = await self._delivery.open_store(deadline - asyncio.get_running_loop().time())
        if isinstance(error, StoreUnavailable):
            self._replay.note_failure(error)
        elif error is not None:
            raise error

    async def _close(self) -> None:
        if self._loop is asyncio.get_running_loop():
            await self._finish()
        try:
            await self._queue.close()
        finally:
            if self._owned:
                await self._close_store()

    async def _finish(self) -> None:
        """Bring what waits to the store; what is left of an event loop that has ended is on disk, and waited for by nobody."""
        if self._opening is not None:
            await asyncio.wait({self._opening})
        if self._busy:  # each of them ends within its time
            self._quiet.clear()
            await self._quiet.wait()
        if self._replay.behind:
            await asyncio.wait({asyncio.create_task(self._replay.try_now())}, timeout=self._timeout)
        await self._replay.stop(_STOP_SECONDS)
        await self._attempts.wait_for_all(0)

    async def _close_store(self) -> None:
        """Close the store; one that hangs is left to itself."""
        self._attempts.cancel()
        try:
            await self._attempts.read(self.inner.close(), self._timeout)
        except OctavoError as error:
            _log.warning("the store could not be closed: %s", describe_error(error))
