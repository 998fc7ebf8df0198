"""mem0's HTTP interface over the front door: the paths of its client, and under /mem0 those of its own server.

They stand in no OpenAPI document of ours: it is somebody else's interface. docs/mem0.md has all of them.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Query as QueryParameter
from fastapi import Response
from msgspec import UNSET
from starlette.requests import Request
from starlette.routing import Route

from octavo.client.answers import User
from octavo.errors import NotFound
from octavo.kernel.ids import now
from octavo.kernel.model import Cursor
from octavo.layers.records import COLLECTIONS
from octavo.layers.values import CATEGORIES, Fact, OwnerType
from octavo.memory import AsyncMemory
from octavo.memory.searching import Whose
from octavo.server.openapi import Routes, answer
from octavo.server.requests import Name, PathName
from octavo.server.routes.mem0_values import (
    EVENTS,
    Asked,
    ChangeBatch,
    Changed,
    Listed,
    Meant,
    NamedChange,
    NewMessages,
    check_page,
    kept_names,
    read_expiry,
    read_filters,
    read_spelled_filters,
    refuse_hosted,
    tell_entry,
    tell_fact,
)
from octavo.server.routes.memories import check_content
from octavo.server.routes.users import users_page
from octavo.server.routing import Admitted, refuse_request

F = TypeVar("F", bound=Callable[..., Any])
router = Routes("mem0")
_CATEGORIES = {category for layer in CATEGORIES.values() for category in layer}
_PAGE = 100
_NAMES = 1000  # read at a time
_BY_CLIENT = "by a client of mem0"

Entity = Annotated[Name | None, QueryParameter()]
Page = Annotated[int, QueryParameter(ge=1)]
PageSize = Annotated[int, QueryParameter(ge=1, le=1000)]


def _route(method: str, *paths: str) -> Callable[[F], F]:
    def add(function: F) -> F:
        for path in paths:
            router.add_api_route(path, function, methods=[method], include_in_schema=False)
        return function

    return add


@_route("GET", "/v1/ping/")
async def mem0_ping(request: Admitted) -> Response:
    """That the key is good, and the names that the client asks for: its project is the key's tenant."""
    tenant = request.tenant
    return answer({"status": "ok", "org_id": "octavo", "project_id": tenant or "default", "user_email": None})


@_route("POST", "/v3/memories/add/", "/v1/memories/", "/mem0/memories")
async def mem0_add(body: NewMessages, request: Admitted) -> Response:
    """Remember messages. If no fact is found in what was said, it is remembered as it was said."""
    meant, memory, expiry = body.whose(), request.memory, read_expiry(body.expiration_date)
    said = body.messages if isinstance(body.messages, list) else [body.messages]
    for message in said:
        content = message.get("content") if isinstance(message, dict) else message
        check_content(request, content if isinstance(content, str) else None)
    metadata = {**(body.metadata or {}), **meant.metadata}
    added = await memory.add(said, metadata=metadata, infer=body.infer is not False, **meant.owner)
    if added.status == "queued":
        return answer({"results": [], "status": "PENDING", "message": added.note})
    if not (added.memories or added.note or body.infer is False):
        speaker = "user" if {"user_id", "session_id"} & {*meant.owner} else "assistant"  # as `add` has it
        own = [m for m in said if not isinstance(m, dict) or m.get("role") == speaker]
        if speaker == "assistant" and not own:
            own = [*said]  # a text for an agent comes as the user's
        added = await memory.add(own, metadata=metadata, infer=False, **meant.owner) if own else added
    changed = [outcome for outcome in added.memories if outcome.action in EVENTS]
    if expiry is not None:
        for outcome in changed:
            await memory.layers.revise(outcome.id, expiry_date=expiry, is_permanent=False, reason=_BY_CLIENT)
    told = [{"id": each.id, "memory": each.content, "event": EVENTS[each.action]} for each in changed]
    return answer({"results": told, "status": "SUCCEEDED", "message": added.note})


@_route("POST", "/v3/memories/search/", "/v2/memories/search/", "/mem0/search")
async def mem0_search(body: Asked, request: Admitted) -> Response:
    """Search somebody's memories; best first."""
    meant, memory = body.whose(), request.memory
    hits = await memory.search(
        body.query,
        sources=["facts"],
        since=meant.since,
        until=meant.until,
        metadata={**(body.metadata or {}), **meant.metadata},
        limit=body.top_k or body.limit or 10,
        **meant.owner,
    )
    # Entities of a conversation are facts for a search, but no memories that could be changed by their id.
    scores = {hit.id: hit.score for hit in hits if hit.kind in _CATEGORIES}
    found = await asyncio.gather(*(_find_memory(memory, each) for each in scores))
    results = [
        tell_fact(fact, body.fields, score=scores[fact.id])
        for fact in found
        if fact is not None and scores[fact.id] >= (body.threshold or 0)
    ]
    return answer({"results": results})


