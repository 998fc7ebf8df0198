"""Group commit on the event loop: while one commit is under way, the callers of the next one gather."""

import asyncio
import copy
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from octavo.errors import OctavoError, StoreUnavailable

W = TypeVar("W")
A = TypeVar("A")


class Gathering(Generic[W, A]):
    """Commits what waits at the same time together, and answers each caller after the commit.

    Cancelling a caller stops nobody's write, its own included. When a group fails for a reason other than that the
    backend is away, each caller's part is tried alone, so that a bad one fails by itself.
    """

    def __init__(
        self,
        commit: Callable[[list[W]], Awaitable[list[A]]],
        most: int,
        weigh: Callable[[W], int] = lambda _: 1,
    ) -> None:
        self._commit = commit
        self._most = most  # what a group may weigh, unless a single caller's work weighs more
        self._weigh = weigh
        self._waiting: deque[tuple[W, asyncio.Future[A]]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def submit(self, work: W) -> A:
        """Commit this work together with whoever else is waiting."""
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((work, answer))
        if self.idle:
            self._task = asyncio.create_task(self._drain())
        return await answer

    @property
    def idle(self) -> bool:
        return self._task is None or self._task.done()

    async def settle(self) -> None:
        """Wait until nothing is under way."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    async def _drain(self) -> None:
        group: list[tuple[W, asyncio.Future[A]]] = []
        try:
            while self._waiting:
                group = self._next_group()
                await self._settle_group(group)
        finally:
            # Reached with callers left only when the task itself is cancelled: none of them may wait for ever.
            _fail(
                [*group, *self._waiting], StoreUnavailable("the event loop stopped before the write was done")
            )
            self._waiting.clear()

    def _next_group(self) -> list[tuple[W, asyncio.Future[A]]]:
        group = [self._waiting.popleft()]
        weight = self._weigh(group[0][0])
        while self._waiting and (weight := weight + self._weigh(self._waiting[0][0])) <= self._most:
            group.append(self._waiting.popleft())
        return group

    async def _settle_group(self, group: list[tuple[W, asyncio.Future[A]]]) -> None:
        try:
            answers = await self._commit([work for work, _ in group])
        except OctavoError as error:
            if len(group) == 1 or isinstance(error, StoreUnavailable):
                _fail(group, error)
                return
            for one in group:
                await self._settle_group([one])
        else:
            for (_, future), answer in zip(group, answers, strict=True):
                if not future.done():  # else its caller was cancelled; the write stands all the same
                    future.set_result(answer)


def _fail(group: list[tuple[W, asyncio.Future[A]]], error: OctavoError) -> None:
    for _, future in group:
        if not future.done():
            own = copy.copy(error)  # one object raised in several tasks would mix up their tracebacks
            own.__cause__ = error.__cause__
            future.set_exception(own)
