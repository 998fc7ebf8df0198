"""Calls to a store that may hang: each is waited for so long and no longer, and known until it has ended."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from octavo.errors import StoreClosed, StoreUnavailable

T = TypeVar("T")
_GRACE_SECONDS = 1.0  # for a call that was cancelled to clear up after itself


class Attempts:
    """What was asked of a store and has not ended.

    A write that nobody waits for any more may still be done. Until it has ended nothing may be written that was asked for
    after it, or the older one would have the last word.
    """

    def __init__(self) -> None:
        self._writes: set[asyncio.Task[Any]] = set()
        self._reads: set[asyncio.Task[Any]] = set()
        self._late: dict[asyncio.Task[Any], str] = {}  # writes that are queued under these ids as well
        self.applied: set[str] = set()  # ids of queued writes that were done after all

    def write(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin a write; cancelling whoever waits for it does not end it."""
        return _begin(work, self._writes)

    def note_queued(self, task: asyncio.Task[Any], entry: str) -> None:
        """A write that has not ended is queued under this id: should it succeed yet, it need not be done again."""
        if task.done():
            return
        self._late[task] = entry
        task.add_done_callback(self._note_late)

    def _note_late(self, task: asyncio.Task[Any]) -> None:
        entry = self._late.pop(task)
        if outcome_of(task) is None:
            self.applied.add(entry)

    async def read(self, work: Coroutine[Any, Any, T], seconds: float, what: str = "the store") -> T:
        """The answer; StoreUnavailable when there is none after so many seconds, StoreClosed when all were cancelled."""
        task = _begin(work, self._reads)
        try:
            await asyncio.wait({task}, timeout=max(seconds, 0))
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not task.done():
            task.cancel()  # and not awaited: a driver may hang while it lets go, too
            raise late_error(what, seconds)
        # By `cancel`, and not by whoever waits here: a cancellation would end their task without a word.
        if task.cancelled():
            raise StoreClosed(f"{what} was closed before it had answered")
        return task.result()

    async def wait_for_all(self, seconds: float) -> bool:
        """Whether every write has ended: by itself within so many seconds, or because it was cancelled then."""
        if self._writes:
            await asyncio.wait(self._writes, timeout=max(seconds, 0))
        if self._writes:
            for task in self._writes:
                task.cancel()
            await asyncio.wait(self._writes, timeout=_GRACE_SECONDS)
        return not self._writes

    def cancel(self) -> None:
        """Have everything end; nobody waits for it."""
        for task in (*self._writes, *self._reads):
            task.cancel()


def _begin(work: Coroutine[Any, Any, T], kept: set[asyncio.Task[Any]]) -> asyncio.Task[T]:
    task = asyncio.get_running_loop().create_task(work)
    kept.add(task)  # the event loop itself holds tasks only weakly
    task.add_done_callback(kept.discard)
    # The outcome is looked at, or Python would complain of one that nobody waited for.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


def outcome_of(task: asyncio.Task[Any]) -> BaseException | None:
    """What went wrong with a task that has ended; None when nothing did."""
    if task.cancelled():
        return StoreUnavailable("the write was given up before the store had answered")
    return task.exception()


def late_error(what: str, seconds: float) -> StoreUnavailable:
    """The error of a call that was not answered in time."""
    return StoreUnavailable(f"{what} did not answer within {max(seconds, 0):.3g} s")


async def wait_for_event(seconds: float, event: asyncio.Event) -> bool:
    """Whether the event came in time; waits no longer than so many seconds."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            return await event.wait()
    except TimeoutError:
        return False
