"""Private PostgreSQL (with and without pgvector), MySQL and Redis servers for tests and benchmarks.

    with running("postgres") as server:   # a server of your own; durable=True makes it keep its promises
        server.url                        # postgresql://octavo:octavo@127.0.0.1:PORT/postgres
        server.restart()                  # same port, same data

Tests that only need a database take the fixtures of `conftest.py` instead: those share one server per run.
"""

from servers.errors import Unavailable
from servers.kinds import KINDS, fresh, running
from servers.server import Server
from servers.shared import Remote, Shared

__all__ = ["KINDS", "Remote", "Server", "Shared", "Unavailable", "fresh", "running"]
