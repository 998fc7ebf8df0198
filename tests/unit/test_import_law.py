"""The layers of pyproject.toml hold: what is below never imports what is above."""

import subprocess
import sys
from pathlib import Path


def test_the_import_law():
    """`lint-imports` finds no broken contract."""
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    run = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert "2 kept, 0 broken" in run.stdout
