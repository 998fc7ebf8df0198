"""The failure queue as the event loop sees it; bringing what waits there to a store, and what becomes of writes that fail."""

import asyncio
import functools
import logging
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TypeVar

import msgspec

from octavo.errors import (
    Conflict,
    InvalidQuery,
    InvalidRecord,
    NotFound,
    OctavoError,
    StoreClosed,
    StoreUnavailable,
)
from octavo.kernel.codec import encode_ops
from octavo.kernel.model import Add, Op, Query, Record, Remove, Scope, exact_scope
from octavo.kernel.pages import list_heads
from octavo.kernel.ports import Store
from octavo.stores.gather import Gathering
from octavo.util.tracing import span
from octavo.wraps.attempts import Attempts, late_error, outcome_of
from octavo.wraps.journal.files import Erased, Left, Waiting
from octavo.wraps.journal.repeatable import Repeatable, has_overlap, keeps_oldest, touched_scopes
from octavo.wraps.journal.spool import Spool

T = TypeVar("T")
_log = logging.getLogger("octavo.journal")
_MOST_OPS = 2000  # written to the disk together
_MOST_ENTRIES = 500  # brought to the store in one call
_MOST_BYTES = 4 * 2**20  # so much of them as JSON
_PATIENCE_SECONDS = 30.0  # for a call that brings many writes
_CREDENTIALS = re.compile(r"(://[^:/@\s]*):[^@\s]*@")
#: The tenant of what is written to find out whether a store takes writes: nobody's, so that nobody sees it.
PROBES = "octavo-health"
_PROBE = "probe_write"


class UncountedError(StoreUnavailable):
    """The store can be read, but what waits for it cannot be counted in."""


