"""An HTTP client that costs next to nothing, so that the servers get the machine: keep-alive connections, JSON, no more."""

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit


class Caller:
    """Asks one server over as many connections as there are questions under way."""

    def __init__(self, url: str, key: str = "") -> None:
        self._host, self._port = str(urlsplit(url).hostname), urlsplit(url).port
        self._key = f"X-API-Key: {key}\r\n" if key else ""
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the answer; OSError where there is none."""
        while (
            self._free and self._free[-1][0].at_eof()
        ):  # a server hangs up on those who say nothing for a while
            self._free.pop()[1].close()
        reader, writer = (
            self._free.pop() if self._free else await asyncio.open_connection(self._host, self._port)
        )
        sent = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n{self._key}Content-Type: application/json\r\n"
        try:
            writer.write(f"{head}Content-Length: {len(sent)}\r\n\r\n".encode() + sent)
            told = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(told.partition("content-length:")[2].split()[0])
            answer = json.loads(await reader.readexactly(length))
        except BaseException as error:
            writer.close()
            if isinstance(error, asyncio.IncompleteReadError):
                raise ConnectionResetError(str(error)) from error
            raise
        self._free.append((reader, writer))
        return int(told.split()[1]), answer

    async def close(self) -> None:
        for _, writer in self._free:
            writer.close()
