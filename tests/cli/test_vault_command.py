"""`octavo vault` and tools/memory_reindex.py: what they print, what they do, how they end."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from octavo import Query, open_store, open_vectors
from octavo.testing.embedding import HashEmbedder

TOOL = Path(__file__).parents[2] / "tools" / "memory_reindex.py"
WHERE = ("--root", "vault", "--store", "sqlite:///octavo.db")


@pytest.fixture
def files():
    for name, text in {
        "md/system.md": "You are kind.",
        "md/users/lin.md": "喜欢猫",
        "knowledge/facts/sky.md": "Blue.",
    }.items():
        path = Path("vault", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def found(url, collection):
    async def ask():
        async with open_store(url) as store:
            return {record.id: record.text for record in await store.find(Query(collection=collection))}

    return asyncio.run(ask())


@pytest.mark.parametrize("name", ["status", "list", "sync", "reindex"])
def test_each_helps_with_an_example(octavo, name):
    told = octavo("vault", name, "--help").stdout
    assert f"Example: octavo vault {name}" in told
    for option in ("--config", "--root", "--store", "--tenant", "--json", "--quiet", "--debug"):
        assert option in told


def test_sync_brings_both_together(octavo, files):
    told = octavo("vault", "sync", *WHERE)
    assert told.exit_code == 0
    assert told.stdout.splitlines() == [
        "  pushed        facts/sky",
        "  pushed        system",
        "  pushed        users/lin",
        "3 documents changed, 0 unchanged",
    ]
    assert found("sqlite:///octavo.db", "configs") == {"system": "You are kind.", "users/lin": "喜欢猫"}
    Path("vault/md/system.md").unlink()
    again = json.loads(octavo("vault", "sync", *WHERE, "--json").stdout)
    assert (again["ok"], again["removed"], again["unchanged"]) == (True, ["system"], 2)
    assert octavo("vault", "sync", *WHERE, "--quiet").stdout == ""


def test_status_and_list_need_no_store(octavo, files):
    told = octavo("vault", "status", "--root", "vault", "--store", "postgresql://nobody@127.0.0.1:1/none")
    assert told.exit_code == 0
    assert "not synced    facts/sky" in told.stdout
    listed = json.loads(octavo("vault", "list", "users", "--root", "vault", "--json").stdout)
    assert [(each["key"], each["kind"], each["synced"]) for each in listed["documents"]] == [
        ("users/lin", "user", False)
    ]
    Path("vault/md/world.md").mkdir()
    told = octavo("vault", "status", "--root", "vault")
    assert told.exit_code == 1
    assert "md/world.md: it is a folder" in told.stderr


def test_a_line_where_there_is_nothing(octavo, files):
    octavo("vault", "sync", *WHERE)
    assert octavo("vault", "list", "people", *WHERE).stderr == "no such document\n"
    told = octavo("vault", "list", "--versions", "users/lin", *WHERE)
    assert (told.exit_code, told.stderr) == (0, "nothing that “users/lin” said before is kept\n")


def test_a_store_that_is_down(octavo, files):
    told = octavo("vault", "sync", "--root", "vault", "--store", "postgresql://lin:hunter2@127.0.0.1:1/none")
    assert told.exit_code == 1
    assert "hunter2" not in told.output
    assert told.stderr.startswith("octavo: ")


def test_nothing_is_made_by_mistake(octavo):
    for args in (
        ("sync",),
        ("status", "--root", "nowhere"),
        ("list", "--root", "nowhere"),
        ("sync", "--config", "no.yaml"),
    ):
        told = octavo("vault", *args)
        assert told.exit_code == 2
        assert told.stderr.startswith("octavo: ")
    assert list(Path().iterdir()) == []


def test_tenants(octavo, files):
    octavo("vault", "sync", *WHERE, "--tenant", "acme")
    assert found("sqlite:///octavo.db", "configs") == {}
    assert (
        json.loads(octavo("vault", "list", "--versions", "system", *WHERE, "--json").stdout)["versions"] == []
    )


CONFIG = """
database: {dsn: "sqlite:///memory.db"}
vault: {root_path: vault}
"""
VECTORS = CONFIG + 'vector: {enabled: true, embedder: hash-for-tests, url: "sqlite:///vectors.db"}\n'


def test_reindex_without_vectors_says_so(octavo, files):
    Path("memory.yaml").write_text(CONFIG)
    told = octavo("vault", "reindex", "--config", "memory.yaml")
    assert told.exit_code == 0
    said, done = told.stdout.splitlines()[-2:]
    assert said == "no vectors are configured (vector.enabled)"
    assert done.startswith("indexed 3 records by terms in ")


def test_the_tool_of_the_seed_rebuilds_vectors(files):
    """`python tools/memory_reindex.py reindex --config config/memory.yaml`, from the vault and the store."""
    Path("config").mkdir()
    Path("config/memory.yaml").write_text(VECTORS)

    def run():
        command = [sys.executable, str(TOOL), "reindex", "--config", "config/memory.yaml", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    first = run()
    assert (first["command"], first["sync"]["pushed"]) == (
        "vault reindex",
        ["facts/sky", "system", "users/lin"],
    )

    async def entries():
        async with open_vectors("sqlite:///vectors.db") as index:
            return {space.name: space.entries for space in await index.spaces()}

    kept = asyncio.run(entries())
    assert kept[HashEmbedder().name] >= 1
    Path("vectors.db").unlink()
    Path("vault/knowledge/facts/sky.md").write_text("Grey.")
    assert run()["sync"]["pushed"] == ["facts/sky"]
    assert asyncio.run(entries()) == kept


def test_the_default_config_is_used(octavo, files):
    Path("config").mkdir()
    Path("config/memory.yaml").write_text(CONFIG)
    assert octavo("vault", "sync").exit_code == 0
    assert set(found("sqlite:///memory.db", "knowledge")) == {"facts/sky"}
    Path("config/memory.yaml").write_text(CONFIG.replace("root_path: vault", "enabled: false"))
    told = octavo("vault", "sync")
    assert told.exit_code == 2
    assert "vault.enabled" in told.stderr
