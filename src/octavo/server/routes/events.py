"""What agents observed and did: events, sessions and turns."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import fastapi
from fastapi import Response
from msgspec.structs import replace

from octavo.client.answers import Session
from octavo.errors import Conflict
from octavo.kernel.model import Cursor, Head, Query, Scope
from octavo.kernel.pages import list_heads
from octavo.kernel.ports import Store
from octavo.server.openapi import EventList, Routes, SessionList, TurnList, answer
from octavo.server.requests import After, AfterMoment, Limit, MomentCursor, Name, NewEvent, PathName, token
from octavo.server.routing import Admitted
from octavo.service.records import (
    EVENTS,
    TURNS,
    EventRecord,
    Observation,
    ObservationType,
    event_of,
    turn_of,
)

router = Routes("events")
_TICK = timedelta(microseconds=1)
_LATEST = datetime.max.replace(tzinfo=UTC) - _TICK
_NEWEST = 1000  # events that are looked through for their sessions


@router.answers("POST", "/events", "Append an event", EventRecord, 409)
async def append_event(body: NewEvent, request: Admitted) -> Response:
    """Remember an observation; sent again with the same `obs_id`, it is the event it already is.

    It is remembered for `user_id`, or else for the `actor`.
    """
    own = request.user_id()
    said = {name: value for name, value in body if value is not None and name not in ("gate_result", "meta")}
    # One of the known types, or the caller's own word for one: the service takes any.
    kind = ObservationType.__members__.get(body.obs_type.upper(), body.obs_type)
    observed = Observation(**{**said, "obs_type": kind, "user_id": request.user_id(body.user_id)})
    made = await request.service.append_event(
        observed, body.session_key, gate_result=body.gate_result, meta=body.meta, user_id=own
    )
    if own is not None and made.user_id != own:
        raise Conflict(
            f"the obs_id {body.obs_id!r} is another one's in this session; give it an id of its own"
        )
    return answer(made)


@router.answers("GET", "/events", "The newest events", EventList)
async def list_events(
    request: Admitted,
    session: Annotated[Name | None, fastapi.Query()] = None,
    limit: Limit = 50,
    after: After = None,
    user_id: Annotated[Name | None, fastapi.Query()] = None,
) -> Response:
    """The newest events of one session, of one user or of all, newest first."""
    found, following = await request.service.page(
        EVENTS, session, limit, after=after, max_bytes=request.page_bytes, user_id=request.user_id(user_id)
    )
    events = [event_of(record) for record in found]
    return answer(EventList(session=session, count=len(events), events=events, next=token(following)))


@router.answers("GET", "/sessions", "The sessions, the latest first", SessionList)
async def list_sessions(request: Admitted, limit: Limit = 100, after: AfterMoment = None) -> Response:
    """The sessions, the latest first, each with its number of events and its first and last time; `next` goes on.

    One answer looks through 1,000 events, so it may hold fewer sessions than asked for while there are more.
    """
    scope = Scope(tenant=request.tenant, user=request.user_id())
    found, following = await sessions_page(request.store, scope, limit, after)
    return answer(SessionList(count=len(found), sessions=found, next=token(following)))


@router.answers("GET", "/sessions/{session:name}/events", "The newest events of a session", EventList)
async def list_session_events(
    session: PathName, request: Admitted, limit: Limit = 50, after: After = None
) -> Response:
    """Newest first; a session in which nothing happened has none."""
    return await list_events(request, session, limit, after)


@router.answers("GET", "/sessions/{session:name}/turns", "The newest turns of a session", TurnList)
async def list_session_turns(
    session: PathName, request: Admitted, limit: Limit = 50, after: After = None
) -> Response:
    """What the agent did in a session, newest first."""
    found, following = await request.service.page(
        TURNS, session, limit, after=after, max_bytes=request.page_bytes, user_id=request.user_id()
    )
    turns = [turn_of(record) for record in found]
    return answer(TurnList(session=session, count=len(turns), turns=turns, next=token(following)))


async def sessions_page(
    store: Store, scope: Scope, limit: int, after: MomentCursor | None
) -> tuple[list[Session], MomentCursor | None]:
    """The sessions of the newest events from a cursor on, the latest first, and where to go on.

    A session stands where its newest event did when the listing began. One that had a newer event then than the cursor
    was on an earlier page.
    """
    query = Query(collection=EVENTS, scope=scope, newest_first=True)
    position = None if after is None else after.after
    newest = await list_heads(store, replace(query, limit=_NEWEST + 1, after=position)) if limit else []
    if not newest:
        return [], None
    began = min(newest[0].created_at, _LATEST) + _TICK if after is None else after.began
    following = MomentCursor(newest[_NEWEST - 1].cursor, began) if len(newest) > _NEWEST else None
    latest: dict[str, Head] = {}
    for head in newest[:_NEWEST]:
        latest.setdefault(head.scope.session or "", head)
    found: list[Session] = []
    for name, head in latest.items():
        own = replace(query, scope=replace(scope, session=name))
        first = replace(own, limit=1, after=Cursor(at=began))
        if after is not None and await list_heads(store, first) != [head]:
            continue
        if len(found) == limit:
            return found, MomentCursor(newest[newest.index(head) - 1].cursor, began)
        counted = await store.tally(own)
        if counted.first and counted.last:  # else its events are gone since
            found.append(
                Session(session=name, events=counted.total, first_at=counted.first, last_at=counted.last)
            )
    return found, following