class Queue:
    """A spool and its thread, so that nobody waits for a disk but who has to. Writes that come at the same time share one write."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self._thread: ThreadPoolExecutor | None = None
        self._puts: Gathering[Waiting, None] = Gathering(
            self._put_all, _MOST_OPS, lambda entry: len(entry.ops)
        )
        self.error: str | None = None  # why nothing could be put when that was last tried
        self.dead = self.bad_lines = 0  # how many there were when somebody last looked
        self.oldest_at: datetime | None = None

    @property
    def waiting(self) -> int:
        """How many writes wait on disk."""
        return self.spool.waiting if self._thread is not None else 0

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way to the disk."""
        return self._puts.idle

    async def open(self) -> None:
        """Read what is there. A folder that cannot be used is told of and tried again later: the store may be well."""
        self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="octavo-journal")
        try:
            await self.run(self.spool.open)
        except OctavoError as error:
            self.note_failure(str(error))
        await self.look()

    async def check(self) -> None:
        """Find out whether something can be put, without keeping anything."""
        try:
            await self.run(self.spool.check)
        except OctavoError as error:
            self.note_failure(str(error))
        else:
            self.error = None

    def note_failure(self, error: str) -> None:
        """Nothing can be put, for this reason."""
        if self.error is None:
            _log.warning(
                "the failure queue cannot be written to; what the store does not take is refused: %s", error
            )
        self.error = error

    async def put(self, entry: Waiting) -> None:
        """Have it written behind all that were put before; durable when this returns."""
        await self._puts.submit(entry)
        self.error = None
        self.oldest_at = self.oldest_at or entry.queued_at

    async def settle(self) -> None:
        """Wait until nothing is on its way to the disk."""
        await self._puts.settle()

    async def look(self) -> None:
        """Count the dead letters and the bad lines, and see how long the oldest write has waited."""
        spool = self.spool
        found = await self.run(lambda: (spool.dead.count, spool.bad_lines, spool.oldest_at))
        self.dead, self.bad_lines, self.oldest_at = found

    async def run(self, work: Callable[[], T]) -> T:
        """Do this in the thread, after what it was given before."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def close(self) -> None:
        """Have everything on the disk, and let go of it."""
        if self._thread is None:
            return
        await self._puts.settle()
        thread, self._thread = self._thread, None
        try:
            await asyncio.get_running_loop().run_in_executor(thread, self.spool.close)
        finally:
            thread.shutdown(wait=False)

    async def _put_all(self, entries: list[Waiting]) -> list[None]:
        await self.run(lambda: self.spool.put(entries))
        return [None] * len(entries)


class HeldWrite(msgspec.Struct, frozen=True):
    """A write that failed by itself, and when it is tried again."""

    entry: Waiting
    scopes: frozenset[Scope]
    due: float


class Delivery:
    """Writes entries of the queue to the store, in order.

    A write that fails is judged by a second, tiny one: if that fails as well, the store is down and nobody is to blame.
    Only a write that fails while others succeed is tried a few times, and then becomes a dead letter. Until then, those that
    may touch the same records stay behind it, and the others pass.
    """

    def __init__(
        self,
        store: Store,
        queue: Queue,
        attempts: Attempts,
        *,
        timeout: float,
        max_retries: int,
        backoff: tuple[float, float],
    ) -> None:
        self._store = store
        self._queue = queue
        self._attempts = attempts
        self._timeout = timeout
        self._patience = max(_PATIENCE_SECONDS, timeout)
        self._max_retries = max_retries
        self._backoff = backoff
        self._opening: asyncio.Task[object] | None = None
        self._give_up_at = 0.0
        self._held: dict[str, HeldWrite] = {}
        # Those that stay behind a held one, with what they touch.
        self._behind: dict[str, frozenset[Scope]] = {}
        self.all_held = False  # whatever waits is one of these two
        self.store_open = False
        self.collection: str | None = None  # one that is written to
        self.question: Query | None = None  # the last that was not answered
        self.replayed = self.buried = 0

    # --- the store; each of these answers what is wrong with it, or None

    async def open_store(self, seconds: float) -> BaseException | None:
        """Open the store unless it is open."""
        if self.store_open:
            return None
        loop = asyncio.get_running_loop()
        if self._opening is not None and not self._opening.done() and loop.time() > self._give_up_at:
            # Whoever it waits for may have gone without a word; a new one finds out who is there now.
            self._opening.cancel()
            await asyncio.wait({self._opening}, timeout=max(seconds, 0) / 2)
        if self._opening is None or self._opening.done():
            self._give_up_at = loop.time() + self._patience
            self._opening = loop.create_task(self._store.__aenter__())
            self._opening.add_done_callback(self._note_opened)
        opening = self._opening
        await asyncio.wait({opening}, timeout=max(seconds, 0))
        if opening.done():
            return outcome_of(opening)
        return late_error("the store, which is being opened,", seconds)

    def _note_opened(self, opening: "asyncio.Task[object]") -> None:
        self.store_open = self.store_open or outcome_of(opening) is None

    def cancel(self) -> None:
        """Give up an opening that is under way."""
        if self._opening is not None:
            self._opening.cancel()

    async def silence(self) -> BaseException | None:
        """Ask again what the store did not answer last."""
        if (error := await self.open_store(self._timeout)) is not None or self.question is None:
            return error
        try:
            await self._attempts.read(self._store.find(self.question), self._timeout)
        except OctavoError as unanswered:
            return unanswered
        return None

    async def refusal(self) -> BaseException | None:
        """Write a record, and remove it again by a second write: what comes and goes in one call is no write on some stores.

        Only a write can tell: a database whose disk is full still answers questions. Where nothing was ever written, they do.
        """
        if (error := await self.open_store(self._timeout)) is not None:
            return error
        if self.collection is None:
            return await self.silence()
        scope = Scope(tenant=PROBES, user="", agent="", session="")
        probe = Record(collection=self.collection, id=_PROBE, scope=scope)
        gone = Query(collection=self.collection, ids=(_PROBE,), scope=scope)
        return await self._apply([Add([probe])], self._timeout) or await self._apply(
            [Remove(gone)], self._timeout
        )

    def look_at(self, ops: Iterable[Op]) -> None:
        """Remember where these ops write to."""
        for op in ops:
            if not isinstance(op, Add):
                self.collection = op.query.collection
            elif op.records:
                self.collection = op.records[0].collection
        if self.collection is not None and self.question is None:  # and that a store may be asked of them
            self.question = Query(collection=self.collection, scope=Scope(tenant=PROBES), limit=1)

    async def _apply(self, ops: list[Op], seconds: float) -> BaseException | None:
        """Write, after every earlier write has ended."""
        if not await self._attempts.wait_for_all(self._timeout):
            return StoreUnavailable("an earlier write has not ended yet, and must not come after a later one")
        task = self._attempts.write(self._store.apply(ops))
        await asyncio.wait({task}, timeout=seconds)
        return outcome_of(task) if task.done() else late_error("the store", seconds)

    # --- bringing; each of these answers why the store is down, or None

    async def next_entries(self) -> list[Waiting]:
        """The oldest that can be brought now, as many as one call should bring."""
        skip = {*self._held, *self._behind}
        head = await self._queue.run(lambda: self._queue.spool.head(_MOST_ENTRIES, skip))
        size = 0
        together = Repeatable()  # should their answer be lost, all of them are brought again
        for at, entry in enumerate(head):
            size += len(encode_ops(entry.ops))
            if not together.take(entry.ops) or size > _MOST_BYTES:
                return head[: max(at, 1)]
        return head

    async def waiting_ops(self, scope: Scope | None) -> list[Op]:
        """What waits and may touch this scope, in order."""
        spool = self._queue.spool
        head, waiting = await self._queue.run(lambda: (spool.head(_MOST_ENTRIES), spool.waiting))
        if len(head) < waiting:
            raise UncountedError(f"{waiting} queued writes are too many to be counted in")
        ops = [op for entry in head for op in entry.ops]
        return [op for op in ops if scope is None or has_overlap([scope], touched_scopes([op]))]

    async def deliver(self, entries: list[Waiting]) -> BaseException | None:
        """Bring these to the store, all in one call if that is possible."""
        entries = [entry for entry in entries if not self._must_stay(entry)]
        if done := [entry for entry in entries if entry.id in self._attempts.applied]:
            # They ended late, and well: a store that somebody wrote may not know that it has them.
            entries = [entry for entry in entries if entry.id not in self._attempts.applied]
            await self._note_done(done)
        if not entries:
            return None
        # Of no request's trace: they were answered when their writes were queued.
        with span("octavo.journal.replay", {"octavo.writes": len(entries)}, root=True) as seen:
            error = await self._bring([op for entry in entries for op in entry.ops])
            if error is None:
                await self._note_done(entries)
                return None
            seen.fail(type(error).__name__)
        if len(entries) == 1:
            return await self._judge(entries[0], error)
        return await self._deliver_singly(entries, error)

    async def _bring(self, ops: list[Op]) -> BaseException | None:
        """Write all of this: first what is not a removal of all but the oldest, so that many adds are one statement.

        Nothing behind such a removal touches what it looks at, so that at the end it comes out the same; and most of them have
        nothing to remove, which one question tells.
        """
        others = [op for op in ops if not keeps_oldest(op)]
        removals = [op for op in ops if keeps_oldest(op)]
        error = await self._apply(others, self._patience) if others else None
        if error is not None or not removals:
            return error
        try:
            repeated = await self._keep_needed(removals)
        except OctavoError as unanswered:
            return unanswered
        return await self._apply(repeated, self._patience) if repeated else None

    async def _keep_needed(self, removals: Sequence[Op]) -> list[Op]:
        """Those of the removals of all but the oldest that may have something to remove."""
        named: dict[tuple[str, str], list[Remove]] = {}
        for op in removals:
            if isinstance(op, Remove):
                named.setdefault((op.query.collection, op.query.scope.tenant), []).append(op)
        found: list[Op] = []
        for (collection, tenant), ops in named.items():
            ids = tuple(dict.fromkeys(id_ for op in ops for id_ in op.query.ids or ()))
            query = Query(collection=collection, scope=Scope(tenant=tenant), ids=ids, newest_first=True)
            held = Counter(
                head.id for head in await self._attempts.read(list_heads(self._store, query), self._patience)
            )
            found += [op for op in ops if any(held[id_] > 1 for id_ in op.query.ids or ())]
        return found

    async def retry(self, *, at_once: bool) -> BaseException | None:
        """Bring those again that failed by themselves and are due."""
        now = asyncio.get_running_loop().time()
        for held in list(self._held.values()):
            if (at_once or held.due <= now) and (down := await self.deliver([held.entry])) is not None:
                return down
        return None

    async def _deliver_singly(self, entries: list[Waiting], error: BaseException) -> BaseException | None:
        if (down := await self._is_store_down(entries[0], error)) is not None:
            return down
        stored: list[Waiting] = []
        try:
            for entry in entries:
                if self._must_stay(entry):
                    continue
                own = await self._apply(entry.ops, self._patience)
                if own is None:
                    stored.append(entry)
                elif (down := await self._judge(entry, own)) is not None:
                    return down
            return None
        finally:
            await self._note_done(stored)

    async def _judge(self, entry: Waiting, error: BaseException) -> BaseException | None:
        """Decide what becomes of a write that failed alone."""
        if (down := await self._is_store_down(entry, error)) is not None:
            return down
        if isinstance(error, Conflict) and await self._was_done(entry.ops):
            await self._note_done([entry])
            return None
        if isinstance(error, StoreUnavailable | Conflict):  # it may go better another time
            try:
                entry = await self._queue.run(
                    functools.partial(self._queue.spool.note_attempt, entry.id, describe_error(error))
                )
            except NotFound:  # it was erased meanwhile
                return None
            if entry.attempts < self._max_retries:
                due = asyncio.get_running_loop().time() + backoff_delay(self._backoff, entry.attempts)
                self._held[entry.id] = HeldWrite(entry, touched_scopes(entry.ops), due)
                return None
        await self._bury([entry], describe_error(error))
        return None

    async def _was_done(self, ops: list[Op]) -> bool:
        """Whether a batch that expects something was stored before, and only its answer was lost.

        It was stored whole: then the records are there that it adds.
        """
        new = [record for op in ops if isinstance(op, Add) and op.expect for record in op.records]
        for record in new:
            query = Query(collection=record.collection, ids=(record.id,), scope=exact_scope(record.scope))
            if await self._attempts.read(self._store.find(query), self._timeout):
                return True
        return False

    async def _is_store_down(self, entry: Waiting, error: BaseException) -> BaseException | None:
        """Whether the store is to blame for what became of a write, and not the write itself."""
        if isinstance(error, StoreClosed):
            return error
        if isinstance(error, InvalidRecord | InvalidQuery):
            return None
        self.look_at(entry.ops)
        return await self.refusal()

    # --- what becomes of a write

    @property
    def due(self) -> float | None:
        """When the first of those that failed is tried again; None when there is none."""
        return min((held.due for held in self._held.values()), default=None)

    def blocks(self, scopes: frozenset[Scope]) -> bool:
        """Whether a write that cannot be brought now may touch these scopes."""
        blocked = [*(held.scopes for held in self._held.values()), *self._behind.values()]
        return any(has_overlap(scopes, others) for others in blocked)

    def _must_stay(self, entry: Waiting) -> bool:
        """Whether it has to stay behind one that was queued before it and failed."""
        if not self._held or entry.id in self._held or not self.blocks(scopes := touched_scopes(entry.ops)):
            return False
        self._behind[entry.id] = scopes
        return True

    async def bury_old(self, queued_before: datetime, error: str) -> bool:
        """Make dead letters of what was queued before that; whether there may be more of them."""
        head = await self._queue.run(lambda: self._queue.spool.head(_MOST_ENTRIES))
        old = [entry for entry in head if entry.queued_at < queued_before]
        if old:
            await self._bury(old, error)
        return bool(old)

    async def _note_done(self, entries: Sequence[Waiting]) -> None:
        if entries:
            ids = [entry.id for entry in entries]
            await self._queue.run(lambda: self._queue.spool.mark_done(ids))
            self.replayed += len(ids)
            self._let_go(ids)

    async def _bury(self, entries: Sequence[Waiting], error: str) -> None:
        ids = [entry.id for entry in entries]
        await self._queue.run(lambda: self._queue.spool.bury(ids, error))
        self.buried += len(ids)
        _log.error("%d queued writes became dead letters: %s", len(ids), error)
        self._let_go(ids)

    async def erase(self, left: Left, names: Collection[bytes]) -> Erased:
        """Take somebody's writes out of the queue; what failed is looked at again, in its order."""
        self._held.clear()
        self._look_again()
        return await self._queue.run(lambda: self._queue.spool.erase(left, names))

    def _let_go(self, ids: Sequence[str]) -> None:
        self._attempts.applied.difference_update(ids)
        for id_ in ids:
            if self._held.pop(id_, None) is not None:
                self._look_again()

    def _look_again(self) -> None:
        """Some of those that stay behind may go now: in their order; until that is known, nobody reads past them."""
        self._behind.clear()
        self.all_held = False


def backoff_delay(backoff: tuple[float, float], fails: int) -> float:
    """Seconds until the next try: a random part of a time that doubles, so that many do not come back at once."""
    least, most = backoff
    return random.uniform(0, min(most, least * 2 ** min(fails, 60)))  # noqa: S311 - jitter, not a secret


def describe_error(error: BaseException) -> str:
    """The error as it may be logged and kept: its kind and its words, without a password."""
    return _CREDENTIALS.sub(r"\1:…@", f"{type(error).__name__}: {error}")
