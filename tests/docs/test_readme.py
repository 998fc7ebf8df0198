"""README.md and README.zh-CN.md: what they show is what happens, and what they count is what the other counts too."""

import re

import pytest
from pages import ROOT, blocks, reader

ENGLISH, CHINESE = "README.md", "README.zh-CN.md"


@pytest.mark.parametrize("name", [ENGLISH, CHINESE])
def test_every_block(name, tmp_path):
    """From an empty folder: the program prints what stands under it, `make run` starts the server, curl asks it."""
    with reader(tmp_path) as somebody:
        somebody.read(ROOT / name)
    assert somebody.ran[:3] == ["python", "output", "console"]


def test_ten_lines():
    """The first program is ten lines, blank ones apart; the README is read in five minutes."""
    for name in (ENGLISH, CHINESE):
        program = next(block.text for block in blocks(ROOT / name) if block.kind == "python")
        assert len([line for line in program.splitlines() if line.strip()]) <= 10
    assert len((ROOT / ENGLISH).read_text().split()) < 1200


def test_the_figures_are_the_same():
    """Both readmes and docs/figures.md tell the same numbers."""
    figures = (ROOT / "docs" / "figures.md").read_text()
    for name in (ENGLISH, CHINESE):
        rows = re.findall(r"^\|.*\d/s.*\|$|^\|.*\.\d{3} \|.*\|$", (ROOT / name).read_text(), re.MULTILINE)
        assert len(rows) == 8
        for row in rows:
            numbers = re.findall(r"[\d,]+/s(?: \([\d.]+\))?|[\d.]+ ms(?: \([\d.]+\))?|\.\d{3}", row)
            assert len(numbers) >= 4
            assert any(all(number in line for number in numbers) for line in figures.splitlines()), row


def test_the_stores_are_the_same():
    """The table of stores has the URLs of docs/stores.md, in its order."""
    stores = re.findall(
        r"^\| \w[^|]* \| `(\w+://[^`]*)` \|", (ROOT / "docs/stores.md").read_text(), re.MULTILINE
    )
    for name in (ENGLISH, CHINESE):
        assert (
            re.findall(r"^\| \w[^|]* \| `(\w+://[^`]*)` \|", (ROOT / name).read_text(), re.MULTILINE)
            == stores
        )
