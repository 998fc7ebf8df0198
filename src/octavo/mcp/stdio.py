"""MCP over stdin and stdout: what was asked before the end is answered, Ctrl-C ends it, and a line that is no message is told so."""

import asyncio
import contextlib
import logging
import sys
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.types import PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCRequest, JSONRPCResponse

_FINISH_SECONDS = 60.0  # after the end of stdin; a model that finds facts may take as long
_AHEAD = 8  # lines that are read before they are served
_log = logging.getLogger("octavo.mcp")


async def serve_stdio(server: Any) -> None:
    """Serve the SDK's low-level server until stdin ends, and then what is under way."""
    # Its own reading of stdin cannot be interrupted, and its server drops what is under way when that ends.
    async with stdio_server(stdin=cast(Any, _lines())) as (lines, out), anyio.create_task_group() as tasks:
        to_server, asked = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        answered, from_server = anyio.create_memory_object_stream[SessionMessage](0)
        under_way: dict[Any, anyio.Event] = {}

        async def bring() -> None:
            async with to_server:
                async for each in lines:
                    if isinstance(each, Exception):
                        _log.warning("a line of stdin is no message of MCP, and was left out")
                        error = ErrorData(code=PARSE_ERROR, message="this line is no message of JSON-RPC")
                        await out.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=error)))
                    else:
                        await to_server.send(note(each))
                with anyio.move_on_after(_FINISH_SECONDS):
                    for done in list(under_way.values()):
                        await done.wait()

        def note(message: SessionMessage) -> SessionMessage:
            if not isinstance(message.message, JSONRPCRequest):
                return message
            name = message.message.id

            async def cancelled() -> None:  # by the client, who is then answered nothing
                settle(name)

            under_way[name] = anyio.Event()
            return replace(message, metadata=ServerMessageMetadata(on_request_unanswered=cancelled))

        def settle(name: Any) -> None:
            if (done := under_way.pop(name, None)) is not None:
                done.set()

        async def tell() -> None:
            async with out:
                async for each in from_server:
                    await out.send(each)
                    if isinstance(each.message, JSONRPCResponse | JSONRPCError):
                        settle(each.message.id)

        tasks.start_soon(bring)
        tasks.start_soon(tell)
        await server.run(asked, answered, server.create_initialization_options())


async def _lines() -> AsyncIterator[str]:
    """The lines of stdin. Nobody waits for the thread that reads them: the next one may never come."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[str | None] = asyncio.Queue(_AHEAD)

    def read() -> None:
        # Of a file of its own: with that of sys.stdin in a thread, the interpreter could not end.
        with (
            contextlib.suppress(
                RuntimeError, OSError, AttributeError
            ),  # the loop has ended; there is no stdin
            open(sys.stdin.fileno(), encoding="utf-8", errors="replace", closefd=False) as stdin,
        ):
            for line in stdin:
                asyncio.run_coroutine_threadsafe(queue.put(line), loop).result()
        with contextlib.suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(queue.put(None), loop)

    threading.Thread(target=read, name="octavo-stdin", daemon=True).start()
    while (line := await queue.get()) is not None:
        if line.strip():
            yield line
