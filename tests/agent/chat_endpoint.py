"""A real HTTP server on loopback that speaks /v1/chat/completions, and misbehaves on request."""

import asyncio
import json
from collections import deque
from contextlib import asynccontextmanager


class ChatEndpoint:
    """Answers each request with the next step of `script`, and politely when there is none."""

    def __init__(self) -> None:
        self.script: deque = deque()
        self.requests: list[dict] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""

    async def serve(self, reader, writer) -> None:
        try:
            while line := await reader.readline():
                headers = {}
                while (header := (await reader.readline()).strip()) != b"":
                    name, _, value = header.decode().partition(":")
                    headers[name.lower()] = value.strip()
                body = json.loads(await reader.readexactly(int(headers["content-length"])))
                assert line.startswith(b"POST /v1/chat/completions "), line
                self.requests.append(body)
                self.headers.append(headers)
                step = self.script.popleft() if self.script else said("Hello.")
                answer = await step(self) if callable(step) else step
                writer.write(answer)
                await writer.drain()
                if not answer:
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away, as in the tests of time-outs
        finally:
            writer.close()


@asynccontextmanager
async def chat_endpoint():
    running = ChatEndpoint()
    server = await asyncio.start_server(running.serve, "127.0.0.1", 0)
    running.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield running
    finally:
        server.close()


def http(status: str, content: bytes, kind: str = "application/json", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n{more}\r\n"
    return head.encode() + content


def answered(message: dict) -> bytes:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}
    body = {"id": "c1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    return http("200 OK", json.dumps(body).encode())


def said(content) -> bytes:
    return answered({"content": content})


def called(*calls, content=None) -> bytes:
    """Calls of tools; arguments are the text the model wrote."""
    listed = [
        {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(calls)
    ]
    return answered({"content": content, "tool_calls": listed})


async def never(endpoint) -> bytes:
    return await asyncio.get_running_loop().create_future()


TOO_BUSY = http("429 Too Many Requests", b'{"error": {"message": "slow down"}}', more="retry-after-ms: 1\r\n")
BROKEN = http("500 Internal Server Error", b'{"error": {"message": "boom"}}', more="retry-after-ms: 1\r\n")
REFUSED = http("400 Bad Request", b'{"error": {"message": "too long"}}')
GARBAGE = http("200 OK", b"<html>welcome to my proxy</html>", kind="text/html")
NOT_JSON = http("200 OK", b'{"choices": [')
OTHER_JSON = http("200 OK", b'{"hello": "world"}')
NO_CHOICES = http("200 OK", b'{"id": "c", "object": "chat.completion", "choices": []}')
HUNG_UP = b""
