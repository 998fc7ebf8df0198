"""docs/zh: each page says in Chinese what the English page of its name says, and neither changes without the other."""

import re

import pytest
from pages import FENCE, ROOT, blocks, targets

NAMES = sorted(path.name for path in (ROOT / "docs" / "zh").glob("*.md"))


def text_of(page):
    return page.read_text(encoding="utf-8")


def shape(page):
    """Headings by their level, tables by their rows, lists by their items, in the order of the page."""
    lines = FENCE.sub("", text_of(page)).splitlines()
    return [re.match(r"#+ |\||\* ", line)[0] for line in lines if re.match(r"#+ |\||\* ", line)]


def spans(page):
    """What the prose names in code."""
    return set(re.findall(r"(?<!`)`([^`\n]+)`(?!`)", FENCE.sub("", text_of(page))))


def links(page):
    """The files it leads to; a page in both languages counts as one."""
    return {str((page.parent / target).resolve()).replace("/docs/zh/", "/docs/") for target in targets(page)}


@pytest.fixture(params=NAMES)
def pair(request):
    return ROOT / "docs" / request.param, ROOT / "docs" / "zh" / request.param


def test_blocks_of_the_same_kinds(pair):
    english, chinese = pair
    assert [block.kind for block in blocks(chinese)] == [block.kind for block in blocks(english)]


def test_the_same_parts(pair):
    english, chinese = pair
    assert shape(chinese) == shape(english)


def test_the_same_names(pair):
    """A name, an option or a number in code stands on both pages."""
    english, chinese = pair
    assert spans(chinese) == spans(english)


def test_the_same_links(pair):
    english, chinese = pair
    assert links(chinese) == links(english)


def test_each_leads_to_the_other(pair):
    """In the line under the title."""
    english, chinese = pair
    assert text_of(english).splitlines()[2] == f"[中文](zh/{english.name})"
    assert text_of(chinese).splitlines()[2] == f"[English](../{english.name})"


@pytest.mark.parametrize("page", ["README.zh-CN.md", *(f"docs/zh/{name}" for name in NAMES)])
def test_chinese_leads_to_chinese(page):
    """Where there is a Chinese page; but each page leads to its own English one."""
    led = {(ROOT / page).parent.joinpath(target).resolve() for target in targets(ROOT / page)}
    assert led & {ROOT / "docs" / name for name in NAMES} <= {ROOT / "docs" / page.removeprefix("docs/zh/")}
