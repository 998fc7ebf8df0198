"""Recall: from a question to the records that answer it, with the reason for each."""

import asyncio
import time
from collections.abc import Callable
from datetime import datetime
from typing import TypeAlias, Unpack

import msgspec

from octavo.errors import InvalidQuery, NotFound
from octavo.kernel.ids import now
from octavo.kernel.model import Query, Record, Scope
from octavo.kernel.ports import Store, fitting, heads
from octavo.kernel.terms.matches import MOST
from octavo.kernel.terms.matching import content
from octavo.kernel.terms.terms import terms as terms_of
from octavo.kernel.terms.tokens import estimate_tokens
from octavo.search import fuse
from octavo.search.candidates import Candidates, gather
from octavo.search.context import Context, fenced
from octavo.search.filters import Filters, queries
from octavo.search.hits import Hit, Recalled, SessionHit, Signal, WhyNot
from octavo.search.presence import presence
from octavo.search.question import Question

MOST_HITS = 1000
_MARGIN = 3  # times the limit are read and looked at again, with what only the whole record tells
_NO_SCOPE = Scope()
_Chosen: TypeAlias = tuple[int, Record, float]  # a candidate's position, the record and its score


class _Weighed(msgspec.Struct):
    """A question with all its candidates and their order."""

    queries: list[Query]
    candidates: Candidates
    signals: fuse.Signals
    order: list[int]
    stages: dict[str, float]


