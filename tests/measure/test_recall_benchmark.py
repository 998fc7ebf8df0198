"""`python -m bench --recall` runs and prints its tables; what it measures is not judged here."""

import json
import subprocess
import sys
from pathlib import Path

from sampled import only_torture

ROOT = Path(__file__).parents[2]


def bench(results: Path, *options: str) -> tuple[str, dict]:
    command = [sys.executable, "-W", "error", "-m", "bench", "--recall", "--quick", "--results", str(results)]
    done = subprocess.run(
        [*command, *options], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    [kept] = results.iterdir()  # and nothing else is left behind
    return done.stdout, json.loads(kept.read_text())


@only_torture
def test_questions_and_appends_of_a_store(tmp_path):
    """Each kind of question beside the raw engine, and appends with and without search."""
    printed, kept = bench(tmp_path, "--store", "sqlite", "--markdown")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in printed.splitlines() if "|" in line
    ]
    questions = [row for row in rows if row[0] == "sqlite" and len(row) == 10]
    assert [row[1] for row in questions] == [
        "a rare word",
        "a common word",
        "five words",
        "a Chinese question",
    ]
    assert all(row[6] == "FTS5" and row[7].endswith("ms") for row in questions)
    appends = [row for row in rows if row[0] == "sqlite" and len(row) == 8]
    assert [row[1] for row in appends] == ["append, one at a time", "append, 50 at once"]
    assert len(kept["lines"]) == 6
    assert kept["failures"] == []


@only_torture
def test_a_store_without_an_engine_has_a_dash(tmp_path):
    printed, kept = bench(tmp_path, "--store", "memory")
    line = next(line for line in printed.splitlines() if "five words" in line)
    assert line.split()[-7:-4] == ["–", "–", "–"]
    assert kept["lines"][0]["raw_p50"] is None


def test_the_words_are_as_common_and_as_rare_as_they_should_be():
    """At any size: a common word stands in half of the records, a rare one in hardly any."""
    sys.path.insert(0, str(ROOT))
    try:
        from bench.memories import drawn
    finally:
        sys.path.remove(str(ROOT))
    memories = drawn(10_000, 20)
    assert 0.4 < memories.shares["common"] < 0.6
    assert memories.shares["rare"] <= 0.0001
    assert {kind: len(asked) for kind, asked in memories.questions.items()} == dict.fromkeys(
        memories.questions, 20
    )
    assert len({(record.scope.user, record.scope.session) for record in memories.records}) == 1000
    assert memories.questions == drawn(10_000, 20).questions
