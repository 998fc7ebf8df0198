"""Everything docs/client.md shows is run against a server, and its table has every call with every argument."""

import inspect
import re

from pages import ROOT, reader

from octavo.client import AsyncClient, Client

PAGE = ROOT / "docs" / "client.md"


def test_the_page(tmp_path):
    """From top to bottom, in one folder, with the server that it starts."""
    with reader(tmp_path) as somebody:
        somebody.read(PAGE)
    assert somebody.ran == ["console", "python", "output", "python", "output"]


def test_every_call_is_in_the_table():
    text = PAGE.read_text(encoding="utf-8").partition("## Calls")[2].partition("\n## ")[0]
    shown = dict(re.findall(r"`(\w+)\(([^`]*)\)`", text))
    calls = {
        name: each
        for name, each in vars(AsyncClient).items()
        if inspect.iscoroutinefunction(each) and not name.startswith("_") and name != "close"
    }
    assert set(shown) == set(calls)
    for name, call in calls.items():
        wanted = [each for each in inspect.signature(call).parameters if each != "self"]
        assert re.findall(r"(\w+)(?:=[^,]*)?(?:, |$)", shown[name].replace("*, ", "")) == wanted, name


def test_the_settings():
    """Its signature as it is."""
    signature = str(inspect.signature(Client))
    named = re.sub(r": [^=,)]+", "", signature.partition(" -> ")[0]).replace(" = ", "=")
    assert re.sub(r"\s*=\s*", "=", named) == "(base_url=None, *, api_key=None, timeout=10, retries=2)"
    assert "`Client(base_url=None, *, api_key=None, timeout=10, retries=2)`" in PAGE.read_text(
        encoding="utf-8"
    )
