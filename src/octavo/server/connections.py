"""Connections: each one always has a deadline, and when there are too many, one that asks nothing makes room."""

import asyncio
import logging
from typing import Any, Literal

import msgspec
import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from octavo.config import Server
from octavo.server.problems import Problem

log = logging.getLogger("octavo.server")
_CLOSE = (b"connection", b"close")
_FILES = 256  # that the process opens beside its connections: stores, logs, the queue
_GRACE_SECONDS = 10.0  # for a request that ran out of time to send its last words


def most_connections(wanted: int) -> int:
    """How many connections the process can have: all that are wanted, or what its limit of open files leaves room for.

    The limit is raised as far as the system lets it: a process that cannot open a file can accept nobody.
    """
    try:
        import resource
    except ImportError:  # not on this system
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    needed = wanted + _FILES
    if soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = raised
    most = min(wanted, max(soft - _FILES, soft // 2))
    if most < wanted:
        log.warning(
            "server.max_connections is %s, but this process may open %s files, so that it is %s; raise that limit (ulimit -n)",
            wanted,
            soft,
            most,
        )
    return most


class Config(uvicorn.Config):
    """uvicorn's settings with Octavo's own, which reach every worker with them."""

    def __init__(self, server: Server, app: Any, **named: Any) -> None:
        # uvicorn's own timer ends with the first byte, and closes only after all was read: it is not asked.
        super().__init__(app, **{**named, "http": Connection, "timeout_keep_alive": 86_400})
        self.server = server


class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """A connection of a caller: new, sending headers, with a request under way, or idle.

    Told to end, it has all others of its server end with their next answer. uvicorn tells those it knows; one that was
    accepted in that moment would be served on and on, until the time to stop is over.
    """

    config: Config
    _phase: Literal["new", "headers", "request", "idle"] = "new"
    _timer: asyncio.TimerHandle | None = None
    _unsent: int | None = None  # bytes that the caller had not taken at the last deadline

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._enter("new", self.config.server.header_seconds)
        if len(self.connections) > self.config.server.max_connections:
            # The one that has waited longest without asking; which is this one, when all others are asking.
            oldest = next(iter(self._waiting))
            oldest._drop()  # noqa: SLF001 - of its own class
            self.connections.discard(oldest)

    def data_received(self, data: bytes) -> None:
        if self._phase in ("new", "idle"):  # later bytes win no time
            self._enter("headers", self.config.server.header_seconds)
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look(answered=True)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.pop(self, None)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        state = self.server_state
        if _CLOSE not in state.default_headers:
            state.default_headers = [*state.default_headers, _CLOSE]
        super().shutdown()

    @property
    def _waiting(self) -> "dict[Connection, None]":
        """The connections of this server that ask nothing, the oldest first."""
        waiting: dict[Connection, None] = self.server_state.__dict__.setdefault("waiting", {})
        return waiting

    def _look(self, *, answered: bool = False) -> None:
        """Notice that a request has begun, or that the last one was answered."""
        if self.cycle is not None and not self.cycle.response_complete:
            if self._phase != "request" or answered:
                self._enter("request", self.config.server.request_seconds + _GRACE_SECONDS)
        elif self._phase == "request":
            self._enter("idle", self.config.server.idle_seconds)

    def _enter(self, phase: Literal["new", "headers", "request", "idle"], seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._phase, self._unsent = phase, None
        self._timer = self.loop.call_later(seconds, self._too_late)
        if phase == "request":
            self._waiting.pop(self, None)
        else:
            self._waiting.setdefault(self)

    def _too_late(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent and (self._unsent is None or unsent < self._unsent):
            # The caller still reads what was answered, however slowly.
            self._unsent = unsent
            self._timer = self.loop.call_later(self.config.server.idle_seconds, self._too_late)
        elif self._phase == "headers" and not unsent and not self.transport.is_closing():
            detail = f"the headers of this request took longer than {self.config.server.header_seconds:g} s"
            body = msgspec.json.encode(Problem(f"{detail} (server.header_seconds)"))
            self.transport.write(
                b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: application/json\r\n"
                b"content-length: %d\r\n\r\n%s" % (len(body), body)
            )
            self.transport.close()
        else:
            self._drop()

    def _drop(self) -> None:
        """End it at once: a caller who does not read would never let it be closed."""
        self._waiting.pop(self, None)
        self.transport.abort()
