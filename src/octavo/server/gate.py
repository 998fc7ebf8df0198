"""The one thing between uvicorn and the routes: it names, admits, limits and logs every request."""

import asyncio
import logging
import re
import secrets as randomness
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from octavo.config import Settings
from octavo.errors import OctavoError
from octavo.server.access import OPEN, Caller, Door
from octavo.server.logs import access_log
from octavo.server.problems import Secrets, masked, problem, refusal
from octavo.server.shares import Shares, Turn

CALLER = "octavo.caller"
REQUEST_ID = "octavo.request_id"
#: Stands for a slash inside a name of a path; no text that came over the wire can hold it.
SLASH = "\udc2f"
_ID = re.compile(rb"[0-9A-Za-z._-]{1,64}")
_ENCODED_SLASH = re.compile(rb"%2f", re.IGNORECASE)
# What is remembered about people must not stay in a cache, nor be taken for a page.
_ALWAYS = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
# How much of a refused body is still taken in, and for how long: a connection that is closed on a caller who is still
# sending is reset, and takes the answer with it.
_DRAINED_BYTES = 16 * 2**20
_DRAINED_SECONDS = 5.0
_MOST_DRAINED = 64  # at once
_BODIES_BYTES = 128 * 2**20  # of bodies that are held at once


class Gate:
    """ASGI in, ASGI out."""

    def __init__(self, app: ASGIApp, *, settings: Settings, door: Door, secrets: Secrets) -> None:
        self._app = app
        self._door = door
        self._secrets = secrets
        server = settings.server
        self._most_bytes = server.max_body_bytes
        self._seconds = server.request_seconds
        # Fewer than the connections: the others make room for a caller who has none yet.
        self._places = Shares(min(server.max_concurrent, max(1, server.max_connections * 3 // 4)))
        self._room = Shares(max(_BODIES_BYTES, 4 * server.max_body_bytes))
        self._drained = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        headers: dict[bytes, bytes] = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        known = _ID.fullmatch(given) is not None and b"oct_" not in given
        request_id = given if known else randomness.token_hex(8).encode()
        scope[REQUEST_ID] = request_id.decode()
        if _ENCODED_SLASH.search(scope.get("raw_path") or b""):
            # A copy: the path that the server itself holds must stay one that can be written down.
            scope = {**scope, "path": _unquoted(scope["raw_path"])}
        turn = Turn(self._places, self._room)
        body = _Body(receive, headers, self._most_bytes, turn)
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-request-id", request_id),
                    *_ALWAYS,
                ]
            elif body.left and not message.get("more_body"):
                # All of the answer goes out; only its end waits until the caller has stopped sending.
                message, body.answered = {**message, "more_body": True}, True
            await send(message)

        try:
            refused = self._barred(scope, headers, turn)
            if refused is not None:
                await refused(scope, receive, answer)
            else:
                await self._within_time(scope, headers, body.read, answer, turn)
        finally:
            turn.end()
            if access_log.isEnabledFor(logging.INFO):
                _tell(scope, status or 500, time.perf_counter() - began)
            if body.answered:
                if self._drained < _MOST_DRAINED:  # or callers without a key could hold every connection
                    self._drained += 1
                    try:
                        await body.drained()
                    finally:
                        self._drained -= 1
                await send({"type": "http.response.body"})

    def _barred(self, scope: Scope, headers: Mapping[bytes, bytes], turn: Turn) -> Response | None:
        """Why this request is not even looked at; None when it is."""
        if not self._door.needs_key and (stranger := self._door.stranger(headers)) is not None:
            return stranger
        # Until the key is known, callers are told apart by where they call from.
        client = scope.get("client")
        if _path(scope) not in OPEN and not turn.begin(f"address {client[0] if client else ''}"):
            return _busy()
        return None

    async def _refused(self, scope: Scope, headers: Mapping[bytes, bytes], turn: Turn) -> Response | None:
        """Why this request goes no further; None when it does."""
        method, path = scope["method"], _path(scope)
        if path in OPEN:
            return None
        try:
            caller = await self._door.caller(method, path, scope["headers"])
        except OctavoError as error:
            # Who calls is not known, so they are told nothing that is for an admin.
            if (told := refusal(error, self._secrets, scope[REQUEST_ID], admin=False)) is None:
                raise
            return told
        if isinstance(caller, Response):
            return caller
        scope[CALLER] = caller
        if caller.key_id is not None and not turn.begin(f"key {caller.key_id}"):
            return _busy()
        return self._unreadable(method, headers)

    def _unreadable(self, method: str, headers: Mapping[bytes, bytes]) -> Response | None:
        kind = headers.get(b"content-type")
        if kind is not None and method in ("POST", "PUT") and not _json(kind):
            return problem(
                415, "the body must be JSON: send it with the header `Content-Type: application/json`"
            )
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > self._most_bytes:
            return problem(413, _limit(self._most_bytes), _CLOSE)
        return None

    async def _within_time(
        self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, answer: Send, turn: Turn
    ) -> None:
        started = False

        async def noting(message: Message) -> None:
            nonlocal started
            started = True
            await answer(message)

        limit = asyncio.timeout(self._seconds)
        try:
            async with limit:
                # The key is asked for within the time, too: a store that hangs must not gather callers without end.
                app = await self._refused(scope, headers, turn) or self._app
                await app(scope, receive, noting)
        except TimeoutError:
            if started or not limit.expired():
                raise
            late = problem(
                504,
                f"not done within {self._seconds:g} s; a write may still have been kept",
                {"Retry-After": "1"},
            )
            await late(scope, receive, answer)


_CLOSE = {"Connection": "close"}
_BUSY = "too many requests of this caller are under way, or too large ones; come back in 1 s"


def _busy() -> Response:
    return problem(503, _BUSY, {"Retry-After": "1"})


class _Body:
    """What a caller sends: read up to the limit, and after the answer drained of what was not read."""

    def __init__(self, receive: Receive, headers: Mapping[bytes, bytes], most_bytes: int, turn: Turn) -> None:
        self._receive = receive
        self._turn = turn
        self._most_bytes = most_bytes
        self._seen = 0
        self.answered = False  # before all of it was read
        #: Whether there is more of it to come.
        self.left = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers

    async def read(self) -> Message:
        """The next piece; its length need not have been announced, nor be what was announced."""
        message = await self._next()
        if self._seen > self._most_bytes:
            raise HTTPException(413, _limit(self._most_bytes), _CLOSE)
        if not self._turn.read(len(message.get("body", b""))):
            raise HTTPException(503, _BUSY, {"Retry-After": "1", **_CLOSE})
        return message

    async def drained(self) -> None:
        """Let the caller send the rest, within reason."""
        try:
            async with asyncio.timeout(_DRAINED_SECONDS):
                while self.left and self._seen < _DRAINED_BYTES:
                    await self._next()
        except TimeoutError:
            return

    async def _next(self) -> Message:
        message = await self._receive()
        self._seen += len(message.get("body", b""))
        self.left = message["type"] == "http.request" and message.get("more_body", False)
        return message


def _limit(most_bytes: int) -> str:
    return f"a request may have at most {most_bytes:,} bytes (server.max_body_bytes)"


def caller_of(scope: Scope) -> Caller:
    """Who was let in with this request."""
    caller: Caller = scope[CALLER]
    return caller


def _path(scope: Scope) -> str:
    """The path as the routes see it: inside another application, it begins with where this one was put."""
    root: str = scope.get("root_path", "")
    path: str = scope["path"]
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def _unquoted(raw: bytes) -> str:
    """The path with its names told apart: a slash that was written as %2F belongs to a name."""
    names = raw.partition(b"?")[0].decode("ascii", "replace").split("/")
    return "/".join(unquote(name).replace("/", SLASH) for name in names)


def _json(kind: bytes) -> bool:
    name = kind.partition(b";")[0].strip().lower()
    return name == b"application/json" or (name.startswith(b"application/") and name.endswith(b"+json"))


def _tell(scope: Scope, status: int, seconds: float) -> None:
    """One line: which route, never which path or query, in which people are named."""
    caller: Caller | None = scope.get(CALLER)
    route: Any = scope.get("route")
    path = _path(scope)
    line = {
        "method": masked(scope["method"][:16]),
        "route": getattr(route, "path_format", None) or (path if path in OPEN else None),
        "status": status,
        "ms": round(seconds * 1000, 3),
        "key": None if caller is None else caller.key_id,
        "tenant": None if caller is None else caller.tenant,
        "request_id": scope[REQUEST_ID],
    }
    access_log.info("request", line)
