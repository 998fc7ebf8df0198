"""`python -m bench --journal` runs and prints its table; what it measures is not judged here."""

import subprocess
import sys
from pathlib import Path

from sampled import only_torture

ROOT = Path(__file__).parents[2]
pytestmark = only_torture


def test_it_prints_a_line_for_each_way(tmp_path):
    """Each store bare and behind the wraps, queueing at each durability, the rate of replay, and nothing is left behind."""
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "bench",
        "--journal",
        "--quick",
        "--results",
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    head, *rows, last = done.stdout.splitlines()
    assert head.split()[:2] == ["store", "way"]
    assert [row[: row.index("  ")] for row in rows] == [
        *["memory"] * 3,
        *["sqlite fast"] * 3,
        *["sqlite full"] * 3,
        *["away"] * 3,
    ]
    assert all(row.rstrip().endswith("×") for row in rows)
    assert last.startswith("replayed into SQLite: ")
    assert list(tmp_path.iterdir()) == []
