"""docs/erasing.md and its Chinese page: what they show is what happens, and they name every field of a certificate."""

import msgspec
import pytest
from pages import ROOT, reader

from octavo.erasing import Certificate
from sampled import sampled

PAGES = ["docs/erasing.md", "docs/zh/erasing.md"]


@sampled("page", PAGES, share=2)
def test_every_block(page, tmp_path):
    with reader(tmp_path) as somebody:
        somebody.read(ROOT / page)
    assert somebody.ran == ["python", "output", "console"]


@pytest.mark.parametrize("page", PAGES)
def test_every_field(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for field in msgspec.structs.fields(Certificate):
        assert field.name in ("id", "dry_run") or f"`{field.name}`" in text, field.name
