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

from light_http import Caller

from octavo import Add, Query, Record, Scope, Store, StoreUnavailable, open_store
from running_server import octavo_serves

#: Whether figures are asked for: three servers and many faults, in place of a store in this process and one fault.
FULL = os.environ.get("OCTAVO_TORTURE") == "full"
PER_SECOND = 200
SESSIONS = 20
MOST = 300  # writes under way
PATIENCE_SECONDS = 600  # of a caller, and with servers that bring in what waits
UNLIMITED = {"OCTAVO__SERVER__REQUESTS_PER_MINUTE": "0"}
#: Of a session and a text: whether it was acknowledged, as stored or as queued.
Write = Callable[[str, str], Awaitable[bool]]


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
                # Who was late catches up, but not on what could not be begun in an outage: that would be another load.
                start = max(start, time.monotonic() - number / PER_SECOND - 1)
                if (early := start + number / PER_SECOND - time.monotonic()) > 0:
                    await asyncio.sleep(early)
                session = f"session-{number % SESSIONS}"
                one = writes.create_task(self._write(write, session, f"{session} says {number}"))
                one.add_done_callback(lambda _: under_way.release())

    async def _write(self, write: Write, session: str, text: str) -> None:
        if not await write(session, text):
            self.refused += 1
            return
        self.acknowledged.setdefault(session, set()).add(text)
        self.count += 1


@asynccontextmanager
async def loaded(write: Write, load: Load | None = None) -> AsyncIterator[Load]:
    """Writes go on while the block runs."""
    load, ending = load or Load(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run(write, ending))
        try:
            yield load
        finally:
            ending.set()


@asynccontextmanager
async def through_a_store(url: str, collection: str = "observations") -> AsyncIterator[Write]:
    """Writes by one store in this process; what is refused is written again under the same id, for some minutes."""
    async with open_store(url) as store:
        yield writing_to(store, collection)


def writing_to(store: Store, collection: str = "observations") -> Write:
    """Writes by this store, each again under the same id while it is refused."""

    async def write(session: str, text: str) -> bool:
        record = Record(collection=collection, id=text, scope=Scope(session=session), text=text)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                await store.apply([Add([record])])
            except StoreUnavailable:
                await asyncio.sleep(0.05)
            else:
                return True
        return False

    return write


@asynccontextmanager
async def through_servers(url: str, folder: Path, count: int = 3) -> AsyncIterator[Write]:
    """Writes by `octavo serve`, so many of them, each with a queue of its own; they are given time to bring in what waits."""
    async with AsyncExitStack() as stack:
        served = []
        for number in range(count):
            own = folder / f"server-{number}"
            own.mkdir()
            caller = Caller(stack.enter_context(octavo_serves(url, own, env=UNLIMITED)))
            stack.push_async_callback(caller.close)
            served.append(caller)

        async def write(session: str, text: str) -> bool:
            server = served[int(session.rpartition("-")[2]) % count]
            body = {"session_key": session, "obs_type": "message", "payload": {"text": text}}
            try:
                status, answer = await server.ask("POST", "/events", body)
            except OSError:
                return False
            return status == 200 and answer["status"] in ("stored", "queued")

        yield write
        async with asyncio.timeout(PATIENCE_SECONDS):
            for server in served:
                while await _waiting(server):
                    await asyncio.sleep(0.1)


async def _waiting(server: Caller) -> bool:
    try:
        return bool((await server.ask("GET", "/queue"))[1]["waiting"])
    except OSError:  # it has just hung up
        return True


def times() -> int:
    """How often each fault is injected in full: 20 times, or as OCTAVO_FAULTS says."""
    return int(os.environ.get("OCTAVO_FAULTS", "20"))


def minutes() -> float:
    """For how long faults are injected at most: 40 minutes, or as OCTAVO_MINUTES says. The rows say how many there were."""
    return float(os.environ.get("OCTAVO_MINUTES", "40"))


