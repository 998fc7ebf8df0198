"""The background task that empties the queue, and what has to wait for it meanwhile."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from octavo.errors import OctavoError, StoreClosed, StoreUnavailable
from octavo.kernel.model import Op, Query, Scope
from octavo.kernel.text import pluralize
from octavo.wraps.attempts import wait_for_event
from octavo.wraps.journal.delivery import Delivery, Queue, backoff_delay, describe_error

State: TypeAlias = Literal["up", "down", "recovering"]
Clock: TypeAlias = Callable[[], datetime]

_log = logging.getLogger("octavo.journal")
_DOOR_SECONDS = 1.0  # new writes wait no longer than this for the last queued ones
_LOOK_SECONDS = 10.0  # between two looks for what other processes left behind
_NEVER = float("inf")


class Replay:
    """Brings what is queued to the store as soon as the store answers.

    While it is `behind`, whatever is written has to be queued too, or it would overtake what waits.
    """

    def __init__(
        self,
        delivery: Delivery,
        queue: Queue,
        *,
        max_age: timedelta | None,
        backoff: tuple[float, float],
        clock: Clock,
    ) -> None:
        self._delivery = delivery
        self._queue = queue
        self._max_age = max_age
        self._backoff = backoff
        self._clock = clock
        self.behind = False
        self.state: State = "up"
        self.last_error: str | None = None
        self.next_try_at: datetime | None = None
        self._doubt = False  # a question was not answered
        self._readable = True  # the last question was answered, as far as anybody knows
        self._fails = 0
        self._warned = False  # the log says that the store is away
        self._told = 0  # queued writes that were stored when the log last said so
        self._asked: list[asyncio.Future[None]] = []  # those who wait for an attempt right now
        self._door = asyncio.Event()  # new writes may go on
        self._door.set()
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()  # set, and replaced, whenever a reader's chances may have changed
        self._try_at = _NEVER
        self._look_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    # --- what the Journal asks of it

    def start(self) -> None:
        """Have the task run."""
        if not self._stopping and (self._task is None or self._task.done()):
            loop = asyncio.get_running_loop()
            self._look_at = loop.time() + _LOOK_SECONDS
            if self._queue.waiting:
                self._fall_behind()
            self._task = loop.create_task(self._run(), name="octavo-journal")
            self._task.add_done_callback(_report_end)

    def note_failure(self, error: BaseException, ops: Sequence[Op] = ()) -> None:
        """A write, or the opening, has failed: from now on everything is queued until the store answers."""
        self._delivery.look_at(ops)
        if self.state == "up":
            self._note_down(error)
        self.behind = True
        self.start()

    def check_store(self, query: Query | None) -> None:
        """A question was not answered: find out whether the store is down."""
        self._readable = False
        if query is None:
            return
        scope = Scope(tenant=query.scope.tenant)
        self._delivery.question = Query(collection=query.collection, scope=scope, limit=1)
        if self.state == "up":
            self._doubt = True
            self._wake.set()
            self.start()

    def note_queued(self) -> None:
        """Something was queued."""
        self._fall_behind()
        self.start()

    async def wait_for_last(self, seconds: float) -> None:
        """Wait, for a moment at most, while the last queued writes are brought to the store."""
        if not self._door.is_set() and seconds > 0:
            await wait_for_event(min(seconds, _DOOR_SECONDS), self._door)

    async def wait_for_scope(self, scope: Scope | None, deadline: float) -> bool:
        """Return when what was queued before and may touch this scope is in the store, or raise StoreUnavailable.

        A store that takes no write is not waited for if it answers questions: False, since it lacks what is queued.
        """
        while self.behind and not self._may_read(scope):
            if self._stopping:
                raise StoreClosed("this store was closed; open another one")
            if self.state == "down" and self._readable:
                return False
            if not await self.wait_for_try(deadline):
                raise self._unreadable_error()
        return True

    async def wait_for_try(self, deadline: float) -> bool:
        """Return when a reader's chances may have changed; False if they do not by then.

        Whoever could only wait in vain, since the next try comes later than he can wait, is told at once.
        """
        if self.state == "down" and deadline < self._try_at:
            return False
        return await wait_for_event(deadline - asyncio.get_running_loop().time(), self._changed)

    def _may_read(self, scope: Scope | None) -> bool:
        if not self._queue.waiting and self._queue.idle:
            return self._readable  # a store that takes no write, and lacks none, is read all the same
        return self._delivery.all_held and scope is not None and not self._delivery.blocks(frozenset([scope]))

    async def try_now(self) -> int:
        """Try at once, whatever the backoff says; answer how many writes reached the store."""
        before = self._delivery.replayed
        if not self._stopping:
            self.start()
            asked = asyncio.get_running_loop().create_future()
            self._asked.append(asked)
            self._wake.set()
            await asked
        return self._delivery.replayed - before

    async def stop(self, seconds: float) -> None:
        """End the task, after what it is at if that takes no longer than this."""
        self._stopping = True
        self._wake.set()
        self._door.set()
        if self._task is not None and not self._task.done():
            await asyncio.wait({self._task}, timeout=seconds)
            self._task.cancel()
            await asyncio.wait({self._task})
        self._delivery.cancel()
        self._tell_readers()

    # --- when it works

    async def _run(self) -> None:
        try:
            while not self._stopping:
                await self._rest()
                if not self._stopping:
                    await self._turn()
        finally:
            self._door.set()
            _answer(self._asked)
            self._asked = []

    async def _rest(self) -> None:
        """Sleep until there is something to do."""
        loop = asyncio.get_running_loop()
        while not (self._stopping or self._asked or self._doubt):
            seconds = min(self._try_at, self._look_at) - loop.time()
            if seconds <= 0:
                return
            self._wake.clear()
            await wait_for_event(seconds, self._wake)

    async def _turn(self) -> None:
        asked, self._asked = self._asked, []
        loop = asyncio.get_running_loop()
        try:
            if asked or loop.time() >= self._look_at:
                self._look_at = loop.time() + _LOOK_SECONDS
                await self._adopt()
            if self.behind or self._doubt:
                await self._deliver_all(at_once=bool(asked))
            await self._queue.look()
        except (OSError, OctavoError) as error:  # of the journal's own disk
            self._note_down(error)
        finally:
            self._door.set()
            _answer(asked)

    async def _adopt(self) -> None:
        """Take over what other processes left; a queue that cannot be used has none to give."""
        if self._queue.error is not None:
            await self._queue.check()
        try:
            await self._queue.run(self._queue.spool.adopt)
        except (OSError, OctavoError) as error:
            if self._queue.waiting:
                raise
            self._queue.note_failure(str(error))
        if self._queue.waiting and not self.behind:
            self._fall_behind()

    async def _deliver_all(self, *, at_once: bool) -> None:
        """Bring what waits to the store, until nothing does, or the store is down, or the rest has to wait."""
        down = await self._find_outage() or await self._delivery.retry(at_once=at_once)
        while down is None and not self._stopping:
            entries = await self._delivery.next_entries() if self._queue.waiting else []
            if entries:
                if len(entries) == self._queue.waiting and self._queue.idle:
                    # The last ones. Were others let in behind them, a busy program would never see the end of its queue.
                    self._door.clear()
                down = await self._delivery.deliver(entries)
            elif (due := self._delivery.due) is not None:
                self._note_held(due)
                return
            elif not self._queue.idle:
                await self._queue.settle()
            elif self._queue.waiting:  # the disk does not give back what is on it: ask again, but not at once
                raise StoreUnavailable(f"{self._queue.spool.directory} does not give back what waits there")
            else:
                self._note_up()
                return
        if down is not None:
            self._readable = await self._delivery.silence() is None
            self._note_down(down)
            await self._bury_old()

    async def _find_outage(self) -> BaseException | None:
        """Why the store is down, if it is: looked at only when there is reason to think so."""
        doubt, self._doubt = self._doubt, False
        if self.state == "down" or not self._delivery.store_open:
            down = await self._delivery.refusal()
        elif doubt:
            down = await self._delivery.silence()
        else:
            return None
        if down is None and self.behind:
            self.state = "recovering"
            self.next_try_at = None
        return down

    async def _bury_old(self) -> None:
        """What has waited too long for a store that is down becomes a dead letter, so that a person hears of it."""
        if self._max_age is None or not self._queue.waiting:
            return
        error = f"waited longer than {self._max_age} for the store: {self.last_error}"
        if await self._delivery.bury_old(self._clock() - self._max_age, error):
            self._try_at = 0.0

    # --- how it stands

    def _fall_behind(self) -> None:
        self.behind = True
        self._delivery.all_held = False
        if self.state != "down":
            self.state = "recovering"
            self._try_at = 0.0
            self._wake.set()

    def _note_down(self, error: BaseException) -> None:
        self.last_error = describe_error(error)
        if self.state != "down":
            what = f"queued in {self._queue.spool.directory}" if self._queue.error is None else "refused"
            _log.warning("the store cannot be written to; writes are %s: %s", what, self.last_error)
            self._warned = True
        self.behind = True
        self._delivery.all_held = False
        self.state = "down"
        seconds = backoff_delay(self._backoff, self._fails)
        self._fails += 1
        self._try_at = asyncio.get_running_loop().time() + seconds
        self.next_try_at = self._clock() + timedelta(seconds=seconds)
        self._door.set()
        self._wake.set()
        self._tell_readers()

    def _note_up(self) -> None:
        if self.behind:
            stored = pluralize(self._delivery.replayed - self._told, "queued write")
            level = logging.WARNING if self._warned else logging.INFO
            _log.log(level, "the store answers, and nothing is queued any more; %s stored", stored)
        self._told, self._warned = self._delivery.replayed, False
        self.behind = self._delivery.all_held = False
        self.state = "up"
        self._readable = True
        self._fails = 0
        self._try_at = _NEVER
        self.next_try_at = None
        self._door.set()
        self._tell_readers()

    def _note_held(self, due: float) -> None:
        """Nothing can be brought before then; if all that waits was looked at, readers whom it does not concern may pass."""
        self._fails = 0
        self._try_at = due
        self._delivery.all_held = not self._queue.spool.unread
        self._tell_readers()

    def _tell_readers(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _unreadable_error(self) -> StoreUnavailable:
        why = self.last_error or "they are being brought there"
        waiting = self._queue.waiting
        lacks = f"lacks {waiting} queued write{'s' * (waiting != 1)} and " if waiting else ""
        return StoreUnavailable(f"the store {lacks}cannot be read: {why}")


def _report_end(task: "asyncio.Task[None]") -> None:
    """Have the event loop speak of an end that nobody foresaw; the next write starts the task again."""
    if not task.cancelled() and (error := task.exception()) is not None:
        context = {"message": "the replay of queued writes broke off", "exception": error, "task": task}
        task.get_loop().call_exception_handler(context)


def _answer(asked: "Sequence[asyncio.Future[None]]") -> None:
    for one in asked:
        if not one.done():
            one.set_result(None)
