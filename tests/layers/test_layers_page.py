"""docs/layers.md: what it shows is what happens, and it names every method, every setting and every category."""

import inspect
import re
from pathlib import Path

from msgspec import UNSET

from octavo.layers import CATEGORIES, Extractor, LayeredMemory
from one_program import prints_what_it_shows

PAGE = (Path(__file__).parents[2] / "docs" / "layers.md").read_text(encoding="utf-8")


def test_every_block(tmp_path):
    """The blocks, one after the other as one program, print what stands under them."""
    prints_what_it_shows(PAGE, tmp_path)


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


def test_every_method():
    """The table has every method with its arguments and defaults, and the line above it the ways to make one."""
    shown = dict(
        re.findall(r"^\| `(\w+)(\(.*?\))` \| ", PAGE.partition("## What it can do")[2], re.MULTILINE)
    )
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
    assert f"`LayeredMemory{told(LayeredMemory)}`" in PAGE
    assert all(f"`LayeredMemory.{name}{told(getattr(LayeredMemory, name))}`" in PAGE for name in made)


def test_every_category():
    for layer, categories in CATEGORIES.items():
        assert f"| `{layer}` | {', '.join(f'`{name}`' for name in categories)} |" in PAGE


def test_an_extractor_is_told_whole():
    assert "`decide(text, known, *, owner_type, at)`" in PAGE
    assert [*inspect.signature(Extractor.decide).parameters] == ["self", "text", "known", "owner_type", "at"]
