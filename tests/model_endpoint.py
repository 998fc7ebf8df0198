"""A real HTTP server on loopback in the place of a model's, which answers as a test's script says."""

import asyncio
import json
from collections import deque
from contextlib import asynccontextmanager


class ModelEndpoint:
    """Answers each request with the next step of `script`, and with `otherwise` when there is none.

    A step is the bytes of an answer, or an async function that makes them from the request's body.
    """

    def __init__(self, path: str, otherwise) -> None:
        self.path = path
        self.otherwise = otherwise
        self.script: deque = deque()
        self.requests: list[dict] = []
        self.headers: list[dict[str, str]] = []
        self.at_once = self.most_at_once = 0
        self.gate: asyncio.Event | None = None  # when set, answers wait for it
        self.url = ""
        self._serving: set[asyncio.Task] = set()

    async def serve(self, reader, writer) -> None:
        # Nothing else holds a task that waits for ever, and the collector would end it in another test.
        self._serving.add(asyncio.current_task())
        try:
            while line := await reader.readline():
                headers = {}
                while (header := (await reader.readline()).strip()) != b"":
                    name, _, value = header.decode().partition(":")
                    headers[name.lower()] = value.strip()
                body = json.loads(await reader.readexactly(int(headers["content-length"])))
                assert line.startswith(f"POST {self.path} ".encode()), line
                self.requests.append(body)
                self.headers.append(headers)
                answer = await self._answer(body)
                writer.write(answer)
                await writer.drain()
                if not _whole(answer):
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away, as in the tests of time-outs
        finally:
            writer.close()

    async def _answer(self, body: dict) -> bytes:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        if self.gate is not None:
            await self.gate.wait()
        step = self.script.popleft() if self.script else self.otherwise
        answer = await step(body) if callable(step) else step
        self.at_once -= 1
        return answer


@asynccontextmanager
async def serving(path: str, otherwise):
    running = ModelEndpoint(path, otherwise)
    server = await asyncio.start_server(running.serve, "127.0.0.1", 0)
    running.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield running
    finally:
        server.close()


def http(status: str, content: bytes, kind: str = "application/json", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n{more}\r\n"
    return head.encode() + content


def _whole(answer: bytes) -> bool:
    """Whether the answer is as long as its head says; if not, the client must see the connection end."""
    head, _, content = answer.partition(b"\r\n\r\n")
    return f"Content-Length: {len(content)}".encode() in head.split(b"\r\n")


async def never(body: dict) -> bytes:
    return await asyncio.get_running_loop().create_future()


TOO_BUSY = http("429 Too Many Requests", b'{"error": {"message": "slow down"}}', more="retry-after-ms: 1\r\n")
BROKEN = http("500 Internal Server Error", b'{"error": {"message": "boom"}}', more="retry-after-ms: 1\r\n")
REFUSED = http("400 Bad Request", b'{"error": {"message": "too long"}}')
GARBAGE = http("200 OK", b"<html>welcome to my proxy</html>", kind="text/html")
OTHER_JSON = http("200 OK", b'{"hello": "world"}')
HUNG_UP = b""
