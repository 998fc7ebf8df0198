"""MCP over streamable HTTP, without state: any worker answers any request. The SDK is imported with the first of them."""

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from octavo.config import Settings
from octavo.mcp import ToolCaller
from octavo.server.problems import problem
from octavo.server.routing import Admitted, check_values
from octavo.util.sync import let_others
from octavo.util.system import missing_packages

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager


class McpEndpoint:
    """What answers at /mcp. Who may call, and as whom, was decided before a request comes here."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._manager: asyncio.Future[StreamableHTTPSessionManager] | None = None
        self._serving: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if needed := missing_packages("mcp"):
            await problem(501, f"/mcp needs {needed}")(scope, receive, send)
            return
        body: bytes | None = await Request(scope, receive).body()
        check_values(body or b"")
        await let_others(len(body or b""))

        async def receive_again() -> Message:
            nonlocal body
            if body is None:
                return await receive()
            message = {"type": "http.request", "body": body, "more_body": False}
            body = None
            return message

        if self._manager is None:
            self._manager = asyncio.get_running_loop().create_future()
            self._serving = asyncio.create_task(self._serve(self._manager))
        manager = await asyncio.shield(self._manager)
        await manager.handle_request(scope, receive_again, send)

    async def close(self) -> None:
        """End what was begun with the first request."""
        self._ending.set()
        if self._serving is not None:
            await asyncio.wait([self._serving])

    async def _serve(self, ready: "asyncio.Future[StreamableHTTPSessionManager]") -> None:
        """Keep the SDK's manager running, in one task from its beginning to its end, as it must be."""
        try:
            # It takes a second, in which everybody else would wait.
            manager = await asyncio.to_thread(self._new_manager)
            async with manager.run():
                ready.set_result(manager)
                await self._ending.wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
                return
            raise

    def _new_manager(self) -> "StreamableHTTPSessionManager":
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from octavo.mcp.server import new_server

        return StreamableHTTPSessionManager(
            # The SDK's own application would come with routes and checks of its own.
            new_server(self._find_caller, self._settings.mcp.toolset)._lowlevel_server,  # noqa: SLF001
            json_response=True,
            stateless=True,
            max_request_body_size=self._settings.server.max_body_bytes,
        )

    def _find_caller(self, request: Request) -> ToolCaller:
        admitted = Admitted(request.scope)
        caller, settings = admitted.caller, self._settings
        return ToolCaller(
            memory=admitted.memory,
            user_id=caller.user or settings.mcp.user,
            may_write=caller.access != "read",
            answer_tokens=settings.mcp.max_tokens,
            content_bytes=settings.server.max_content_bytes,
        )
