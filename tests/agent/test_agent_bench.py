"""`python -m bench --agent` runs and prints its table; what it measures is not judged here."""

import subprocess
import sys
from pathlib import Path

from sampled import only_torture

ROOT = Path(__file__).parents[2]
pytestmark = only_torture


def test_it_prints_a_line_for_each_store(tmp_path):
    """Each store stands in the Markdown table with microseconds and a ratio, and nothing is left behind."""
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "bench",
        "--agent",
        "--quick",
        "--markdown",
        "--results",
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()]
    assert rows[0] == ["model", "memory", "run, µs", "each event, µs", "ratio", "goal"]
    naive = "sqlite full, each event awaited"
    assert [row[1] for row in rows[2:]] == [
        "without memory",
        "memory",
        "sqlite fast",
        "sqlite full",
        naive,
    ] * 2
    assert [row[4] for row in rows[2::5]] == ["1.00×"] * 2
    assert list(tmp_path.iterdir()) == []
