"""docs/architecture.md and docs/glossary.md: the program runs, the tables name what there is, each word is fixed once."""

import re

from pages import ROOT, reader

from octavo.kernel.model import Record
from octavo.kernel.shapes import SHAPES

PAGE = ROOT / "docs" / "architecture.md"
GLOSSARY = ROOT / "docs" / "glossary.md"


def test_every_block(tmp_path):
    with reader(tmp_path) as somebody:
        somebody.read(PAGE)
    assert somebody.ran == ["python", "output"]


def test_every_field_collection_and_table():
    """None is missing, and none is there that the code does not have."""
    told = PAGE.read_text()
    fields = re.findall(
        r"`(\w+)`",
        "".join(
            re.findall(
                r"^\| (`.*?) \|", told.partition("## The one record")[2].partition("```")[0], re.MULTILINE
            )
        ),
    )
    assert set(fields) == set(Record.__struct_fields__)
    rows = re.findall(
        r"^\| (`[^|]*) \| (`[^|]*) \|",
        told.partition("## The collections")[2].partition("##")[0],
        re.MULTILINE,
    )
    named = {name for collections, _ in rows for name in re.findall(r"`(\w+)`", collections)}
    tables = {name for _, shown in rows for name in re.findall(r"`(\w+)`", shown)}
    assert named == set(SHAPES)
    assert tables == {shape.table for shape in SHAPES.values()} | {"message_marks"}


def test_every_folder():
    """The table of folders names each there is, and no other."""
    told = PAGE.read_text().partition("## Where the code is")[2]
    shown = set(re.findall(r"`([\w.]+/?)`", "".join(re.findall(r"^\| (`.*?) \|", told, re.MULTILINE))))
    source = ROOT / "src" / "octavo"
    there = {f"{path.name}/" for path in source.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert {name for name in shown if name.endswith("/")} == there
    assert [name for name in shown if not (source / name).exists()] == []


def test_each_word_is_fixed_once():
    """No English and no Chinese term stands in the glossary twice, and none lacks the other language."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in GLOSSARY.read_text().splitlines()
        if line.startswith("| ") and not line.startswith("| English")
    ]
    assert len(rows) > 40
    for column in (0, 1):
        terms = [row[column] for row in rows]
        assert sorted(set(terms)) == sorted(terms)
    for english, chinese, meaning, explained, _ in rows:
        assert re.fullmatch(r"[ -~]+", english), english
        assert re.search(r"[一-鿿]", chinese), chinese
        assert re.fullmatch(r"[^一-鿿]+", meaning), english
        assert re.search(r"[一-鿿]", explained), english


def test_names_in_code_agree():
    """What the last column calls a name of the code is one."""
    source = "\n".join(path.read_text() for path in (ROOT / "src" / "octavo").rglob("*.py"))
    for line in GLOSSARY.read_text().splitlines():
        if line.startswith("| ") and not line.startswith("| English"):
            for name in re.findall(r"`([^`]+)`", line.rsplit("|", 2)[1]):
                if not name.startswith("octavo"):
                    for part in name.split("."):
                        assert re.search(rf"\b{part}\b", source), name
