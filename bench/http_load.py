"""Requests over keep-alive connections from a process of its own, written by hand so that the client is not what is measured.

    python bench/http_load.py '{"port": 8000, "requests": ["GET / HTTP/1.1…"], "seconds": 2, "connections": 16}'

Only the standard library is imported: a client that takes its share of the server's core would measure itself.
"""

import asyncio
import itertools
import json
import sys
import time


class Connection(asyncio.Protocol):
    """One request after the other; `times` are the seconds that each took, once it is `counting`."""

    def __init__(self, requests, end: asyncio.Future) -> None:
        self._requests = requests
        self._end = end
        self._left = b""
        self._lacking = 0
        self._sent = 0.0
        self.answered = 0
        self.times: list[float] = []
        self.counting = False
        self.bad: bytes | None = None

    def connection_made(self, transport) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._sent = time.perf_counter()
        self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        if self._lacking:
            self._lacking -= len(data)
        else:
            self._left += data
            end = self._left.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._left[:end].lower()
            if not head.startswith((b"http/1.1 200", b"http/1.1 201")):
                self.bad = self._left[:500]
                self._transport.close()
                return
            at = head.index(b"content-length:") + 15
            length = int(head[at:].split(b"\r\n", 1)[0])
            self._lacking = length - (len(self._left) - end - 4)
            self._left = b""
        if self._lacking == 0:
            self.answered += 1
            if self.counting:
                self.times.append(time.perf_counter() - self._sent)
            if self._end.done():
                self._transport.close()
            else:
                self._send()

    def connection_lost(self, error) -> None:
        if not self._end.done():
            self.bad = self.bad or f"connection lost: {error}".encode()
            self._end.set_result(None)


async def _until(holds, end: asyncio.Future) -> None:
    begun = time.monotonic()
    while not (holds() or end.done()):
        if time.monotonic() - begun > 60:
            raise SystemExit("the server does not answer")
        await asyncio.sleep(0.01)


async def load(port: int, requests: list[str], seconds: float, connections: int) -> dict:
    """Requests a second and how long each took, after a moment to warm up."""
    loop = asyncio.get_running_loop()
    end = loop.create_future()
    turns = itertools.cycle([request.encode() for request in requests])
    made = [
        (await loop.create_connection(lambda: Connection(turns, end), "127.0.0.1", port))[1]
        for _ in range(connections)
    ]
    # A server may load what it needs with its first request; that is no part of what a request costs.
    await _until(lambda: all(each.answered for each in made), end)
    await asyncio.wait([end], timeout=min(0.5, seconds / 4))
    began, cpu = time.perf_counter(), time.process_time()
    for each in made:
        each.counting = True
    await asyncio.wait([end], timeout=seconds)
    await _until(lambda: any(each.times for each in made), end)
    spent, busy = time.perf_counter() - began, time.process_time() - cpu
    if not end.done():
        end.set_result(None)
    for each in made:
        each.counting = False
        if each.bad is not None:
            raise SystemExit(f"a request went wrong: {each.bad.decode(errors='replace')}")
    times = sorted(time_ for each in made for time_ in each.times)
    await asyncio.sleep(0.05)  # what is under way comes to its end
    return {
        "rate": len(times) / spent,
        "p50_ms": times[len(times) // 2] * 1e3,
        "p99_ms": times[min(len(times) - 1, len(times) * 99 // 100)] * 1e3,
        "busy": busy / spent,  # of one core, by this client
        "answered": sum(each.answered for each in made),  # with those of the warm-up
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(load(**json.loads(sys.argv[1] if len(sys.argv) > 1 else sys.stdin.read())))))
