"""docs/layers.md and its Chinese page: what they show is what happens, and they name every method, every setting and every category."""

import inspect
import re
from pathlib import Path

import pytest
from msgspec import UNSET

from octavo.layers import CATEGORIES, Extractor, LayeredMemory
from one_program import prints_what_it_shows

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(params=["layers.md", "zh/layers.md"])
def page(request):
    return (DOCS / request.param).read_text(encoding="utf-8")


def test_every_block(page, tmp_path):
    """The blocks, one after the other as one program, print what stands under them."""
    prints_what_it_shows(page, tmp_path)


def told(function):
    """A signature as the page spells it."""
    spelled = []
    for p in inspect.signature(function).parameters.values():
        if p.name in ("self", "cls", "clock"):  # a clock is for tests
            continue
        default = (
            "UNSET" if p.default is UNSET else f'"{p.default}"' if isinstance(p.default, str) else p.default
        )
        spelled.append(p.name if p.default is p.empty else f"{p.name}={default}")
    return f"({', '.join(spelled)})"


def test_every_method(page):
    """The table has every method with its arguments and defaults, and the line above it the ways to make one."""
    shown = dict(re.findall(r"^\| `(\w+)(\(.*?\))` \| ", page, re.MULTILINE))
    made = {"from_settings", "from_assembled"}
    methods = {
        name
        for name in dir(LayeredMemory)
        if not name.startswith("_") and callable(getattr(LayeredMemory, name))
    }
    assert {*shown} == methods - made
    for name, arguments in shown.items():
        method = getattr(LayeredMemory, name)
        assert arguments == told(method), name
        assert method.__doc__, name
    assert f"`LayeredMemory{told(LayeredMemory)}`" in page
    assert all(f"`LayeredMemory.{name}{told(getattr(LayeredMemory, name))}`" in page for name in made)


def test_every_category(page):
    for layer, categories in CATEGORIES.items():
        assert f"| `{layer}` | {', '.join(f'`{name}`' for name in categories)} |" in page


def test_an_extractor_is_told_whole(page):
    assert "`decide(text, known, *, owner_type, at)`" in page
    assert [*inspect.signature(Extractor.decide).parameters] == ["self", "text", "known", "owner_type", "at"]
