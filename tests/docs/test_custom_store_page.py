"""docs/custom-store.md: beside its store and its test, which tests/contract runs, the two blocks that show how they are used."""

import os
import subprocess

from pages import ROOT, blocks

from warm import programs

PAGE = ROOT / "docs" / "custom-store.md"


def named(name):
    """The block whose first line says this is it."""
    [found] = [block.text for block in blocks(PAGE) if block.text.startswith(f"# {name}")]
    return found


def holding(words):
    [found] = [
        block.text for block in blocks(PAGE) if block.kind == "python" and f"\n{words}" in f"\n{block.text}"
    ]
    return found


def installed(folder):
    """The page's store as a package that pip installed."""
    (folder / "list_store.py").write_text(named("list_store.py"))
    about = folder / "list_store-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: list-store\nVersion: 1.0\n")
    entry = named("pyproject.toml").strip().splitlines()[-1].replace('"', "")
    (about / "entry_points.txt").write_text(f"[octavo.stores]\n{entry}\nmine = {entry.partition(' = ')[2]}\n")


def run(folder, *command):
    env = {**os.environ, "PYTHONPATH": str(folder), "OCTAVO_PROGRAMS": "5"}
    done = subprocess.run(
        [f"{programs()}/python", "-W", "error", *command], cwd=folder, env=env, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_scheme(tmp_path):
    """The last block opens the store by its scheme."""
    installed(tmp_path)
    shown = holding("async with open_store(")
    inside = "".join(f"    {line}\n" for line in shown.strip().splitlines()[2:])
    program = f"import asyncio\nfrom octavo import open_store\nasync def main():\n{inside}    print(type(store).__name__)\nasyncio.run(main())\n"
    assert run(tmp_path, "-c", program) == "ListStore\n"


def test_a_store_with_a_url(tmp_path):
    """The test of a store that has a URL is collected and runs what one store object can show."""
    installed(tmp_path)
    (tmp_path / "test_mine.py").write_text(holding("import pytest\n"))
    options = ["-q", "--rootdir", ".", "-p", "no:asyncio", "-p", "no:xdist", "-p", "no:cacheprovider"]
    assert "1 passed" in run(tmp_path, "-m", "pytest", *options, "-k", "end_moves_with_its_record")


def test_nothing_else():
    """Five blocks of code: these two, and the three files that tests/contract/test_custom_store.py runs."""
    kinds = [block.kind for block in blocks(PAGE)]
    assert sorted(kinds) == ["python"] * 4 + ["text", "toml"]
