"""Remember, look up, change, forget and find the memories of users and agents; the log of it, and undoing it."""

from typing import Annotated, Any

import msgspec
from fastapi import Query, Request, Response
from fastapi.exceptions import RequestValidationError
from msgspec import UNSET
from starlette.exceptions import HTTPException

from octavo.client.exchange import Answers, FoundMemory, MemoryWithHistory, Remembered
from octavo.layers.values import Action, Fact, Layer, LogEntry, OwnerType, State, Undone
from octavo.server.answers import Allowed, AutoExtracted, LogList, MemoryList, answer, example
from octavo.server.gate import caller_of
from octavo.server.openapi import Routes
from octavo.server.requests import (
    MAX_LIMIT,
    MAX_PROFILE,
    After,
    Category,
    Limit,
    NewMemory,
    PathName,
    Question,
    Reason,
    Revision,
    Undoing,
    UndoingAll,
    When,
    layers_of,
    memories_of,
    memory_of,
    one_owner,
    page_bytes,
    token,
    user_of,
)

router = Routes("memories")
log_router = Routes("log")
_OWNER = "/memory/{memory_type:owner}/{entity_id:name}"
_MEMORY = f"{_OWNER}/{{layer}}/{{memory_id:name}}"
_EPISODE = example(
    Fact,
    layer="event",
    category="meeting",
    content="Joined the product review in the afternoon",
    is_permanent=False,
)
_ROW = example(LogEntry, id=f"log_{_EPISODE.id}_1", version=1, after=example(State))
_UNDONE = msgspec.structs.replace(
    _ROW,
    id=f"log_{_EPISODE.id}_3",
    action="update",
    reason="记错了",
    metadata={"undo_of": f"log_{_EPISODE.id}_2"},
    version=3,
    before=_ROW.after,
)


@router.answers("POST", "/memory/query", "Find memories by what they say", example(Answers))
async def query_memories(body: Question, request: Request) -> Response:
    """Look through both layers, or one of them, of a user or an agent; best first. Everyone of the tenant needs admin access."""
    if body.everyone and not caller_of(request.scope).admin:
        raise HTTPException(
            403, "to ask about everyone needs a key with admin access; or give user_id or agent_id"
        )
    whose = {} if body.everyone else one_owner(request, body.user_id, body.agent_id)
    found = await layers_of(request).recall(
        body.query,
        max_bytes=page_bytes(request),
        layer=body.layer,
        top_k=body.top_k,
        everyone=body.everyone,
        **whose,
    )
    memories = [FoundMemory(**_fields(each.memory), score=each.score) for each in found]
    told = Answers(
        query=body.query,
        count=len(memories),
        memories=memories,
        left_out=found.left_out or UNSET,
        probably_absent=found.probably_absent,
    )
    return answer(told)


@router.answers(
    "GET",
    "/memory/{memory_id:name}",
    "One memory with its history",
    example(MemoryWithHistory, history=[_ROW]),
    404,
)
async def get_memory(memory_id: PathName, request: Request, after: After = None) -> Response:
    """A memory as it is now, and its changes, oldest first; of a long history the newest, and `next` for what was before."""
    layers = layers_of(request)
    memory = await layers.get(memory_id, user_id=user_of(request))
    rows = await layers.logs(memory_id, limit=MAX_LIMIT, after=after, max_bytes=page_bytes(request))
    return answer(MemoryWithHistory(**_fields(memory), history=rows[::-1], next=token(rows.following)))


