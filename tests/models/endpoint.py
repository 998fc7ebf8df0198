"""A real HTTP server on loopback that speaks /v1/embeddings, and misbehaves on request."""

import asyncio
import base64
import json
import struct
from collections import deque
from contextlib import asynccontextmanager


def vector(text: str, dimensions: int = 4) -> list[float]:
    """What the server answers for a text: not of unit length, and different for different texts."""
    return [float(len(text) + 1), *(float(ord(text[-1:] or " ") % 13 + at) for at in range(dimensions - 1))]


class Endpoint:
    """Answers properly, except where `script` says otherwise for the next request."""

    def __init__(self) -> None:
        self.script: deque = deque()
        self.requests: list[dict] = []
        self.headers: list[dict[str, str]] = []
        self.at_once = self.most_at_once = 0
        self.gate: asyncio.Event | None = None  # when set, answers wait for it
        self.url = ""

    async def serve(self, reader, writer) -> None:
        try:
            while line := await reader.readline():
                headers = {}
                while (header := (await reader.readline()).strip()) != b"":
                    name, _, value = header.decode().partition(":")
                    headers[name.lower()] = value.strip()
                body = json.loads(await reader.readexactly(int(headers["content-length"])))
                assert line.startswith(b"POST /v1/embeddings "), line
                self.requests.append(body)
                self.headers.append(headers)
                self.at_once += 1
                self.most_at_once = max(self.most_at_once, self.at_once)
                if self.gate is not None:
                    await self.gate.wait()
                step = self.script.popleft() if self.script else answered
                writer.write(await step(body))
                self.at_once -= 1
                await writer.drain()
                if step in (truncated, hung_up):
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away, as in the tests of time-outs
        finally:
            writer.close()


@asynccontextmanager
async def endpoint():
    running = Endpoint()
    server = await asyncio.start_server(running.serve, "127.0.0.1", 0)
    running.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield running
    finally:
        server.close()


def http(status: str, content: bytes, kind: str = "application/json", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n{more}\r\n"
    return head.encode() + content


def spelled(values: list[float], body: dict):
    if body.get("encoding_format") == "base64":
        return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()
    return values


def listed(body: dict, rows: list) -> bytes:
    data = [{"object": "embedding", "index": at, "embedding": row} for at, row in enumerate(rows)]
    return http("200 OK", json.dumps({"object": "list", "model": body["model"], "data": data}).encode())


async def answered(body: dict) -> bytes:
    size = body.get("dimensions", 4)
    return listed(body, [spelled(vector(text, size), body) for text in body["input"]])


async def in_floats(body: dict) -> bytes:
    """Some servers know no base64."""
    return listed(body, [vector(text) for text in body["input"]])


async def backwards(body: dict) -> bytes:
    data = [
        {"object": "embedding", "index": at, "embedding": vector(text)}
        for at, text in enumerate(body["input"])
    ]
    return http("200 OK", json.dumps({"data": data[::-1]}).encode())


async def too_busy(body: dict) -> bytes:
    return http("429 Too Many Requests", b'{"error": {"message": "slow down"}}', more="retry-after-ms: 1\r\n")


async def broken(body: dict) -> bytes:
    return http("500 Internal Server Error", b'{"error": {"message": "boom"}}', more="retry-after-ms: 1\r\n")


async def refused(body: dict) -> bytes:
    return http("400 Bad Request", b'{"error": {"message": "too long"}}')


async def too_few(body: dict) -> bytes:
    return listed(body, [vector(text) for text in body["input"][1:]])


async def uneven(body: dict) -> bytes:
    return listed(body, [vector(text, 4 + at) for at, text in enumerate(body["input"])])


async def zeros(body: dict) -> bytes:
    return listed(body, [[0.0] * 4 if text == "zero" else vector(text) for text in body["input"]])


async def garbage(body: dict) -> bytes:
    return http("200 OK", b"<html>welcome to my proxy</html>", kind="text/html")


async def not_json(body: dict) -> bytes:
    return http("200 OK", b'{"data": [')


async def other_json(body: dict) -> bytes:
    return http("200 OK", b'{"hello": "world"}')


async def no_numbers(body: dict) -> bytes:
    return listed(body, [None for _ in body["input"]])


async def bad_base64(body: dict) -> bytes:
    return listed(body, ["AAA" for _ in body["input"]])


async def truncated(body: dict) -> bytes:
    return (await answered(body))[:-20]


async def hung_up(body: dict) -> bytes:
    return b""


async def never(body: dict) -> bytes:
    return await asyncio.get_running_loop().create_future()
