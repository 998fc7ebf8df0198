"""One memory with its sources and history, the log of all of them, and the forms that change one; search, with the reason
for every hit, and what an agent would be given for a question.
"""

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec
from fastapi import Response
from pydantic import Field
from starlette.responses import StreamingResponse

from octavo.errors import NotFound
from octavo.kernel.ids import now
from octavo.kernel.model import Cursor, Query, Record
from octavo.kernel.pages import read_page
from octavo.kernel.ports import IndexesLater, Store
from octavo.kernel.text import content
from octavo.layers.records import COLLECTIONS, Owner
from octavo.layers.values import ACTIONS, CATEGORIES, LAYERS, Action, Fact, Layer, LogEntry, Page
from octavo.memory.context import SHARES
from octavo.memory.searching import SOURCES, Moment, Whose, dedupe
from octavo.search.hits import Hit, Recalled, WhyNot
from octavo.search.recall import Recall
from octavo.server.console.pages import ConsoleRequest, Pages
from octavo.server.requests import (
    MAX_QUESTION_BYTES,
    After,
    Body,
    Name,
    Revision,
    Source,
    Undoing,
    When,
    token,
)
from octavo.server.routes import memories
from octavo.server.routing import Admitted
from octavo.service.records import EVENTS
from octavo.wraps.vectors import VectorState

pages = Pages()
_ROWS = 50
_MOST_EXPORTED = 100_000
_SOURCES = 20
_DATE = len("2026-01-31")
_LAST_DAY = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)
_TICK = timedelta(microseconds=1)
_FILTERS = ("user", "agent", "layer", "action", "since", "until")
_COLUMNS = ("created_at", "action", "memory_layer", "memory_id", "version", "reason", "before", "after", "id")


class _LogFilters(Body):
    """Which rows of the log are shown."""

    after: After = None
    user: Name | None = None
    agent: Name | None = None
    layer: Layer | None = None
    action: Action | None = None
    since: When | None = None
    until: When | None = None
    form: Literal["csv", "jsonl"] = "csv"


@pages.add("GET", "/memories/{memory:name}")
async def show_memory(page: ConsoleRequest) -> Response:
    """A memory as it is, or was before it went; where it came from, and every change of it."""
    name, layers, whose = page.path_params["memory"], page.layers, _find_whose(page)
    memory: Fact | None = None
    late, vector, sources = False, None, list[Record]()
    with suppress(NotFound):
        memory = await layers.get(name, **whose)
        whose = memory.owner
        late, vector = await _index_state(page, memory)
        sources = await _sources(page, memory)
    history = await layers.logs(name, limit=_ROWS, max_bytes=page.page_bytes, **whose)
    if memory is None and not history:
        raise NotFound(f"there is no memory {name!r}")
    return page.render(
        "memory.html",
        name=name,
        memory=memory,
        named=_named(page),
        at=now(),
        history=history,
        newest=next((row.id for row in history if row.version is not None), ""),
        # With where a session has to be opened for each to stand first.
        sources=[(each, token(Cursor(at=each.created_at + _TICK))) for each in sources],
        late=late,
        vector=vector,
        categories=() if memory is None else CATEGORIES[memory.layer],
    )


@pages.add("POST", "/memories/{memory:name}")
async def edit_memory(page: ConsoleRequest) -> Response:
    """Let a memory say something else."""
    memory = await page.layers.get(page.path_params["memory"], **_find_whose(page))
    body = page.read(Revision, "content", "category", "reason")
    await memories.revise_memory(memory.owner, memory.layer, memory.id, body, page)
    return page.redirect(page.address("memories", memory.id, done="saved", **_named(page)))


@pages.add("POST", "/memories/{memory:name}/reject")
async def reject_memory(page: ConsoleRequest) -> Response:
    """Remove a memory, and with it what it says forever, if that is asked for."""
    name, forever = page.path_params["memory"], page.sent.get("how") == "reject"
    reason = page.read(Undoing).reason
    await page.layers.forget(name, reason=reason, forever=forever, **_find_whose(page))
    done = "rejected" if forever else "saved"
    return page.redirect(page.address("memories", name, done=done, **_named(page)))


@pages.add("POST", "/undo/{row:name}")
async def undo_change(page: ConsoleRequest) -> Response:
    """Take back the last change of a memory."""
    reason = page.read(Undoing).reason
    row = await page.layers.undo(page.path_params["row"], reason, **_find_whose(page))
    return page.redirect(page.address("memories", row.memory_id, done="undone", **_named(page)))


def _named(page: ConsoleRequest) -> dict[str, str]:
    """Whose memory it is, where the address says so: several owners may have one of the same id."""
    return {name: page.query_params.get(name, "") for name in ("user", "agent")}


