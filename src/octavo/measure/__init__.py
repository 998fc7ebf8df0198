"""How well recall finds: questions with known answers are asked of a store, and what comes back is scored.

Talks are written into a store, and it is asked what is known to be in them and left as it was.
"""

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import islice
from random import Random
from typing import Self, TypeAlias

import msgspec

from octavo.errors import ModelError, OctavoError
from octavo.kernel.ids import new_id
from octavo.kernel.model import Add, Query, Remove, Scope
from octavo.kernel.ports import Embedder, Store
from octavo.measure.formats import ADVERSARIAL, COLLECTION, FORMATS, Case, Data, Talk, load
from octavo.measure.metrics import all_at, hit_at, mean, ndcg_at, percentile, ranks, recall_at
from octavo.search.recall import Recall
from octavo.stores import open_store
from octavo.vectors import open_vectors
from octavo.wraps import Indexed

__all__ = [
    "FORMATS",
    "AskedQuestion",
    "Case",
    "Compared",
    "Data",
    "Figures",
    "Run",
    "Summary",
    "Talk",
    "Trial",
    "compare_runs",
    "load",
    "new_tenant",
    "open_measured",
    "summary",
]

LIMIT = 10  # hits asked for, by message and by session
_BATCH = 200  # records in one write: few enough that progress is seen

Progress: TypeAlias = Callable[[int, int | None], None]


class AskedQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """One question, what came back, and how good that was."""

    name: str
    user: str
    category: str
    question: str
    gold: tuple[str, ...]
    found: tuple[str, ...]  # ids, best first
    ranks: tuple[int | None, ...]  # where each gold id stands among them, from 1
    gold_sessions: tuple[str, ...]
    found_sessions: tuple[str, ...]
    session_ranks: tuple[int | None, ...]
    hit: bool  # whether any gold id was found
    best_score: float | None  # of the first hit
    scores: dict[str, float]  # by metric
    presence: float
    flagged: bool  # said to be probably absent
    told_apart: bool | None  # said to be probably absent from another talk; None where there is no other
    ms: float


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """All answers of one store, and how long it took to be ready for them."""

    asked: list[AskedQuestion]
    records: int
    write_seconds: float
    first_answer_seconds: float  # the first question also waits for the index
    notes: dict[str, int]  # what did not work, and how often


