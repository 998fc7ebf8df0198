"""The benchmark runs and prints its table; what it measures is not judged here."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
COLUMNS = ["store", "work", "Octavo", "against", "its own", "ratio", "rounds", "goal"]


def bench(results: Path, *options: str) -> str:
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "bench",
        "--quick",
        "--no-peers",
        "--results",
        str(results),
        *options,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_prints_one_line_for_each_kind_of_work(tmp_path):
    """Every kind of work of a store stands in the Markdown table with a ratio, and the footnotes say what raw means."""
    printed = bench(tmp_path, "--store", "memory", "--markdown").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in printed if line.startswith("|")]
    assert rows[0] == COLUMNS
    assert [row[1].split(",")[0].split(" of ")[0] for row in rows[2:]] == [
        "append", "append", "append", "append into 1k", "last 50", "last 50", "tally",
    ]  # fmt: skip
    for row in rows[2:]:
        assert row[0] == "memory"
        assert row[2]
        assert row[4]
        assert float(row[5].rstrip("×").replace(",", "")) > 0
    assert any(line.startswith("- list + dict: ") for line in printed)


def test_plain_and_kept_results_hold_the_same_lines(tmp_path):
    """The plain table has as many lines as the JSON file, which leaves nothing else behind in its folder."""
    printed = bench(tmp_path, "--store", "memory").splitlines()
    [kept] = tmp_path.iterdir()
    told = json.loads(kept.read_text())
    assert printed[0].split() == " ".join(COLUMNS).split()
    assert len(printed[2 : printed.index("")]) == len(told["lines"]) == 7
    assert told["failures"] == []


def test_an_unknown_store_is_refused(tmp_path):
    """A misspelled store is an error that names the known ones, not an empty table."""
    command = [sys.executable, "-m", "bench", "--quick", "--store", "sqlight", "--results", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "known: memory, file" in done.stderr
