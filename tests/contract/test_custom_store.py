"""docs/custom-store.md: its store keeps the contract, its test is the one shown, its scheme opens."""

import os
import subprocess
import sys

import pytest
from hypothesis.configuration import storage_directory

from documented import blocks, list_store
from octavo import Add, Query, Record, open_store
from octavo.errors import ConfigError
from once_more import OnceMore


class TestListStore(OnceMore):
    async def open(self):
        return list_store().ListStore()


def test_the_page_as_it_stands(tmp_path):
    """The two files of the page pass with nothing but pytest and hypothesis, in a folder without any configuration."""
    for name in ("list_store.py", "test_list_store.py"):
        (tmp_path / name).write_text(blocks()[name])
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--strict-markers",
        "-W",
        "error",
        "-p",
        "no:asyncio",
        "-p",
        "no:xdist",
    ]
    run = subprocess.run(
        [
            *command,
            "-p",
            "no:cacheprovider",
            "--rootdir",
            ".",
            "-k",
            "programs or pages or search",
        ],
        cwd=tmp_path,
        # Or hypothesis works out its tables of characters again.
        env={
            **os.environ,
            "OCTAVO_PROGRAMS": "5",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(storage_directory().path),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert " passed" in run.stdout
    assert len(blocks()["test_list_store.py"].strip().splitlines()) <= 8


async def test_a_scheme_of_your_own(tmp_path, monkeypatch):
    """A function registered under `octavo.stores` opens its scheme; an unknown scheme names those there are."""
    entry = blocks()["pyproject.toml"].strip().splitlines()
    assert entry[0] == '[project.entry-points."octavo.stores"]'
    installed = tmp_path / "list_store-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: list-store\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[octavo.stores]\n" + entry[1].replace('"', "") + "\n")
    (tmp_path / "list_store.py").write_text(blocks()["list_store.py"])
    monkeypatch.syspath_prepend(tmp_path)
    async with open_store("list://") as store, open_store("list+fast://") as other:
        assert type(store).__name__ == type(other).__name__ == "ListStore"
        assert await store.apply([Add([Record(collection="events", id="a")])]) == [1]
        assert [record.id for record in await store.find(Query(collection="events"))] == ["a"]
    with pytest.raises(ConfigError, match=r"unknown store scheme 'lost'; known: .*list.*memory"):
        open_store("lost://")
