"""What the Journal costs: writes through it while the store is up, writes it queues while the store is down, and bringing those back."""

import asyncio
import logging
import statistics
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from bench.places import Places
from octavo import Add, Deduped, Journal, Op, Record, Scope, Store, StoreUnavailable, open_store
from octavo.wraps import Wrap
from octavo.wraps.journal import Spool

BODY = {"payload": {"text": "what somebody said, " * 10}, "source_name": "bench"}
CROWD = 50


class Size(NamedTuple):
    """How many writes are timed in each round; rounds of all contestants take turns, and the median round counts."""

    writes: int
    rounds: int


QUICK = Size(50, 2)
FULL = Size(1000, 7)


class Line(NamedTuple):
    """One way to write: microseconds a write takes its caller, alone and as one of fifty at once, and against the bare store."""

    store: str
    way: str
    alone_us: float
    crowd_us: float
    ratio: float


class Away(Wrap):
    """A store that can be sent away."""

    away = False

    async def apply(self, ops: Sequence[Op]) -> list[int]:
        if self.away:
            raise StoreUnavailable("away")
        return await super().apply(ops)


async def measured(places: Places, size: Size) -> list[Line]:
    """Every store bare, behind a Journal, behind both wraps; and queueing, which no store takes part in."""
    logging.getLogger("octavo.journal").setLevel(
        logging.ERROR
    )  # it is told to be down, and says so each time
    urls = {
        "memory": lambda: "memory://",
        "sqlite fast": lambda: f"sqlite:///{places.path('.db')}?durability=fast",
        "sqlite full": lambda: f"sqlite:///{places.path('.db')}",
    }
    lines: list[Line] = []
    for name, url in urls.items():
        ways = {
            "bare": lambda url=url: open_store(url()),
            "journal": lambda url=url: Journal(open_store(url()), places.path()),
            "journal and dedup": lambda url=url: Journal(Deduped(open_store(url())), places.path()),
        }
        lines += await _compared(name, ways, size)
    waiting = {
        durability: lambda durability=durability: _queueing(places.path(), durability)
        for durability in ("memory", "flush", "fsync")
    }
    return lines + await _compared("away", waiting, size)


async def replayed(places: Places, count: int) -> float:
    """Queued writes brought to SQLite each second."""
    store = Away(open_store(f"sqlite:///{places.path('.db')}"))
    async with Journal(store, places.path(), backoff=(0.05, 0.05)) as journal:
        store.away = True
        await asyncio.gather(*[journal.write([_said()]) for _ in range(count)])
        store.away = False
        began = perf_counter()
        await journal.replay_now()
        return count / (perf_counter() - began)


def _queueing(folder: Path, durability: str) -> Journal:
    store = Away(open_store("memory://"))
    store.away = True
    return Journal(store, Spool(folder, durability=durability), backoff=(30, 30))


async def _compared(store: str, ways: dict[str, Callable[[], Store]], size: Size) -> list[Line]:
    alone: dict[str, list[float]] = {way: [] for way in ways}
    crowd: dict[str, list[float]] = {way: [] for way in ways}
    async with _opened(ways) as stores:
        for _ in range(size.rounds):
            for way, opened in stores.items():
                alone[way].append(await _timed(opened, size.writes, 1))
                crowd[way].append(await _timed(opened, size.writes, CROWD))
    first = statistics.median(alone[next(iter(ways))])
    return [
        Line(
            store,
            way,
            statistics.median(alone[way]),
            statistics.median(crowd[way]),
            statistics.median(alone[way]) / first,
        )
        for way in ways
    ]


@asynccontextmanager
async def _opened(ways: dict[str, Callable[[], Store]]) -> AsyncIterator[dict[str, Store]]:
    stores = {way: make() for way, make in ways.items()}
    try:
        for store in stores.values():
            await store.apply([_said()])
        yield stores
    finally:
        for store in stores.values():
            await store.close()


async def _timed(store: Store, writes: int, callers: int) -> float:
    """Microseconds for each write."""
    ops = [[_said()] for _ in range(writes)]
    began = perf_counter()

    async def call(mine: list[list[Add]]) -> None:
        for each in mine:
            await store.apply(each)

    await asyncio.gather(*[call(ops[number::callers]) for number in range(callers)])
    return (perf_counter() - began) / writes * 1e6


def _said() -> Add:
    return Add([Record(collection="observations", kind="message", scope=Scope(session="s"), data=BODY)])


def table(lines: list[Line], rate: float, *, markdown: bool) -> str:
    """The lines as text, and how quickly a backlog goes."""
    rows = [["store", "way", "write, µs", f"one of {CROWD}, µs", "ratio"]]
    rows += [
        [line.store, line.way, f"{line.alone_us:,.0f}", f"{line.crowd_us:,.0f}", f"{line.ratio:.2f}×"] for line in lines
    ]  # fmt: skip
    last = f"replayed into SQLite: {rate:,.0f} writes/s"
    if markdown:
        rows.insert(1, ["---"] * 5)
        return "\n".join([*(f"| {' | '.join(row)} |" for row in rows), "", last])
    widths = [max(len(row[at]) for row in rows) for at in range(5)]
    aligned = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([*aligned, last])
