"""Somebody else's code: what it raises is an answer, and nowhere else is everything caught."""

import asyncio
import functools
import re
import threading
from pathlib import Path

import pytest

from octavo import ModelError, NotFound, StoreUnavailable
from octavo.util.user_code import (
    Abandoned,
    attempt,
    call_function,
    catch_error,
    describe_error,
    translate_errors,
)

SOURCE = Path(__file__).parents[2] / "src" / "octavo"


class Speechless(Exception):  # noqa: N818
    def __str__(self):
        raise RuntimeError("not even this")


def failing(error):
    raise error


def test_everything_is_caught_in_one_place():
    """Elsewhere an error is caught by its kind, or raised again.

    But for a client with memory, whose calls nothing of the memory may fail, and a part of a batch that has its 500 already.
    """
    everything = re.compile(r"except\s*(\(\s*)?(Exception\b|:)")
    found = {
        path.name for path in SOURCE.rglob("*.py") if everything.search(path.read_text(encoding="utf-8"))
    }
    assert found == {"user_code.py", "keeping.py", "batch.py"}


def test_what_is_caught_can_be_looked_at():
    """Inside a block that failed and one that did not; an interrupt is nobody's answer."""
    error = ValueError("no")
    with catch_error() as outcome:
        failing(error)
    assert outcome.error is error
    with catch_error() as outcome:
        pass
    assert outcome.error is None
    with pytest.raises(KeyboardInterrupt), catch_error():
        failing(KeyboardInterrupt())


def test_an_error_is_translated_once():
    """Into the kind asked for, with its cause; an error of Octavo's stays what it is."""
    error = ValueError("no")
    with (
        pytest.raises(ModelError, match=r"^it failed: ValueError: no$") as raised,
        translate_errors("it failed"),
    ):
        failing(error)
    assert raised.value.__cause__ is error
    with (
        pytest.raises(StoreUnavailable, match=r"^Mine: ValueError: no$"),
        translate_errors("Mine", StoreUnavailable),
    ):
        failing(error)
    with pytest.raises(NotFound), translate_errors("it failed"):
        failing(NotFound("gone"))


def test_an_error_without_words():
    """Its kind stands for it, also when it fails at saying anything."""
    assert [describe_error(error) for error in (ValueError("no"), ValueError(), Speechless())] == [
        "no",
        "ValueError",
        "Speechless",
    ]


@pytest.mark.parametrize(
    ("raised", "kind"),
    [(ValueError("no"), ValueError), (SystemExit(2), Abandoned), (asyncio.CancelledError(), Abandoned)],
)
async def test_an_attempt_is_an_answer(raised, kind):
    """Whatever is raised, also what would end the program, or the task, without anyone having asked for that."""

    async def work():
        failing(raised)

    value, error = await attempt(work())
    assert (value, type(error)) == (None, kind)


async def test_an_attempt_can_be_cancelled():
    task = asyncio.create_task(attempt(asyncio.Event().wait()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class Model:
    def __call__(self, text):
        return text, threading.current_thread()


class AsyncModel:
    async def __call__(self, text):
        return text, threading.current_thread()


async def test_a_function_of_any_kind_is_called():
    """What blocks does so in another thread; what is async runs here, also behind a partial or a lambda."""
    here = threading.current_thread()
    for model, awaited in ((Model(), False), (AsyncModel(), True)):
        for function in (
            model,
            model.__call__,
            functools.partial(model),
            lambda text, model=model: model(text),
        ):
            text, where = await call_function(function, "a")
            assert (text, where is here) == ("a", awaited)


async def test_a_function_that_raises_stop_iteration():
    """No future can carry it, so whoever waited for it would wait for ever."""
    async with asyncio.timeout(30):
        with pytest.raises(RuntimeError, match="StopIteration: no more"):
            await call_function(failing, StopIteration("no more"))
