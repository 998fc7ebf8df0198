"""`python -m bench --alone` runs and prints its tables; what it measures is not judged here."""

import subprocess
import sys
from pathlib import Path

import pytest

from sampled import only_torture

ROOT = Path(__file__).parents[2]
pytestmark = only_torture


@pytest.mark.timeout(400)
def test_it_prints_a_line_for_each_side(tmp_path, fresh_url):
    for kind in ("postgres", "mysql"):
        fresh_url(kind)  # skips, or fails, where there is none to be had
    command = [sys.executable, "-m", "bench", "--alone", "--quick", "--results", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    records, requests, parts = done.stdout.strip().split("\n\n")
    assert [row.split(" | ")[0] for row in records.splitlines()[2::2]] == [
        "| PostgreSQL, append, awaited: Octavo",
        "| PostgreSQL, batch of 50: Octavo",
        "| MariaDB, append, awaited: Octavo",
        "| MariaDB, batch of 50: Octavo",
    ]
    assert [row.split(" | ")[0] for row in requests.splitlines()[3::2]] == [
        "| GET profile of 100: bare, msgspec",
        "| POST direct: bare, msgspec",
    ]
    assert "| asyncio and Python |" in parts
    assert list(tmp_path.iterdir()) == []
