"""`make test` runs each test on one of its stores, in turn; nothing is run nowhere, and `make torture` runs all of it."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from once_more import InTurn
from rotation import in_turn, taking_turns

STORES = ("memory", "file", "sqlite", "postgres", "mysql", "redis")


class Call:
    """What the rotation reads of a collected test."""

    def __init__(self, path, function, cls=None, marks=(), **params):
        self.path, self.cls, self.marks, self.name = Path(path), cls, marks, function
        self.nodeid = f"{path}::{function}[{params}]"
        if params:
            self.callspec = SimpleNamespace(params=params)

    def get_closest_marker(self, name):
        return name in self.marks


def on_each(path, function, **more):
    return [Call(path, function, store=store, **more) for store in STORES]


def run_on(items, left):
    return [item.callspec.params["store"] for item in items if item not in left]


@pytest.mark.parametrize(
    ("folder", "stores"),
    [
        ("chat", ["memory", "file", "sqlite", "postgres", "mysql", "redis", "memory"]),
        ("seeds", ["memory file", "sqlite postgres", "mysql redis", "memory file"]),
        ("agent", ["memory file", "sqlite postgres"]),
    ],
)
def test_one_after_the_other_run_on_every_store(folder, stores):
    """One store each, the next for the next; two of the seeds, and more of a folder with few tests; each row of a table is a test of its own."""
    tests = [
        *(on_each(f"tests/{folder}/test_a.py", f"test_{number}") for number in range(2)),
        *(on_each(f"tests/{folder}/test_b.py", "test_1", row=number) for number in range(len(stores) - 2)),
    ]
    every = [item for items in tests for item in items]
    left = in_turn(every)
    assert [" ".join(run_on(items, left)) for items in tests] == stores
    assert taking_turns(every) == {*every}


@pytest.mark.parametrize(
    ("path", "marks"), [("tests/chat/test_a.py", ("every_store",)), ("tests/contract/test_a.py", ())]
)
def test_what_stays_whole(path, marks):
    """A file that says so, and folders in which it is the stores that are tested."""
    items = on_each(path, "test_1", marks=marks)
    assert in_turn(items) == taking_turns(items) == set()


def test_other_parameters_are_no_stores():
    items = [Call("tests/chat/test_a.py", "test_1", text=text) for text in ("file", "tea", "cake")]
    items += [Call("tests/chat/test_a.py", "test_2", kind=kind) for kind in (1, None)]
    assert in_turn([*items, Call("tests/chat/test_a.py", "test_3")]) == set()


def test_a_store_opened_in_another_way():
    """Each test of the contract is run by one class in six, and generated programs by all."""
    classes = [type(f"Test{n}", (InTurn,), {}) for n in range(6)]
    tests = {
        name: [Call("tests/contract/test_a.py", name, cls=each) for each in classes]
        for name in (*(f"test_{n}" for n in range(6)), "test_programs_agree")
    }
    left = in_turn([item for calls in tests.values() for item in calls])
    kept = {name: [item.cls for item in calls if item not in left] for name, calls in tests.items()}
    assert kept == {**{f"test_{n}": [classes[n]] for n in range(6)}, "test_programs_agree": classes}
