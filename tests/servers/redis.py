"""A private Redis."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from servers.binaries import locate
from servers.server import Server

if TYPE_CHECKING:
    import redis

# A reservation outlives the longest test, and not a run that was killed by much.
RESERVED_SECONDS = 3600


class Redis(Server):
    """A Redis with a thousand numbered databases, so that every test gets one."""

    kind = "redis"
    account_name = "redis"

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def find_programs(self) -> None:
        self.redis_server = locate("redis-server")

    def prepare(self) -> None:
        """Redis needs nothing but its folder."""

    def command(self) -> list[str]:
        settings = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self.folder),
            "databases": "1024",
            "save": "",
            "appendonly": "yes" if self.durable else "no",
            "appendfsync": "everysec",
        }
        return [
            str(self.redis_server),
            *(word for name, value in settings.items() for word in (f"--{name}", value)),
        ]

    def stop(self) -> None:
        # With no save points and no log, an orderly shutdown would forget everything.
        if self.running and not self.durable:
            with closing(_connect(self.url)) as client:
                client.save()
        super().stop()

    @staticmethod
    def ping(url: str) -> None:
        with closing(_connect(url)) as client:
            client.ping()

    @staticmethod
    @contextmanager
    def fresh(url: str) -> Iterator[str]:
        with closing(_connect(url)) as root:
            number = _reserve(root, url)
            address = _numbered(url, number)
            try:
                yield address
            finally:
                with closing(_connect(address)) as client:
                    client.flushdb()
                root.delete(f"octavo:taken:{number}")


def _connect(url: str) -> "redis.Redis":
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    # The client's own retries would hide for seconds that a server is not up yet; its five seconds are few on a busy machine.
    return redis.Redis.from_url(
        url, retry=Retry(NoBackoff(), 0), socket_timeout=60, socket_connect_timeout=60
    )


def _numbered(url: str, number: int) -> str:
    return urlsplit(url)._replace(path=f"/{number}").geturl()


def _reserve(root: "redis.Redis", url: str) -> int:
    """The number of an empty database that no other worker holds."""
    count = int(root.config_get("databases")["databases"] or 0)
    for _ in range(count):
        # Counting on, rather than taking the lowest: a late write of one test must not land in the next.
        number = 1 + root.incr("octavo:serial") % (count - 1)
        if root.set(f"octavo:taken:{number}", "1", nx=True, ex=RESERVED_SECONDS):
            with closing(_connect(_numbered(url, number))) as client:
                # Somebody's data, on a server that was lent to us: leave it alone.
                if client.dbsize() == 0:
                    return number
    raise RuntimeError(f"all {count - 1} databases of this Redis are taken or hold data")
