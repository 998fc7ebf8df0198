"""Running the server: a socket, one process or several, and an end that loses nothing.

Each connection always has a deadline, and when there are too many, one that asks nothing makes room.
"""

import asyncio
import errno
import functools
import gc
import logging
import math
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import msgspec
import uvicorn
from fastapi import FastAPI
from uvicorn.config import STARTUP_FAILURE
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.supervisors.multiprocess import Multiprocess

from octavo import __version__
from octavo.assemble import assemble
from octavo.config import Server, Settings, local_path
from octavo.errors import ConfigError, OctavoError, StoreUnavailable
from octavo.kernel.ids import now
from octavo.kernel.model import Query
from octavo.keys import Keys
from octavo.layers import LayeredMemory
from octavo.server import create_app
from octavo.server.app import add_sample
from octavo.server.problems import Problem, Secrets, write_logs
from octavo.util.system import POSIX, import_optional
from octavo.util.tracing import export_spans, flush_spans

SERVED = ("observations", "turns", "profile", "episodes", "log")  # what requests read and write
_READY_SECONDS = 60.0
_BACKLOG = 2048  # callers that the system lets wait
#: Callers that are accepted before the oldest of those that ask nothing are closed for them: all at once would take every
#: file that the process may open. asyncio takes this number for the backlog too, which is set again after it.
_ACCEPTED_AT_ONCE = 32
_FILES = 256  # that the process opens beside its connections: stores, logs, the queue
_GRACE_SECONDS = 10.0  # for a request that ran out of time to send its last words
_log = logging.getLogger("octavo.server")


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """What is known before anybody is served."""

    reachable: bool  # whether the store answered
    keys: int  # that work
    trouble: str = ""


class WorkerApp(msgspec.Struct, frozen=True):
    """Makes the application in the process that serves it; the settings reach it through a pipe, which nobody else reads."""

    settings: Settings
    sample: bool
    requests: bool
    metrics_folder: str = ""  # that all workers share

    def __call__(self) -> FastAPI:
        write_logs(Secrets(self.settings), requests=self.requests)
        folder = Path(self.metrics_folder) if self.metrics_folder else None
        app = create_app(self.settings, sample=self.sample, metrics_folder=folder)
        if self.settings.telemetry.traces:
            export_spans(__version__)
        _drain_first(app, self.settings.server.drain_seconds)
        app.openapi()  # kept by the application: made while it serves, it would hold up everybody for a tenth of a second
        # What is there now stays: to look through it for garbage, again and again, would hold up everybody each time.
        gc.collect()
        gc.freeze()
        # By default a page of a million small values is looked through as a whole ten times while it is read.
        gc.set_threshold(700, 10, 100)
        return app


def _drain_first(app: FastAPI, seconds: float) -> None:
    """Have the server, told to stop, say so at /health/ready and stop so many seconds later; at once when interrupted again."""
    inside, memories = app.router.lifespan_context, app.state.memories

    @asynccontextmanager
    async def life(served: FastAPI) -> AsyncIterator[Any]:
        async with inside(served) as state:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                stop = signal.getsignal(number)  # uvicorn's by now
                if callable(stop):
                    signal.signal(number, functools.partial(drain, loop, stop))
            yield state
        flush_spans()

    def drain(
        loop: asyncio.AbstractEventLoop, stop: Callable[..., Any], number: int, _: FrameType | None
    ) -> None:
        again, memories.draining = memories.draining, True
        if not seconds or (again and number == signal.SIGINT):
            stop(number, None)
        elif not again:  # a supervisor may tell each process, and the first one its workers once more
            loop.call_soon_threadsafe(loop.call_later, seconds, stop, number, None)

    app.router.lifespan_context = life


def check_settings(settings: Settings) -> None:
    """Refuse settings that no server can run with."""
    if local_path(settings.database.dsn) == "":  # in the memory of one process
        if settings.server.workers > 1:
            raise ConfigError(
                f"server.workers is {settings.server.workers}, but a store in memory belongs to one process; "
                "use 1 worker, or a store that processes can share"
            )
        if settings.server.needs_key:
            raise ConfigError(
                "a server that needs keys cannot keep them in memory; name a store by --store or database.dsn"
            )


async def prepare(settings: Settings, *, sample: bool) -> Prepared:
    """Open the store once before the workers do: whether its tables are ours, the sample, and how many keys there are."""
    try:
        async with assemble(settings) as assembled:
            if sample:
                layers = LayeredMemory.from_assembled(assembled).of(settings.service.tenant)
                await add_sample(layers)
            keys = await Keys(assembled.store).list() if settings.server.needs_key else []
            # Another program's table of the same name is refused now, not request by request.
            for collection in SERVED:
                await assembled.store.find(Query(collection=collection, limit=1))
    except StoreUnavailable as error:  # it is queued for, and may be back before anybody asks
        return Prepared(reachable=False, keys=0, trouble=Secrets(settings).hide(str(error)))
    return Prepared(reachable=True, keys=sum(key.valid_at(now()) for key in keys))


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens there, so that nobody is refused while the workers start."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, or asyncio does not know that it may switch off Nagle's delay: 40 ms on each answer.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if POSIX:  # elsewhere it lets several listen at once
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        cure = "--port names another, 0 is any that is free"
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            cure = "--host names an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all it has"
        elif error.errno == errno.EADDRINUSE:
            cure = f"is a server running there already? {cure}"
        raise OctavoError(f"cannot listen on {host} port {port}: {error.strerror or error}; {cure}") from None
    sock.set_inheritable(True)
    return sock


