"""Remember, look up, change, forget and find the memories of users and agents; the log of it, and undoing it."""

from typing import Annotated, Any

import msgspec
from fastapi import Depends, Query, Response
from msgspec import UNSET
from msgspec.structs import asdict, replace

from octavo.client.answers import Answers, FoundMemory, MemoryWithHistory, Remembered, SearchAnswer
from octavo.kernel.ids import now
from octavo.kernel.model import Cursor
from octavo.layers.values import Action, Fact, Layer, LogEntry, Page, Undone
from octavo.search.hits import Context
from octavo.server.openapi import Allowed, AutoExtracted, LogList, MemoryList, Routes, answer
from octavo.server.requests import (
    MAX_LIMIT,
    MAX_PROFILE,
    After,
    AfterMoment,
    Category,
    Limit,
    MomentCursor,
    Name,
    NewMemory,
    PathName,
    Prompt,
    Question,
    Reason,
    Revision,
    Search,
    Undoing,
    UndoingAll,
    When,
    token,
)
from octavo.server.routing import Admitted, OwnerInPath, refuse_request

router = Routes("memories")
log_router = Routes("log")
_OWNER = "/memory/{memory_type:owner}/{entity_id:name}"
_MEMORY = f"{_OWNER}/{{layer}}/{{memory_id:name}}"


def find_named(
    request: Admitted, user_id: Name | None = None, agent_id: Name | None = None
) -> dict[str, Any]:
    """The owner who was named, if the caller may see what is theirs; else the only user whom the caller's key opens."""
    if agent_id is not None:
        return {**request.owner(None, agent_id), "user_id": user_id}
    return {"user_id": request.user_id(user_id)}


#: Whose the id of a path is, where several have it: imported ids are unique only within their owner.
OwnerIfNamed = Annotated[dict[str, Any], Depends(find_named)]


@router.answers("POST", "/memory/query", "Find memories by what they say", Answers)
async def query_memories(body: Question, request: Admitted) -> Response:
    """Look through both layers, or one of them, of a user or an agent; best first. Everyone of the tenant needs admin access."""
    if body.everyone:
        request.check_everyone()
    whose = {} if body.everyone else request.owner(body.user_id, body.agent_id)
    found = await request.layers.recall(**{**dict(body), **whose}, max_bytes=request.page_bytes)
    memories = [FoundMemory(**asdict(each.memory), score=each.score) for each in found]
    told = Answers(
        query=body.query,
        count=len(memories),
        memories=memories,
        left_out=found.left_out or UNSET,
        probably_absent=found.probably_absent,
    )
    return answer(told)


@router.answers("GET", "/memory/{memory_id:name}", "One memory with its history", MemoryWithHistory, 404)
async def get_memory(
    memory_id: PathName, whose: OwnerIfNamed, request: Admitted, after: After = None
) -> Response:
    """A memory as it is now, and its changes, oldest first; of a long history the newest, and `next` for what was before."""
    layers = request.layers
    memory = await layers.get(memory_id, **whose)
    rows = await layers.logs(
        memory_id, limit=MAX_LIMIT, after=after, max_bytes=request.page_bytes, **memory.owner
    )
    return answer(MemoryWithHistory(**asdict(memory), history=rows[::-1], next=token(rows.following)))


@router.answers("POST", _OWNER, "Remember something", Remembered, 404, 409, also=AutoExtracted)
async def remember(whose: OwnerInPath, body: NewMemory, request: Admitted) -> Response:
    """Keep a memory as it stands, or with `auto_extract` the single facts of a text.

    A memory that is kept while the store is down answers `queued`: it is on disk, and is stored when the store is back.
    """
    check_content(request, body.content)
    if body.auto_extract:
        made = await request.layers.extract(body.content, metadata=body.metadata, **whose)
        extracted = msgspec.convert(made, AutoExtracted, from_attributes=True)
        return answer(replace(extracted, note=made.note or UNSET))
    said = {name: value for name, value in body if name not in ("memory_layer", "auto_extract")}
    memory = await request.layers.remember(**said, layer=body.memory_layer, **whose)
    return answer(msgspec.convert(memory, Remembered, from_attributes=True))


@router.answers("GET", f"{_OWNER}/profile", "Who somebody is", MemoryList, 404)
async def get_profile(
    whose: OwnerInPath,
    request: Admitted,
    limit: Annotated[int, Query(ge=0, le=MAX_PROFILE)] = MAX_PROFILE,
    category: Category | None = None,
    as_of: When | None = None,
    after: AfterMoment = None,
) -> Response:
    """The profile of a user or an agent, what was changed last first; with `as_of`, as it was then.

    What follows the first page is as it was when that was read.
    """
    at = now()
    where = {"as_of": as_of} if after is None else {"as_of": after.began, "after": after.after}
    found = await request.layers.profile(
        category=category, limit=limit, max_bytes=request.page_bytes, **where, **whose
    )
    following = None
    if found.following is not None:
        # What is changed moves to the front: who read on as it is now would miss it.
        began = after.began if after else as_of or max(at, found[0].updated_at)
        following = MomentCursor(found.following, began)
    return _memories("profile", whose, found, following)


@router.answers("GET", f"{_OWNER}/events", "What happened to somebody", MemoryList, 404)
async def get_event_memories(
    whose: OwnerInPath,
    request: Admitted,
    limit: Limit = 50,
    category: Category | None = None,
    since: When | None = None,
    until: When | None = None,
    as_of: When | None = None,
    after: After = None,
) -> Response:
    """The event memories of a user or an agent, newest first; `since` and before `until`, or as they were then."""
    found = await request.layers.events(
        category=category,
        limit=limit,
        since=since,
        until=until,
        as_of=as_of,
        after=after,
        max_bytes=request.page_bytes,
        **whose,
    )
    return _memories("event", whose, found, found.following)


