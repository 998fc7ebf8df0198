"""The comparisons: what is done, by whom, and what comes of it as lines of the table."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median

from bench.peers.environment import PEERS, Peer, PeerFailed, PeerSubject, installed
from bench.places import OURS, SETTINGS, Places, Setting, contestants
from bench.report import ONE, Line
from bench.rounds import Entrant, Pace, alternate, fill, ratio, spread
from bench.subject import Subject

Say = Callable[[str], None]

POOL = ", 10 connections"


async def of_store(
    setting: Setting, places: Places, pace: Pace, *, million: bool, say: Say
) -> AsyncIterator[Line]:
    """All lines of one store."""
    async with contestants(setting, places, pace.total) as empty:
        say(f"{setting.store}: appends")
        for line in _lines(setting.store, "append", await alternate(_all(empty, "append"), pace), pace):
            yield line
        for line in _lines(setting.store, "crowd", await alternate(_crowd(setting, empty), pace), pace):
            yield line
    if setting.appends_only:
        return
    sizes = [pace.total // 10, pace.total, *([pace.total * 10] if million or setting.million else [])]
    async with AsyncExitStack() as stack:
        archives: dict[int, dict[str, Subject]] = {}
        for size in sizes:
            say(f"{setting.store}: filling with {size:,}")
            archives[size] = await stack.enter_async_context(
                contestants(setting, places, size, None if size == pace.total else 1)
            )
            filled = await fill(_all(archives[size], "batch"), size, pace)
            if size == pace.total:
                for line in _lines(setting.store, "batch", filled, pace):
                    yield line
        say(f"{setting.store}: reads")
        main = archives[pace.total]
        for job in ("last", "tally"):
            for line in _lines(setting.store, job, await alternate(_all(main, job), pace), pace):
                yield line
        yield await _flat(setting, archives, pace)
        for line in _lines(setting.store, "late", await alternate(_all(main, "append"), pace), pace):
            yield line


async def of_peers(places: Places, pace: Pace, *, say: Say) -> AsyncIterator[Line | str]:
    """Octavo's SQLite store against other people's SQL memories; a string is a failure to be told aloud."""
    for peer in PEERS:
        try:
            python = installed(peer)
            for durability, jobs in (
                ("fast", ("append", "crowd")),
                ("full", ("append", "crowd")),
                ("default", ("append",)),
            ):
                say(f"{peer.name}: appends ({durability})")
                async with _pair(places, pace, peer, python, durability) as (ours, theirs):
                    for job in jobs:
                        for line in await _duel(peer, durability, job, ours, theirs, pace):
                            yield line
            for jobs in (("last", "late"), ("turn",)):
                say(f"{peer.name}: filling and reads")
                async with _pair(places, pace, peer, python, "fast") as (ours, theirs):
                    ours.in_turn = theirs.in_turn = jobs == ("turn",)
                    await fill([Entrant(OURS, ours, "batch")], pace.total, pace)
                    await theirs.fill(pace.total)
                    for job in jobs:
                        for line in await _duel(peer, "fast", job, ours, theirs, pace):
                            yield line
        except PeerFailed as reason:
            yield str(reason)


@asynccontextmanager
async def _pair(
    places: Places, pace: Pace, peer: Peer, python: Path, durability: str
) -> AsyncIterator[tuple[Subject, PeerSubject]]:
    ours = SETTINGS[_store(durability)].ours(places, pace.total)
    theirs = PeerSubject(pace.total, peer, python, places.path(".db"), durability)
    ours.beside_peer = True
    async with AsyncExitStack() as stack:
        for subject in (ours, theirs):
            stack.push_async_callback(subject.close)
            await subject.open()
        yield ours, theirs


async def _duel(
    peer: Peer, durability: str, job: str, ours: Subject, theirs: Subject, pace: Pace
) -> list[Line]:
    does = {"late": "append", "turn": "last"}.get(job, job)
    label = peer.name + (", as it comes" if durability == "default" else "")
    rates = await alternate([Entrant(OURS, ours, does), Entrant(label, theirs, does)], pace)
    return _lines(_store(durability), job, rates, pace)


def _store(durability: str) -> str:
    """Which of Octavo's settings a peer is held against; as they come, both sync before they acknowledge."""
    return "sqlite fast" if durability == "fast" else "sqlite full"


def _all(subjects: dict[str, Subject], job: str) -> list[Entrant]:
    return [Entrant(label, subject, job) for label, subject in subjects.items()]


def _crowd(setting: Setting, subjects: dict[str, Subject]) -> list[Entrant]:
    """Octavo's 50 appenders against single rows one after the other and, where the driver can, 50 at once as well."""
    entrants = [Entrant(OURS, subjects[OURS], "crowd")]
    for label in setting.raw:
        entrants.append(Entrant(label + ONE, subjects[label], "append"))
        if setting.pooled:
            entrants.append(Entrant(label + POOL, subjects[label], "crowd"))
    return entrants


def _lines(store: str, job: str, rates: dict[str, list[float]], pace: Pace) -> list[Line]:
    ours = rates.pop(OURS)
    size = pace.batch if job == "batch" else pace.total
    return [
        Line(
            store,
            job,
            (size,),
            (median(ours),),
            against,
            (median(theirs),),
            ratio(ours, theirs),
            spread(ours, theirs),
        )
        for against, theirs in rates.items()
    ]


async def _flat(setting: Setting, archives: dict[int, dict[str, Subject]], pace: Pace) -> Line:
    """The same read at each size, in turns, so that a busy minute hits all sizes alike."""
    raw = next(iter(setting.raw))
    entrants = [
        Entrant(f"{label} {size}", archives[size][label], "last")
        for size in archives
        for label in (OURS, raw)
    ]
    rates = await alternate(entrants, pace)
    ours, theirs = (tuple(median(rates[f"{label} {size}"]) for size in archives) for label in (OURS, raw))
    slowdown = [ours[0] / rate for rate in ours]
    return Line(
        setting.store,
        "flat",
        tuple(archives),
        ours,
        raw,
        theirs,
        max(slowdown),
        (min(slowdown), max(slowdown)),
    )
