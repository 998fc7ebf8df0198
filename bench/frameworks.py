"""Inside frameworks: LangGraph's own stores and savers and OpenAI Agents' SQLiteSession beside Octavo's, in one run."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from importlib.metadata import version
from typing import NamedTuple

from bench.peers.environment import ROOT, Peer, PeerFailed, installed
from bench.places import Places
from bench.rounds import FULL, Pace

#: What Octavo needs there, as it is here.
_OURS = ("msgspec", "apsw", "sortedcontainers", "asyncpg")
_LOCK = ROOT / "tests" / "integrations" / "frameworks.lock"
FRAMEWORKS = Peer(
    "LangGraph and OpenAI Agents",
    "frameworks",
    "bench.peers.frameworks",
    (
        *(pin for pin in _LOCK.read_text().split() if pin.startswith(("langgraph==", "openai-agents=="))),
        "langgraph-checkpoint-sqlite==3.1.2",
        "langgraph-checkpoint-postgres==3.2.0",
        "psycopg[binary,pool]==3.3.8",
        "aiosqlite==0.22.1",
        *(f"{name}=={version(name)}" for name in _OURS),
    ),
    "each as its documentation opens it, on SQLite with its own settings (a write-ahead log, a sync before it acknowledges, "
    "as Octavo's `durability=full`), on PostgreSQL with a pool of ten connections.",
)
WORK = {
    "append": "append, awaited",
    "crowd": "append, 50 at once",
    "last": "last 50 of {:,}",
    "latest": "latest of {:,}",
}
GOALS = {"last": 3.0, "crowd": 1.0}  # awaited appends may be slower, as decision 026 says


class Line(NamedTuple):
    """One comparison; rates are per second, and the ratio is Octavo's over the other's."""

    against: str
    job: str
    size: int
    ours: float
    theirs: float
    ratio: float
    least: float  # ratio of a single round
    most: float


async def measured(places: Places, pace: Pace, *, servers: bool = True) -> AsyncIterator[Line]:
    """Each comparison as it is made; PeerFailed when the frameworks cannot be installed or one of them fails."""
    python = await asyncio.to_thread(installed, FRAMEWORKS)
    folder = places.path()
    folder.mkdir()
    urls = [places.database("postgres") for _ in range(2)] if servers else []
    process = await asyncio.create_subprocess_exec(
        python, "-W", "ignore", "-m", FRAMEWORKS.script, str(folder), "full" if pace is FULL else "quick", *urls,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async for line in process.stdout:
            yield Line(*json.loads(line))
        if code := await process.wait():
            raise PeerFailed(f"{FRAMEWORKS.name} ended with code {code}")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def table(lines: list[Line]) -> str:
    """Every comparison as a row, in Markdown."""
    head = [
        "| beside | work | Octavo | its own | ratio | rounds | goal |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    return "\n".join([*head, *map(_row, lines)])


def _row(line: Line) -> str:
    goal = GOALS.get(line.job)
    met = "" if goal is None else f"≥ {goal:g}× {'✓' if line.ratio >= goal else '✗'}"
    return (
        f"| {line.against} | {WORK[line.job].format(line.size)} | {_rate(line.ours)} | {_rate(line.theirs)} "
        f"| {line.ratio:.2f}× | {line.least:.2f}–{line.most:.2f} | {met} |"
    )


def _rate(rate: float) -> str:
    return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s"