def _memories(
    layer: Layer, whose: dict[str, Any], found: Page[Fact], following: Cursor | MomentCursor | None
) -> Response:
    listed = MemoryList(**whose, layer=layer, count=len(found), memories=found, next=token(following))
    return answer(listed)


@router.answers("PUT", _MEMORY, "Change a memory", Fact, 404, 409)
async def revise_memory(
    whose: OwnerInPath, layer: Layer, memory_id: PathName, body: Revision, request: Admitted
) -> Response:
    """Change what is given and keep the rest; the change is logged with its reason."""
    check_content(request, body.content)
    changes = {name: value for name, value in body if name in body.model_fields_set}
    return answer(await request.layers.revise(memory_id, layer=layer, **whose, **changes))


@router.answers("DELETE", _MEMORY, "Delete a memory", Fact, 404, 409)
async def forget_memory(
    whose: OwnerInPath,
    layer: Layer,
    memory_id: PathName,
    request: Admitted,
    reason: Annotated[Reason | None, Query()] = None,
    forever: bool = False,
) -> Response:
    """Delete it, and answer what was deleted; its log stays, and it can be brought back. With `forever` it is not learnt again, from whatever text."""
    gone = await request.layers.forget(memory_id, layer=layer, reason=reason, forever=forever, **whose)
    return answer(gone)


@router.answers(
    "POST", f"{_OWNER}/allow/{{memory_id:name}}", "Let a rejected fact be learnt again", Allowed, 404, 409
)
async def allow_memory(whose: OwnerInPath, memory_id: PathName, request: Admitted) -> Response:
    """Lift what `forever` did when the memory was deleted; it stays deleted, until a text says it again."""
    await request.layers.allow(memory_id, **whose)
    return answer(Allowed(allowed=memory_id))


def _read_filters(
    request: Admitted,
    memory_layer: Layer | None = None,
    action: Action | None = None,
    limit: Limit = 100,
    after: After = None,
) -> dict[str, Any]:
    told = {"memory_layer": memory_layer, "action": action, "limit": limit, "after": after}
    return {**told, "max_bytes": request.page_bytes}


#: Which rows of a log, as `logs` of the layers is told.
LogFilters = Annotated[dict[str, Any], Depends(_read_filters)]


@log_router.answers("GET", "/memory/{memory_id:name}/logs", "What was done to a memory", LogList)
async def get_memory_log(
    memory_id: PathName, whose: OwnerIfNamed, request: Admitted, asked: LogFilters
) -> Response:
    """Every change of a memory and why, newest first; also after it was deleted."""
    rows = await request.layers.logs(memory_id, **whose, **asked)
    return answer(LogList(memory_id=memory_id, count=len(rows), logs=rows, next=token(rows.following)))


@log_router.answers("GET", f"{_OWNER}/logs", "What was done to somebody's memories", LogList, 404)
async def get_owner_log(whose: OwnerInPath, request: Admitted, asked: LogFilters) -> Response:
    """Every change of the memories of a user or an agent, newest first."""
    rows = await request.layers.logs(**whose, **asked)
    return answer(LogList(**whose, count=len(rows), logs=rows, next=token(rows.following)))


@log_router.answers("POST", "/memory/logs/{log_id:name}/undo", "Undo a change", LogEntry, 404, 409)
async def undo_change(
    log_id: PathName, whose: OwnerIfNamed, request: Admitted, body: Undoing | None = None
) -> Response:
    """Bring a memory back to what it was before its newest change; this is logged as a change of its own."""
    reason = None if body is None else body.reason
    return answer(await request.layers.undo(log_id, reason, **whose))


@log_router.answers("POST", f"{_OWNER}/undo", "Undo many changes of somebody", Undone, 404, 409)
async def undo_changes(whose: OwnerInPath, body: UndoingAll, request: Admitted) -> Response:
    """Take back what one add did, all since a moment, or what was taken back so before; a dry run says what that would be.

    A memory that was changed again since stays as it is, and is named in `kept`.
    """
    return answer(await request.memory.undo_all(**dict(body), **whose))


@router.answers("POST", "/search", "Find anything that is kept for somebody", SearchAnswer)
async def search(body: Search, request: Admitted) -> Response:
    """Facts, messages, observations, agent events and documents together, best first. Everyone of the tenant needs admin access.

    `probably_absent` says that there is probably no answer: the hits are then the least bad ones.
    """
    if body.everyone:
        request.check_everyone()
    whose = {} if body.everyone else request.whose(body)
    hits = await request.memory.search(**{**dict(body), **whose}, max_bytes=request.page_bytes)
    told = SearchAnswer(
        query=body.query,
        count=len(hits),
        hits=list(hits),
        probably_absent=hits.probably_absent,
        notes=hits.notes if request.caller.admin else (),
        left_out=hits.left_out,
    )
    return answer(told)


@router.answers("POST", "/context", "A block for a prompt", Context)
async def context(body: Prompt, request: Admitted) -> Response:
    """Who the user is, this session so far and what else was found, in one fenced block within `max_tokens`."""
    return answer(await request.memory.context(**{**dict(body), **request.whose(body)}))


def check_content(request: Admitted, content: str | None) -> None:
    """Refuse content that is longer than this server takes."""
    most = request.memories.settings.server.max_content_bytes
    if content is not None and len(content.encode()) > most:
        wrong = f"must be at most {most:,} bytes in UTF-8 (server.max_content_bytes)"
        raise refuse_request(wrong, "body", "content")
