"""A run of the tests ends with the time of each part, whether one process ran them or several."""

import re
import subprocess
import sys
from pathlib import Path

from sampled import only_torture, sampled

ROOT = Path(__file__).parents[2]
TWO = ["tests/unit/test_dates.py", "tests/events/test_agent_event.py"]


def ran(*arguments):
    command = [sys.executable, "-m", "pytest", "-q", "--quick", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    return dict(reversed(found) for found in re.findall(r"^ *(\d+\.\d)  (\w+)$", done.stdout, re.MULTILINE))


@sampled("workers", [["-n", "2", "--dist", "loadfile"], []], share=2)
def test_every_part_has_its_time(workers):
    """The folders that were run, and the sum of them."""
    times = ran(*workers, *TWO)
    assert {*times} == {"unit", "events", "all"}
    parts = float(times["unit"]) + float(times["events"])
    assert abs(float(times["all"]) - parts) < 0.11


@only_torture
def test_one_part_alone_is_not_added_up():
    assert ran(TWO[0]) == {}
