"""docs/front-door.md and its Chinese page: what they show is what happens, and they name every method, source and share."""

import inspect

import pytest
from pages import ROOT, reader

from octavo import AsyncMemory, Memory
from octavo.memory import SOURCES
from octavo.memory.context import SHARES
from sampled import sampled

PAGES = ["docs/front-door.md", "docs/zh/front-door.md"]


@sampled("page", PAGES, share=2)
def test_every_block(page, tmp_path):
    with reader(tmp_path) as somebody:
        somebody.read(ROOT / page)
    assert somebody.ran == ["python", "output"] * 6


@pytest.mark.parametrize("page", PAGES)
def test_every_name(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for name, _ in inspect.getmembers(AsyncMemory, inspect.isfunction):
        if not name.startswith("_") and name != "close":
            assert f"`{name}" in text, name
            assert hasattr(Memory, name)
    assert all(f"| `{source}` |" in text for source in SOURCES)
    assert all(f"| {part} | {share:.0%} |".replace("%", " %") in text for part, share in SHARES.items())
