"""What agents observed and did: events, sessions and turns."""

from collections.abc import Iterable
from typing import Annotated

from fastapi import Query, Request, Response

from octavo import model
from octavo.ids import new_id, now
from octavo.server.answers import EventList, Session, SessionList, TurnList, answer
from octavo.server.bodies import Name, NewEvent
from octavo.server.gate import caller_of
from octavo.server.openapi import answers
from octavo.server.routes import examples, quick
from octavo.server.routes.common import Limit, PathName, memories_of, service_of
from octavo.service.observations import Observation, ObservationType
from octavo.service.records import EVENTS, EventRecord, event_of

router = quick.router(tags=["events"])

_NEWEST = 1000  # events that are looked through for their sessions


@router.post(
    "/events",
    operation_id="append_event",
    summary="Append an event",
    response_class=Response,
    responses=answers(EventRecord, examples.EVENT, body=True),
)
async def append_event(body: NewEvent, request: Request) -> Response:
    """Remember an observation; sent again with the same `obs_id`, it is the event it already is."""
    observed = Observation(
        obs_type=_kind(body.obs_type),
        payload=body.payload,
        source_name=body.source_name,
        session_key=body.session_key,
        actor=body.actor,
        obs_id=body.obs_id or new_id("obs_"),
        timestamp=body.timestamp or now(),
        metadata=body.metadata,
    )
    service = service_of(request)
    return answer(
        await service.append_event(observed, body.session_key, gate_result=body.gate_result, meta=body.meta)
    )


@router.get(
    "/events",
    operation_id="list_events",
    summary="The newest events",
    response_class=Response,
    responses=answers(EventList, {"session": None, "count": 1, "events": [examples.EVENT]}),
)
async def list_events(
    request: Request, session: Annotated[Name | None, Query()] = None, limit: Limit = 50
) -> Response:
    """The newest events of one session or of all, newest first."""
    if session is not None:
        return await _of_session(request, session, limit)
    found = [event_of(record) for record in await _newest(request, limit)]
    return answer(EventList(session=None, count=len(found), events=found))


@router.get(
    "/sessions",
    operation_id="list_sessions",
    summary="The sessions of the newest 1,000 events",
    response_class=Response,
    responses=answers(SessionList, examples.SESSIONS),
)
async def list_sessions(request: Request, limit: Limit = 100) -> Response:
    """Sessions that something happened in lately, the latest first."""
    found = _sessions(await _newest(request, _NEWEST))[:limit]
    return answer(SessionList(count=len(found), sessions=found))


@router.get(
    "/sessions/{session:name}/events",
    operation_id="list_session_events",
    summary="The newest events of a session",
    response_class=Response,
    responses=answers(EventList, {"session": "dm:lin", "count": 1, "events": [examples.EVENT]}),
)
async def list_session_events(session: PathName, request: Request, limit: Limit = 50) -> Response:
    """Newest first; a session in which nothing happened has none."""
    return await _of_session(request, session, limit)


@router.get(
    "/sessions/{session:name}/turns",
    operation_id="list_session_turns",
    summary="The newest turns of a session",
    response_class=Response,
    responses=answers(TurnList, {"session": "dm:lin", "count": 1, "turns": [examples.TURN]}),
)
async def list_session_turns(session: PathName, request: Request, limit: Limit = 50) -> Response:
    """What the agent did in a session, newest first."""
    found = await service_of(request).get_recent_turns(session, limit)
    return answer(TurnList(session=session, count=len(found), turns=found))


async def _of_session(request: Request, session: str, limit: int) -> Response:
    found = await service_of(request).get_recent_events(session, limit)
    return answer(EventList(session=session, count=len(found), events=found))


async def _newest(request: Request, limit: int) -> list[model.Record]:
    scope = model.Scope(tenant=caller_of(request.scope).tenant)
    query = model.Query(collection=EVENTS, scope=scope, limit=limit, newest_first=True)
    return await memories_of(request).assembled.store.find(query)


def _sessions(newest: Iterable[model.Record]) -> list[Session]:
    """The sessions of these events, which are newest first."""
    found: dict[str, list[model.Record]] = {}
    for record in newest:
        found.setdefault(record.scope.session or "", []).append(record)
    return [
        Session(session=name, events=len(held), first_at=held[-1].created_at, last_at=held[0].created_at)
        for name, held in found.items()
    ]


def _kind(word: str) -> ObservationType:
    """One of the known types, or the caller's own word for one: the service takes any."""
    try:
        return ObservationType(word)
    except ValueError:
        return word  # type: ignore[return-value]
