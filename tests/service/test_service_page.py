"""docs/service.md and its Chinese page: what they show is what happens, and they name every method."""

import inspect
import re
from pathlib import Path

import pytest

from octavo.service import Core, MemoryService
from one_program import prints_what_it_shows

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(params=["service.md", "zh/service.md"])
def page(request):
    return (DOCS / request.param).read_text(encoding="utf-8")


def test_every_block(page, tmp_path):
    """The blocks, one after the other as one program, print what stands under them."""
    prints_what_it_shows(page, tmp_path, logs=True)


def test_every_method(page):
    """The table has every method of the service with its arguments and defaults; each has an awaitable twin."""
    shown = dict(re.findall(r"^\| `(\w+)\((.*?)\)` \|", page, re.MULTILINE))
    public = {name for name in dir(MemoryService) if not name.startswith("_")}
    methods = public - {"from_config", "from_settings", "portal", "behind"}
    twins = {name for name in methods if name.startswith("a") and name[1:] in methods}
    assert {*shown} == methods - twins
    assert {f"a{name}" for name in shown} == twins
    for name, arguments in shown.items():
        for method in (getattr(MemoryService, name), getattr(MemoryService, f"a{name}")):
            parameters = [*inspect.signature(method).parameters.values()][1:]
            told = [
                p.name.rstrip("_") if p.default is p.empty else f"{p.name}={_spelled(p.default)}"
                for p in parameters
            ]
            assert ", ".join(told) == arguments, name
            assert method.__doc__, name
            assert inspect.iscoroutinefunction(method) is (
                method.__name__.startswith("a") and name != method.__name__
            )


def _spelled(value):
    return f'"{value}"' if isinstance(value, str) else repr(value)


def test_every_promise_of_core(page):
    """The arguments that the page names are there."""
    arguments = inspect.signature(Core).parameters
    for name in ("memory_service", "memory_config_path", "close_memory"):
        assert name in arguments
        assert f"`{name}" in page
