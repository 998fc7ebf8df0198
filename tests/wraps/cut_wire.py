"""A wire to a server that can be cut, held up and mended: a proxy on loopback."""

import asyncio
import contextlib
from urllib.parse import urlsplit, urlunsplit


class Wire:
    """`async with Wire(url) as wire`: what is said to `wire.url` reaches the server, while the wire is whole."""

    def __init__(self, url):
        self._parts = urlsplit(url)
        self._server = None
        self._port = 0
        self._writers = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._answers = asyncio.Event()
        self._answers.set()
        self._last_words = ()

    @property
    def url(self):
        login = self._parts.netloc.rpartition("@")[0]
        place = f"{login}@127.0.0.1:{self._port}" if login else f"127.0.0.1:{self._port}"
        return urlunsplit(self._parts._replace(netloc=place))

    async def mend(self):
        self._flows.set()
        self._answers.set()
        self._last_words = ()
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
            self._port = self._server.sockets[0].getsockname()[1]

    async def cut(self):
        """Every connection breaks, and new ones are refused."""
        if self._server is not None:
            self._server.close()
            for writer in list(self._writers):
                writer.transport.abort()
            await self._server.wait_closed()
            self._server = None

    def hold(self):
        """Connections stay, and are made, and nothing comes through."""
        self._flows.clear()

    def lose_answers(self, *words):
        """Once the server was told one of these words, whatever it answers is lost, until the wire is cut and mended."""
        self._last_words = words

    async def __aenter__(self):
        await self.mend()
        return self

    async def __aexit__(self, *exc):
        self._flows.set()
        self._answers.set()
        await self.cut()
        await asyncio.sleep(0)

    async def _serve(self, reader, writer):
        host, port = self._parts.hostname, self._parts.port
        there_reader, there_writer = await asyncio.open_connection(host, port)
        ends = {writer, there_writer}
        self._writers |= ends
        try:
            await asyncio.gather(
                self._carry(reader, there_writer, asks=True), self._carry(there_reader, writer, asks=False)
            )
        finally:
            self._writers -= ends
            for end in ends:
                end.transport.abort()

    async def _carry(self, reader, writer, *, asks):
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                await self._flows.wait()
                if asks and any(word in data for word in self._last_words):
                    self._answers.clear()
                if not asks:
                    await self._answers.wait()
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
