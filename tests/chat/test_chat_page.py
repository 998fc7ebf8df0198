"""docs/chat.md and its Chinese page: what they show is what happens, and they name every method and every setting."""

import inspect
import re
from pathlib import Path

import pytest

from octavo.chat import AsyncSQLAlchemyMemory, ChatMemory, InMemoryMemory, MemoryBase, Msg, RedisMemory
from one_program import prints_what_it_shows

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(params=["chat.md", "zh/chat.md"])
def page(request):
    return (DOCS / request.param).read_text(encoding="utf-8")


def test_every_block(page, tmp_path, fresh_redis):
    """The blocks, one after the other as one program, print what stands under them."""
    prints_what_it_shows(page, tmp_path, REDIS_URL=fresh_redis)


def told(function):
    """A signature as the page spells it."""
    parameters = [
        p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls", "owned")
    ]
    spelled = []
    for p in parameters:
        default = f'"{p.default}"' if isinstance(p.default, str) else repr(p.default)
        stars = "**" if p.kind is p.VAR_KEYWORD else ""
        spelled.append(stars + p.name if p.default is p.empty else f"{p.name}={default}")
    return f"({', '.join(spelled)})"


def test_every_method(page):
    """The table has every method with its arguments and defaults."""
    shown = dict(re.findall(r"^\| `([a-z]\w+)(\(.*?\))` \| ", page, re.MULTILINE))
    public = {name for name in dir(ChatMemory) if not name.startswith("_")} - {"open"}
    methods = {name for name in public if callable(getattr(ChatMemory, name))}
    assert {*shown} == methods
    assert methods == {name for name in dir(MemoryBase) if not name.startswith("_")}
    for name, arguments in shown.items():
        method = getattr(ChatMemory, name)
        assert arguments == told(method), name
        assert method.__doc__, name


def test_every_setting(page):
    """The table of memories and the line on Msg have every argument with its default."""
    for named in (InMemoryMemory, AsyncSQLAlchemyMemory, RedisMemory, ChatMemory, Msg):
        assert f"`{named.__name__}{told(named)}`" in page
    assert f"`ChatMemory.open{told(ChatMemory.open)}`" in page


def test_the_nine_methods(page):
    own = page.rpartition("\n## ")[2]
    assert "`octavo.chat.MemoryBase`" in own
    assert all(f"`{name}`" in own for name in MemoryBase.__abstractmethods__)
