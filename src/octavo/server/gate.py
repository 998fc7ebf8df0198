"""The one thing between uvicorn and the routes: it names, admits, limits and logs every request."""

import asyncio
import logging
import re
import secrets as randomness
import time
from collections.abc import Callable
from typing import TypeAlias
from urllib.parse import unquote, unquote_to_bytes

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from octavo.config import Settings
from octavo.errors import OctavoError
from octavo.server.access import OPEN, SIGN_IN, Caller, Door, is_console, is_open
from octavo.server.metrics import METHODS, Metrics
from octavo.server.problems import Secrets, access_log, mask_keys, problem, refusal
from octavo.util.tracing import current_ids, is_tracing, request_span, span

CALLER = "octavo.caller"
REQUEST_ID = "octavo.request_id"
BATCHED = "octavo.batched"  # marks a part of a batch
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
GONE = 499  # what a log calls a request whose caller did not wait; nobody is sent it
NOT_JSON = "the body must be JSON: send it with the header `Content-Type: application/json`"
_BUSY = "too many requests of this caller are under way, or too large ones; come back in 1 s"
_CLOSE = {"Connection": "close"}
_FORM = b"application/x-www-form-urlencoded"


#: Makes a page of a refusal, for people.
AsPage: TypeAlias = Callable[[Scope, Response], Response]


class Gate:
    """ASGI in, ASGI out: what all requests share."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: Settings,
        door: Door,
        secrets: Secrets,
        page: AsPage | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        server = settings.server
        self.page = page
        self.metrics = metrics
        self.app = app
        self.door = door
        self.secrets = secrets
        self.server = server
        # Fewer than the connections: the others make room for a caller who has none yet.
        self.slots = Shares(min(server.max_concurrent, max(1, server.max_connections * 3 // 4)))
        self.room = Shares(max(_BODIES_BYTES, 4 * server.max_body_bytes))
        if metrics is not None:
            metrics.under_way = self.slots.count_taken
        self.draining = 0  # requests that were answered, whose callers still send

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await _Passage(self, scope, receive, send).run()
        else:
            await self.app(scope, receive, send)


class Shares:
    """So many of something. A caller may have as many as are left for all others.

    Alone a caller gets half of it, and the next one half of the rest: whoever holds how much, there is some for another.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._taken = 0
        self._by_caller: dict[str, int] = {}

    def count_taken(self) -> int:
        """How much of it is taken now."""
        return self._taken

    def take(self, caller: str, amount: int = 1) -> bool:
        """Take some of it; False when that is more than the caller's share."""
        own = self._by_caller.get(caller, 0) + amount
        if own > self.most - self._taken:
            return False
        self._taken += amount
        self._by_caller[caller] = own
        return True

    def give_back(self, caller: str, amount: int = 1) -> None:
        """Give back what was taken."""
        self._taken -= amount
        own = self._by_caller.pop(caller) - amount
        if own:  # or callers who left would be remembered for ever
            self._by_caller[caller] = own


