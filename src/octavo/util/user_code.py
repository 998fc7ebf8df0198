"""Somebody else's code, called so that its errors are answers: tools, models, gates, memories and stores of a user.

It may raise anything. This is the one module where anything is caught; the rest of Octavo catches what it knows.
"""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, TypeVar

from octavo.errors import ModelError, OctavoError

T = TypeVar("T")


class Abandoned(RuntimeError):  # noqa: N818 - names say what is wrong, not that it is an error
    """Somebody else's code gave up by itself, in a way that would otherwise end the whole program or task."""


class Attempt(NamedTuple, Generic[T]):
    """What came of it: a value, or the error that was raised instead."""

    value: T | None
    error: Exception | None


class Caught:
    """The error that was raised, if one was."""

    error: Exception | None = None


def said(error: BaseException) -> str:
    """The words of an error, or its kind when it has none or cannot say them."""
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 - an error's own __str__ is somebody else's code too
        return type(error).__name__


async def attempted(work: Awaitable[T]) -> Attempt[T]:
    """Await somebody else's code. Its errors, whatever they are, are answers; being cancelled is still raised."""
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
    except Exception as error:  # noqa: BLE001 - it is for the caller to judge
        return Attempt(None, error)


async def called(function: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
    """What a function answers, async or not; one that is not runs in a thread, beside the event loop."""
    if _is_async(function):
        return await function(*args, **named)
    answer = await asyncio.to_thread(_in_thread, function, args, named)
    return await answer if inspect.isawaitable(answer) else answer


def _is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, functools.partial):  # of an object, it would hide the object's call
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - asked for its kind, not whether it is there
    )


def _in_thread(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    try:
        return function(*args, **named)
    except StopIteration as error:  # a future cannot carry it: whoever waits would wait for ever
        raise RuntimeError(f"StopIteration: {error}") from error


@contextmanager
def caught() -> Iterator[Caught]:
    """Whatever goes wrong inside is kept for the caller to look at; being cancelled or interrupted is still raised."""
    outcome = Caught()
    try:
        yield outcome
    except Exception as error:  # noqa: BLE001 - it is for the caller to judge
        outcome.error = error


@contextmanager
def foreign(what: str, kind: type[OctavoError] = ModelError) -> Iterator[None]:
    """Whatever goes wrong inside is an error of this kind that names `what`, with its cause; Octavo's own errors stay."""
    try:
        yield
    except OctavoError:
        raise
    except Exception as error:
        raise kind(f"{what}: {type(error).__name__}: {error}") from error
