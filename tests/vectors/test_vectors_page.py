"""docs/vectors.md: its code prints what it shows, its URLs and options are taken, its test passes as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

from octavo.vectors import SCHEMES, open_vectors
from warm import programs

PAGE = (Path(__file__).parents[2] / "docs" / "vectors.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
URLS = {"sqlite": "sqlite:///a.db", "postgresql": "postgresql://u@h/d", "qdrant": "qdrant://h"}
EXAMPLES = {"prefix": "mem_", "api_key": "key"}


def run(folder, *command):
    env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_block(tmp_path):
    """The example prints the output under it; the test of an index of one's own passes, in a folder without configuration."""
    (_, example), (_, output), (_, test) = BLOCKS
    assert [kind for kind, _ in BLOCKS] == ["python", "output", "python"]
    assert run(tmp_path, f"{programs()}/python", "-W", "error", "-c", example) == output
    name = re.match(r"# (\w+\.py)\n", test)[1]
    (tmp_path / name).write_text(test)
    assert len(test.strip().splitlines()) == 6  # four, with its name and without the blank ones
    options = [
        "-q",
        "-W",
        "error",
        "--rootdir",
        ".",
        "-p",
        "no:asyncio",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
    ]
    said = run(tmp_path, sys.executable, "-m", "pytest", *options, "-k", "agree or walk or reopened")
    assert "3 passed" in said


def test_every_url():
    """Each URL on the page opens, and each scheme but the synonym is on it."""
    shown = set(re.findall(r"`(\w+)(?:\+\w+)?://", PAGE))
    assert shown | {"postgres"} == set(SCHEMES)
    for url in re.findall(r"`(\w[\w+]*://[^`…]*)…?`", PAGE):
        open_vectors(url)


def test_every_option():
    """Each option of the table is taken by each index it names, with its default or an example."""
    rows = re.findall(r"^\| `(\w+)` \| ([\w, ]+) \| ([`\w, ]*) ?\| ", PAGE, re.MULTILINE)
    assert [name for name, _, _ in rows] == ["prefix", "durability", "timeout", "pool_size", "api_key"]
    for name, indexes, default in rows:
        values = re.findall(r"`(\w+)`", default)
        for number, index in enumerate(indexes.split(", ")):
            value = values[number % len(values)] if values else EXAMPLES[name]
            open_vectors(f"{URLS[index]}?{name}={value}")
