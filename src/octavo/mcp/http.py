"""MCP over streamable HTTP, without state: any worker answers any request. The SDK is imported with the first of them."""

import asyncio
from typing import TYPE_CHECKING

from starlette.types import Receive, Scope, Send

from octavo.mcp.callers import FindCaller, Limits, Toolset
from octavo.util.extras import missing_packages

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager


class Endpoint:
    """An ASGI application for one path. Who may call, and as whom, was decided before a request comes here."""

    def __init__(
        self, find_caller: FindCaller, toolset: Toolset, limits: Limits, *, max_body_bytes: int
    ) -> None:
        self._find_caller = find_caller
        self._toolset = toolset
        self._limits = limits
        self._max_body_bytes = max_body_bytes
        self._manager: asyncio.Future[StreamableHTTPSessionManager] | None = None
        self._serving: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()

    @property
    def missing(self) -> str:
        """What has to be installed before anybody can be served; nothing when all is there."""
        return missing_packages("mcp")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._manager is None:
            self._manager = asyncio.get_running_loop().create_future()
            self._serving = asyncio.create_task(self._serve(self._manager))
        manager = await asyncio.shield(self._manager)
        await manager.handle_request(scope, receive, send)

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

        server = new_server(self._find_caller, self._toolset, self._limits)
        return StreamableHTTPSessionManager(
            server._lowlevel_server,  # noqa: SLF001 - the SDK's own application would come with routes and checks of its own
            json_response=True,
            stateless=True,
            max_request_body_size=self._max_body_bytes,
        )
