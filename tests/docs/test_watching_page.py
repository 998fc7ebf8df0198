"""docs/watching.md: its blocks run, and its table has every metric that /metrics has."""

import re

import yaml
from pages import ROOT, blocks, reader

from octavo.server.metrics import FAMILIES

PAGE = ROOT / "docs" / "watching.md"


def test_the_table_has_every_metric():
    """With its kind, its labels and what it says, in the order of the page that Prometheus reads."""
    rows = re.findall(
        r"^\| `(octavo_\w+)` \| (\w+) \| (.*?) \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert rows == [
        (one.name, one.kind, ", ".join(f"`{label}`" for label in one.labels) or "–", one.help)
        for one in FAMILIES.values()
    ]


def test_the_blocks_run(tmp_path):
    shown = [block for block in blocks(PAGE) if block.kind == "yaml"]
    for block in shown:
        assert yaml.safe_load(block.text)
    with reader(tmp_path) as somebody:
        somebody.read(PAGE)
    assert "python" in somebody.ran
    assert (tmp_path / "prometheus.key").read_text().startswith("oct_")
