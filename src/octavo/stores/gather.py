"""Group commit on the event loop: while one commit is under way, the callers of the next one gather."""

import asyncio
import copy
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from octavo.errors import OctavoError, StoreUnavailable
from octavo.util.user_code import catch_error

_WORTH_SHARING = 16  # fewer callers than that are better off in one group
W = TypeVar("W")
A = TypeVar("A")


class Gathering(Generic[W, A]):
    """Commits what waits at the same time together, and answers each caller after the commit.

    Cancelling a caller stops nobody's write, its own included. When a group fails for a reason other than that the
    backend is away, each caller's part is tried alone, so that a bad one fails by itself. With `lanes`, so many groups may
    be under way at once, as long as all work in them may stand `beside` other work; what may not keeps its position in the line.
    """

    def __init__(
        self,
        commit: Callable[[list[W]], Awaitable[list[A]]],
        most: int,
        weigh: Callable[[W], int] = lambda _: 1,
        *,
        lanes: int = 1,
        beside: Callable[[W], bool] = lambda _: False,
    ) -> None:
        self._commit = commit
        self._most = most  # what a group may weigh, unless a single caller's work weighs more
        self._weigh = weigh
        self._waiting: deque[tuple[W, asyncio.Future[A]]] = deque()
        self._lanes = lanes
        self._beside = beside
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way = 0  # groups
        self._alone = False  # the one under way takes no others beside it

    async def submit(self, work: W) -> A:
        """Commit this work together with whoever else is waiting."""
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((work, answer))
        self._tasks = {task for task in self._tasks if not task.done()}
        if len(self._tasks) < self._lanes:
            self._tasks.add(asyncio.create_task(self._drain()))
        return await answer

    @property
    def idle(self) -> bool:
        return all(task.done() for task in self._tasks)

    async def settle(self) -> None:
        """Wait until nothing is under way."""
        while not self.idle:
            await asyncio.wait(self._tasks)

    async def _drain(self) -> None:
        group: list[tuple[W, asyncio.Future[A]]] = []
        try:
            while self._waiting and (group := self._next_group()):
                self._under_way += 1
                try:
                    await self._settle_group(group)
                finally:
                    self._under_way -= 1
                # Those who were answered go first, so that the lanes share what they write next.
                if self._lanes > 1:
                    await asyncio.sleep(0)
        except BaseException:
            # The task is cancelled: none of the callers may wait for ever.
            _fail(
                [*group, *self._waiting], StoreUnavailable("the event loop stopped before the write was done")
            )
            self._waiting.clear()
            raise

    def _next_group(self) -> list[tuple[W, asyncio.Future[A]]]:
        """Who goes next; nobody, when that has to wait for what is under way, whose lane will then go on with it."""
        beside = self._lanes > 1 and self._beside(self._waiting[0][0])
        if self._under_way and (self._alone or not beside):
            return []
        self._alone = not beside
        most = len(self._waiting)
        if beside and most >= _WORTH_SHARING:
            most = -(-most // (self._lanes - self._under_way))
        group = [self._waiting.popleft()]
        weight = self._weigh(group[0][0])
        while (
            len(group) < most
            and (weight := weight + self._weigh(self._waiting[0][0])) <= self._most
            and (not beside or self._beside(self._waiting[0][0]))
        ):
            group.append(self._waiting.popleft())
        return group

    async def _settle_group(self, group: list[tuple[W, asyncio.Future[A]]]) -> None:
        answers: list[A] = []
        # Catches a mistake of ours too: its caller is told of it as it is, never as an outage.
        with catch_error() as outcome:
            answers = await self._commit([work for work, _ in group])
        error = outcome.error
        if error is None:
            for (_, future), answer in zip(group, answers, strict=True):
                if not future.done():  # else its caller was cancelled; the write stands all the same
                    future.set_result(answer)
        elif len(group) == 1:
            _tell(group[0][1], error)
        elif isinstance(error, StoreUnavailable):
            _fail(group, error)
        else:
            for one in group:
                await self._settle_group([one])


def _fail(group: list[tuple[W, asyncio.Future[A]]], error: OctavoError) -> None:
    for _, future in group:
        own = copy.copy(error)  # one object raised in several tasks would mix up their tracebacks
        own.__cause__ = error.__cause__
        _tell(future, own)


def _tell(future: "asyncio.Future[A]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