class _Passage:
    """One request on its way in and its answer on the way out.

    It holds a slot among the requests under way and room for what was read of its body, and gives both back at its end.
    """

    def __init__(self, gate: Gate, scope: Scope, receive: Receive, send: Send) -> None:
        self._gate = gate
        self._receive = receive
        self._send = send
        headers = self._headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        known = _ID.fullmatch(given) is not None and b"oct_" not in given
        self._id = given if known else randomness.token_hex(8).encode()
        if _ENCODED_SLASH.search(scope.get("raw_path") or b""):
            # A copy: the path that the server itself holds must stay one that can be written down.
            scope = {**scope, "path": _unquote(scope["raw_path"])}
        scope[REQUEST_ID] = self._id.decode()
        # HEAD is answered as GET is; whoever sends the answer knows from the scope of its own to leave the body out.
        self._scope = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        self._caller: str | None = None  # who holds the slot, if one is held
        self._room = 0  # bytes that are held
        self._seen = 0  # bytes of the body that came
        self._unread = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
        self._status = 0
        self._unended = False  # whether the answer's end waits until the caller has stopped sending

    async def run(self) -> None:
        """Answer it; where there are traces, inside a span that goes on with its caller's."""
        if not is_tracing():
            await self._run()
            return
        method = self._scope["method"] if self._scope["method"] in METHODS else "_OTHER"
        # A part of a batch belongs to the batch, whatever headers it was given.
        with span(method) if BATCHED in self._scope else request_span(method, self._headers) as seen:
            seen.set("http.request.method", method)
            try:
                await self._run()
            finally:
                # Not the path that the conventions ask for: people are named in it.
                if (route := _route_of(self._scope)) is not None:
                    seen.rename(f"{method} {route}")
                    seen.set("http.route", route)
                status = self._status or 500
                seen.set("http.response.status_code", status)
                if status >= 500:
                    seen.fail(str(status))

    async def _run(self) -> None:
        """Let it through or refuse it, within its time; log it, and let its caller finish sending."""
        began = time.perf_counter()
        seconds = self._gate.server.request_seconds
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                # The key is asked for within the time, too: a store that hangs must not gather callers without end.
                refused = await self._find_refusal()
                app = self._gate.app if refused is None else render(self._scope, refused, self._gate.page)
                await app(self._scope, self._read, self._answer)
        except TimeoutError:
            if self._status or not limit.expired():
                raise
            late = f"not done within {seconds:g} s; a write may still have been kept"
            told = problem(504, late, {"Retry-After": "1"})
            answer = render(self._scope, told, self._gate.page)
            await answer(self._scope, self._receive, self._answer)
        finally:
            self._let_go()
            self._record(time.perf_counter() - began)
            if self._unended:
                await self._drain()

    def _record(self, seconds: float) -> None:
        """Count it, and write its line into the log."""
        status = self._status or 500
        if (metrics := self._gate.metrics) is not None:
            metrics.count_request(self._scope["method"], _route_of(self._scope), status, seconds)
        if access_log.isEnabledFor(logging.INFO):
            _tell(self._scope, status, seconds)

    async def _find_refusal(self) -> Response | None:
        """Why this request goes no further; None when it does."""
        scope, door = self._scope, self._gate.door
        if not _is_utf8(scope):
            return problem(422, "the address is not percent-encoded UTF-8: é is %C3%A9, not %E9")
        if not door.needs_key and (stranger := door.refuse_stranger(self._headers)) is not None:
            return stranger
        method, path = scope["method"], path_of(scope)
        if is_open(path):
            return None
        batched = BATCHED in scope  # and its batch holds a slot and room for all of its parts
        # Until the key is known, callers are told apart by where they call from.
        client = scope.get("client")
        if not batched and not self._take_slot(f"address {client[0] if client else ''}"):
            return problem(503, _BUSY, {"Retry-After": "1"})
        if path == SIGN_IN and not batched:
            return self._check_body(method, path)
        try:
            caller = await door.caller(method, path, scope["headers"])
        except OctavoError as error:
            # Who calls is not known, so they are told nothing that is for an admin.
            if (told := refusal(error, self._gate.secrets, scope[REQUEST_ID], admin=False)) is None:
                raise
            return told
        if isinstance(caller, Response):
            return caller
        scope[CALLER] = caller
        if caller.key_id is not None and not batched and not self._take_slot(f"key {caller.key_id}"):
            return problem(503, _BUSY, {"Retry-After": "1"})
        return self._check_body(method, path)

    def _check_body(self, method: str, path: str) -> Response | None:
        """Why the body cannot be read; None when it can be."""
        kind = self._headers.get(b"content-type")
        if kind is not None and method in ("POST", "PUT"):
            if is_console(path) and kind.partition(b";")[0].strip().lower() != _FORM:
                return problem(415, "the body must be a form: it is sent by a page of the console")
            if not is_console(path) and not _json(kind):
                return problem(415, NOT_JSON)
        length = self._headers.get(b"content-length", b"")
        return problem(413, self._limit, _CLOSE) if length.isdigit() and self._exceeds(int(length)) else None

    async def _read(self) -> Message:
        """The next piece of the body; its length need not have been announced, nor be what was announced."""
        message = await self._next_piece()
        size = len(message.get("body", b""))
        if self._exceeds(self._seen):
            raise HTTPException(413, self._limit, _CLOSE)
        if self._caller is not None and size:
            if not self._gate.room.take(self._caller, size):
                raise HTTPException(503, _BUSY, {"Retry-After": "1", **_CLOSE})
            self._room += size
        return message

    async def _answer(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            message["headers"] = [*message.get("headers", ()), (b"x-request-id", self._id), *_ALWAYS]
            if self._scope["app"].state.memories.draining:
                # The caller's next request goes to another server, and not to a connection that is just being closed;
                # nor is one that was accepted a moment ago served on and on, until the time to stop is over.
                message["headers"].append((b"connection", b"close"))
        elif self._unread and not message.get("more_body"):
            # All of the answer goes out; only its end waits until the caller has stopped sending.
            message, self._unended = {**message, "more_body": True}, True
        await self._send(message)

    async def _drain(self) -> None:
        """Let the caller send the rest, within reason, and end the answer."""
        gate = self._gate
        if gate.draining < _MOST_DRAINED:  # or callers without a key could hold every connection
            gate.draining += 1
            try:
                async with asyncio.timeout(_DRAINED_SECONDS):
                    while self._unread and self._seen < _DRAINED_BYTES:
                        await self._next_piece()
            except TimeoutError:
                pass
            finally:
                gate.draining -= 1
        await self._send({"type": "http.response.body"})

    async def _next_piece(self) -> Message:
        message = await self._receive()
        self._seen += len(message.get("body", b""))
        self._unread = message["type"] == "http.request" and message.get("more_body", False)
        return message

    def _take_slot(self, caller: str) -> bool:
        """Take a slot for this caller, in exchange for the one that was held; False when there is none."""
        self._let_go()
        if self._gate.slots.take(caller):
            self._caller = caller
        return self._caller is not None

    def _let_go(self) -> None:
        if self._caller is not None:
            self._gate.slots.give_back(self._caller)
            if self._room:
                self._gate.room.give_back(self._caller, self._room)
        self._caller, self._room = None, 0

    def _exceeds(self, size: int) -> bool:
        return size > self._gate.server.max_body_bytes

    @property
    def _limit(self) -> str:
        return (
            f"a request may have at most {self._gate.server.max_body_bytes:,} bytes (server.max_body_bytes)"
        )


def render(scope: Scope, told: Response, page: AsPage | None) -> Response:
    """A refusal as its reader wants it: people are shown a page."""
    return told if page is None or not is_console(path_of(scope)) else page(scope, told)


def path_of(scope: Scope) -> str:
    """The path as the routes see it: inside another application, it begins with where this one was put."""
    root: str = scope.get("root_path", "")
    path: str = scope["path"]
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def _unquote(raw: bytes) -> str:
    """The path with its names told apart: a slash that was written as %2F belongs to a name."""
    names = raw.partition(b"?")[0].decode("ascii", "replace").split("/")
    return "/".join(unquote(name).replace("/", SLASH) for name in names)


def _is_utf8(scope: Scope) -> bool:
    """Whether what the address names can be told apart: bytes that are no UTF-8 would all be read as the same character."""
    try:
        for raw in (scope.get("raw_path") or b"", scope["query_string"]):
            unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        return False
    return True


def _json(kind: bytes) -> bool:
    name = kind.partition(b";")[0].strip().lower()
    return name == b"application/json" or (name.startswith(b"application/") and name.endswith(b"+json"))


def _route_of(scope: Scope) -> str | None:
    """The template of the route that answered, never the path: in it people are named, and there is no end of them."""
    template: str | None = getattr(scope.get("route"), "path_format", None)
    if template is None and "endpoint" in scope:  # a route that FastAPI did not make is not always named
        template = scope["app"].state.templates.get(scope["endpoint"])
    path = path_of(scope)
    return template or (path if path in OPEN else None)


def _tell(scope: Scope, status: int, seconds: float) -> None:
    """One line: which route, never which path or query, in which people are named."""
    caller: Caller | None = scope.get(CALLER)
    line = {
        "method": mask_keys(scope["method"][:16]),
        "route": _route_of(scope),
        "status": status,
        "ms": round(seconds * 1000, 3),
        "key": None if caller is None else caller.key_id,
        "tenant": None if caller is None else caller.tenant,
        "request_id": scope[REQUEST_ID],
        **current_ids(),
    }
    access_log.info("request", line)
