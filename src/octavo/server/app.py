"""The application: routes, errors and the gate, put together over one memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from octavo import __version__
from octavo.assemble import Assembled
from octavo.config import Settings
from octavo.errors import OctavoError
from octavo.server.access import Door
from octavo.server.docs_page import docs_route
from octavo.server.gate import CALLER, REQUEST_ID, Gate
from octavo.server.memories import Memories
from octavo.server.openapi import document
from octavo.server.problems import Secrets, problem, refusal, sentence
from octavo.server.routes import ROUTERS

_ABOUT = """Memory for AI agents: who somebody is (the profile layer) and what happened (the event layer), with a log of every change.

用户画像与事件记忆，每一次修改都有日志。Times are ISO 8601 in UTC. An id in a path may be any text; a slash in it is written `%2F`.
Errors are `{"detail": "…"}`, one sentence that names what is wrong.
"""
_TAGS = [
    {"name": "memories", "description": "Profile and event memories of users and agents. 画像与事件记忆"},
    {"name": "log", "description": "What was done to memories, and undoing it. 操作日志"},
    {"name": "events", "description": "What agents observed and did. 观察与回合"},
    {"name": "upkeep", "description": "Health and numbers. 健康与统计"},
    {"name": "admin", "description": "Settings and the failure queue. 配置与失败队列"},
]


def create(settings: Settings, *, assembled: Assembled | None = None, sample: bool = False) -> FastAPI:
    """An application; it opens its store when it starts, and closes it when it stops if it was not handed in."""
    secrets = Secrets(settings)
    memories = Memories(settings, assembled)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        try:
            await memories.start(sample=sample)
            yield
        finally:
            await memories.close()

    app = FastAPI(
        title="Octavo",
        version=__version__,
        summary="Memory for AI agents",
        description=_ABOUT,
        openapi_tags=_TAGS,
        # Flat, not included router by router: matching a path then costs one pass.
        routes=[route for router in ROUTERS for route in router.routes],
        lifespan=life,
        # A page of our own stands at /docs: theirs loads its program from elsewhere, and would be given the caller's key.
        docs_url=None,
        redoc_url=None,
        # A redirect would answer what no route documents, and lose the body of a POST with some clients.
        redirect_slashes=False,
    )
    app.state.memories = memories
    _answer_errors(app, secrets)
    app.add_middleware(Gate, settings=settings, door=Door(settings, memories), secrets=secrets)

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = document(app, settings)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
    app.add_route("/docs", docs_route(openapi), include_in_schema=False)
    return app


def _answer_errors(app: FastAPI, secrets: Secrets) -> None:
    async def invalid(_: Request, error: Exception) -> Response:
        told = error.errors() if isinstance(error, RequestValidationError) else ()
        return problem(422, sentence(told))

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
        return problem(error.status_code, detail, headers)

    async def known(request: Request, error: Exception) -> Response:
        assert isinstance(error, OctavoError)  # noqa: S101 - what it is registered for
        caller = request.scope.get(CALLER)
        admin = caller is not None and caller.admin
        told = refusal(error, secrets, request.scope.get(REQUEST_ID, ""), admin=admin)
        if told is None:
            raise error
        return told

    async def unknown(request: Request, _: Exception) -> Response:
        # The traceback is in the log, under the same id; the caller gets nothing that could be a secret.
        name = request.scope.get(REQUEST_ID, "")
        return problem(
            500, f"the server failed; its log says why at request_id {name}", {"X-Request-ID": name}
        )

    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(OctavoError, known)
    app.add_exception_handler(Exception, unknown)