class Trial:
    """Talks in a store, under a tenant of their own that is emptied at the end: what else is kept there stays alone."""

    def __init__(self, store: Store, data: Data, *, seed: int = 0, tenant: str | None = None) -> None:
        self._store = store
        # Past the vectors: written through them, records would be embedded in the background, where a model that
        # cannot be loaded is tried for ever.
        self._inner = store.inner if isinstance(store, Indexed) else store
        self._data = data
        self._tenant = tenant or new_tenant()
        dice = Random(seed)  # noqa: S311 - a draw, not a secret
        self._plan = [
            (talk, case, _pick_other(data, at, dice))
            for at, talk in enumerate(data.talks)
            for case in talk.cases
        ]
        asked = {id(talk) for own, _, other in self._plan for talk in (own, other) if talk}
        self._talks = [talk for talk in data.talks if id(talk) in asked]
        self._records = 0
        self._write_seconds = 0.0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        everything = Query(collection=COLLECTION, scope=Scope(tenant=self._tenant))
        await self._store.apply([Remove(everything)])
        with suppress(*([OctavoError] if kind else [])):  # why it ended says more than why this failed too
            await self._compare_vectors(None)

    async def write(self, progress: Progress | None = None) -> None:
        """Write down every talk that is asked about."""
        total = sum(len(talk.said) for talk in self._talks)
        started = time.perf_counter()
        records = (record for talk in self._talks for record in talk.records(self._tenant))
        while batch := list(islice(records, _BATCH)):
            await self._inner.apply([Add(batch)])
            self._records += len(batch)
            if progress is not None:
                progress(self._records, total)
        self._write_seconds = time.perf_counter() - started

    async def embed(self, progress: Progress | None = None) -> None:
        """Make the vector of every record; ModelError when one cannot have its own."""
        if refused := await self._compare_vectors(progress):
            raise ModelError(f"not every record could be embedded: {refused}")

    async def _compare_vectors(self, progress: Progress | None) -> str:
        """Make the vectors that are missing and drop those without a record; why a text was refused, if one was."""
        if not isinstance(self._store, Indexed):
            return ""
        before = (await self._store.status()).failures
        await self._store.reindex_vectors(progress, collections=(COLLECTION,), tenant=self._tenant)
        status = await self._store.status()
        return status.last_error or "" if status.failures > before else ""

    async def ask(
        self, progress: Progress | None = None, on_answer: Callable[[AskedQuestion], None] | None = None
    ) -> Run:
        """Ask every question, one after the other; only recall itself is timed."""
        notes: dict[str, int] = {}
        first = await self._first_answer()
        asked: list[AskedQuestion] = []
        for talk, case, other in self._plan:
            answer = await self._answer(talk, case, other, notes)
            asked.append(answer)
            if on_answer is not None:
                on_answer(answer)
            if progress is not None:
                progress(len(asked), len(self._plan))
        return Run(
            asked=asked,
            records=self._records,
            write_seconds=self._write_seconds,
            first_answer_seconds=first,
            notes=notes,
        )

    async def _first_answer(self) -> float:
        """Seconds of a question that is not counted: it waits for the index, and later ones do not."""
        talk, case, _ = self._plan[0]
        started = time.perf_counter()
        # Other words than the question's, or a model that remembers texts would seem faster than it is.
        recall = self._recall(talk)
        await recall.recall(f"{case.question} ?", self._scope_of(talk), collections=(COLLECTION,))
        return time.perf_counter() - started

    async def _answer(
        self, talk: Talk, case: Case, other: Talk | None, notes: dict[str, int]
    ) -> AskedQuestion:
        here, recall = self._scope_of(talk), self._recall(talk)
        started = time.perf_counter()
        hits = await recall.recall(case.question, here, LIMIT, collections=(COLLECTION,))
        ms = (time.perf_counter() - started) * 1000
        for note in hits.notes:
            notes[note] = notes.get(note, 0) + 1
        found = tuple(hit.record.id for hit in hits)
        sessions: tuple[str, ...] = ()
        if self._data.sessions:
            spoken = await recall.sessions(case.question, here, LIMIT, collections=(COLLECTION,))
            sessions = tuple(each.session for each in spoken)
        apart = None
        if other is not None:
            there, recall = self._scope_of(other), self._recall(other)
            elsewhere = await recall.recall(case.question, there, 1, collections=(COLLECTION,))
            apart = elsewhere.probably_absent
        return AskedQuestion(
            name=case.name,
            user=talk.user,
            category=case.category,
            question=case.question,
            gold=case.gold,
            found=found,
            ranks=tuple(ranks(found, case.gold)),
            gold_sessions=case.sessions,
            found_sessions=sessions,
            session_ranks=tuple(ranks(sessions, case.sessions)),
            hit=bool(hit_at(LIMIT, found, case.gold)),
            best_score=hits[0].score if hits else None,
            scores=_scores(case, found, sessions, with_sessions=self._data.sessions),
            presence=hits.presence,
            flagged=hits.probably_absent,
            told_apart=apart,
            ms=ms,
        )

    def _recall(self, talk: Talk) -> Recall:
        """Questions are asked right after the talk: what "last week" means depends on it."""
        ended = max(said.created_at for said in talk.said)
        return Recall(self._store, clock=lambda: ended)

    def _scope_of(self, talk: Talk) -> Scope:
        return Scope(tenant=self._tenant, user=talk.user)


def new_tenant() -> str:
    """A tenant nobody else has; stores that are compared are given the same one, since it takes part in order."""
    return f"octavo-bench-{new_id()}"


