"""Sessions: messages, observations, turns and agent events in one timeline, and a stream that tells of new ones."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal

import msgspec
from fastapi import Response
from msgspec.structs import replace
from starlette.responses import StreamingResponse

from octavo.chat.messages import MESSAGES, SUMMARIES, given_marks
from octavo.events.records import EventType
from octavo.kernel.model import Cursor, Query, Record, Scope
from octavo.kernel.pages import list_heads, read_page
from octavo.kernel.ports import Store
from octavo.kernel.text import content, spell
from octavo.layers.reading import read_heads
from octavo.server.console.pages import SHOWN, ConsoleRequest, Pages
from octavo.server.console.people import begin, recent_sessions, sessions_by_name
from octavo.server.requests import After, AfterName, Body, Name, token
from octavo.service.records import EVENTS, TURNS

pages = Pages()
_SESSIONS, _STEPS = 50, 60
_LOOKED = 1000  # steps of a session that are looked through for those of one kind
_LOOK_SECONDS = 1.0  # between two looks for what is new
_STREAM_SECONDS = 8.0  # after which a browser asks again: a server that stops need not wait longer
SHOWING = (MESSAGES, EVENTS, "events", TURNS)
_ENDS = (EventType.TOOL_CALL_SUCCESS, EventType.TOOL_CALL_ERROR)


class _SessionFilters(Body):
    """Which sessions, or which steps of one, are shown."""

    name: Name | None = None
    after: AfterName = None


class _Steps(Body):
    after: After = None
    show: Literal["messages", "observations", "events", "turns"] | None = None
    kind: Name | None = None


class TimelineStep(msgspec.Struct, frozen=True, kw_only=True):
    """One thing in a timeline; a tool's call and its end are one."""

    record: Record
    text: str
    marks: Sequence[str] = ()
    ended: Record | None = None
    result: str = ""

    @property
    def seconds(self) -> float | None:
        """How long a tool took."""
        ended = self.ended
        return None if ended is None else (ended.created_at - self.record.created_at).total_seconds()


@pages.add("GET", "/sessions")
async def list_sessions(page: ConsoleRequest) -> Response:
    """The sessions by name, each with how much there is of it and when it was last heard of."""
    asked = page.read(_SessionFilters)
    store, scope = page.store, _scope(page)
    if scope.user is not None:
        own = await recent_sessions(store, scope, _SESSIONS)
        return page.render("sessions.html", sessions=own, following="", name="")
    found = await sessions_by_name(store, scope, begin(asked.after, asked.name), _SESSIONS + 1)
    if asked.name:
        found = [one for one in found if one.name.startswith(asked.name)]
    following = token(Cursor(id=found[_SESSIONS - 1].name)) if len(found) > _SESSIONS else ""
    return page.render(
        "sessions.html", sessions=found[:_SESSIONS], following=following, name=asked.name or ""
    )


@pages.add("GET", "/sessions/{session:name}")
async def show_session(page: ConsoleRequest) -> Response:
    """What happened in a session, newest first, a page at a time at the same cost however long it is."""
    asked = page.read(_Steps)
    store = page.store
    scope = replace(_scope(page), session=page.path_params["session"])
    shown = SHOWING if asked.show is None else (asked.show,)
    query = Query(collection="", scope=scope, newest_first=True, limit=_STEPS, after=asked.after)
    read = await asyncio.gather(
        *(_read(store, replace(query, collection=each), asked.kind, page.page_bytes) for each in shown)
    )
    summary = await store.find(Query(collection=SUMMARIES, scope=scope, newest_first=True, limit=1))
    found, following = merge_newest(read)
    steps = pair_steps(found)
    return page.render(
        "session.html",
        session=page.path_params["session"],
        steps=steps,
        longest=max((step.seconds or 0.0 for step in steps), default=0.0) or 1.0,
        following=token(following) or "",
        newest=token(found[0].cursor) if found else "",
        summary=summary[0].text if summary else "",
        asked=asked,
        showing=SHOWING,
        live=asked.after is None,
    )