@router.answers("POST", _OWNER, "Remember something", example(Remembered), 404, 409, also=AutoExtracted)
async def remember(
    memory_type: OwnerType, entity_id: PathName, body: NewMemory, request: Request
) -> Response:
    """Keep a memory as it stands, or with `auto_extract` the single facts of a text.

    A memory that is kept while the store is down answers `queued`: it is on disk, and is stored when the store is back.
    """
    layers, whose = layers_of(request), _owner(request, memory_type, entity_id)
    check_content(request, body.content)
    if body.auto_extract:
        made = await layers.extract(body.content, metadata=body.metadata, **whose)
        extracted = msgspec.convert(made, AutoExtracted, from_attributes=True)
        return answer(msgspec.structs.replace(extracted, note=made.note or UNSET))
    memory = await layers.remember(
        body.content,
        layer=body.memory_layer,
        category=body.category,
        metadata=body.metadata,
        is_permanent=body.is_permanent,
        expiry_date=body.expiry_date,
        ttl_seconds=body.ttl_seconds,
        reason=body.reason,
        **whose,
    )
    return answer(msgspec.convert(memory, Remembered, from_attributes=True))


@router.answers("GET", f"{_OWNER}/profile", "Who somebody is", example(MemoryList, user_id="user123"), 404)
async def get_profile(
    memory_type: OwnerType,
    entity_id: PathName,
    request: Request,
    limit: Annotated[int, Query(ge=0, le=MAX_PROFILE)] = MAX_PROFILE,
    category: Category | None = None,
    as_of: When | None = None,
    after: After = None,
) -> Response:
    """The profile of a user or an agent, what was changed last first; with `as_of`, as it was then."""
    whose = _owner(request, memory_type, entity_id)
    found = await layers_of(request).profile(
        category=category, limit=limit, as_of=as_of, after=after, max_bytes=page_bytes(request), **whose
    )
    listed = MemoryList(
        **whose, layer="profile", count=len(found), memories=found, next=token(found.following)
    )
    return answer(listed)


@router.answers(
    "GET",
    f"{_OWNER}/events",
    "What happened to somebody",
    example(MemoryList, user_id="user123", layer="event", memories=[_EPISODE]),
    404,
)
async def get_event_memories(
    memory_type: OwnerType,
    entity_id: PathName,
    request: Request,
    limit: Limit = 50,
    category: Category | None = None,
    since: When | None = None,
    until: When | None = None,
    as_of: When | None = None,
    after: After = None,
) -> Response:
    """The event memories of a user or an agent, newest first; `since` and before `until`, or as they were then."""
    whose = _owner(request, memory_type, entity_id)
    found = await layers_of(request).events(
        category=category,
        limit=limit,
        since=since,
        until=until,
        as_of=as_of,
        after=after,
        max_bytes=page_bytes(request),
        **whose,
    )
    listed = MemoryList(**whose, layer="event", count=len(found), memories=found, next=token(found.following))
    return answer(listed)


@router.answers("PUT", _MEMORY, "Change a memory", example(Fact, version=2), 404, 409)
async def revise_memory(
    memory_type: OwnerType,
    entity_id: PathName,
    layer: Layer,
    memory_id: PathName,
    body: Revision,
    request: Request,
) -> Response:
    """Change what is given and keep the rest; the change is logged with its reason."""
    check_content(request, body.content)
    changes: dict[str, Any] = {
        name: getattr(body, name) if name in body.model_fields_set else UNSET
        for name in ("content", "metadata", "category", "is_permanent", "expiry_date")
    }
    whose = _owner(request, memory_type, entity_id)
    return answer(
        await layers_of(request).revise(memory_id, layer=layer, reason=body.reason, **whose, **changes)
    )


@router.answers("DELETE", _MEMORY, "Forget a memory", _EPISODE, 404, 409)
async def forget_memory(
    memory_type: OwnerType,
    entity_id: PathName,
    layer: Layer,
    memory_id: PathName,
    request: Request,
    reason: Annotated[Reason | None, Query()] = None,
    forever: bool = False,
) -> Response:
    """Forget it, and answer what was forgotten; its log stays. With `forever` it is not learnt again, from whatever text."""
    whose = _owner(request, memory_type, entity_id)
    return answer(
        await layers_of(request).forget(memory_id, layer=layer, reason=reason, forever=forever, **whose)
    )


