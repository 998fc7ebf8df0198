"""One server of each kind for a whole test run, whatever the number of worker processes."""

import json
import os
import socket
import socketserver
from threading import Lock, Thread

from servers.errors import Unavailable
from servers.kinds import KINDS
from servers.server import Server


class Shared:
    """The servers of a run, each started when first asked for; lives in the process that outlasts the workers."""

    def __init__(self, *, durable: bool = False) -> None:
        self.durable = durable
        self._locks = {kind: Lock() for kind in KINDS}
        self._answers: dict[str, str | Unavailable] = {}
        self._servers: list[Server] = []
        self._desk: _Desk | None = None

    def url(self, kind: str) -> str:
        """The address of the run's server of this kind, or Unavailable."""
        with self._locks[kind]:
            if kind not in self._answers:
                try:
                    self._answers[kind] = self._lent(kind) or self._started(kind)
                except Unavailable as reason:
                    # Remembered, or every test would wait for the same failure again.
                    self._answers[kind] = reason
            answer = self._answers[kind]
        if isinstance(answer, Unavailable):
            raise Unavailable(*answer.args)
        return answer

    def listen(self) -> int:
        """Answer other processes as well, on the port returned."""
        if self._desk is None:
            self._desk = _Desk(self)
        return self._desk.port

    def close(self) -> None:
        """End every server that was started here."""
        if self._desk:
            self._desk.close()
        for server in self._servers:
            server.close()

    def _lent(self, kind: str) -> str | None:
        """The server that the environment names, for machines that run their own."""
        variable = f"OCTAVO_TEST_{kind.upper()}"
        url = os.environ.get(variable)
        if url:
            try:
                KINDS[kind].ping(url)
            except Exception as error:
                raise Unavailable(f"{variable} is set but nothing answers there: {error}") from error
        return url

    def _started(self, kind: str) -> str:
        server = KINDS[kind](durable=self.durable)
        self._servers.append(server)
        server.start()
        return server.url


class Remote:
    """The servers of a run, seen from a worker."""

    def __init__(self, port: int) -> None:
        self.port = port

    def url(self, kind: str) -> str:
        """The address of the run's server of this kind, or Unavailable."""
        with socket.create_connection(("127.0.0.1", self.port)) as line:
            line.sendall(kind.encode() + b"\n")
            with line.makefile() as reply:
                answer = json.loads(reply.read())
        if answer["reason"]:
            raise Unavailable(answer["reason"])
        return str(answer["url"])

    def close(self) -> None:
        """Nothing here is ours to end."""


class _Desk:
    """Answers the workers of a run over a socket, each in a thread since a start takes seconds."""

    def __init__(self, shared: Shared) -> None:
        class Question(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                answer = {"url": "", "reason": ""}
                try:
                    answer["url"] = shared.url(self.rfile.readline().decode().strip())
                except Exception as error:
                    answer["reason"] = str(error) or repr(error)
                self.wfile.write(json.dumps(answer).encode())

        # A port rather than a socket in a folder: a run that is killed leaves nothing behind.
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Question)
        self.port = int(self._server.server_address[1])
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