@pages.add("GET", "/sessions/{session:name}/tail")
async def follow_session(page: ConsoleRequest) -> Response:
    """Tell a page when something new has come; it asks for the whole again."""
    asked = page.read(_Steps, "after")
    scope = replace(_scope(page), session=page.path_params["session"])
    server = page.memories.settings.server
    most = min(_STREAM_SECONDS, server.stop_seconds * 0.8, server.request_seconds * 0.8)
    news = _news(page.store, scope, asked.after, most)
    return StreamingResponse(news, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _news(store: Store, scope: Scope, after: Cursor | None, seconds: float) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    ends = loop.time() + seconds
    yield b"retry: 500\n\n"
    while loop.time() < ends:
        newest: list[Cursor] = []
        for each in SHOWING:
            query = Query(collection=each, scope=scope, newest_first=True, limit=1)
            newest += [head.cursor for head in await list_heads(store, query)]
        last = max(newest, key=lambda cursor: cursor.rank or (), default=None)
        if last is not None and (after is None or after.rank is None or (last.rank or ()) > after.rank):
            after = last
            yield f"event: new\nid: {token(last)}\ndata: 1\n\n".encode()
        await asyncio.sleep(_LOOK_SECONDS)


async def _read(
    store: Store, query: Query, kind: str | None, max_bytes: int
) -> tuple[list[Record], Cursor | None]:
    """What comes next in a collection, and where to go on; of one kind, which no index knows, what is near of it."""
    if kind is None:
        return await read_page(store, query, max_bytes)
    looked = await list_heads(store, replace(query, limit=_LOOKED))
    wanted = [head for head in looked if head.kind == kind]
    found = await read_heads(store, query, wanted[:_STEPS], max_bytes)
    if len(found) < len(wanted):
        return found, found[-1].cursor if found else wanted[0].cursor
    return found, looked[-1].cursor if len(looked) == _LOOKED else None


def merge_newest(read: Sequence[tuple[list[Record], Cursor | None]]) -> tuple[list[Record], Cursor | None]:
    """The newest records of several collections together, and where to go on: all have one order."""
    found = sorted((record for records, _ in read for record in records), key=lambda r: r.rank, reverse=True)
    # Of a collection that has more, nothing is known behind its last one.
    ends = [cursor for _, cursor in read if cursor is not None and cursor.rank]
    last = max(ends, key=lambda cursor: cursor.rank or (), default=None)
    known = None if last is None else last.rank
    within = [record for record in found if known is None or record.rank >= known]
    page = within[:_STEPS]
    return page, last if len(page) == len(within) else page[-1].cursor


def pair_steps(found: Sequence[Record]) -> list[TimelineStep]:
    """The records as steps: the end of a tool's call stands with its beginning."""
    ends = {key: record for record in found if record.kind in _ENDS and (key := _call(record))}
    begun = {_call(record) for record in found if record.kind == EventType.TOOL_CALL_START}
    steps = []
    for record in found:
        key = _call(record)
        if record.kind in _ENDS and key and key in begun:
            continue
        ended = ends.get(key) if key and record.kind == EventType.TOOL_CALL_START else None
        marks = given_marks(record) if record.collection == MESSAGES else ()
        steps.append(
            TimelineStep(
                record=record,
                text=_show_record(record),
                marks=marks,
                ended=ended,
                result="" if ended is None else str(ended.data.get("result", ended.data.get("error", ""))),
            )
        )
    return steps


def _call(record: Record) -> tuple[str, str] | None:
    name = record.metadata.get("tool_call_id") if record.collection == "events" else None
    return (record.scope.agent or "", str(name)) if name else None


def _show_record(record: Record) -> str:
    """What a step says, in a line or two."""
    data: dict[str, Any] = record.data
    if record.kind == EventType.TOOL_CALL_START:
        return f"{data.get('tool_name', '')}({spell(data.get('arguments') or {})[:SHOWN]})"
    if record.collection == TURNS:
        return str(data.get("error") or data.get("final_output_obs_id") or "")
    return content(record.text, record.data)


def _scope(page: ConsoleRequest) -> Scope:
    return Scope(tenant=page.tenant, user=page.user_id())
