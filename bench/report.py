"""The table, its footnotes and the file with all numbers."""

import json
import os
import platform
import sqlite3
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import apsw

from bench.rounds import Pace
from bench.rows import mean_bytes

ONE = ", one at a time"  # how a contestant appends beside 50 of Octavo's tasks
WORK = {
    "append": "append, one at a time",
    "crowd": "append, 50 at once",
    "batch": "append, batches of {}",
    "late": "append into {}",
    "last": "last 50 of a session, {} kept",
    "turn": "last 50 …, sessions in turn",
    "flat": "last 50, {}",
    "tally": "tally of {}",
}
TIMED = {"last", "turn", "flat", "tally"}  # shown as milliseconds each rather than a rate
HEAD = ("store", "work", "Octavo", "against", "its own", "ratio", "rounds", "goal")
NUMBERS = {2, 4, 5, 6}  # columns that align right


class Line(NamedTuple):
    """One comparison. Rates are per second, one per size; the ratio is Octavo's speed over the other's."""

    store: str
    job: str
    sizes: tuple[int, ...]
    ours: tuple[float, ...]
    against: str
    theirs: tuple[float, ...]
    ratio: float  # for "flat": the slowest size over the smallest size, in time
    spread: tuple[float, float]

    @property
    def goal(self) -> tuple[str, bool] | None:
        """What was asked for, and whether this run shows it."""
        if self.job == "flat":
            return "≤ 1.3×", self.ratio <= 1.3
        if self.job == "tally":
            return "< 1 ms", self.ours[0] > 1000
        if (self.store, self.job) == ("memory", "batch"):
            return "≥ 100,000/s", self.ours[0] >= 100_000
        least = _least(self.store, self.job, self.against)
        return (f"≥ {least}×", self.ratio >= least) if least else None


def _least(store: str, job: str, against: str) -> float | None:
    """The least ratio asked for: a read at most twice as long as the raw one is half as fast."""
    if against.startswith(("AgentScope", "LangChain")):
        if job in {"last", "turn"}:
            return 100
        return 15 if job == "append" and against.startswith("AgentScope") else None
    if job == "last" and store != "memory":
        return 0.5
    if job == "append" and store.startswith("sqlite"):
        return 0.3
    if job == "crowd" and against.endswith(ONE):  # what is asked for is against single inserts
        return {
            "sqlite fast": 1.2,
            "sqlite full": 8,
            "sqlite full, 2 ms sync": 8,
            "postgresql": 3,
            "mariadb": 3,
        }.get(store)
    return None


def table(lines: list[Line], stores: list[str], *, markdown: bool = False) -> str:
    """All lines as one table, ordered by store and work."""
    jobs = list(WORK)
    ordered = sorted(lines, key=lambda line: (stores.index(line.store), jobs.index(line.job)))
    cells = [list(HEAD), *(_cells(line) for line in ordered)]
    if not markdown:  # what repeats the line above is left out; in Markdown a row may be quoted alone
        for above, below in reversed(list(pairwise(cells))):
            if above[0] == below[0]:
                below[0] = ""
                if above[1:3] == below[1:3]:
                    below[1] = ""
    widths = [max(len(row[at]) for row in cells) for at in range(len(HEAD))]
    padded = [
        [
            cell.rjust(width) if at in NUMBERS else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in cells
    ]
    if markdown:
        rule = ["-" * (width - 1) + (":" if at in NUMBERS else "-") for at, width in enumerate(widths)]
        return "\n".join("| " + " | ".join(row) + " |" for row in (padded[0], rule, *padded[1:]))
    rule = ["─" * width for width in widths]
    return "\n".join("  ".join(row).rstrip() for row in (padded[0], rule, *padded[1:]))


def _cells(line: Line) -> list[str]:
    sizes = " → ".join(_short(size) for size in line.sizes)
    wanted = line.goal
    return [
        line.store,
        WORK[line.job].format(sizes),
        _measured(line.ours, line.job),
        line.against,
        _measured(line.theirs, line.job),
        f"{_round(line.ratio)}×",
        f"{_round(line.spread[0])}–{_round(line.spread[1])}",
        f"{wanted[0]} {'✓' if wanted[1] else '✗'}" if wanted else "",
    ]


def _measured(rates: tuple[float, ...], job: str) -> str:
    if job in TIMED:
        return " → ".join(_round(1000 / rate) for rate in rates) + " ms"
    return f"{rates[0]:,.0f}/s"


def _round(value: float) -> str:
    """Two or three digits that matter."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def _short(size: int) -> str:
    return f"{size // 10**6}M" if size >= 10**6 else f"{size // 1000}k" if size >= 1000 else str(size)


def footnotes(pace: Pace, facts: dict[str, Any], does: dict[str, str], notes: dict[str, str]) -> list[str]:
    """What was compared, exactly."""
    method = (
        f"Events of about {mean_bytes()} bytes. Ratio: Octavo's speed over the other's, so above 1 Octavo is faster; for "
        "'last 50, small → large' it is Octavo's longest time over its time at the smallest size. Contestants take turns in "
        f"{pace.rounds} rounds of about {pace.seconds} s; rates and ratio are medians, 'rounds' the lowest and highest ratio of a "
        "single round."
    )
    rules = (
        f"Appends begin on an empty store, except 'append into {_short(pace.total)}'. Reads ask for random sessions of 100 or more "
        "records each, in at most 1,000 sessions, which were written side by side or, where it says 'in turn', each before the next: "
        "that is all the same to an index on the session, and not to a scan. Beside a peer, both read the same four sessions. Building Octavo's Record is part of its time; drawing the rows is part of nobody's."
    )
    on = (
        f"{facts['cores']} cores, Python {facts['python']}, SQLite {facts['sqlite_apsw']} in apsw and {facts['sqlite_python']} in "
        f"sqlite3; one fsync takes {facts['fsync_ms']:.2f} ms on this disk."
    )
    if facts["load_at_start"] > 0.5:
        on += f" It was busy with other work (load {facts['load_at_start']} at the start), so these numbers are noisy."
    return [
        method,
        rules,
        on,
        *(f"{store}: {note}." for store, note in notes.items() if note),
        *(f"{label}: {told}" for label, told in does.items()),
    ]


def machine(folder: Path) -> dict[str, Any]:
    """What the numbers depend on; the folder says which disk."""
    return {
        "cores": os.cpu_count() or 0,
        "system": platform.system(),
        "python": platform.python_version(),
        "octavo": version("octavo"),
        "sqlite_apsw": apsw.sqlite_lib_version(),
        "sqlite_python": sqlite3.sqlite_version,
        "fsync_ms": round(_fsync_ms(folder), 3),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "load_at_start": round(os.getloadavg()[0], 1),
    }


def _fsync_ms(folder: Path) -> float:
    """The median time of a sync after one page has been appended."""
    spent = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(51):
            file.write(bytes(4096))
            began = perf_counter()
            os.fsync(file.fileno())
            spent.append(perf_counter() - began)
    return median(spent) * 1000


def save(lines: list[Line], failures: list[str], pace: Pace, facts: dict[str, Any], path: Path) -> None:
    """Keep the numbers of this run as JSON."""
    path.write_text(
        json.dumps(
            {
                "machine": facts,
                "pace": pace._asdict(),
                "lines": [line._asdict() | {"goal": line.goal} for line in lines],
                "failures": failures,
            },
            indent=1,
        )
    )
