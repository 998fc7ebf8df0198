"""A steady load of writes, faults that are injected into it, and the count of what is there afterwards."""

import asyncio
import itertools
import os
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import httpx

from octavo import Add, Query, Record, Scope, StoreUnavailable, open_store
from running_server import octavo_serves

#: Whether figures are asked for: three servers and many faults, in place of a store in this process and one fault.
FULL = os.environ.get("OCTAVO_TORTURE") == "full"
PER_SECOND = 200
SESSIONS = 20
MOST = 300  # writes under way
#: Of a session and a text: whether it is in the store now ("stored"), will be ("queued"), or nobody knows (None).
Write = Callable[[str, str], Awaitable[str | None]]


class Cluster(Protocol):
    """What the runner needs of a cluster."""

    name: str
    url: str

    def broken(self, fault: str) -> AbstractContextManager[None]:
        """The node that takes the writes is broken, until the block ends."""
        ...

    def wait_until_whole(self, seconds: float = 60) -> None:
        """Wait until the next fault may come."""
        ...


@dataclass
class Load:
    """What the callers were told."""

    acknowledged: dict[str, set[str]] = field(default_factory=dict)  # texts by session
    stored: float = 0.0  # when the last write that was stored was begun
    refused: int = 0
    count: int = 0

    async def run(self, write: Write, ending: asyncio.Event) -> None:
        """Begin a write every few milliseconds, whatever became of those before; no more than so many are under way."""
        under_way, start = asyncio.Semaphore(MOST), time.monotonic()
        async with asyncio.TaskGroup() as writes:
            for number in itertools.count():
                if ending.is_set():
                    return
                await under_way.acquire()
                # Who had to wait for the others does not catch up: that would be another load.
                start = max(start, time.monotonic() - number / PER_SECOND)
                await asyncio.sleep(start + number / PER_SECOND - time.monotonic())
                session = f"session-{number % SESSIONS}"
                one = writes.create_task(self._write(write, session, f"{session} says {number}"))
                one.add_done_callback(lambda _: under_way.release())

    async def _write(self, write: Write, session: str, text: str) -> None:
        began = time.monotonic()
        told = await write(session, text)
        if told is None:
            self.refused += 1
            return
        self.acknowledged.setdefault(session, set()).add(text)
        self.count += 1
        if told == "stored":
            self.stored = max(self.stored, began)

    async def stored_after(self, moment: float, seconds: float) -> float:
        """How long it took until a write was stored that was begun after that moment."""
        async with asyncio.timeout(seconds):
            while self.stored <= moment:
                await asyncio.sleep(0.005)
        return time.monotonic() - moment


@asynccontextmanager
async def loaded(write: Write) -> AsyncIterator[Load]:
    """Writes go on while the block runs."""
    load, ending = Load(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run(write, ending))
        try:
            yield load
        finally:
            ending.set()


@asynccontextmanager
async def through_a_store(url: str) -> AsyncIterator[Write]:
    """Writes by one store in this process; what is refused is written again under the same id."""
    async with open_store(url) as store:

        async def write(session: str, text: str) -> str | None:
            record = Record(collection="observations", id=text, scope=Scope(session=session), text=text)
            while True:
                try:
                    await store.apply([Add([record])])
                except StoreUnavailable:
                    await asyncio.sleep(0.05)
                else:
                    return "stored"

        yield write


@asynccontextmanager
async def through_servers(url: str, folder: Path, count: int = 3) -> AsyncIterator[Write]:
    """Writes by `octavo serve`, so many of them, each with a queue of its own; they are given time to bring in what waits."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            httpx.AsyncClient(timeout=30, limits=httpx.Limits(max_connections=MOST))
        )
        served = []
        for number in range(count):
            own = folder / f"server-{number}"
            own.mkdir()
            served.append(stack.enter_context(octavo_serves(url, own)))

        async def write(session: str, text: str) -> str | None:
            server = served[int(session.rpartition("-")[2]) % count]
            body = {"session_key": session, "obs_type": "message", "payload": {"text": text}}
            answer = await client.post(f"{server}/events", json=body)
            return answer.json()["status"] if answer.status_code == 200 else None

        yield write
        async with asyncio.timeout(120):
            for server in served:
                while (await client.get(f"{server}/queue")).json()["waiting"]:
                    await asyncio.sleep(0.1)


def times() -> int:
    """How often each fault is injected in full: 20 times, or as OCTAVO_FAULTS says."""
    return int(os.environ.get("OCTAVO_FAULTS", "20"))


@dataclass
class Outcome:
    """What became of a load with faults in it."""

    seconds: dict[str, list[float]]  # until writes went on, by fault
    written: int
    refused: int
    per_second: float
    lost: list[str]  # acknowledged, and not there
    doubled: list[str]

    def rows(self, name: str) -> str:
        """Lines of the table in docs/figures.md."""
        refused = (
            f"{name}: {self.refused:,} writes were refused, and are not counted\n" if self.refused else ""
        )
        return refused + "\n".join(
            f"| {name} | {fault} × {len(took)} | {len(self.lost)} of {self.written:,} ({self.per_second:.0f}/s) | {len(self.doubled)} | "
            f"{statistics.median(took):.1f} s | {max(took):.1f} s |"
            for fault, took in self.seconds.items()
        )


async def survive(
    cluster: Cluster, url: str, folder: Path, faults: list[str], seconds: float = 60
) -> Outcome:
    """Inject the faults one after the other, each when writes go on and the cluster is whole; then count what is there."""
    took: dict[str, list[float]] = {}
    writing = through_servers(url, folder) if FULL else through_a_store(url)
    async with writing as write, loaded(write) as load:
        began = time.monotonic()
        await load.stored_after(time.monotonic(), seconds)
        for fault in faults:
            await asyncio.to_thread(cluster.wait_until_whole)
            await asyncio.sleep(0.5)
            breaking = cluster.broken(fault)
            await asyncio.to_thread(breaking.__enter__)
            try:
                took.setdefault(fault, []).append(await load.stored_after(time.monotonic(), seconds))
            finally:
                await asyncio.to_thread(breaking.__exit__, None, None, None)
        await asyncio.to_thread(cluster.wait_until_whole)
        lasted = time.monotonic() - began
    lost, doubled = await compare(url, load)
    return Outcome(took, load.count, load.refused, load.count / lasted, lost, doubled)


async def compare(url: str, load: Load) -> tuple[list[str], list[str]]:
    """What was acknowledged and is not there, and what is there more than once."""
    lost: list[str] = []
    doubled: list[str] = []
    there = 0
    async with open_store(url) as store:
        (tenant,) = await store.tenants()
        for session, texts in load.acknowledged.items():
            query = Query(collection="observations", scope=Scope(tenant=tenant, session=session))
            found = Counter(record.text for record in await store.find(query))
            there += found.total()
            lost += sorted(texts - found.keys())
            doubled += sorted(text for text, times in found.items() if times > 1)
        tally = await store.tally(Query(collection="observations", scope=Scope(tenant=tenant)))
        assert tally.total == there, "the counters are off"
    return lost, doubled
