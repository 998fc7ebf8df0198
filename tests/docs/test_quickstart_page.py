"""docs/quickstart.md and its Chinese page: every block runs, from top to bottom in an empty folder, and the table of extras is whole."""

import re
import tomllib

import pytest
from pages import ROOT, reader

from sampled import sampled

PAGES = ["docs/quickstart.md", "docs/zh/quickstart.md"]


@sampled("page", PAGES, share=2)
def test_every_block(page, tmp_path):
    with reader(tmp_path) as somebody:
        somebody.read(ROOT / page)
    assert somebody.ran == [
        "python", "output", "yaml", "python", "output", "console", "console", "console", "python", "output", "console",
    ]  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
def test_every_extra(page):
    """Each extra of the package is in the table, but the one for those who work on it."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    install = (ROOT / page).read_text(encoding="utf-8").partition("## 1.")[0]
    table = "".join(re.findall(r"^\| (`.*?) \|", install, re.MULTILINE))
    assert set(re.findall(r"`([\w-]+)`", table)) == set(extras) - {"dev"}
