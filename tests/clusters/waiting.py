"""Waiting for what a cluster does by itself."""

import time
from collections.abc import Callable


def until(
    holds: Callable[[], bool], seconds: float, passing: tuple[type[Exception], ...] = (OSError,)
) -> None:
    """Wait until something has come true; errors that pass by themselves count as not yet."""
    deadline = time.monotonic() + seconds
    problem: Exception | str = "not yet"
    while time.monotonic() < deadline:
        try:
            if holds():
                return
        except passing as error:
            problem = error
        time.sleep(0.1)
    raise AssertionError(f"it did not come true within {seconds:g} s: {problem}")
