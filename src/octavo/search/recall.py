"""Recall: from a question to the records that answer it, with the reason for each."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar, Unpack

import msgspec

from octavo.errors import InvalidQuery, ModelError, NotFound
from octavo.kernel.ids import now
from octavo.kernel.model import Head, Query, Record, Scope
from octavo.kernel.pages import count_fitting, list_heads
from octavo.kernel.ports import Reranks, Store
from octavo.kernel.terms import is_topic, topics
from octavo.kernel.terms.matches import MOST
from octavo.kernel.terms.matching import index_terms, index_text
from octavo.kernel.terms.topics import topic_name
from octavo.kernel.text import content, estimate_tokens
from octavo.search import alike, subject
from octavo.search.candidates import Candidates, gather
from octavo.search.hits import Context, Hit, Recalled, SessionHit, Signal, WhyNot, fenced
from octavo.search.presence import judge_presence
from octavo.search.question import Filters, Question, queries
from octavo.search.ranking import LOOKED_AT, RERANK, TOLD, Ranking, Scored, rank, standard
from octavo.util.tracing import Span, span

MOST_HITS = 1000
_READ_BYTES = 2**19  # of records are read at once: decoding more would hold up everybody else
_MARGIN = 10  # candidates beyond the limit are read at most and looked at again, with what only the whole record tells;
_OTHER_WORDS_MARGIN = 50  # so many where that may be other words
_NO_SCOPE = Scope()
_SEARCH = "search_memory"  # as OpenTelemetry names it
R = TypeVar("R", Record, Head)


class Recall:
    """Finds records again in a store: by their words on any store, and by meaning where the store is `Resembles`."""

    def __init__(self, store: Store, clock: Callable[[], datetime] = now) -> None:
        self.store = store
        self._clock = clock
        self._reranks = store if isinstance(store, Reranks) else None
        self._tell: Callable[[Mapping[str, float]], None] | None = getattr(store, "recalled", None)

    async def recall(
        self,
        text: str,
        scope: Scope = _NO_SCOPE,
        limit: int = 10,
        *,
        explain: bool = False,
        max_bytes: int | None = None,
        rerank: bool = True,
        other_words: bool = True,
        **filters: Unpack[Filters],
    ) -> Recalled:
        """The records that answer a question best, best first.

        With `explain` each hit says which terms it shares and how it stands by each signal, and `stages` says where
        the time went. Without `rerank` the second model is not asked, where there is one; without `other_words` only
        what shares a term, or is near by a vector, is found. With `max_bytes` the hits end where their texts and bodies would take more, after the first at the earliest,
        no more than twice as much is in memory at a time, and `left_out` counts those that did not fit.
        """
        asked = self._queries(scope, filters)
        return await self.answer(
            text, asked, limit, explain=explain, max_bytes=max_bytes, rerank=rerank, other_words=other_words
        )

    async def answer(
        self,
        text: str,
        asked: Sequence[Query],
        limit: int = 10,
        *,
        terms: bool = False,
        explain: bool = False,
        max_bytes: int | None = None,
        rerank: bool = True,
        other_words: bool = True,
    ) -> Recalled:
        """The same of the records that any of these queries names: each says where to look, and for whom.

        With `terms` each hit says which terms and topics it shares, and no more.
        """
        started = time.perf_counter()
        with span(_SEARCH, {"gen_ai.operation.name": _SEARCH}) as seen:
            ranked = await self._rank(text, asked, _checked(limit), exactly=not other_words)
            loading = time.perf_counter()
            with span("octavo.recall.load"):
                first, left_out = await self._choose(ranked, limit, max_bytes, rerank=rerank)
                chosen = first[:limit]
            ranks: dict[str, dict[int, int]] | None = {} if terms else None
            if explain:
                ranks = ranked.ranks([at for at, _, _ in chosen])
            hits = [_hit(ranked, at, record, score, ranks) for at, record, score in chosen]
            if seen.on:
                _describe(seen, text, asked, hits)
        ended = time.perf_counter()
        stages = ranked.candidates.stages | {
            "load": (ended - loading) * 1000,
            "total": (ended - started) * 1000,
        }
        if self._tell is not None:
            self._tell(stages)
        return Recalled(
            hits,
            judge_presence(ranked, first),
            stages if explain else None,
            ranked.candidates.notes,
            ranked.trust,
            left_out,
            overview=ranked.question.overview,
        )

    async def sessions(
        self, text: str, scope: Scope = _NO_SCOPE, limit: int = 10, **filters: Unpack[Filters]
    ) -> list[SessionHit]:
        """The sessions that speak about a question, best first, each with its three best records."""
        ranked = await self._rank(text, self._queries(scope, filters), _checked(limit), exactly=True)
        scores = ranked.by_session()
        best = sorted(scores, key=lambda scope_key: -scores[scope_key])[:limit]
        picked = {
            scope_key: [at for at in ranked.order if ranked.found[at].scope.key == scope_key][:3]
            for scope_key in best
        }
        loaded = await self._read(ranked, [at for ats in picked.values() for at in ats], self.store.find)
        hits: list[SessionHit] = []
        for scope_key, ats in picked.items():
            shown = tuple(_hit(ranked, at, loaded[at], ranked.total[at], None) for at in ats if at in loaded)
            if shown:
                of = ranked.found[ats[0]].scope
                hits.append(
                    SessionHit(of.user or "", of.agent or "", of.session or "", scores[scope_key], shown)
                )
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
        return await self.why_not_in(id, text, self._queries(scope, filters), limit)

    async def why_not_in(
        self,
        id: str,  # noqa: A002 - as above
        text: str,
        asked: Sequence[Query],
        limit: int = 10,
    ) -> WhyNot:
        """The same of the records that any of these queries names."""
        ranked = await self._rank(text, asked, max(_checked(limit), 1))
        record, query = await self._record_anywhere(id, ranked.candidates.queries)
        if clauses := _failing_clauses(query, record):
            return WhyNot(reason=f"it is filtered out: {'; '.join(clauses)}")
        of = len(ranked.order)
        held = set(index_terms(*index_text(record.text, record.data))[0])
        at = ranked.candidates.position(record)
        if at is not None:
            counts = ranked.found[at].counts
            held = {term for term, n in zip(ranked.question.terms, counts, strict=True) if n}
        words = [term for term in ranked.question.terms if not is_topic(term)]
        shared = tuple(term for term in words if term in held)
        lacking = tuple(term for term in words if term not in held)
        if at is None:
            reason = "it shares no term with the question and is not among the nearest by meaning"
            if shared:
                reason = (
                    f"the terms it shares are so common that it is not among the {MOST} records looked at"
                )
            return WhyNot(reason=reason, of=of, shared=shared, lacking=lacking)
        if not (shared or at in ranked.candidates.cosines):
            ranked.told_by(at, record)
            if not ranked.says_something(at):
                reason = "it shares no term with the question, and says too little of it in other words"
                return WhyNot(reason=reason, of=of, shared=shared, lacking=lacking)
        best = [chosen for chosen, _, _ in (await self._choose(ranked, limit, None))[0][:limit]]
        # What only the whole record tells moves it among the best: outside of them it stands after them all.
        rank = best.index(at) + 1 if at in best else max(ranked.order.index(at), len(best)) + 1
        where = f"it is number {rank} of {of} candidates"
        return WhyNot(
            reason=where if rank <= limit else f"{where}, and the limit is {limit}",
            rank=rank,
            of=of,
            hit=_hit(ranked, at, record, ranked.total[at] + ranked.told_by(at, record), ranked.ranks([at])),
            shared=shared,
            lacking=lacking,
        )

    def _queries(self, scope: Scope, filters: Filters) -> list[Query]:
        return queries(scope, self._clock(), filters)

    async def _rank(self, text: str, asked: Sequence[Query], limit: int, *, exactly: bool = False) -> Ranking:
        """Question, candidates, ranking: all but reading the hits. If `exactly`, other words are not looked for."""
        started = time.perf_counter()
        if not isinstance(text, str):
            raise InvalidQuery(f"the question must be a string; got {text!r}")
        await topics.load()
        await subject.load()
        question = Question.of(text, self._clock())
        if exactly:
            question = msgspec.structs.replace(question, words=())
        if question.words:
            await alike.load()
        if limit == 0:
            candidates = Candidates(asked, [], [], (0,) * len(question.terms), {}, {}, ())
        else:
            candidates = await gather(self.store, question, asked)
        gathered = time.perf_counter()
        with span("octavo.recall.rank"):
            ranked = rank(question, candidates)
        candidates.stages["rank"] = (time.perf_counter() - gathered) * 1000
        candidates.stages["gather"] = (gathered - started) * 1000
        return ranked

    async def _choose(
        self, ranked: Ranking, limit: int, max_bytes: int | None, *, rerank: bool = True
    ) -> tuple[list[Scored], int]:
        """The best candidates in their order, at least as many as are looked at again, and how many more there are."""
        if not limit or ranked.question.overview:
            # Who asks for all that is known asks for nothing that a text could answer better than another.
            return await self._best(ranked, limit, max_bytes)
        second = self._reranks if rerank else None
        most = 0 if second is None else second.most_reranked()
        chosen, left_out = await self._best(ranked, max(limit, most, LOOKED_AT), max_bytes)
        chosen[:LOOKED_AT] = ranked.linked(chosen[:LOOKED_AT])
        if second is not None:
            chosen[:most] = await _rerank(second, ranked, chosen[:most])
        return chosen, min(len(chosen) + left_out, limit) - len(chosen[:limit])

    async def _best(self, ranked: Ranking, limit: int, max_bytes: int | None) -> tuple[list[Scored], int]:
        """The best candidates as records that fit into so many bytes, and how many more there are.

        Those that are gone meanwhile make room for the next ones. No more is read at a time than fits.
        """
        total, order = ranked.total, ranked.order
        room = sys.maxsize if max_bytes is None else max_bytes
        best: list[Scored] = []
        sizes: dict[int, int] = {}
        faint: set[int] = set()  # those that say nothing of what is asked
        full = False
        start = 0
        while start < len(order):
            ats = order[start : start + _within_reach(ranked, start, limit)]
            start += len(ats)
            sizes |= dict.fromkeys(ats, 0) if max_bytes is None else await self._sizes(ranked, ats)
            rest = [at for at in ats if at in sizes]
            page: list[Scored] = []  # these come after those of the steps before, whatever their score
            while rest and not (full and _is_settled(page, total[rest[0]] + ranked.most_told)):
                fits = count_fitting((sizes[at] for at in rest), min(room, _READ_BYTES))
                part, rest = rest[:fits], rest[fits:]
                loaded = await self._read(ranked, part, self.store.find)
                ranked.words.read(record.text[:TOLD] for record in loaded.values())
                told = {at: ranked.told_by(at, loaded[at]) for at in part if at in loaded}
                rows = [(at, loaded[at], total[at] + added) for at, added in told.items()]
                later = ranked.told_later(rows)
                faint |= {at for at in told if not ranked.says_something(at)}
                for at in part:
                    if at not in told or at in faint:
                        del sizes[at]
                page += [
                    (at, record, score + later.get(at, 0.0)) for at, record, score in rows if at in sizes
                ]
                page.sort(key=lambda row: -row[2])
                fits = count_fitting((sizes[at] for at, _, _ in best + page), room)
                full = full or min(fits + 1, limit) <= len(best + page)
                page = page[: max(min(fits, limit) - len(best), 0)]
            best += page
            if len(sizes) >= limit or (
                faint and start < len(order) and not any(ranked.found[order[start]].counts)
            ):
                break
        return best, min(len(sizes), limit) - len(best)

    async def _sizes(self, ranked: Ranking, ats: list[int]) -> dict[int, int]:
        """How many bytes each of the candidates has that is still there."""

        async def newest_heads(query: Query) -> list[Head]:
            return await list_heads(self.store, msgspec.structs.replace(query, newest_first=True))

        return {at: head.size_bytes for at, head in (await self._read(ranked, ats, newest_heads)).items()}

    async def _read(
        self, ranked: Ranking, ats: list[int], read: Callable[[Query], Awaitable[list[R]]]
    ) -> dict[int, R]:
        """Read the candidates once more, under the same filters: what is gone or filtered out by now is not shown."""
        wanted = {ranked.candidates.key(at): at for at in ats}
        ids: dict[str, dict[str, None]] = {}  # by collection
        for name, id_, _ in wanted:
            ids.setdefault(name, {})[id_] = None
        asked = [
            msgspec.structs.replace(query, ids=tuple(ids[query.collection]), alive_at=self._clock())
            for query in ranked.candidates.queries
            if query.collection in ids
        ]
        answers = await asyncio.gather(*map(read, asked))
        return {
            wanted[key]: found
            for query, page in zip(asked, answers, strict=True)
            for found in page
            if (key := (query.collection, found.id, found.scope.key)) in wanted
        }

    async def _record_anywhere(self, id_: str, asked: Sequence[Query]) -> tuple[Record, Query]:
        """The record of that id in any of the collections asked, whatever else is asked of it."""
        for query in asked:
            only_id = Query(collection=query.collection, scope=query.scope, ids=(id_,), limit=1)
            for record in await self.store.find(only_id):
                return record, query
        names = ", ".join(query.collection for query in asked)
        raise NotFound(f"no record {id_!r} in this scope; looked in {names}")


async def _rerank(second: Reranks, ranked: Ranking, best: list[Scored]) -> list[Scored]:
    """The same candidates in the order that both make together, ours and the second model's; each place keeps its score."""
    if len(best) < 2:
        return best
    started = time.perf_counter()
    try:
        with span("octavo.recall.rerank"):
            texts = [content(record.text, record.data) for _, record, _ in best]
            relevance = await second.rerank(ranked.question.text, texts)
    except ModelError as error:
        ranked.candidates.notes += (f"without re-ranking: {error}",)
        return best
    finally:
        ranked.candidates.stages["rerank"] = (time.perf_counter() - started) * 1000
    said = ranked.signals["rerank"] = [0.0] * len(ranked.found)
    for (at, _, _), score in zip(best, relevance, strict=True):
        said[at] = score or sys.float_info.min  # a signal of 0 says nothing, and this one says something
    # Our scores are in standard deviations already, of all candidates: who fits far better than the next keeps a lead.
    scores = [score for _, _, score in best]
    both = [own + RERANK * read for own, read in zip(scores, standard(relevance), strict=True)]
    order = sorted(range(len(best)), key=lambda place: -both[place])
    return [(*best[place][:2], score) for place, score in zip(order, scores, strict=True)]


