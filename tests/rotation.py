"""Which stores a test runs on: in `make test` one of those it is written for, in turn, and in `make torture` all."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import ceil
from pathlib import Path

import pytest

from once_more import InTurn

_STORES = {"memory", "file", "sqlite", "postgres", "mysql", "redis"}
#: Folders in which it is the stores that are tested, or what is said about each.
_WHOLE = {
    "cli",
    "clusters",
    "config",
    "contract",
    "deploy",
    "docs",
    "integrations",
    "torture",
    "unit",
}
#: What all classes run that are `InTurn`.
_PROGRAMS = {"test_programs_agree", "test_searches_agree"}
#: Each runs on one store in so many: on one of the six.
_SHARE = 6
#: What the seeds promise, and tests of folders with few of them, on a third: on two of the six.
_LARGER_SHARE = 3


def in_turn(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """What `make test` leaves out: the first test of a folder runs on the first store, the next on the one after it.

    So six tests one after the other run on every store, and three of the seeds, each on two; of a folder that has
    few, each on two as well. Where a store may differ in a way that only this very test sees, as in a race, the file
    says `pytestmark = pytest.mark.every_store`, and is left whole.
    """
    return {item for calls, run in _turns(items) for item in calls if item not in run}


def taking_turns(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """All calls of the tests of which `make test` runs a part: what `make torture` runs."""
    return {item for calls, run in _turns(items) if len(run) < len(calls) for item in calls}


def _turns(items: Iterable[pytest.Item]) -> Iterator[tuple[list[pytest.Item], list[pytest.Item]]]:
    """The calls of each test, one for each store, and those whose turn it is."""
    folders: dict[Path, dict[object, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for test, item in (*_by_parameter(items), *_by_class(items)):
        folders[item.path.parent][test].append(item)
    for folder, tests in folders.items():
        one_in = _LARGER_SHARE if folder.name == "seeds" else max(_LARGER_SHARE, min(_SHARE, len(tests)))
        for number, calls in enumerate(tests.values()):
            share = ceil(len(calls) / one_in)
            yield calls, [calls[(number * share + n) % len(calls)] for n in range(share)]


def _by_parameter(items: Iterable[pytest.Item]) -> Iterator[tuple[object, pytest.Item]]:
    """Tests with a parameter that names stores, as `memory` or `session-sqlite` does."""
    ours = [item for item in items if hasattr(item, "callspec") and not _stays_whole(item)]
    named: dict[tuple[str, str], set[str]] = defaultdict(set)
    for item in ours:
        for parameter, value in item.callspec.params.items():
            if isinstance(value, str):
                named[_function(item), parameter] |= _STORES.intersection(value.split("-"))
    for item in ours:
        for parameter in item.callspec.params:
            if len(named[_function(item), parameter]) > 1:
                # The same object with each store; it may be a megabyte of text, so it is not compared.
                others = ((key, id(value)) for key, value in item.callspec.params.items() if key != parameter)
                yield (_function(item), *others), item
                break


def _by_class(items: Iterable[pytest.Item]) -> Iterator[tuple[object, pytest.Item]]:
    """Stores opened in another way, and one index over each: all run the generated programs."""
    for item in items:
        if item.cls and issubclass(item.cls, InTurn) and item.name not in _PROGRAMS:
            yield (item.path, item.name), item


def _stays_whole(item: pytest.Item) -> bool:
    folders = item.nodeid.partition("::")[0].split("/")
    return bool(_WHOLE.intersection(folders) or item.get_closest_marker("every_store"))


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]
