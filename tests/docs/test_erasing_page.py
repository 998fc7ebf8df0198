"""docs/erasing.md and its Chinese page: what they show is what happens, and they name every field of a certificate."""

import msgspec
import pytest
from pages import ROOT, reader

from octavo.erasing import Certificate

pytestmark = pytest.mark.parametrize("page", ["docs/erasing.md", "docs/zh/erasing.md"])


def test_every_block(page, tmp_path):
    with reader(tmp_path) as somebody:
        somebody.read(ROOT / page)
    assert somebody.ran == ["python", "output", "console"]


def test_every_field(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for field in msgspec.structs.fields(Certificate):
        assert field.name in ("id", "dry_run") or f"`{field.name}`" in text, field.name