@dataclass
class Outcome:
    """What became of a load with faults in it."""

    seconds: dict[str, list[float]]  # until writes went on, by fault
    written: int
    refused: int
    per_second: float
    lost: list[str]  # acknowledged, and not there
    doubled: list[str]
    problem: str = ""  # what ended the faults before all had come

    def rows(self, name: str) -> str:
        """Lines of the table in docs/figures.md."""
        told = f"{name}: {self.refused:,} writes were refused, and are not counted\n" if self.refused else ""
        if self.problem:
            told += f"{name}: it ended before its time, {self.problem}\n"
        return told + "\n".join(
            f"| {name} | {fault} × {len(took)} | {len(self.lost)} of {self.written:,} ({self.per_second:.0f}/s) | {len(self.doubled)} | "
            f"{statistics.median(took):.1f} s | {max(took):.1f} s |"
            for fault, took in self.seconds.items()
        )


async def survive(
    cluster: Cluster, url: str, folder: Path, faults: list[str], seconds: float = 60
) -> Outcome:
    """Inject the faults one after the other, each when writes go on and the cluster is whole; then count what is there.

    What is there is counted as well when a node does not come back: that is told in `problem`.
    """
    took: dict[str, list[float]] = {}
    load, problem, lasted = Load(), "", 0.0
    writing = through_servers(url, folder) if FULL else through_a_store(url)
    try:
        async with writing as write, through_a_store(url, "messages") as probe, loaded(write, load):
            began = time.monotonic()
            try:
                await _inject(cluster, probe, faults, seconds, took, folder / "faults")
            except Exception as error:
                problem = f"after {sum(map(len, took.values()))} faults: {error!r}"
            lasted = time.monotonic() - began
    except TimeoutError:
        problem = f"{problem or 'after all faults'}; what waited was not brought in"
    lost, doubled = await compare(url, load)
    return Outcome(took, load.count, load.refused, load.count / lasted, lost, doubled, problem)


async def _inject(
    cluster: Cluster, probe: Write, faults: list[str], seconds: float, took: dict[str, list[float]], log: Path
) -> None:
    """Break and mend, and measure how long writes take to go on; a line in the log for each tells those who wait."""
    ends = time.monotonic() + 60 * minutes()
    assert await probe("probe", "before")
    for number, fault in enumerate(faults):
        if time.monotonic() > ends:
            break
        await asyncio.to_thread(cluster.wait_until_whole)
        await asyncio.sleep(0.5)
        breaking = cluster.broken(fault)
        await asyncio.to_thread(breaking.__enter__)
        broke = time.monotonic()
        try:
            async with asyncio.timeout(seconds):
                await probe("probe", f"after fault {number}")
        finally:
            took.setdefault(fault, []).append(time.monotonic() - broke)
            with log.open("a") as file:
                file.write(f"{time.strftime('%H:%M:%S')} {number} {fault} {took[fault][-1]:.1f} s\n")
            await asyncio.to_thread(breaking.__exit__, None, None, None)
    await asyncio.to_thread(cluster.wait_until_whole)


async def compare(url: str, load: Load) -> tuple[list[str], list[str]]:
    """What was acknowledged and is not there, and what is there more than once."""
    async with open_store(url) as store:
        return await compare_in(store, load)


async def compare_in(store: Store, load: Load) -> tuple[list[str], list[str]]:
    """The same, of a store that is open."""
    lost: list[str] = []
    doubled: list[str] = []
    there = 0
    tenants = await store.tenants()
    for session, texts in load.acknowledged.items():
        found: Counter[str] = Counter()
        for tenant in tenants:
            query = Query(collection="observations", scope=Scope(tenant=tenant, session=session))
            found.update([record.text for record in await store.find(query)])
        there += found.total()
        lost += sorted(texts - found.keys())
        doubled += sorted(text for text, times in found.items() if times > 1)
    tallies = [
        await store.tally(Query(collection="observations", scope=Scope(tenant=tenant))) for tenant in tenants
    ]
    assert sum(tally.total for tally in tallies) == there, "the counters are off"
    return lost, doubled
