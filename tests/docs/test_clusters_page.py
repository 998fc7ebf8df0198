"""docs/clusters.md: its program runs where only one of the hosts is there, its URLs open, its commands name tests."""

import re

import pytest
from pages import ROOT, reader

from octavo import open_store
from servers.server import free_port

PAGE = ROOT / "docs" / "clusters.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_every_block_on_postgres(tmp_path, fresh_postgres):
    login, _, there = fresh_postgres.partition("@")
    hosts = f"{login}@127.0.0.1:{free_port()},{there}"
    with reader(tmp_path, {"postgresql://octavo:secret@db1,db2,db3/octavo": hosts}) as somebody:
        somebody.read(PAGE)
    assert somebody.ran == ["python", "output"]


@pytest.mark.parametrize("url", re.findall(r"^\| [^|]+ \| `(\w[^`]*://[^`]*)`", TEXT, re.MULTILINE))
def test_every_url(url):
    open_store(url)


def test_every_command():
    named = re.findall(r"TESTS=(\S+)`", TEXT)
    assert len(named) == 5
    assert all((ROOT / name).exists() for name in named)
