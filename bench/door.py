"""The front door: add, search and context per second beside mem0's add and search, and context within one user of a hundred."""

import asyncio
import json
import os
import subprocess
import sys
import traceback
from time import perf_counter
from typing import NamedTuple

from bench.memories import drawn
from bench.peers.environment import ROOT, Peer, PeerFailed, installed
from bench.places import Places
from octavo import Add, AsyncMemory, open_store
from octavo.measure.metrics import percentile

GOAL_MS = 30.0  # p95 of a context within one user of a hundred, on 100,000 records
MEM0 = Peer(
    "mem0ai 2.2.1",
    "mem0",
    "bench.peers.mem0_memory",
    ("mem0ai==2.2.1",),
    "`Memory.add(infer=False)` and `Memory.search` on Qdrant in process and its SQLite history, with an embedder that "
    "hashes words and costs next to nothing; it has no context.",
)


class Size(NamedTuple):
    """How much is measured."""

    rounds: int  # of add, search and context
    total: int  # records, of a hundred users
    questions: int


FULL = Size(300, 100_000, 200)
QUICK = Size(5, 1000, 5)


class Line(NamedTuple):
    """One contestant: what it does per second."""

    who: str
    add: float
    search: float
    context: float | None


def said(number: int) -> str:
    """What the user says in a round, never twice the same."""
    return f"I bought {number} green chairs for room {number * 7} and I like the colour {number * 13}."


async def rounds(memory: AsyncMemory, count: int, *, infer: bool) -> Line:
    """Time each verb over so many rounds."""
    spent = {"add": 0.0, "search": 0.0, "context": 0.0}
    for number in range(count):
        for verb in spent:
            began = perf_counter()
            if verb == "add":
                await memory.add(said(number), user_id=f"user-{number % 10}", infer=infer)
            elif verb == "search":
                await memory.search(f"which chairs are in room {number * 7}?", user_id=f"user-{number % 10}")
            else:
                await memory.context(f"what colour do I like, {number}?", user_id=f"user-{number % 10}")
            spent[verb] += perf_counter() - began
    return Line(f"Octavo, infer={infer}", *(count / seconds for seconds in spent.values()))


def mem0(count: int) -> Line:
    """The same rounds by mem0, in an environment of its own."""
    python = installed(MEM0)
    done = subprocess.run(
        [python, "-W", "ignore", "-m", MEM0.script, str(count)],
        capture_output=True,
        text=True,
        timeout=900,
        cwd=ROOT,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    if done.returncode:
        raise PeerFailed(f"peer {MEM0.name} failed: {(done.stderr.splitlines() or ['?'])[-1]}")
    told = json.loads(done.stdout.splitlines()[-1])
    return Line(MEM0.name, told["add"], told["search"], None)


async def contexts(url: str, size: Size) -> list[float]:
    """Milliseconds of each context, on records of a hundred users."""
    memories = drawn(size.total, size.questions)
    async with open_store(url) as store:
        for start in range(0, len(memories.records), 1000):
            await store.apply([Add(memories.records[start : start + 1000])])
        await asyncio.sleep(2 if size.total > 10_000 else 0)
        memory = AsyncMemory(store)
        took = []
        for asked in memories.questions["five"][: size.questions]:
            began = perf_counter()
            await memory.context(asked.text, user_id=asked.user)
            took.append((perf_counter() - began) * 1000)
    return took


async def measured(places: Places, size: Size, *, peers: bool) -> str:
    """Measure everything, and tell it as a table."""
    lines: list[Line] = []
    for infer in (False, True):
        async with AsyncMemory(f"sqlite:///{places.path('.db')}") as memory:
            lines.append(await rounds(memory, size.rounds, infer=infer))
    if peers:
        try:
            lines.append(await asyncio.to_thread(mem0, size.rounds))
        except PeerFailed as error:
            print(error, file=sys.stderr)
        except Exception:  # a peer must not take our own figures away
            traceback.print_exc()
    took = await contexts(f"sqlite:///{places.path('.db')}", size)
    rows = ["| per second, SQLite, one caller | add | search | context |", "|---|---|---|---|"]
    for line in lines:
        told = "-" if line.context is None else f"{line.context:,.0f}"
        rows.append(f"| {line.who} | {line.add:,.0f} | {line.search:,.0f} | {told} |")
    rows.append("")
    rows.append(
        f"context within one user of a hundred, {size.total:,} records on SQLite: p50 {percentile(0.5, took):.1f} ms, "
        f"p95 {percentile(0.95, took):.1f} ms (goal {GOAL_MS:.0f} ms)"
    )
    return "\n".join(rows)
