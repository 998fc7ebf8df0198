"""The log of what was done to memories, and undoing it."""

from typing import Literal, TypeAlias

from fastapi import Request, Response

from octavo.layers.values import LogEntry
from octavo.server.answers import LogList, answer
from octavo.server.bodies import Layer, OwnerType, Undoing
from octavo.server.openapi import answers
from octavo.server.routes import examples, quick
from octavo.server.routes.common import After, Limit, PathName, layers_of, owner, page_bytes, token

router = quick.router(tags=["log"])

Action: TypeAlias = Literal["insert", "update", "ignore", "delete", "expire"]


@router.get(
    "/memory/{memory_id:name}/logs",
    operation_id="get_memory_log",
    summary="What was done to a memory",
    response_class=Response,
    responses=answers(LogList, {"memory_id": examples.ID, "count": 1, "logs": [examples.LOG]}),
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
    rows, following = await layers_of(request).log_page(
        memory_id,
        memory_layer=memory_layer,
        action=action,
        limit=limit,
        after=after,
        max_bytes=page_bytes(request),
    )
    return answer(LogList(memory_id=memory_id, count=len(rows), logs=rows, next=token(following)))


@router.get(
    "/memory/{memory_type:owner}/{entity_id:name}/logs",
    operation_id="get_owner_log",
    summary="What was done to somebody's memories",
    response_class=Response,
    responses=answers(LogList, {"user_id": "user123", "count": 1, "logs": [examples.LOG]}, 404),
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
    whose = owner(memory_type, entity_id)
    rows, following = await layers_of(request).log_page(
        memory_layer=memory_layer,
        action=action,
        limit=limit,
        after=after,
        max_bytes=page_bytes(request),
        **whose,
    )
    return answer(LogList(**whose, count=len(rows), logs=rows, next=token(following)))


@router.post(
    "/memory/logs/{log_id:name}/undo",
    operation_id="undo_change",
    summary="Undo a change",
    response_class=Response,
    responses=answers(LogEntry, examples.UNDONE, 404, 409, body=True),
)
async def undo_change(log_id: PathName, request: Request, body: Undoing | None = None) -> Response:
    """Bring a memory back to what it was before its newest change; this is logged as a change of its own."""
    return answer(await layers_of(request).undo(log_id, reason=None if body is None else body.reason))
