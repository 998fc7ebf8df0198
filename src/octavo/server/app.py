"""The application: routes, errors and the gate, put together over one memory, and what it holds while it runs."""

import asyncio
import dataclasses
import functools
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match, Route

from octavo import __version__
from octavo.assemble import Assembled, assemble
from octavo.config import Settings
from octavo.errors import OctavoError
from octavo.kernel.terms import topics
from octavo.keys import Keys
from octavo.layers import LayeredMemory
from octavo.memory.retention import RetentionSweep
from octavo.server.access import MCP, Cors, Door
from octavo.server.gate import CALLER, GONE, REQUEST_ID, AsPage, Gate, render
from octavo.server.metrics import Metrics, answer_metrics
from octavo.server.openapi import docs_page, document
from octavo.server.problems import Secrets, problem, refusal, sentence
from octavo.server.routes import batch, events, mem0, memories, upkeep, users
from octavo.server.routes.mcp import McpEndpoint
from octavo.service.health import Health
from octavo.service.memory import AsyncMemoryService
from octavo.util.secrets import DigestKey
from octavo.util.sync import import_aside

_ABOUT = """Memory for AI agents: who somebody is (the profile layer) and what happened (the event layer), with a log of every change.

用户画像与事件记忆，每一次修改都有日志。Times are ISO 8601 in UTC. An id in a path may be any text; a slash in it is written `%2F`.
Errors are `{"detail": "…", "code": "…"}`: one sentence that names what is wrong, and one word for programs.
"""
_TAGS = [
    {"name": "memories", "description": "Profile and event memories of users and agents. 画像与事件记忆"},
    {"name": "log", "description": "What was done to memories, and undoing it. 操作日志"},
    {"name": "events", "description": "What agents observed and did. 观察与回合"},
    {"name": "batch", "description": "Several requests in one. 批量请求"},
    {"name": "upkeep", "description": "Health and numbers. 健康与统计"},
    {"name": "admin", "description": "Settings and the failure queue. 配置与失败队列"},
]
_log = logging.getLogger("octavo.server")
_MOST_TENANTS = 1000  # whose recent events are held; more are made again when they call
_HEALTH_SECONDS = 0.5  # for which an answer about health is good enough: anybody may ask, without a key

#: One user to look at, so that a newcomer's first question has an answer.
_SAMPLE_USER = "user123"
_SAMPLE: tuple[dict[str, Any], ...] = (
    {"content": "用户是一名软件工程师，毕业于北京大学", "layer": "profile", "category": "career"},
    {"content": "用户喜欢喝绿茶，不喝咖啡", "layer": "profile", "category": "preference"},
    {"content": "Speaks fluent English and Chinese", "layer": "profile", "category": "ability"},
    {"content": "用户下午参加了技术分享会，讨论了人工智能的应用", "layer": "event", "category": "meeting"},
    {"content": "Decided to move the project to PostgreSQL", "layer": "event", "category": "decision"},
)

#: In the order in which paths are matched: a fixed name stands before a name of the caller's in the same position.
_ROUTERS = (
    memories.router,
    memories.log_router,
    users.router,
    events.router,
    batch.router,
    upkeep.router,
    upkeep.admin_router,
    mem0.router,
)


