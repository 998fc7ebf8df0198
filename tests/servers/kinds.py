"""The kinds of server, and one of each on request."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from servers.mysql import MySQL
from servers.pgvector import PgVector
from servers.postgres import Postgres
from servers.redis import Redis
from servers.server import Server

KINDS: dict[str, type[Server]] = {"mysql": MySQL, "pgvector": PgVector, "postgres": Postgres, "redis": Redis}


@contextmanager
def running(kind: str, *, durable: bool = False) -> Iterator[Server]:
    """A started server of this kind that belongs to the caller alone."""
    server = KINDS[kind](durable=durable)
    try:
        server.start()
        yield server
    finally:
        server.close()


def fresh(kind: str, url: str) -> AbstractContextManager[str]:
    """The address of an empty database on the server at this address, dropped afterwards."""
    return KINDS[kind].fresh(url)