async def _find_memory(memory: AsyncMemory, memory_id: str) -> Fact | None:
    """A memory, or None if somebody has deleted it by now."""
    with suppress(NotFound):
        return await memory.get(memory_id)
    return None


@_route("POST", "/v3/memories/", "/v2/memories/")
async def mem0_get_all(
    body: Listed, request: Admitted, page: Page = 1, page_size: PageSize = _PAGE
) -> Response:
    """Somebody's memories, newest first, page by page."""
    meant = body.whose()
    meant.metadata |= body.metadata or {}
    found, count = await _list(request.memory, meant, page, page_size)
    following = str(request.url.include_query_params(page=page + 1)) if count > page * page_size else None
    before = str(request.url.include_query_params(page=page - 1)) if page > 1 else None
    results = [tell_fact(fact, body.fields) for fact in found]
    return answer({"count": count, "next": following, "previous": before, "results": results})


@_route("GET", "/mem0/memories")
async def mem0_list(
    request: Admitted,
    user_id: Entity = None,
    agent_id: Entity = None,
    run_id: Entity = None,
    limit: PageSize = _PAGE,
    top_k: PageSize | None = None,
) -> Response:
    """Somebody's memories, newest first."""
    meant = _read_names(user_id=user_id, agent_id=agent_id, run_id=run_id)
    found, _ = await _list(request.memory, meant, 1, top_k or limit)
    return answer({"results": [tell_fact(fact) for fact in found]})


async def _list(memory: AsyncMemory, meant: Meant, page: int, size: int) -> tuple[list[Fact], int]:
    """A page of somebody's memories, and how many there are."""
    if meant.since or meant.until:
        refuse_hosted("filters.created_at of a listing")
    end = check_page(page, size)
    whose = Whose(memory.layers.tenant, **meant.owner)
    asked = [
        query
        for query in whose.queries(now(), ["facts"], metadata=meant.metadata)
        if query.collection in COLLECTIONS.values()
    ]
    tallies = await asyncio.gather(*map(memory.store.tally, asked))
    found = await memory.get_all(metadata=meant.metadata, limit=end, **meant.owner)
    return found[end - size :], sum(tally.total for tally in tallies)


@_route("GET", "/v1/memories/{memory_id:name}/", "/mem0/memories/{memory_id:name}")
async def mem0_get(memory_id: PathName, request: Admitted) -> Response:
    """One memory."""
    return answer(tell_fact(await request.memory.get(memory_id)))


@_route("PUT", "/v1/memories/{memory_id:name}/", "/mem0/memories/{memory_id:name}")
async def mem0_update(memory_id: PathName, body: Changed, request: Admitted) -> Response:
    """Let a memory say something else."""
    fact = await _change(memory_id, body, request)
    return answer(tell_fact(fact, text=fact.content, message="Memory updated successfully!"))


async def _change(memory_id: str, body: Changed, request: Admitted) -> Fact:
    body.check_known()
    text = body.text or body.data
    check_content(request, text)
    memory = request.memory
    metadata: Any = UNSET
    if body.metadata is not None:
        metadata = {**kept_names((await memory.get(memory_id)).metadata), **body.metadata}
    ends: dict[str, Any] = {}
    if "expiration_date" in body.model_fields_set:
        expiry = read_expiry(body.expiration_date)
        ends = {"expiry_date": expiry, "is_permanent": expiry is None}
    return await memory.layers.revise(
        memory_id, content=text or UNSET, metadata=metadata, reason=_BY_CLIENT, **ends
    )


@_route("DELETE", "/v1/memories/{memory_id:name}/", "/mem0/memories/{memory_id:name}")
async def mem0_delete(memory_id: PathName, request: Admitted, delete_linked: bool = False) -> Response:
    """Delete a memory; nothing is linked to it here, since a changed fact takes the place of the old one."""
    del delete_linked
    await request.memory.delete(memory_id, reason=_BY_CLIENT)
    return answer({"message": "Memory deleted successfully!"})


@_route("GET", "/v1/memories/{memory_id:name}/history/", "/mem0/memories/{memory_id:name}/history")
async def mem0_history(memory_id: PathName, request: Admitted) -> Response:
    """What happened to a memory, oldest first."""
    entries = await request.memory.history(memory_id)
    return answer([tell_entry(entry) for entry in entries if entry.action in EVENTS])