def serve(
    settings: Settings, sock: socket.socket, ready: Callable[[], None], *, sample: bool, requests: bool
) -> int:
    """Serve until told to stop by SIGTERM or SIGINT; then finish what is under way. The status to exit with."""
    with tempfile.TemporaryDirectory(prefix="octavo-metrics-") as folder:
        shared = folder if settings.server.workers > 1 else ""
        return _serve(settings, sock, ready, WorkerApp(settings, sample, requests, shared))


def _serve(settings: Settings, sock: socket.socket, ready: Callable[[], None], app: WorkerApp) -> int:
    write_logs(Secrets(settings), requests=app.requests)
    most = most_connections(settings.server.max_connections)
    server = msgspec.structs.replace(settings.server, max_connections=most)
    settings = msgspec.structs.replace(settings, server=server)
    config = Config(
        server,
        msgspec.structs.replace(app, settings=settings),
        factory=True,
        host=server.host,
        port=sock.getsockname()[1],
        workers=server.workers,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        # Who calls is told by a key, never by a header that anybody can write.
        proxy_headers=False,
        timeout_graceful_shutdown=math.ceil(server.stop_seconds),
        ws="none",
    )
    if server.workers > 1:
        crew = _Crew(config, [sock], ready)
        crew.run()
        return 1 if any(process.exitcode == STARTUP_FAILURE for process in crew.processes) else 0
    one = _One(config, ready)

    def stop(_: int, __: FrameType | None) -> None:
        one.should_exit = True

    # uvicorn raises the signal again when all is done, and that must not end the process as if it had been killed.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        one.run([sock])
    except SystemExit:  # uvicorn's word for an application that could not start; the log says why
        return 1
    return 0


class _One(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for sock in sockets or ():
            sock.listen(_BACKLOG)
        if self.started:
            self._ready()


class _Crew(Multiprocess):
    def __init__(
        self, config: uvicorn.Config, sockets: list[socket.socket], ready: Callable[[], None]
    ) -> None:
        super().__init__(config, sockets)
        self._ready = ready
        for number in (signal.SIGTERM, signal.SIGINT):  # heeded while workers start, too
            signal.signal(number, lambda *_: self.should_exit.set())

    def init_processes(self) -> None:
        # Workers are told by this process to stop: a Ctrl-C that reaches them while they import would be a traceback.
        stop = signal.signal(signal.SIGINT, signal.SIG_IGN)
        super().init_processes()
        signal.signal(signal.SIGINT, stop)
        if all(process.wait_until_ready(_READY_SECONDS, self.should_exit) for process in self.processes):
            for sock in self.sockets:
                sock.listen(_BACKLOG)
            self._ready()


def most_connections(wanted: int) -> int:
    """How many connections the process can have: all that are wanted, or what its limit of open files leaves room for.

    The limit is raised as far as the system lets it: a process that cannot open a file can accept nobody.
    """
    resource = import_optional("resource")
    if resource is None:
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    needed = wanted + _FILES
    if soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = raised
    most: int = min(wanted, max(soft - _FILES, soft // 2))
    if most < wanted:
        _log.warning(
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
        own = {"http": CallerConnection, "timeout_keep_alive": 86_400, "backlog": _ACCEPTED_AT_ONCE}
        super().__init__(app, **{**named, **own})
        self.server = server


class CallerConnection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """A connection of a caller: new, sending headers, with a request under way, or idle."""

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

    @property
    def _waiting(self) -> "dict[CallerConnection, None]":
        """The connections of this server that ask nothing, the oldest first."""
        waiting: dict[CallerConnection, None] = self.server_state.__dict__.setdefault("waiting", {})
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
        self._timer = self.loop.call_later(seconds, self._close_late)
        if phase == "request":
            self._waiting.pop(self, None)
        else:
            self._waiting.setdefault(self)

    def _close_late(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent and (self._unsent is None or unsent < self._unsent):
            # The caller still reads what was answered, however slowly.
            self._unsent = unsent
            self._timer = self.loop.call_later(self.config.server.idle_seconds, self._close_late)
        elif self._phase == "headers" and not unsent and not self.transport.is_closing():
            detail = f"the headers of this request took longer than {self.config.server.header_seconds:g} s"
            body = msgspec.json.encode(Problem.of(408, f"{detail} (server.header_seconds)"))
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
