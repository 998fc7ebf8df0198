"""Other people's code, called so that its errors are answers: tools, models, middlewares and memory stores."""

import asyncio
from collections.abc import Awaitable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Abandoned(RuntimeError):  # noqa: N818 - names say what is wrong, not that it is an error
    """Somebody else's code gave up by itself, in a way that would otherwise end the whole program or task."""


class Attempt(NamedTuple, Generic[T]):
    """What came of it: a value, or the error that was raised instead."""

    value: T | None
    error: Exception | None


def said(error: BaseException) -> str:
    """The words of an error, or its kind when it has none or cannot say them."""
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 - an error's own __str__ is somebody else's code too
        return type(error).__name__


async def attempted(work: Awaitable[T]) -> Attempt[T]:
    """Await somebody else's code. Its errors, whatever they are, must not end an agent; being cancelled still does."""
    try:
        return Attempt(await work, None)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Nobody cancelled this task: something that the code waited for was cancelled instead.
        return Attempt(None, Abandoned(f"what it waited for was cancelled {error}".rstrip()))
    except SystemExit as error:  # argparse and others end the program where an error is meant
        return Attempt(None, Abandoned(f"it tried to end the program (exit {error.code})"))
    except Exception as error:  # noqa: BLE001 - the one place in an agent where any error is an answer
        return Attempt(None, error)
