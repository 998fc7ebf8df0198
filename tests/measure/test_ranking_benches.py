"""The commands that say what the constants of the ranking, and a second model, are worth."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from questions import locomo, written
from sampled import only_torture

ROOT = Path(__file__).parents[2]
pytestmark = only_torture


@pytest.fixture
def talks(tmp_path):
    return written(tmp_path / "talks.json", locomo())


def printed(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ablation_has_a_row_for_each_value(talks):
    """Every row has both figures of the file, and a topic more or less is a row."""
    rows = printed("bench.ablation", talks).splitlines()[2:]
    assert rows[0].startswith("| plain BM25 |")
    assert all(re.fullmatch(r"\| .+ \| [\d.]+, [\d.]+ \|", row) for row in rows)
    assert sum(row.startswith("| TOPIC ") for row in rows) == 3
    assert rows[1].startswith("| **shipped** | ")
    assert rows[1] != "| **shipped** | .000, .000 |"


def test_what_a_second_model_is_worth(talks):
    """A line for each weight: the hits and how long a question takes."""
    told = printed("bench.rerank", talks, "--limit", "2")
    assert "any@1, any@10, p50 ms, p95 ms" in told
    assert len(re.findall(r"^\S.*  [\d.]+  [\d.]+  [\d.]+  [\d.]+$", told, re.MULTILINE)) >= 3
