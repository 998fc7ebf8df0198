"""Search, with the reason for every hit, and what an agent would be given for a question."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal

from fastapi import Response
from pydantic import Field

from octavo.errors import NotFound
from octavo.kernel.ids import now
from octavo.kernel.ports import IndexesLater, Store
from octavo.kernel.text import content
from octavo.layers.records import COLLECTIONS
from octavo.memory.context import SHARES
from octavo.memory.searching import SOURCES, StoreAsOf, Whose, dedupe
from octavo.search.hits import Hit, Recalled, WhyNot
from octavo.search.recall import Recall
from octavo.server.console.pages import ConsoleRequest, Pages
from octavo.server.requests import MAX_QUESTION_BYTES, Body, Name, Source, When

pages = Pages()
_LIMIT = 20
_MOST_LATE, _LATE = 1000, 100_000  # records that wait: for so many a search may wait, and so many are counted
_MOST_TOKENS = 100_000
#: The signals of recall, by what people call them.
SIGNALS = {
    "terms": "words",
    "vector": "meaning",
    "time": "time",
    "session": "neighbour",
    "recency": "recency",
    "rerank": "re-ranked",
}


class _QuestionForm(Body):
    """A question, whose memory it is put to, and when."""

    q: Annotated[str, Field(max_length=MAX_QUESTION_BYTES)] = ""
    user: Name | None = None
    agent: Name | None = None
    session: Name | None = None
    source: Source | None = None
    as_of: When | None = None
    everyone: Literal["on"] | None = None
    why: Name | None = None
    tokens: Annotated[int, Field(ge=0, le=_MOST_TOKENS)] = 1000


def _read_question(page: ConsoleRequest) -> _QuestionForm:
    asked = page.read(_QuestionForm)
    return asked.model_copy(update={"user": page.user_id(asked.user)})


@pages.add("GET", "/search")
async def show_search(page: ConsoleRequest) -> Response:
    """What answers a question best, how each hit stands by each signal, and why something is not among them."""
    asked = _read_question(page)
    found: Recalled | None = None
    why: WhyNot | None = None
    missing = ""
    hits: list[Hit] = []
    late: dict[str, int] = {}
    if asked.q.strip() and (_names_somebody(asked) or asked.everyone):
        if asked.everyone:
            page.check_everyone()
        named = (None, None, None) if asked.everyone else (asked.user, asked.agent, asked.session)
        whose = Whose(page.tenant, *named, asked.everyone is not None)
        at = asked.as_of or now()
        queries = whose.queries(at, asked.source and [asked.source])
        store: Store = page.layers.store
        if asked.as_of is None:
            late = await _count_waiting(store, {query.collection for query in queries})
            queries = [query for query in queries if query.collection not in late]
        else:
            store = await StoreAsOf.of(store, asked.as_of, queries)
        recall = Recall(store, lambda: at)
        found = await recall.answer(asked.q, queries, 2 * _LIMIT, explain=True, max_bytes=page.page_bytes)
        hits = dedupe(found)[:_LIMIT]
        if asked.why:
            try:
                why = await recall.why_not_in(asked.why, asked.q, queries, _LIMIT)
            except NotFound as error:
                missing = str(error)
    return page.render(
        "search.html",
        asked=asked,
        found=found,
        hits=_describe(hits),
        why=why,
        missing=missing,
        late=late,
        most_late=_LATE,
        sources=list(SOURCES),
    )


@pages.add("GET", "/context")
async def show_context(page: ConsoleRequest) -> Response:
    """The block that an agent would get for a question within a budget, and what each part of it takes."""
    asked = _read_question(page)
    made, late = None, dict[str, int]()
    answerable = bool(asked.q.strip()) and _names_somebody(asked)
    if answerable and asked.as_of is None:
        late = await _count_waiting(page.store, {name for each in SOURCES.values() for name in each})
    if answerable and not late:
        made = await page.memory.context(
            asked.q,
            user_id=asked.user,
            agent_id=asked.agent,
            session_id=asked.session,
            max_tokens=asked.tokens,
            as_of=asked.as_of,
        )
    parts = [] if made is None else [(part, float(made.parts.get(part, 0))) for part in SHARES]
    return page.render(
        "context.html", asked=asked, made=made, late=late, most_late=_LATE, parts=_place_side_by_side(parts)
    )


def _place_side_by_side(parts: Sequence[tuple[str, float]]) -> list[tuple[str, float, float, float]]:
    """Parts of a whole: name, amount, where each begins and how wide it is, in hundredths."""
    total = sum(amount for _, amount in parts) or 1.0
    drawn, start = [], 0.0
    for name, amount in parts:
        wide = amount / total * 100
        drawn.append((name, amount, round(start, 2), round(wide, 2)))
        start += wide
    return drawn


async def _count_waiting(store: Store, collections: Collection[str]) -> dict[str, int]:
    """The collections of which so much waits to be indexed that a search would wait for it, with how much, up to a bound.

    Right after very many records were loaded that takes minutes, and no page should: they are indexed meanwhile.
    """
    if not isinstance(store, IndexesLater):
        return {}
    names = sorted(collections)
    waiting = await asyncio.gather(*(store.lag(name, _LATE) for name in names))
    return {name: count for name, count in zip(names, waiting, strict=True) if count > _MOST_LATE}


def _names_somebody(asked: _QuestionForm) -> bool:
    return bool(asked.user or asked.agent or asked.session)


def _describe(hits: list[Hit]) -> list[dict[str, Any]]:
    """Hits as the page draws them: each signal against the best of those that are shown."""
    best: dict[str, float] = {}
    for one in (signal for hit in hits for signal in hit.signals):
        best[one.name] = max(best.get(one.name, 0.0), one.score)
    return [
        {
            "record": hit.record,
            "text": content(hit.record.text, hit.record.data),
            "terms": hit.terms,
            "topics": hit.topics,
            "is_fact": hit.record.collection in COLLECTIONS.values(),
            "signals": [
                (SIGNALS.get(one.name, one.name), one, max(one.score, 0.0) / (best[one.name] or 1.0))
                for one in hit.signals
            ],
        }
        for hit in hits
    ]