def _find_whose(page: ConsoleRequest) -> dict[str, Any]:
    named = _named(page)
    return memories.find_named(page, named["user"] or None, named["agent"] or None)


@pages.add("GET", "/log")
async def show_log(page: ConsoleRequest) -> Response:
    """Every change of the tenant's memories, or of somebody's, newest first."""
    asked = _read_filters(page)
    rows = await _rows(page, asked, _ROWS, asked.after)
    return page.render(
        "log.html",
        rows=rows,
        following=token(rows.following) or "",
        asked=asked,
        filters={name: page.query_params.get(name, "") for name in _FILTERS},
        actions=ACTIONS,
        layers=LAYERS,
    )


@pages.add("GET", "/log/export")
async def export_log(page: ConsoleRequest) -> Response:
    """The same rows for another program: a table, or one JSON value a line."""
    asked = _read_filters(page)
    first = await _rows(page, asked, _ROWS, asked.after)
    kind = "text/csv; charset=utf-8" if asked.form == "csv" else "application/x-ndjson"
    response = StreamingResponse(_lines(page, asked, first), media_type=kind)
    response.headers["content-disposition"] = f'attachment; filename="log.{asked.form}"'
    return response


def _read_filters(page: ConsoleRequest) -> _LogFilters:
    asked = page.read(_LogFilters)
    # A day that is named is meant whole.
    if asked.until is not None and len(page.query_params["until"]) == _DATE:
        asked.until = min(asked.until, _LAST_DAY) + timedelta(days=1)
    return asked


async def _rows(request: Admitted, asked: _LogFilters, limit: int, after: Cursor | None) -> Page[LogEntry]:
    if asked.agent is not None:
        request.owner(None, asked.agent)
    return await request.layers.logs(
        user_id=request.user_id(asked.user),
        agent_id=asked.agent,
        memory_layer=asked.layer,
        action=asked.action,
        since=asked.since,
        until=asked.until,
        limit=limit,
        after=after,
        max_bytes=request.page_bytes,
    )


async def _lines(request: Admitted, asked: _LogFilters, rows: Page[LogEntry]) -> AsyncIterator[bytes]:
    if asked.form == "csv":
        yield _row(_COLUMNS)
    told = 0
    while True:
        for row in rows:
            if asked.form == "jsonl":
                yield msgspec.json.encode(row) + b"\n"
                continue
            said = {
                **msgspec.to_builtins(row),
                "before": row.before and row.before.content,
                "after": row.after and row.after.content,
            }
            yield _row(tuple(said[name] for name in _COLUMNS))
        told += len(rows)
        if rows.following is None or told >= _MOST_EXPORTED:
            return
        rows = await _rows(request, asked, 1000, rows.following)


def _row(values: tuple[object, ...]) -> bytes:
    """A row of a table; what a program for tables would take for a formula is not one."""
    texts = ["" if value is None else str(value) for value in values]
    out = io.StringIO()
    csv.writer(out).writerow([f"'{text}" if text[:1] in "=+-@\t\r" and text else text for text in texts])
    return out.getvalue().encode()


async def _index_state(request: Admitted, memory: Fact) -> tuple[bool, VectorState | None]:
    """Whether a memory waits for the index of words, and how it stands with the model that makes vectors, if there is one."""
    layers, indexed = request.layers, request.memories.assembled.indexed
    owner = Owner(memory.memory_type, memory.entity_id)
    query = Query(collection=COLLECTIONS[memory.layer], scope=owner.scope(layers.tenant), ids=(memory.id,))
    store = layers.store
    late = isinstance(store, IndexesLater) and bool(await store.unindexed(query))
    found = [] if indexed is None else await store.find(query)
    return late, await indexed.vector_state(found[0]) if indexed is not None and found else None


async def _sources(request: Admitted, memory: Fact) -> list[Record]:
    """The messages or observations that a memory was made from."""
    if not memory.sources:
        return []
    scope = Owner(memory.memory_type, memory.entity_id).scope(request.tenant)
    ids = memory.sources[-_SOURCES:]
    asked = [
        Query(collection=each, scope=scope, ids=ids, newest_first=True, limit=_SOURCES)
        for each in ("messages", EVENTS)
    ]
    found = await asyncio.gather(*(read_page(request.store, each, request.page_bytes) for each in asked))
    return [record for records, _ in found for record in records]


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
        then = await Moment.of(Recall(page.store), asked.as_of, whose, asked.source and [asked.source])
        recall, queries = then.recall, then.asked
        if asked.as_of is None:
            late = await _count_waiting(page.store, {query.collection for query in queries})
            queries = [query for query in queries if query.collection not in late]
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
