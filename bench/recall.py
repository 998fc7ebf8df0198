"""`python -m bench --recall`: how fast recall is on every store, what search costs the writer, and what vectors cost."""

import asyncio
import random
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing
from itertools import count
from math import sqrt
from statistics import median
from time import perf_counter
from typing import NamedTuple

from bench.memories import KINDS, Asking, Memories, drawn
from bench.places import Places
from bench.raw.terms import Fts5, Fulltext, RawTerms, SortedSets, Tsquery
from bench.subject import CROWD
from octavo import Add, Record, Scope, open_store
from octavo.kernel.ports import Entry, Store, Vector
from octavo.kernel.terms.matching import digest
from octavo.kernel.terms.terms import terms
from octavo.measure.metrics import percentile
from octavo.search.recall import Recall
from octavo.testing.embedding import HashEmbedder
from octavo.vectors import open_vectors
from octavo.wraps import Indexed

DIMENSIONS = 384
BATCH = 1000


class Size(NamedTuple):
    """How much is measured."""

    total: int  # records
    questions: int  # of each kind
    seconds: float  # of one round of appends
    rounds: int


FULL = Size(total=100_000, questions=60, seconds=3.0, rounds=3)
QUICK = Size(total=1000, questions=5, seconds=0.05, rounds=1)


class Kind(NamedTuple):
    """One store: where it lives, and the search engine that stands behind it, if there is one."""

    url: Callable[[Places], str]
    raw: Callable[[Places], RawTerms] | None
    engine: str
    goal_ms: float  # p95 of a recall, as asked for


STORES = {
    "memory": Kind(lambda _places: "memory://", None, "", 60),
    "file": Kind(lambda places: f"file://{places.path()}", None, "", 60),
    "sqlite": Kind(
        lambda places: f"sqlite:///{places.path('.db')}", lambda places: Fts5(places.path(".db")), "FTS5", 20
    ),
    "postgresql": Kind(
        lambda places: places.database("postgres"),
        lambda places: Tsquery(places.database("postgres")),
        "tsquery",
        20,
    ),
    "mariadb": Kind(
        lambda places: places.database("mysql"),
        lambda places: Fulltext(places.database("mysql")),
        "FULLTEXT",
        60,
    ),
    "redis": Kind(
        lambda places: places.database("redis"),
        lambda places: SortedSets(places.database("redis")),
        "ZUNION",
        60,
    ),
}

VECTORS = "vectors"  # stands beside the stores as one more thing to measure
#: Qdrant in process is for trying out: it takes minutes to take in what the others take in seconds.
FEWER = {"qdrant, in process": 10}
INDEXES: dict[str, Callable[[Places], str]] = {
    "exact, in memory": lambda _places: "memory://",
    "exact, in SQLite": lambda places: f"exact+sqlite:///{places.path('.db')}",
    "sqlite-vec": lambda places: f"sqlite:///{places.path('.db')}",
    "pgvector": lambda places: places.database("pgvector"),
    "qdrant, in process": lambda _places: "qdrant://:memory:",
}


class Asked(NamedTuple):
    """Recall of one kind of question on one store; all times are milliseconds."""

    store: str
    kind: str
    p50: float
    p95: float
    messages_p50: float  # looking in one collection only
    messages_p95: float
    engine: str
    raw_p50: float | None
    raw_p95: float | None
    goal_ms: float


class Wrote(NamedTuple):
    """Appends per second on one store, and how fast its index is built."""

    store: str
    job: str
    plain: float
    searched: float
    ratios: tuple[float, float]
    built: float  # records per second


class Near(NamedTuple):
    """Recall with vectors: what the index takes of it."""

    index: str
    vectors: int
    put: float  # vectors per second
    p50: float
    p95: float
    index_p50: float
    index_p95: float
    first_p50: float  # of the index, when it has not been asked about that user before


Line = Asked | Wrote | Near
Say = Callable[[str], None]