def _describe(seen: Span, text: str, asked: Sequence[Query], hits: list[Hit]) -> None:
    """Say what was searched and how much was found; which question and which answers, only where contents are wanted."""
    seen.set("gen_ai.memory.store.id", ",".join(query.collection for query in asked))
    seen.set("gen_ai.memory.record.count", len(hits))
    if seen.contents:
        seen.set("gen_ai.memory.query.text", text)
        told = [{"id": hit.record.id, "content": hit.record.text, "score": hit.score} for hit in hits]
        seen.set("gen_ai.memory.records", msgspec.json.encode(told).decode())


def _checked(limit: int) -> int:
    if not isinstance(limit, int) or isinstance(limit, bool) or not 0 <= limit <= MOST_HITS:
        raise InvalidQuery(f"limit must be a number between 0 and {MOST_HITS}; got {limit!r}")
    return limit


def _within_reach(ranked: Ranking, start: int, limit: int) -> int:
    """How many candidates, from this position on, could be among the best when it is known what each tells."""
    total, limit = ranked.total, max(limit, 1)
    margin = _OTHER_WORDS_MARGIN if ranked.looks_further else _MARGIN
    first = ranked.order[start : start + limit + margin]
    bar = total[first[:limit][-1]] - 2 * ranked.most_told
    return next((n for n, at in enumerate(first[limit:], limit) if total[at] < bar), len(first))


