"""Long work on an event loop, done in turns: others are served between two steps of it."""

import asyncio
import time
import weakref
from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")
_TURN_SECONDS = 0.01
_LONG = 2**18
_locks: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]" = weakref.WeakKeyDictionary()


async def in_turns(work: Generator[Any, None, T]) -> T:
    """Take the steps of a work to its end; nobody else on this loop waits longer than for one step and a hundredth of a second.

    A step must be short by itself: while a regular expression runs, neither a task nor a thread gets a turn.
    """
    # One work at a time: of fifty at once, each would take a turn before anybody else is served.
    turn = _locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    while True:
        await asyncio.sleep(0)  # before the first one, too: what is long to work on was long to read
        async with turn:
            until = time.perf_counter() + _TURN_SECONDS
            try:
                next(work)
                while time.perf_counter() < until:
                    next(work)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]


async def let_others(size: int) -> None:
    """After work on that many bytes or characters, let others have their turn if it may have been long."""
    if size > _LONG:
        await asyncio.sleep(0)


def at_once(work: Generator[Any, None, T]) -> T:
    """Take all steps of a work in one go."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