class Recall:
    """Finds records again in a store: by their words on any store, and by meaning where the store is `Resembles`."""

    def __init__(self, store: Store, clock: Callable[[], datetime] = now) -> None:
        self.store = store
        self._clock = clock

    async def recall(
        self,
        text: str,
        scope: Scope = _NO_SCOPE,
        limit: int = 10,
        *,
        explain: bool = False,
        max_bytes: int | None = None,
        **filters: Unpack[Filters],
    ) -> Recalled:
        """The records that answer a question best, best first.

        With `explain` each hit says which terms it shares and how it stands by each signal, and `stages` says where
        the time went. With `max_bytes` the hits end where their texts and bodies would take more, after the first at the
        earliest, no more than twice as much is in memory at a time, and `left_out` counts those that did not fit.
        """
        started = time.perf_counter()
        weighed = await self._weigh(text, scope, _checked(limit), filters)
        loading = time.perf_counter()
        left_out = 0
        if max_bytes is None:
            chosen = await self._best(weighed, limit)
        else:
            chosen, left_out = await self._best_within(weighed, limit, max_bytes)
        ranks = _ranks(weighed.signals) if explain else {}
        hits = [_hit(weighed, at, record, score, ranks) for at, record, score in chosen]
        ended = time.perf_counter()
        stages = weighed.stages | {"load": (ended - loading) * 1000, "total": (ended - started) * 1000}
        return Recalled(
            hits,
            presence(weighed.signals, weighed.candidates.held),
            stages if explain else None,
            weighed.candidates.notes,
            weighed.signals.trust,
            left_out,
        )

    async def sessions(
        self, text: str, scope: Scope = _NO_SCOPE, limit: int = 10, **filters: Unpack[Filters]
    ) -> list[SessionHit]:
        """The sessions that speak about a question, best first, each with its three best records."""
        weighed = await self._weigh(text, scope, _checked(limit), filters)
        scores = fuse.by_session(weighed.signals)
        best = sorted(scores, key=lambda place: -scores[place])[:limit]
        found = weighed.signals.grid.found
        picked = {place: [at for at in weighed.order if found[at].scope.place == place][:3] for place in best}
        loaded = await self._load(weighed, [at for ats in picked.values() for at in ats])
        hits: list[SessionHit] = []
        for place, ats in picked.items():
            kept = tuple(
                _hit(weighed, at, loaded[at], weighed.signals.total[at], {}) for at in ats if at in loaded
            )
            if kept:
                of = found[ats[0]].scope
                hits.append(SessionHit(of.user or "", of.agent or "", of.session or "", scores[place], kept))
        return hits

    async def context(
        self,
        text: str,
        scope: Scope = _NO_SCOPE,
        max_tokens: int = 1000,
        *,
        count: Callable[[str], int] = estimate_tokens,
        limit: int = 20,
        **filters: Unpack[Filters],
    ) -> Context:
        """What memory knows about a question as one fenced block of at most `max_tokens`, with its sources.

        `count` counts tokens; the default estimates them. What was recalled is data: it cannot close the fence.
        """
        return fenced(await self.recall(text, scope, limit, **filters), max_tokens, count)

    async def why_not(
        self,
        id: str,  # noqa: A002 - a record's name for it, as documented
        text: str,
        scope: Scope = _NO_SCOPE,
        limit: int = 10,
        **filters: Unpack[Filters],
    ) -> WhyNot:
        """Why the record of this id is not among the hits of a question, or where it is."""
        weighed = await self._weigh(text, scope, max(_checked(limit), 1), filters)
        record, query = await self._anywhere(id, weighed.queries)
        if clauses := _failing(query, record):
            return WhyNot(reason=f"it is filtered out: {'; '.join(clauses)}")
        at = _position(weighed, record)
        if at is None:
            return _never_looked_at(weighed, record)
        best = [chosen for chosen, _, _ in await self._best(weighed, limit)]
        # What only the whole record tells moves it among the best: outside of them it stands after them all.
        rank = best.index(at) + 1 if at in best else max(weighed.order.index(at), len(best)) + 1
        ranks = _ranks(weighed.signals)
        counts = weighed.signals.grid.found[at].counts
        asked = list(zip(weighed.signals.question.terms, counts, strict=True))
        where = f"it is number {rank} of {len(weighed.order)} candidates"
        return WhyNot(
            reason=where if rank <= limit else f"{where}, and the limit is {limit}",
            rank=rank,
            of=len(weighed.order),
            hit=_hit(weighed, at, record, weighed.signals.total[at] + fuse.importance(record), ranks),
            shared=tuple(term for term, n in asked if n),
            lacking=tuple(term for term, n in asked if not n),
        )

    async def _weigh(self, text: str, scope: Scope, limit: int, filters: Filters) -> _Weighed:
        started = time.perf_counter()
        at = self._clock()
        asked = queries(scope, at, filters)
        if not isinstance(text, str):
            raise InvalidQuery(f"the question must be a string; got {text!r}")
        question = Question.of(text, at)
        if limit == 0:
            candidates = Candidates([], [], (0,) * len(question.terms), {}, {}, ())
        else:
            candidates = await gather(self.store, question, asked)
        ranking = time.perf_counter()
        signals = fuse.weigh(question, candidates.found, candidates.held, candidates.cosines)
        # Of two that are alike in everything, the newer one: it stands later.
        order = sorted(range(len(signals.total)), key=lambda at: (-signals.total[at], -at))
        stages = candidates.stages | {"rank": (time.perf_counter() - ranking) * 1000}
        stages["gather"] = (ranking - started) * 1000
        return _Weighed(asked, candidates, signals, order, stages)

    async def _best(self, weighed: _Weighed, limit: int) -> list[_Chosen]:
        """The best candidates as records; those that are gone meanwhile make room for the next ones."""
        chosen: list[_Chosen] = []
        step = max(limit * _MARGIN, 10)
        for start in range(0, len(weighed.order), step):
            ats = weighed.order[start : start + step]
            chosen += sorted(_scored(weighed, ats, await self._load(weighed, ats)), key=lambda row: -row[2])
            if len(chosen) >= limit:
                break
        return chosen[:limit]

    async def _best_within(self, weighed: _Weighed, limit: int, max_bytes: int) -> tuple[list[_Chosen], int]:
        """Those of `_best` that fit into so many bytes, and how many more there are; no more is read at a time than fits."""
        best: list[_Chosen] = []
        sizes: dict[int, int] = {}
        cut = False
        step = max(limit * _MARGIN, 10)
        for start in range(0, len(weighed.order), step):
            ats = weighed.order[start : start + step]
            sizes |= await self._sizes(weighed, ats)
            rest = [at for at in ats if at in sizes]
            page: list[
                _Chosen
            ] = []  # of this step: they come after those of the steps before, whatever their score
            while rest and not (cut and _is_best(page, weighed.signals.total[rest[0]])):
                fits = fitting((sizes[at] for at in rest), max_bytes)
                part, rest = rest[:fits], rest[fits:]
                loaded = await self._load(weighed, part)
                for gone in set(part).difference(loaded):
                    del sizes[gone]
                page = sorted(page + _scored(weighed, part, loaded), key=lambda row: -row[2])
                fits = fitting((sizes[at] for at, _, _ in best + page), max_bytes)
                cut = cut or min(fits + 1, limit) <= len(best + page)
                page = page[: max(min(fits, limit) - len(best), 0)]
            best += page
            if len(sizes) >= limit:
                break
        return best, min(len(sizes), limit) - len(best)

    async def _load(self, weighed: _Weighed, ats: list[int]) -> dict[int, Record]:
        """Read the candidates once more, under the same filters: what is gone or filtered out by now is not shown."""
        wanted, asked = self._reading(weighed, ats)
        pages = await asyncio.gather(*(self.store.find(query) for query in asked))
        return {
            wanted[key]: record
            for page in pages
            for record in page
            if (key := (record.collection, record.id, record.scope.place)) in wanted
        }

    async def _sizes(self, weighed: _Weighed, ats: list[int]) -> dict[int, int]:
        """How many bytes each of the candidates has that `_load` would answer."""
        wanted, asked = self._reading(weighed, ats)
        newest_first = [msgspec.structs.replace(query, newest_first=True) for query in asked]
        pages = await asyncio.gather(*(heads(self.store, query) for query in newest_first))
        return {
            wanted[key]: head.size_bytes
            for query, page in zip(asked, pages, strict=True)
            for head in page
            if (key := (query.collection, head.id, head.scope.place)) in wanted
        }

    def _reading(
        self, weighed: _Weighed, ats: list[int]
    ) -> tuple[dict[tuple[str, str, str], int], list[Query]]:
        """What names these candidates in a store, and what asks for them."""
        candidates = weighed.candidates
        wanted: dict[tuple[str, str, str], int] = {}
        for at in ats:
            match = candidates.found[at]
            wanted[candidates.collections[at], match.id, match.scope.place] = at
        asked = [
            msgspec.structs.replace(query, ids=ids, alive_at=self._clock())
            for query in weighed.queries
            if (ids := tuple(dict.fromkeys(id_ for name, id_, _ in wanted if name == query.collection)))
        ]
        return wanted, asked

    async def _anywhere(self, id_: str, asked: list[Query]) -> tuple[Record, Query]:
        for query in asked:
            for record in await self.store.find(
                Query(collection=query.collection, scope=query.scope, ids=(id_,), limit=1)
            ):
                return record, query
        names = ", ".join(query.collection for query in asked)
        raise NotFound(f"no record {id_!r} in this scope; looked in {names}")


