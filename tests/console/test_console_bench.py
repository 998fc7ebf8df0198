"""`python -m bench --console` runs and prints its table; what it measures is not judged here."""

import subprocess
import sys
from pathlib import Path

from sampled import only_torture

ROOT = Path(__file__).parents[2]
pytestmark = only_torture


def test_it_prints_a_line_for_each_page_on_sqlite_and_postgres(tmp_path):
    command = [sys.executable, "-m", "bench", "--console", "--quick", "--results", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    _, _, _, head, _, *rows = done.stdout.splitlines()
    assert head == "| page | SQLite | PostgreSQL |"
    assert len(rows) >= 20
    assert list(tmp_path.iterdir()) == []
