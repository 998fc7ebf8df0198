"""The store that docs/custom-store.md shows, as the module it describes."""

import re
import types
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "custom-store.md"


def blocks() -> dict[str, str]:
    """The files shown on the page, by the name in their first line."""
    shown = re.findall(r"```(?:python|toml)\n# ([\w.]+)[^\n]*\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return dict(shown)


def list_store() -> types.ModuleType:
    """The module `list_store` of the page."""
    module = types.ModuleType("list_store")
    exec(compile(blocks()["list_store.py"], str(PAGE), "exec"), module.__dict__)
    return module