@_route("DELETE", "/v1/memories/", "/mem0/memories")
async def mem0_delete_all(
    request: Admitted,
    user_id: Entity = None,
    agent_id: Entity = None,
    app_id: Entity = None,
    run_id: Entity = None,
    filters: Annotated[str | None, QueryParameter(max_length=4096)] = None,
) -> Response:
    """Delete all memories of somebody, one by one: each can be brought back from its log."""
    spelled = {} if filters is None else read_spelled_filters(filters)
    meant = _read_names(user_id=user_id, agent_id=agent_id, app_id=app_id, run_id=run_id, AND=[spelled])
    await _delete_all(request.memory, meant)
    return answer({"message": "Memories deleted successfully!"})


async def _delete_all(memory: AsyncMemory, meant: Meant) -> int:
    if meant.since or meant.until:
        refuse_hosted("filters.created_at of a deletion")
    count = 0
    while found := await memory.get_all(metadata=meant.metadata, limit=_PAGE, **meant.owner):
        for fact in found:
            with suppress(NotFound):  # somebody else was quicker
                await memory.layers.forget(fact.id, reason=_BY_CLIENT, **fact.owner)
        count += len(found)
    return count


@_route("PUT", "/v1/batch/")
async def mem0_batch_update(body: ChangeBatch, request: Admitted) -> Response:
    """Change several memories; none, if one of them is not there."""
    for change in await _check_batch(body, request):
        await _change(change.memory_id, change, request)
    return answer({"message": f"Successfully updated {len(body.memories)} memories"})


@_route("DELETE", "/v1/batch/")
async def mem0_batch_delete(body: ChangeBatch, request: Admitted) -> Response:
    """Delete several memories; none, if one of them is not there."""
    for change in await _check_batch(body, request):
        await request.memory.delete(change.memory_id, reason=_BY_CLIENT)
    return answer({"message": f"Successfully deleted {len(body.memories)} memories"})


async def _check_batch(body: ChangeBatch, request: Admitted) -> list[NamedChange]:
    most = request.memories.settings.server.max_batch
    if len(body.memories) > most:
        wrong = f"a batch has at most {most:,} memories (server.max_batch); got {len(body.memories):,}"
        raise refuse_request(wrong, "body", "memories")
    body.check_known()
    for change in body.memories:
        change.check_known()
        await request.memory.get(change.memory_id)
    return body.memories


@_route("GET", "/v1/entities/", "/mem0/entities")
async def mem0_entities(request: Admitted) -> Response:
    """Users and agents that have memories, by name."""
    found = await _entities(request)
    told = [
        {
            "id": each.user_id,
            "name": each.user_id,
            "type": kind,
            "total_memories": each.total,
            "created_at": each.first_at,
            "updated_at": each.last_at,
        }
        for kind, each in found
    ]
    return answer({"count": len(told), "next": None, "previous": None, "results": told})


async def _entities(request: Admitted) -> list[tuple[OwnerType, User]]:
    found: list[tuple[OwnerType, User]] = []
    kinds: tuple[OwnerType, ...] = ("user", "agent")
    for kind in kinds:
        after: Cursor | None = Cursor()
        while after is not None:
            page, after = await users_page(request.store, request.tenant, _NAMES, after.id, kind, COLLECTIONS)
            found += [(kind, each) for each in page]
    return found


@_route("DELETE", "/v2/entities/{kind}/{name:name}/", "/mem0/entities/{kind}/{name:name}")
async def mem0_delete_entity(
    kind: Literal["user", "agent", "app", "run"], name: PathName, request: Admitted
) -> Response:
    """Delete all memories of a user, an agent or a run."""
    if kind == "app":
        refuse_hosted("deleting an app")
    if not await _delete_all(request.memory, _read_names(**{f"{kind}_id": name})):
        raise NotFound(f"there are no memories of the {kind} {name!r}")
    return answer({"message": "Entity deleted successfully!"})


@_route("POST", "/mem0/reset")
async def mem0_reset(request: Admitted) -> Response:
    """Delete all memories of every user and agent of the tenant; it needs admin access."""
    for kind, each in await _entities(request):
        await _delete_all(request.memory, _read_names(**{f"{kind}_id": each.user_id}))
    return answer({"message": "All memories reset"})


def _read_names(**names: Any) -> Meant:
    return read_filters({name: value for name, value in names.items() if value is not None})


#: What only the hosted service does.
HOSTED = (
    "/v1/exports/", "/v1/exports/get/", "/v1/summary/", "/v1/feedback/", "/v2/profiles/{more:path}",
    "/v2/entities/user/{name:name}/profile/", "/api/v1/{more:path}", "/mem0/configure",
)  # fmt: skip


async def _refuse_hosted(request: Request) -> Response:
    refuse_hosted(f"{request.method} {request.url.path}")


router.routes += [
    Route(path, _refuse_hosted, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]) for path in HOSTED
]
