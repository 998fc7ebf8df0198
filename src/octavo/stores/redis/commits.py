"""Group commit: adds that wait at the same time share one script call, and each is acknowledged after it."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from octavo.codec import Sealed
from octavo.errors import StoreError, StoreUnavailable

#: A group is closed at this many records: Redis serves nobody else while the script runs.
_MOST_RECORDS = 2000
_MOST_CHARACTERS = 8 * 1024 * 1024


class _Waiting(msgspec.Struct, eq=False):
    records: Sequence[Sealed]
    answer: "asyncio.Future[bytes]"


class Commits:
    """Adds on their way to Redis, in the order they came; those of one tenant together."""

    def __init__(self, write: Callable[[Sequence[Sealed]], Awaitable[bytes]]) -> None:
        self._write = write
        self._waiting: dict[frozenset[str], deque[_Waiting]] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def add(self, records: Sequence[Sealed]) -> bytes:
        """Add the records; answer b"1" or b"0" for each. Whoever stops waiting takes nothing of the others with it."""
        # Only the same tenants share a call: in a cluster, those of different tenants may live on different nodes.
        tenants = frozenset([sealed.scope.tenant for sealed in records])
        waiting = _Waiting(records, asyncio.get_running_loop().create_future())
        queue = self._waiting.get(tenants)
        if queue is not None:
            queue.append(waiting)
        else:
            self._waiting[tenants] = deque([waiting])
            task = asyncio.create_task(self._drain(tenants))
            self._running.add(task)
            task.add_done_callback(self._ended)
        return await waiting.answer

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # the waiters have been told; asyncio need not complain that nobody looked

    async def settled(self) -> None:
        """Wait until nothing is on its way any more."""
        while self._running:
            await asyncio.wait(self._running)

    async def _drain(self, tenants: frozenset[str]) -> None:
        queue = self._waiting[tenants]
        group: list[_Waiting] = []
        try:
            while queue:
                group = _group(queue)
                await self._commit(group)
        except BaseException as error:
            # Nobody awaits this task: an error left here would leave its waiters waiting for ever.
            for waiting in (*group, *queue):
                _fail(waiting, error)
            raise
        finally:
            del self._waiting[tenants]

    async def _commit(self, group: list[_Waiting]) -> None:
        records = [sealed for waiting in group for sealed in waiting.records]
        try:
            digits = await self._write(records)
        except StoreUnavailable as error:
            for waiting in group:
                _fail(waiting, error)
        except StoreError as error:
            if len(group) == 1:
                _fail(group[0], error)
                return
            for waiting in group:  # one of them is refused: only that one shall fail
                await self._commit([waiting])
        else:
            start = 0
            for waiting in group:
                end = start + len(waiting.records)
                if not waiting.answer.done():
                    waiting.answer.set_result(digits[start:end])
                start = end


def _group(queue: deque[_Waiting]) -> list[_Waiting]:
    group = [queue.popleft()]
    records, characters = len(group[0].records), _length(group[0])
    while queue and records < _MOST_RECORDS and characters < _MOST_CHARACTERS:
        records += len(queue[0].records)
        characters += _length(queue[0])
        if records > _MOST_RECORDS or characters > _MOST_CHARACTERS:
            break
        group.append(queue.popleft())
    return group


def _length(waiting: _Waiting) -> int:
    return sum([len(sealed.data_json) + len(sealed.text) for sealed in waiting.records])


def _fail(waiting: _Waiting, error: BaseException) -> None:
    if waiting.answer.done():
        return
    if isinstance(error, asyncio.CancelledError):
        waiting.answer.cancel()
    elif isinstance(error, StoreError):
        own = type(error)(
            *error.args
        )  # one error object raised in several tasks would mix up their tracebacks
        own.__cause__ = error.__cause__
        waiting.answer.set_exception(own)
    else:
        waiting.answer.set_exception(error)
