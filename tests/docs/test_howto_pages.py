"""The how-to pages: every block runs, from top to bottom in an empty folder, and prints what is shown."""

import asyncio

import pytest
from pages import ROOT, reader, targets

from octavo import LayeredMemory

POSTGRES = "postgresql://octavo:secret@localhost/octavo"


@pytest.mark.parametrize("name", ["backup-and-restore.md", "when-the-database-is-down.md"])
def test_every_block(name, tmp_path):
    with reader(tmp_path) as somebody:
        somebody.read(ROOT / "docs" / name)
    assert {"python", "output", "console"} == set(somebody.ran)


def test_the_move(tmp_path, fresh_postgres):
    """docs/sqlite-to-postgresql.md, to a real PostgreSQL."""
    page = ROOT / "docs" / "sqlite-to-postgresql.md"
    with reader(tmp_path, {POSTGRES: fresh_postgres}) as somebody:
        somebody.read(page)
    assert somebody.ran.count("console") == 5
    assert [target for target in targets(page) if not (page.parent / target).exists()] == []


def test_before_an_upgrade(tmp_path):
    """docs/upgrading.md, on a store that has something in it."""

    async def fill():
        async with LayeredMemory(f"sqlite:///{tmp_path}/octavo.db") as memory:
            await memory.remember("Lin likes tea.", user_id="lin")

    asyncio.run(fill())
    with reader(tmp_path) as somebody:
        somebody.read(ROOT / "docs" / "upgrading.md")
    assert somebody.ran == ["console"]
