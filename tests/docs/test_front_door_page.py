"""docs/front-door.md: what it shows is what happens, and it names every method, source and share."""

import inspect

from pages import ROOT, reader

from octavo import AsyncMemory, Memory
from octavo.memory import SOURCES
from octavo.memory.context import SHARES

PAGE = ROOT / "docs" / "front-door.md"


def test_every_block(tmp_path):
    with reader(tmp_path) as somebody:
        somebody.read(PAGE)
    assert somebody.ran == ["python", "output"] * 3


def test_every_name():
    text = PAGE.read_text(encoding="utf-8")
    for name, _ in inspect.getmembers(AsyncMemory, inspect.isfunction):
        if not name.startswith("_") and name != "close":
            assert f"`{name}" in text, name
            assert hasattr(Memory, name)
    assert all(f"| `{source}` |" in text for source in SOURCES)
    assert all(f"| {part} | {share:.0%} |".replace("%", " %") in text for part, share in SHARES.items())
