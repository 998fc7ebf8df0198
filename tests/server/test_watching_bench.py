"""`python -m bench --watching` runs and prints its table; what it measures is not judged here."""

import subprocess
import sys
from pathlib import Path

from sampled import only_torture

ROOT = Path(__file__).parents[2]
pytestmark = only_torture


def test_it_prints_a_line_for_each_request(tmp_path):
    command = [sys.executable, "-m", "bench", "--watching", "--quick", "--results", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    head, _, *rows = done.stdout.splitlines()
    assert head.split(" | ")[0] == "| request"
    assert [row.split(" | ")[0] for row in rows] == ["| POST direct", "| GET 20 memories", "| POST query"]
    assert list(tmp_path.iterdir()) == []