def create(
    settings: Settings,
    *,
    assembled: Assembled | None = None,
    sample: bool = False,
    metrics_folder: Path | None = None,
) -> FastAPI:
    """An application; it opens its store when it starts, and closes it when it stops if it was not handed in."""
    secrets = Secrets(settings)
    held = TenantMemories(settings, assembled)

    metrics = None if held.assembled.meter is None else Metrics(held, held.assembled.meter, metrics_folder)
    mcp = McpEndpoint(settings)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        try:
            await held.start(sample=sample)
            if metrics is not None:
                metrics.start()
            yield
        finally:
            if metrics is not None:
                await metrics.close()
            await mcp.close()
            await held.close()

    app = FastAPI(
        title="Octavo",
        version=__version__,
        summary="Memory for AI agents",
        description=_ABOUT,
        openapi_tags=_TAGS,
        # Flat, not included router by router: matching a path then costs one pass.
        routes=[route for router in _ROUTERS for route in router.routes],
        lifespan=life,
        # A page of our own stands at /docs: theirs loads its program from elsewhere, and would be given the caller's key.
        docs_url=None,
        redoc_url=None,
        # A redirect would answer what no route documents, and lose the body of a POST with some clients.
        redirect_slashes=False,
        # Its own spans and metrics would hold paths, in which people are named.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.memories = held
    pages: list[Route] = []
    page: AsPage | None = None
    if settings.server.console:
        from octavo.server.console.pages import refusal_page
        from octavo.server.console.site import routes

        pages, page = routes(), refusal_page
    _answer_errors(app, secrets, page)
    app.add_middleware(
        Gate, settings=settings, door=Door(settings, held), secrets=secrets, page=page, metrics=metrics
    )
    if sites := settings.server.cors_origins:
        # Around all of it: what is added as a middleware is not asked about the answer to a failure of the server.
        inside = app.build_middleware_stack
        app.build_middleware_stack = lambda: Cors(inside(), sites)  # type: ignore[method-assign]

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = document(app, settings)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
    show_docs = functools.cache(lambda: docs_page(openapi()))
    app.add_route("/docs", lambda _: show_docs(), include_in_schema=False)
    app.add_route("/metrics", functools.partial(answer_metrics, metrics), include_in_schema=False)
    app.router.routes.extend(pages)
    app.router.routes.append(Route(MCP, mcp, methods=["POST"], include_in_schema=False))
    app.state.templates = {
        route.endpoint: route.path_format for route in app.routes if isinstance(route, Route)
    }
    return app


def _answer_errors(app: FastAPI, secrets: Secrets, page: AsPage | None) -> None:
    async def invalid(request: Request, error: Exception) -> Response:
        told = error.errors() if isinstance(error, RequestValidationError) else ()
        return render(request.scope, problem(422, sentence(told)), page)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - what it is registered for
        headers, detail = error.headers, str(error.detail)
        if error.status_code == 404:
            detail = "there is no such path; /docs lists what there is"
        elif error.status_code == 405:
            # The error knows the methods of one route only, and several may share a path.
            found = [route for route in app.routes if route.matches(request.scope)[0] is not Match.NONE]
            methods = {method for route in found for method in getattr(route, "methods", None) or ()}
            headers = {"Allow": ", ".join(sorted(methods))}
            detail = f"this path takes {headers['Allow']}"
        return render(request.scope, problem(error.status_code, detail, headers), page)

    async def known(request: Request, error: Exception) -> Response:
        assert isinstance(error, OctavoError)  # noqa: S101 - what it is registered for
        caller = request.scope.get(CALLER)
        admin = caller is not None and caller.admin
        told = refusal(error, secrets, request.scope.get(REQUEST_ID, ""), admin=admin)
        if told is None:
            raise error
        return render(request.scope, told, page)

    async def gone(_: Request, __: Exception) -> Response:
        return Response(status_code=GONE)

    async def unknown(request: Request, _: Exception) -> Response:
        # The traceback is in the log, under the same id; the caller gets nothing that could be a secret.
        name = request.scope.get(REQUEST_ID, "")
        told = f"the server failed; its log says why at request_id {name}"
        return render(request.scope, problem(500, told, {"X-Request-ID": name}), page)

    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(OctavoError, known)
    app.add_exception_handler(ClientDisconnect, gone)  # in the middle of the body: no fault of the server
    app.add_exception_handler(Exception, unknown)


class TenantMemories:
    """The layers and the service of every tenant, over one store that is opened and closed here."""

    def __init__(self, settings: Settings, assembled: Assembled | None = None) -> None:
        self.settings = settings
        self._owned = assembled is None
        self.assembled = assembled or assemble(settings)
        # The documents of a vault are files of one machine, for which the server has no route.
        vault = msgspec.structs.replace(settings.vault, enabled=False)
        self._plain = msgspec.structs.replace(settings, vault=vault)
        self._layers = LayeredMemory.from_assembled(self.assembled)
        self.keys = Keys(self.assembled.store)
        #: The events and turns of a tenant.
        self.service = functools.lru_cache(_MOST_TENANTS)(self._new_service)
        self._asking: asyncio.Task[Health] | None = None
        self._asked = 0.0
        self._first_sweep: asyncio.Task[None] | None = None
        self._retention = RetentionSweep(self._layers, settings)
        self._pruning: asyncio.Task[None] | None = None
        #: Whether the server was told to stop, and takes what comes until those who send it have noticed.
        self.draining = False
        self._service = self.service(settings.service.tenant)

    @property
    def digest_key(self) -> DigestKey:
        """The key of digests, which signs what a browser is given."""
        return self._layers.digest_key

    def layers(self, tenant: str) -> LayeredMemory:
        """The profile and event memories of a tenant."""
        return self._layers.of(tenant)

    def _new_service(self, tenant: str) -> AsyncMemoryService:
        service = msgspec.structs.replace(self._plain.service, tenant=tenant)
        settings = msgspec.structs.replace(self._plain, service=service)
        return AsyncMemoryService(dataclasses.replace(self.assembled, settings=settings))

    def down(self) -> bool:
        """Whether the store is known to be away, so that asking it would only cost time."""
        journal = self.assembled.journal
        return journal is not None and journal.status().state == "down"

    def queues(self) -> bool:
        """Whether writes are queued now, so that a question would wait for those before it."""
        journal = self.assembled.journal
        return journal is not None and journal.status().state != "up"

    async def health(self) -> Health:
        """How the memory is; many who ask at once share one look."""
        loop = asyncio.get_running_loop()
        if self._asking is None or (self._asking.done() and loop.time() - self._asked > _HEALTH_SECONDS):
            self._asked = loop.time()
            self._asking = asyncio.create_task(self._service.health())
        return await asyncio.shield(self._asking)

    async def start(self, *, sample: bool = False) -> None:
        """Begin to open the store and to sweep; a store that is down is opened later."""
        # Now rather than under the first request that needs them: they take half a second.
        await import_aside("octavo.layers.rules")
        await topics.load()
        await self._service.start()
        if self.settings.layers.sweep_seconds:
            # What expired while no server ran is swept now; the later sweeps follow from this one.
            self._first_sweep = asyncio.create_task(self._sweep())
        if self._retention.limits:
            self._pruning = asyncio.create_task(self._retention.run())
        if sample:
            await add_sample(self.layers(self.settings.service.tenant))

    async def close(self) -> None:
        """End the sweep, deliver what waits or leave it on disk, and close what was opened here."""
        if self._pruning is not None:
            self._pruning.cancel()
            await asyncio.wait([self._pruning])
        if self._first_sweep is not None:
            # Let it come to its end: it may be in the middle of making tables.
            await asyncio.wait([self._first_sweep], timeout=self.settings.service.timeout_seconds)
            self._first_sweep.cancel()
            await asyncio.wait([self._first_sweep])
        await self._layers.close()
        if self._owned:
            await self._service.close()

    async def _sweep(self) -> None:
        try:
            await self._layers.sweep()
        except OctavoError as error:
            _log.warning("expired memories could not be swept, and will be later: %s", error)


async def add_sample(layers: LayeredMemory) -> int:
    """Remember a few things about the sample user, once: not again after they were forgotten. How many were added."""
    if await layers.logs(user_id=_SAMPLE_USER, limit=1):
        return 0
    for memory in _SAMPLE:
        await layers.remember(
            user_id=_SAMPLE_USER, reason="a sample to look at", metadata={"sample": True}, **memory
        )
    return len(_SAMPLE)
