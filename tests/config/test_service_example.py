"""examples/memory_service.py: a real outage of the embedded database is queued and recovered."""

import os
import subprocess
from pathlib import Path

from warm import programs

EXAMPLE = Path(__file__).parents[2] / "examples" / "memory_service.py"
SHOWN = """\
database up:   event stored
database held: event queued
database held: event queued
               on disk: True
               events to read: 3
               prompt to read: You are a patient assistant.
database free: 2 of 2 replayed, 0 waiting
               I am allergic to peanuts.
               下周去北京，带上软件合同。
               The spare key is in the blue box.
"""


def test_the_example(tmp_path):
    """It prints what happened, warns once, leaves nothing behind, and is short."""
    assert len(EXAMPLE.read_text().splitlines()) < 60
    done = subprocess.run(
        [f"{programs()}/python", EXAMPLE], cwd=tmp_path, env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, SHOWN), done.stderr
    assert done.stderr.count("writes are queued in") == 1
    assert list(tmp_path.iterdir()) == []