@asynccontextmanager
async def open_measured(url: str, embedder: Embedder | None, vectors: str | None) -> AsyncIterator[Store]:
    """The store of a URL, with vectors in front of it where there is a model; the model stays open."""
    async with open_store(url) as store:
        if embedder is None:
            yield store
            return
        async with (
            open_vectors(vectors or "memory://") as index,
            Indexed(store, index, embedder, owned=False) as indexed,
        ):
            yield indexed


def _scores(
    case: Case, found: tuple[str, ...], sessions: tuple[str, ...], *, with_sessions: bool
) -> dict[str, float]:
    if not with_sessions:
        return {
            "R@5": recall_at(5, found, case.gold),
            "R@10": recall_at(10, found, case.gold),
            "any@10": hit_at(10, found, case.gold),
        }
    return {
        "Hit@1": hit_at(1, sessions, case.sessions),
        "R@5": recall_at(5, sessions, case.sessions),
        "R@10": recall_at(10, sessions, case.sessions),
        "R_all@10": all_at(10, sessions, case.sessions),
        "NDCG@5": ndcg_at(5, sessions, case.sessions),
        "turn any@10": hit_at(10, found, case.gold),
    }


def _pick_other(data: Data, at: int, dice: Random) -> Talk | None:
    """Some other talk, to ask the same question of."""
    if len(data.talks) < 2:
        return None
    return data.talks[(at + 1 + dice.randrange(len(data.talks) - 1)) % len(data.talks)]


# What many answers come to.


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of each score over some questions."""

    questions: int
    scores: dict[str, float]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A run in figures."""

    questions: int
    scores: dict[str, float]
    by_category: dict[str, Figures]
    p50_ms: float
    p95_ms: float
    per_second: float  # one question after the other
    flagged: float  # share of questions said to be probably absent though they are there
    told_apart: float | None  # share of those asked of another talk that were said to be probably absent
    adversarial: float | None  # share of those that ask one speaker for what another said


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """How far one store answers like another: the share of questions with the same hits in the same order."""

    same: float
    same_sessions: float | None  # None where no sessions are asked for
    differing: list[str]  # names of questions


def summary(run: Run) -> Summary:
    """A run in figures, all in all and by category."""
    by_category: dict[str, list[AskedQuestion]] = defaultdict(list)
    for asked in run.asked:
        by_category[asked.category].append(asked)
    times = [asked.ms for asked in run.asked]
    apart = [asked.told_apart for asked in run.asked if asked.told_apart is not None]
    flagged: dict[bool, list[bool]] = {True: [], False: []}
    for asked in run.asked:
        flagged[asked.category == ADVERSARIAL].append(asked.flagged)
    return Summary(
        questions=len(run.asked),
        scores=_figures(run.asked).scores,
        by_category={name: _figures(by_category[name]) for name in sorted(by_category)},
        p50_ms=percentile(0.50, times),
        p95_ms=percentile(0.95, times),
        per_second=1000 / mean(times) if mean(times) else 0.0,
        flagged=mean(flagged[False]),
        told_apart=mean(apart) if apart else None,
        adversarial=mean(flagged[True]) if flagged[True] else None,
    )


def compare_runs(reference: Run, other: Run) -> Compared:
    """Hold one run against another of the same questions."""
    pairs = list(zip(reference.asked, other.asked, strict=True))
    sessions = any(asked.gold_sessions for asked in reference.asked)
    return Compared(
        same=mean([one.found == two.found for one, two in pairs]),
        same_sessions=mean([one.found_sessions == two.found_sessions for one, two in pairs])
        if sessions
        else None,
        differing=[
            one.name
            for one, two in pairs
            if (one.found, one.found_sessions) != (two.found, two.found_sessions)
        ],
    )


def _figures(asked: list[AskedQuestion]) -> Figures:
    names = list(asked[0].scores) if asked else []
    return Figures(
        questions=len(asked), scores={name: mean([each.scores[name] for each in asked]) for name in names}
    )
