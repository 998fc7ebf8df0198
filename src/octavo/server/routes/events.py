"""What agents observed and did: events, sessions and turns."""

from typing import Annotated

from fastapi import Query, Request, Response

from octavo.kernel import model
from octavo.kernel.ids import new_id, now
from octavo.server.answers import EventList, SessionList, TurnList, answer
from octavo.server.bodies import Name, NewEvent
from octavo.server.gate import caller_of
from octavo.server.openapi import answers
from octavo.server.routes import examples, quick
from octavo.server.routes.common import After, Limit, PathName, memories_of, page_bytes, service_of, token
from octavo.server.sessions import sessions_page
from octavo.service.observations import Observation, ObservationType
from octavo.service.records import EVENTS, TURNS, EventRecord, event_of, turn_of

router = quick.router(tags=["events"])


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
    request: Request,
    session: Annotated[Name | None, Query()] = None,
    limit: Limit = 50,
    after: After = None,
) -> Response:
    """The newest events of one session or of all, newest first."""
    return await _events(request, session, limit, after)


@router.get(
    "/sessions",
    operation_id="list_sessions",
    summary="Sessions that something happened in lately",
    response_class=Response,
    responses=answers(SessionList, examples.SESSIONS),
)
async def list_sessions(request: Request, limit: Limit = 100, after: After = None) -> Response:
    """The sessions of the newest 1,000 events, the latest first, with how many of these events they have; `next` goes on."""
    store = memories_of(request).assembled.store
    tenant = caller_of(request.scope).tenant
    found, following = await sessions_page(store, tenant, limit, after)
    return answer(SessionList(count=len(found), sessions=found, next=token(following)))


@router.get(
    "/sessions/{session:name}/events",
    operation_id="list_session_events",
    summary="The newest events of a session",
    response_class=Response,
    responses=answers(EventList, {"session": "dm:lin", "count": 1, "events": [examples.EVENT]}),
)
async def list_session_events(
    session: PathName, request: Request, limit: Limit = 50, after: After = None
) -> Response:
    """Newest first; a session in which nothing happened has none."""
    return await _events(request, session, limit, after)


@router.get(
    "/sessions/{session:name}/turns",
    operation_id="list_session_turns",
    summary="The newest turns of a session",
    response_class=Response,
    responses=answers(TurnList, {"session": "dm:lin", "count": 1, "turns": [examples.TURN]}),
)
async def list_session_turns(
    session: PathName, request: Request, limit: Limit = 50, after: After = None
) -> Response:
    """What the agent did in a session, newest first."""
    found, following = await service_of(request).page(
        TURNS, session, limit, after=after, max_bytes=page_bytes(request)
    )
    turns = [turn_of(record) for record in found]
    return answer(TurnList(session=session, count=len(turns), turns=turns, next=token(following)))


async def _events(request: Request, session: str | None, limit: int, after: model.Cursor | None) -> Response:
    found, following = await service_of(request).page(
        EVENTS, session, limit, after=after, max_bytes=page_bytes(request)
    )
    events = [event_of(record) for record in found]
    return answer(EventList(session=session, count=len(events), events=events, next=token(following)))


def _kind(word: str) -> ObservationType:
    """One of the known types, or the caller's own word for one: the service takes any."""
    try:
        return ObservationType(word)
    except ValueError:
        return word  # type: ignore[return-value]
