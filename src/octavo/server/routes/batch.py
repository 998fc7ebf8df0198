"""Several requests in one: each is answered as if it had been sent alone."""

import asyncio
import json
import logging
from typing import Any
from urllib.parse import quote, unquote

import msgspec
from fastapi import Response
from starlette.exceptions import HTTPException
from starlette.types import Message, Scope

from octavo.client.answers import BatchAnswer, Batched
from octavo.server.gate import BATCHED, REQUEST_ID
from octavo.server.openapi import Routes, answer
from octavo.server.problems import Problem
from octavo.server.requests import Batch, BatchedRequest
from octavo.server.routing import Admitted, refuse_request

router = Routes("batch")
_log = logging.getLogger("octavo.server")
_KEPT = ("type", "asgi", "http_version", "scheme", "server", "client", "root_path", "state")
#: Headers that are about the body and the name of the whole, not of a part.
_OF_THE_WHOLE = {b"content-length", b"content-type", b"transfer-encoding", b"expect", b"x-request-id"}
_PATH_SIGNS = "/%:@!$&'()*+,;=~"  # which a path holds as they are; what is percent-encoded stays so
_TIME_SHARE = 0.8  # of a request's time, after which no other part is begun: the answers must still go out


@router.answers("POST", "/batch", "Several requests at once", Batched)
async def send_batch(body: Batch, request: Admitted) -> Response:
    """Answer each request in order, one after the other, with the status and the body that it would have alone.

    Each needs the access that its route needs, and counts as a request of the key. One that fails does not stop the others.
    """
    server = request.memories.settings.server
    if request.scope.get(BATCHED):
        raise HTTPException(422, "a batch cannot hold a batch")
    if len(body.requests) > server.max_batch:
        wrong = f"a batch has at most {server.max_batch:,} requests (server.max_batch); got {len(body.requests):,}"
        raise refuse_request(wrong, "body", "requests")
    loop = asyncio.get_running_loop()
    ends, room = loop.time() + server.request_seconds * _TIME_SHARE, server.max_body_bytes
    answers: list[BatchAnswer] = []
    for number, part in enumerate(body.requests, 1):
        if room <= 0:
            late = f"not begun: the answers before it have {server.max_body_bytes:,} bytes; send it again"
            answers.append(BatchAnswer(status=413, body=Problem.of(413, late)))
        elif loop.time() > ends:
            late = "not begun: the requests before it took too long; send it again"
            answers.append(BatchAnswer(status=504, body=Problem.of(504, late)))
        else:
            status, content = await _answer_part(request, part, number)
            room -= len(content)
            answers.append(BatchAnswer(status=status, body=msgspec.Raw(content)))
    return answer(Batched(count=len(answers), answers=answers))


async def _answer_part(request: Admitted, part: BatchedRequest, number: int) -> tuple[int, bytes]:
    """The status and the JSON that the application answers to a part, sent through its gate like any other request."""
    # As it was sent: what JSON cannot say, such as NaN or half a character, is refused by its own route.
    given = "body" in part.model_fields_set
    said = json.dumps(part.body, ensure_ascii=False).encode("utf-8", "surrogatepass") if given else b""
    unread, status, kind, content = True, 0, b"", bytearray()

    async def receive() -> Message:
        nonlocal unread
        if unread:
            unread = False
            return {"type": "http.request", "body": said, "more_body": False}
        return await request.receive()  # which tells when the caller has gone away

    async def send(message: Message) -> None:
        nonlocal status, kind
        if message["type"] == "http.response.start":
            status, kind = message["status"], dict(message["headers"]).get(b"content-type", b"")
        else:
            content.extend(message.get("body", b""))

    try:
        await request.app(_part_scope(request.scope, part, number, has_body=given), receive, send)
    except Exception:
        if not status:
            raise
        # It was answered with 500 before it was raised again for the log.
        _log.exception("a part of the batch at request_id %s failed", request.scope.get(REQUEST_ID))
    if kind.startswith(b"application/json"):
        return status, bytes(content)
    return status, msgspec.json.encode(content.decode("utf-8", "replace"))


def _part_scope(whole: Scope, part: BatchedRequest, number: int, *, has_body: bool) -> Scope:
    """The scope of a part: its own method, path and body, and its caller's address and key."""
    path, _, query = part.path.partition("?")
    raw = quote(whole.get("root_path", "") + path, safe=_PATH_SIGNS)
    headers = [(name, value) for name, value in whole["headers"] if name not in _OF_THE_WHOLE]
    headers.append((b"x-request-id", f"{whole[REQUEST_ID][:56]}-{number}".encode()))
    if has_body:
        headers.append((b"content-type", b"application/json"))
    kept: dict[str, Any] = {name: whole[name] for name in _KEPT if name in whole}
    return {
        **kept,
        "method": part.method,
        "path": unquote(raw),
        "raw_path": raw.encode(),
        "query_string": quote(query, safe=f"{_PATH_SIGNS}?").encode(),
        "headers": headers,
        BATCHED: True,
    }