@router.answers(
    "POST",
    f"{_OWNER}/allow/{{memory_id:name}}",
    "Let a rejected fact be learnt again",
    Allowed(allowed=_EPISODE.id),
    404,
    409,
)
async def allow_memory(
    memory_type: OwnerType, entity_id: PathName, memory_id: PathName, request: Request
) -> Response:
    """Lift what `forever` did when the memory was forgotten; it stays forgotten, until a text says it again."""
    await layers_of(request).allow(memory_id, **_owner(request, memory_type, entity_id))
    return answer(Allowed(allowed=memory_id))


@log_router.answers(
    "GET", "/memory/{memory_id:name}/logs", "What was done to a memory", example(LogList, logs=[_ROW])
)
async def get_memory_log(
    memory_id: PathName,
    request: Request,
    memory_layer: Layer | None = None,
    action: Action | None = None,
    limit: Limit = 100,
    after: After = None,
) -> Response:
    """Every change of a memory and why, newest first; also after it was forgotten."""
    rows = await layers_of(request).logs(
        memory_id,
        user_id=user_of(request),
        memory_layer=memory_layer,
        action=action,
        limit=limit,
        after=after,
        max_bytes=page_bytes(request),
    )
    return answer(LogList(memory_id=memory_id, count=len(rows), logs=rows, next=token(rows.following)))


@log_router.answers(
    "GET",
    f"{_OWNER}/logs",
    "What was done to somebody's memories",
    example(LogList, memory_id=UNSET, user_id="user123", logs=[_ROW]),
    404,
)
async def get_owner_log(
    memory_type: OwnerType,
    entity_id: PathName,
    request: Request,
    memory_layer: Layer | None = None,
    action: Action | None = None,
    limit: Limit = 100,
    after: After = None,
) -> Response:
    """Every change of the memories of a user or an agent, newest first."""
    whose = _owner(request, memory_type, entity_id)
    rows = await layers_of(request).logs(
        memory_layer=memory_layer,
        action=action,
        limit=limit,
        after=after,
        max_bytes=page_bytes(request),
        **whose,
    )
    return answer(LogList(**whose, count=len(rows), logs=rows, next=token(rows.following)))


@log_router.answers("POST", "/memory/logs/{log_id:name}/undo", "Undo a change", _UNDONE, 404, 409)
async def undo_change(log_id: PathName, request: Request, body: Undoing | None = None) -> Response:
    """Bring a memory back to what it was before its newest change; this is logged as a change of its own."""
    reason = None if body is None else body.reason
    return answer(await layers_of(request).undo(log_id, reason, user_id=user_of(request)))


@log_router.answers(
    "POST",
    f"{_OWNER}/undo",
    "Undo many changes of somebody",
    example(Undone, id="undo_066069c3cff3ed8f", changes=[_ROW]),
    404,
    409,
)
async def undo_changes(
    memory_type: OwnerType, entity_id: PathName, body: UndoingAll, request: Request
) -> Response:
    """Take back what one add did, all since a moment, or what was taken back so before; a dry run says what that would be.

    A memory that was changed again since stays as it is, and is named in `kept`.
    """
    undone = await memory_of(request).undo_all(
        add=body.add,
        since=body.since,
        undo=body.undo,
        reason=body.reason,
        dry_run=body.dry_run,
        **_owner(request, memory_type, entity_id),
    )
    return answer(undone)


def _fields(memory: Fact) -> dict[str, Any]:
    return msgspec.structs.asdict(memory)


def check_content(request: Request, content: str | None) -> None:
    """Refuse content that is longer than this server takes."""
    most = memories_of(request).settings.server.max_content_bytes
    if content is not None and len(content.encode()) > most:
        wrong = f"must be at most {most:,} bytes in UTF-8 (server.max_content_bytes)"
        raise RequestValidationError([{"type": "too_long", "loc": ("body", "content"), "msg": wrong}])


def _owner(request: Request, memory_type: OwnerType, entity_id: str) -> dict[str, Any]:
    """Whose memories: `user_id` or `agent_id`."""
    named = {"user": None, "agent": None, memory_type: entity_id}
    return one_owner(request, named["user"], named["agent"])
