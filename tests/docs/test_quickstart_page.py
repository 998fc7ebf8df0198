"""docs/quickstart.md: every block runs, from top to bottom in an empty folder, and the table of extras is whole."""

import re
import tomllib

from pages import ROOT, reader

PAGE = ROOT / "docs" / "quickstart.md"


def test_every_block(tmp_path):
    with reader(tmp_path) as somebody:
        somebody.read(PAGE)
    assert somebody.ran == [
        "python", "output", "yaml", "python", "output", "console", "console", "console", "python", "output", "console",
    ]  # fmt: skip


def test_every_extra():
    """Each extra of the package is in the table, but the one for those who work on it."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    table = "".join(re.findall(r"^\| (`.*?) \|", PAGE.read_text().partition("## 1.")[0], re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", table)) == set(extras) - {"dev"}
