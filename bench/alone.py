"""Where the time of one caller goes: processor time of the program and of the database, for Octavo and for the raw driver;
and that of a request, to the server and to a bare endpoint.

A lone caller waits for one thing after the other, so what it waits is the sum of what each side takes. Time on the processor
is measured, in which other programs are not waited for; the cheapest round counts. The parts are those of a profile.
"""

import cProfile
import os
import pstats
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from time import process_time, thread_time
from typing import Any, NamedTuple

from bench import bare_server, serving, watching
from bench.ours import Octavo
from bench.places import Places
from bench.raw.servers import Asyncmy, Asyncpg
from bench.subject import Subject
from octavo.config import Telemetry
from octavo.stores.sql.statements import Fetch

TICK = os.sysconf("SC_CLK_TCK")
#: Where a function stands, and what its time is called.
PARTS = {
    "octavo/kernel": "records: checked, folded for search, encoded, decoded",
    "octavo/stores/sql/drivers": "driver: connections, transactions, threads",
    "octavo/stores": "statements and counters",
    "octavo/layers": "layers: category, log row, answers",
    "octavo/server": "server: request read and checked, answer written",
    "octavo/": "other parts of Octavo",
    "fastapi": "FastAPI, Starlette, pydantic",
    "starlette": "FastAPI, Starlette, pydantic",
    "pydantic": "FastAPI, Starlette, pydantic",
    "asyncpg": "asyncpg",
}
REST = "asyncio and Python"
#: Each request, as it is shown: its method, path and body.
REQUESTS = {
    "GET profile of 100": ("GET", "/memory/user/u100-1/profile", None),
    "POST direct": ("POST", "/memory/user/w{n}", serving.BODY),
}


class Size(NamedTuple):
    """How many appends, batches of how many records and requests in a round, and how many rounds."""

    appends: int
    batches: int
    batch: int
    requests: int
    rounds: int


FULL = Size(500, 3, 1000, 200, 5)
QUICK = Size(20, 1, 50, 3, 1)


class Cost(NamedTuple):
    """Seconds on the processor: of the thread that asks, and of whoever works for it (the database, or other threads)."""

    own: float
    others: float


async def measured(places: Places, size: Size) -> str:
    """The tables."""
    lines = ["| a record | program | database | together | ratio |", "|---|---:|---:|---:|---:|"]
    parts: dict[str, dict[str, float]] = {}
    for name, kind, raw in (("PostgreSQL", "postgres", Asyncpg), ("MariaDB", "mysql", Asyncmy)):
        async with AsyncExitStack() as stack:
            ours, driver = Octavo(10_000, places.database(kind)), raw(10_000, places.database(kind))
            for side in (ours, driver):
                await side.open()
                stack.push_async_callback(side.close)
            server = await _server_of(ours._store._driver, kind)  # noqa: SLF001 - which processes work for it
            for job, count, times in (("append", size.appends, 1), ("batch", size.batch, size.batches)):
                title = f"{name}, {'append, awaited' if job == 'append' else f'batch of {count:,}'}"
                costs = [await _cost_of(side, job, count, times, size, server) for side in (ours, driver)]
                lines += _rows(title, raw.__name__.lower(), costs)
            parts[f"append, {name}"] = await _parts(partial(ours.timed, "append", size.appends))
    lines += [
        "",
        "| a request | event loop | other threads | together | ratio |",
        "|---|---:|---:|---:|---:|",
    ]
    folder = places.path()
    folder.mkdir(parents=True)
    await serving.fill(f"sqlite:///{folder}/octavo.db", 1000)
    async with watching.running(folder, Telemetry()) as app:
        for title, request in REQUESTS.items():
            ours_asked = partial(_ask, app, request, "", size.requests)
            bare_asked = partial(_ask, bare_server.app, request, "/encoded", size.requests)
            costs = [
                await _cheapest(size, ask, size.requests, process_time) for ask in (ours_asked, bare_asked)
            ]
            lines += _rows(title, "bare, msgspec", costs)
            parts[title] = await _parts(ours_asked)
    return "\n".join([*lines, "", *_shares(parts)])


async def _ask(app: Any, request: tuple[str, str, Any], prefix: str, times: int) -> None:
    method, path, body = request
    for number in range(times):
        await watching.ask(app, method, prefix + path, body, number)


def _rows(title: str, other: str, costs: list[Cost]) -> list[str]:
    least = sum(costs[1])
    return [
        f"| {title}: {label} | {cost.own * 1e6:.0f} µs | {cost.others * 1e6:.0f} µs | {sum(cost) * 1e6:.0f} µs "
        f"| {least / sum(cost):.2f} |"
        for label, cost in zip(("Octavo", other), costs, strict=True)
    ]


def _shares(parts: dict[str, dict[str, float]]) -> list[str]:
    names = sorted(
        {name for shares in parts.values() for name in shares},
        key=lambda name: -sum(shares.get(name, 0.0) for shares in parts.values()),
    )
    return [
        f"| the program's own time | {' | '.join(parts)} |",
        f"|---|{'---:|' * len(parts)}",
        *(
            f"| {name} | {' | '.join(f'{shares.get(name, 0.0):.0%}' for shares in parts.values())} |"
            for name in names
        ),
    ]


async def _cost_of(
    side: Subject, job: str, count: int, times: int, size: Size, server: Callable[[], float]
) -> Cost:
    async def work() -> None:
        for _ in range(times):
            await side.timed(job, count)

    return await _cheapest(size, work, count * times, server, process_time)


async def _cheapest(
    size: Size,
    work: Callable[[], Awaitable[Any]],
    count: int,
    others: Callable[[], float],
    own: Callable[[], float] = thread_time,
) -> Cost:
    """What one of so many takes. Where the clock of the others is the whole process's, our own thread is no other."""
    await work()
    rounds = []
    for _ in range(size.rounds):
        began = own(), others()
        await work()
        mine, theirs = own() - began[0], others() - began[1]
        rounds.append(Cost(mine / count, (theirs - (mine if others is process_time else 0.0)) / count))
    return min(rounds, key=sum)


async def _parts(work: Callable[[], Awaitable[Any]]) -> dict[str, float]:
    """What each part takes of the asking thread's time."""
    profile = cProfile.Profile(thread_time)
    profile.enable()
    await work()
    profile.disable()
    spent: dict[str, float] = defaultdict(float)
    for (file, _, name), (_, _, own, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        where = f"{file} {name}"
        if "bench/" not in where:
            spent[next((part for path, part in PARTS.items() if path in where), REST)] += own
    whole = sum(spent.values())
    return {part: own / whole for part, own in spent.items()}


async def _server_of(driver: Any, kind: str) -> Callable[[], float]:
    """A clock of the seconds that the processor has worked for a database."""
    sql = "SELECT @@pid_file" if kind == "mysql" else "SHOW data_directory"
    async with driver.connection() as connection:
        [[told]] = await driver.send(connection, Fetch(sql))
    path = Path(told) if kind == "mysql" else Path(told) / "postmaster.pid"
    server = int(path.read_text().split()[0])

    def busy() -> float:
        seconds = 0.0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            if server in (int(stat.parent.name), int(fields[1])):  # it, or a child of it
                seconds += (int(fields[11]) + int(fields[12])) / TICK
        return seconds

    return busy
