"""The benchmark runs and prints its table; what it measures is not judged here."""

import argparse
import asyncio
import json
import subprocess
import sys
from pathlib import Path

import bench.__main__ as main
from bench import frameworks
from bench.peers.environment import PeerFailed

from sampled import only_torture

ROOT = Path(__file__).parents[2]
COLUMNS = ["store", "work", "Octavo", "against", "its own", "ratio", "rounds", "goal"]


def benched(results: Path, *options: str) -> str:
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


@only_torture
def test_it_prints_one_line_for_each_kind_of_work(tmp_path):
    """Every kind of work of a store stands in the Markdown table with a ratio, and the footnotes say what raw means."""
    printed = benched(tmp_path, "--store", "memory", "--markdown").splitlines()
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


@only_torture
def test_plain_and_kept_results_hold_the_same_lines(tmp_path):
    """The plain table has as many lines as the JSON file, which leaves nothing else behind in its folder."""
    printed = benched(tmp_path, "--store", "memory").splitlines()
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


def test_frameworks_are_told_with_their_goals():
    """Every comparison is a row with its ratio, and says whether the goal is met; awaited appends have none."""
    rates = (300.0, 100.0, 3.0, 2.5, 3.5)
    lines = [frameworks.Line("LangGraph X", job, 10_000, *rates) for job in frameworks.WORK]
    lines.append(frameworks.Line("LangGraph X", "crowd", 10_000, 9.0, 10.0, 0.9, 0.8, 1.0))
    rows = [
        [cell.strip() for cell in row.strip("|").split("|")] for row in frameworks.table(lines).splitlines()
    ]
    assert rows[0] == ["beside", "work", "Octavo", "its own", "ratio", "rounds", "goal"]
    assert [row[1] for row in rows[2:6]] == [
        "append, awaited", "append, 50 at once", "last 50 of 10,000", "latest of 10,000",
    ]  # fmt: skip
    assert [row[6] for row in rows[2:]] == ["", "≥ 1× ✓", "≥ 3× ✓", "", "≥ 1× ✗"]
    assert rows[4][2:6] == ["300/s", "100/s", "3.00×", "2.50–3.50"]


def test_without_the_frameworks_it_says_so(tmp_path, monkeypatch, capsys):
    """Where they cannot be installed, that is said aloud, and nothing else of the benchmark fails."""

    def no_registry(peer):
        raise PeerFailed(f"peer {peer.name} could not be installed: no registry")

    monkeypatch.setattr(frameworks, "installed", no_registry)
    given = argparse.Namespace(results=tmp_path, quick=True, store=["sqlite"])
    assert asyncio.run(main._frameworks(given)) == 0
    told = capsys.readouterr()
    assert "!!! NOT MEASURED inside frameworks: peer LangGraph and OpenAI Agents could not be" in told.err
    assert told.out.startswith("| beside | work |")
