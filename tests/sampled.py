"""Long tables of values, of which `make test` runs a part: `make torture` runs them all."""

import os
from collections.abc import Callable, Iterable
from typing import Any

import pytest

#: Whether what is long by its nature runs at full length, as `make torture` has it.
FULL = os.environ.get("OCTAVO_TORTURE") == "full"

#: On a test that is left to `make torture`, since it takes long and what it promises is seen from near by a shorter one.
only_torture = pytest.mark.torture(only=True)


def examples(some: int, full: int) -> int:
    """How many Hypothesis makes up of a test that `conftest.py` names among the longer ones: so many more at full length."""
    return full if FULL else some


def some_of(values: Iterable[Any], share: int) -> list[Any]:
    """For the `params` of a fixture, as `sampled` is for the values of a test."""
    values = list(values)
    return [pytest.param(value, marks=pytest.mark.torture) for value in values] if FULL else values[::share]


def sampled(
    names: str | tuple[str, ...], values: Iterable[Any], share: int, **more: Any
) -> Callable[..., Any]:
    """`pytest.mark.parametrize` with one value in `share`, from the first on; at full length with all, as part of `make torture`."""
    values = list(values)
    some = pytest.mark.parametrize(names, values if FULL else values[::share], **more)
    return (lambda test: pytest.mark.torture(some(test))) if FULL else some