def _checked(limit: int) -> int:
    if not isinstance(limit, int) or not 0 <= limit <= MOST_HITS:
        raise InvalidQuery(f"limit must be a number between 0 and {MOST_HITS}; got {limit!r}")
    return limit


def _scored(weighed: _Weighed, ats: list[int], loaded: dict[int, Record]) -> list[_Chosen]:
    total = weighed.signals.total
    return [(at, loaded[at], total[at] + fuse.importance(loaded[at])) for at in ats if at in loaded]


def _is_best(page: list[_Chosen], following: float) -> bool:
    """Whether no record that was not read can come before one of these: how important it is adds so much and no more."""
    return not page or page[-1][2] >= following + fuse.MOST_IMPORTANT


def _ranks(signals: fuse.Signals) -> dict[str, dict[int, int]]:
    """The rank of each candidate by each signal it is in."""
    ranks: dict[str, dict[int, int]] = {}
    for name, scores in signals.by_name.items():
        inside = [at for at, score in enumerate(scores) if score != 0]
        ranks[name] = {at: rank for rank, at in enumerate(sorted(inside, key=lambda at: -scores[at]), 1)}
    return ranks


def _hit(weighed: _Weighed, at: int, record: Record, score: float, ranks: dict[str, dict[int, int]]) -> Hit:
    if not ranks:
        return Hit(record.collection, record, score)
    signals = weighed.signals
    counts = signals.grid.found[at].counts
    return Hit(
        record.collection,
        record,
        score,
        tuple(term for term, n in zip(signals.question.terms, counts, strict=True) if n),
        tuple(Signal(name, scores[at], ranks[name].get(at, 0)) for name, scores in signals.by_name.items()),
    )


def _position(weighed: _Weighed, record: Record) -> int | None:
    for at, match in enumerate(weighed.candidates.found):
        if (match.id, match.scope.place) == record.key and weighed.candidates.collections[
            at
        ] == record.collection:
            return at
    return None


def _never_looked_at(weighed: _Weighed, record: Record) -> WhyNot:
    terms, held = weighed.signals.question.terms, set(terms_of(content(record.text, record.data)))
    reason = "it shares no term with the question and is not among the nearest by meaning"
    if any(term in held for term in terms):
        reason = f"the terms it shares are so common that it is not among the {MOST} records looked at"
    return WhyNot(
        reason=reason,
        of=len(weighed.order),
        shared=tuple(term for term in terms if term in held),
        lacking=tuple(term for term in terms if term not in held),
    )


def _failing(query: Query, record: Record) -> list[str]:
    """The clauses of the query that keep the record out, one by one."""
    clauses = {
        "kinds": query.kinds, "marks": query.marks, "without": query.without, "where": query.where,
        "since": query.since, "until": query.until, "alive_at": query.alive_at,
    }  # fmt: skip
    plain = Query(collection=query.collection, scope=query.scope)
    failing = []
    for name, value in clauses.items():
        if not msgspec.structs.replace(plain, **{name: value}).matches(record):
            shown = f"it expired at {record.expires_at}" if name == "alive_at" else f"{name}={value!r}"
            failing.append(shown)
    return failing