def _is_settled(page: list[Scored], following: float) -> bool:
    """Whether no record that was not read can come before one of these: what it tells adds so much and no more."""
    return not page or page[-1][2] >= following


def _hit(
    ranked: Ranking, at: int, record: Record, score: float, ranks: dict[str, dict[int, int]] | None
) -> Hit:
    """A hit; with ranks, also why it is one."""
    if ranks is None:
        return Hit(record.collection, record, score)
    shared = [term for term, n in zip(ranked.question.terms, ranked.found[at].counts, strict=True) if n]
    return Hit(
        record.collection,
        record,
        score,
        tuple(term for term in shared if not is_topic(term)),
        tuple(
            Signal(name, ranked.signals[name][at], of_signal.get(at, 0)) for name, of_signal in ranks.items()
        ),
        tuple(topic_name(term) for term in shared if is_topic(term)),
    )


def _failing_clauses(query: Query, record: Record) -> list[str]:
    """The clauses of the query that keep the record out, one by one."""
    plain = Query(collection=query.collection, scope=query.scope)
    failing = []
    for name in ("kinds", "marks", "without", "where", "since", "until", "alive_at"):
        value = getattr(query, name)
        if not msgspec.structs.replace(plain, **{name: value}).matches(record):
            expired = f"it expired at {record.expires_at}"
            failing.append(expired if name == "alive_at" else f"{name}={value!r}")
    return failing
