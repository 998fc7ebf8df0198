"""TCP proxies that can be cut and mended: a network of the tests' own, on loopback."""

import asyncio
import contextlib
from collections.abc import Coroutine
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


class Network:
    """Proxies in a thread of their own, so that the tests' event loop may be as busy as it likes."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.listening: list[asyncio.Server] = []

    def proxy(self, target: int) -> "Proxy":
        """A proxy in front of this port of loopback."""
        return self.run(Proxy.opened(self, target))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    def close(self) -> None:
        async def cancel_all() -> None:
            for server in self.listening:
                server.close()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self.run(cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Proxy:
    """Passes bytes on in both directions; while it is cut, none arrive, and what was sent arrives when it is mended, as in TCP."""

    port: int

    def __init__(self, network: Network, target: int) -> None:
        self._network = network
        self._target = target
        self._flows = asyncio.Event()
        self._flows.set()

    @classmethod
    async def opened(cls, network: Network, target: int) -> "Proxy":
        proxy = cls(network, target)
        server = await asyncio.start_server(proxy._serve, "127.0.0.1", 0)
        network.listening.append(server)
        proxy.port = server.sockets[0].getsockname()[1]
        return proxy

    def cut(self) -> None:
        self._network.run(self._set(flows=False))

    def mend(self) -> None:
        self._network.run(self._set(flows=True))

    async def _set(self, *, flows: bool) -> None:
        self._flows.set() if flows else self._flows.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await self._flows.wait()
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
            try:
                await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
            finally:
                back.close()
        writer.close()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                await self._flows.wait()
                sink.write(data)
                await sink.drain()
        with contextlib.suppress(OSError):
            await self._flows.wait()
            sink.close()  # the other direction has nothing left to say either