async def measured(
    names: list[str], places: Places, size: Size, say: Say, fail: Callable[[str], None]
) -> AsyncIterator[Line]:
    """Every line, store by store; what cannot be measured is told and left out."""
    say(f"drawing {size.total:,} records")
    memories = drawn(size.total, size.questions, users=100 if size.total >= 10_000 else 10)
    for name in [name for name in names if name != VECTORS]:
        try:
            async with aclosing(_of_store(name, places, memories, size, say)) as lines:
                async for line in lines:
                    yield line
        except Exception as error:
            traceback.print_exc()
            fail(f"recall on {name} could not be measured: {type(error).__name__}: {error}")
    for index, url in INDEXES.items() if VECTORS in names else ():
        try:
            say(f"vectors: {index}")
            yield await _with_vectors(index, url(places), memories, size.total // FEWER.get(index, 1))
        except Exception as error:
            traceback.print_exc()
            fail(f"recall with {index} could not be measured: {type(error).__name__}: {error}")


async def _of_store(
    name: str, places: Places, memories: Memories, size: Size, say: Say
) -> AsyncIterator[Line]:
    kind = STORES[name]
    async with AsyncExitStack() as stack:
        say(f"{name}: filling")
        store = await stack.enter_async_context(open_store(kind.url(places)))
        await _fill(store, memories.records)
        say(f"{name}: building the index")
        recall = Recall(store)
        began = perf_counter()
        await store.reindex("messages")
        built = size.total / (perf_counter() - began)
        await recall.recall(
            "hello", Scope(user="nobody")
        )  # the other collections are empty, and have indexes too
        raw = None
        if kind.raw is not None:
            say(f"{name}: filling {kind.engine}")
            raw = kind.raw(places)
            stack.push_async_callback(raw.close)
            await raw.open()
            await raw.fill(memories.records)
        for what, questions in memories.questions.items():
            say(f"{name}: {KINDS[what]}")
            everywhere, messages, theirs = await _asked(recall, raw, questions)
            yield Asked(
                name,
                what,
                percentile(0.5, everywhere),
                percentile(0.95, everywhere),
                percentile(0.5, messages),
                percentile(0.95, messages),
                kind.engine,
                percentile(0.5, theirs) if theirs else None,
                percentile(0.95, theirs) if theirs else None,
                kind.goal_ms,
            )
    say(f"{name}: appends with and without search")
    async with open_store(kind.url(places)) as plain, open_store(kind.url(places)) as searched:
        for job in ("append", "crowd"):
            rates = await _appends(plain, searched, job, size)
            pairs = [two / one for one, two in zip(*rates, strict=True)]
            yield Wrote(
                name, job, median(rates[0]), median(rates[1]), (min(pairs), max(pairs)), built
            )  # fmt: skip


async def _asked(
    recall: Recall, raw: RawTerms | None, questions: list[Asking]
) -> tuple[list[float], list[float], list[float]]:
    """Milliseconds of recall, of recall in one collection, and of the raw engine, in turns."""
    times: tuple[list[float], list[float], list[float]] = ([], [], [])
    for number, (user, text) in enumerate([questions[0], *questions]):
        began = perf_counter()
        found = await recall.recall(text, Scope(user=user))
        spent = [perf_counter() - began]
        began = perf_counter()
        await recall.recall(text, Scope(user=user), collections=("messages",))
        spent.append(perf_counter() - began)
        given = tuple(dict.fromkeys(terms(text)))
        began = perf_counter()
        if raw is not None:
            theirs = await raw.ask(user, given)
            spent.append(perf_counter() - began)
            ours = len(await recall.recall(text, Scope(user=user), other_words=False))  # what shares a term
            if theirs != ours:
                raise AssertionError(f"{text!r} of {user}: recall found {ours}, the engine {theirs}")
        if not found:
            raise AssertionError(f"{text!r} of {user} was not found")
        if number:  # the first one was for warming up
            for kept, seconds in zip(times, spent, strict=False):
                kept.append(seconds * 1000)
    return times


async def _fill(store: Store, records: list[Record]) -> None:
    for start in range(0, len(records), BATCH):
        await store.apply([Add(records[start : start + BATCH])])


async def _appends(plain: Store, searched: Store, job: str, size: Size) -> tuple[list[float], list[float]]:
    """Appends per second, round by round, without an index and with one that is searched between the rounds."""
    rates: tuple[list[float], list[float]] = ([], [])
    numbers = count(1)
    texts = [record.text for record in drawn(1000, 1, users=10).records]
    recall = Recall(searched)
    for turn in range(size.rounds):
        for at in (0, 1) if turn % 2 else (1, 0):
            store = (plain, searched)[at]
            if at:  # nothing of an earlier round is left to do, so that each round pays for its own
                await recall.recall("hello", collections=("messages",), everyone=True)
            rates[at].append(await _rate(store, job, size.seconds, numbers, texts))
            if at:
                await recall.recall("hello", collections=("messages",), everyone=True)
    return rates


async def _rate(store: Store, job: str, seconds: float, numbers: "count[int]", texts: list[str]) -> float:
    began = perf_counter()
    done = 0

    async def appender() -> None:
        nonlocal done
        while perf_counter() - began < seconds:
            number = next(numbers)
            record = Record(
                collection="messages",
                kind="user",
                scope=Scope(user=f"user-{number % 100}", session=f"session-{number % 10}"),
                text=texts[number % len(texts)],
            )
            await store.apply([Add([record])])
            done += 1

    await asyncio.gather(*(appender() for _ in range(CROWD if job == "crowd" else 1)))
    return done / (perf_counter() - began)


async def _with_vectors(name: str, url: str, memories: Memories, vectors: int) -> Near:
    """Recall in memory, so that the index is what differs; its vectors point anywhere."""
    embedder = HashEmbedder(DIMENSIONS)
    dice = random.Random(3)
    async with open_vectors(url) as index, open_store("memory://") as inner:
        await _fill(inner, memories.records)
        spent = 0.0
        for start in range(0, vectors, BATCH):
            entries = [
                Entry(
                    collection=record.collection,
                    id=record.id,
                    scope=record.scope,
                    digest=digest(record.text),
                    vector=_anywhere(dice),
                )
                for record in memories.records[start : min(start + BATCH, vectors)]
            ]
            began = perf_counter()
            await index.put(embedder.name, entries)
            spent += perf_counter() - began
        await index.complete(embedder.name)
        async with Indexed(inner, index, embedder, owned=False) as store:
            recall = Recall(store)
            totals: list[float] = []
            shares: list[float] = []
            for user, text in memories.questions["five"] * 2:
                began = perf_counter()
                found = await recall.recall(text, Scope(user=user), explain=True, collections=("messages",))
                totals.append((perf_counter() - began) * 1000)
                shares.append(found.stages["vectors"])
                if found.notes:
                    raise AssertionError(found.notes[0])
    half = len(totals) // 2  # an index may keep in memory what it has read of a user
    totals, first, shares = totals[half:], shares[:half], shares[half:]
    return Near(
        name,
        vectors,
        vectors / spent,
        percentile(0.5, totals),
        percentile(0.95, totals),
        percentile(0.5, shares),
        percentile(0.95, shares),
        percentile(0.5, first),
    )


def _anywhere(dice: random.Random) -> Vector:
    from array import array

    values = [dice.gauss(0, 1) for _ in range(DIMENSIONS)]
    length = sqrt(sum([value * value for value in values]))
    return array("f", [value / length for value in values])
