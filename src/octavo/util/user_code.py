"""Somebody else's code, called so that its errors are answers: tools, models, gates, memories and stores of a user.

And attributes that they assign, never in vain: one that is fixed refuses, one that may change is checked each time.

It may raise anything. This is the one module where anything is caught; the rest of Octavo catches what it knows.
"""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, Self, TypeVar, overload

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


def describe_error(error: BaseException) -> str:
    """The message of an error, or the name of its class when it has no message or its `__str__` fails."""
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 - an error's own __str__ is somebody else's code too
        return type(error).__name__


async def attempt(work: Awaitable[T]) -> Attempt[T]:
    """Await somebody else's code and return its value or its error; being cancelled is still raised."""
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


async def call_function(function: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
    """Call a function, async or not, and return its answer; one that is not async runs on a thread."""
    if _is_async(function):
        return await function(*args, **named)
    answer = await asyncio.to_thread(_call_in_thread, function, args, named)
    return await answer if inspect.isawaitable(answer) else answer


def _is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, functools.partial):  # of an object, it would hide the object's call
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - asked for its kind, not whether it is there
    )


def _call_in_thread(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    try:
        return function(*args, **named)
    except StopIteration as error:  # a future cannot carry it: whoever waits would wait for ever
        raise RuntimeError(f"StopIteration: {error}") from error


@contextmanager
def catch_error() -> Iterator[Caught]:
    """Catch any exception from inside for the caller to look at; being cancelled or interrupted is still raised."""
    outcome = Caught()
    try:
        yield outcome
    except Exception as error:  # noqa: BLE001 - it is for the caller to judge
        outcome.error = error


@contextmanager
def translate_errors(what: str, kind: type[OctavoError] = ModelError) -> Iterator[None]:
    """Raise any exception from inside as an error of this kind that names `what`; Octavo's own errors stay as they are."""
    try:
        yield
    except OctavoError:
        raise
    except Exception as error:
        raise kind(f"{what}: {type(error).__name__}: {error}") from error


class _Attribute(Generic[T]):
    """An attribute whose value is in its holder's `__dict__`, under its own name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, holder: None, owner: type) -> Self: ...
    @overload
    def __get__(self, holder: object, owner: type) -> T: ...
    def __get__(self, holder: object | None, owner: type) -> Self | T:
        if holder is None:
            return self
        try:
            value: T = holder.__dict__[self._name]
        except KeyError:
            raise AttributeError(f"{type(holder).__name__} has no {self._name} yet") from None
        return value


class Fixed(_Attribute[T]):
    """An attribute that is given once, when its object is made: a value given later would not be looked at."""

    def __init__(self, cure: str) -> None:
        self._cure = cure

    def __set__(self, holder: object, value: T) -> None:
        if self._name in holder.__dict__:
            raise AttributeError(f"{type(holder).__name__}.{self._name} cannot be changed: {self._cure}")
        holder.__dict__[self._name] = value


class Checked(_Attribute[T]):
    """An attribute whose value is checked whenever it is assigned, and not only when its object is made."""

    def __init__(self, check: Callable[[Any], T]) -> None:
        self._check = check

    def __set__(self, holder: object, value: Any) -> None:
        holder.__dict__[self._name] = self._check(value)
