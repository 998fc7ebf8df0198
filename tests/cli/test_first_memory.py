"""`examples/first_memory.py`: a conversation remembered and found again, in two languages, as often as it is run."""

import subprocess
from pathlib import Path

from warm import programs

EXAMPLE = Path(__file__).parents[2] / "examples" / "first_memory.py"


def test_it_remembers_finds_and_can_be_run_twice():
    """Both languages are found, and the second run adds nothing."""
    said = [
        subprocess.run(
            [f"{programs()}/python", str(EXAMPLE)], capture_output=True, text=True, timeout=60, check=True
        ).stdout
        for _ in range(2)
    ]
    assert "remembered 4 new messages" in said[0]
    assert "remembered 0 new messages" in said[1]
    for each in said:
        assert "allergic to peanuts" in each
        assert "去北京之前我会提醒您带软件合同" in each
        assert "4 messages kept" in each
