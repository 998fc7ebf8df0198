"""A Redis whose primary is told by Sentinels: `redis+sentinel://host:port,host:port/service/db`."""

import time
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

import msgspec
from redis.asyncio import ConnectionPool, Sentinel, SSLConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import (
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as Broken

from octavo.errors import ConfigError

_PORT = 26379
_ASK_SECONDS = 1.0  # for a Sentinel to answer, before the next one is asked
_BELIEVED_SECONDS = 0.25  # for which a server is taken for the primary once a Sentinel has named it


class PrimaryPool(SentinelConnectionPool):
    """Connections to the primary, of which the Sentinels are asked again while they are used.

    A primary that was paused or cut off comes back, and takes writes for some ten seconds before it hears that another has
    taken over; then it forgets them.
    """

    def __init__(self, service: str, sentinels: Sentinel, *, ssl: bool = False, **settings: Any) -> None:
        settings.setdefault("connection_class", PrimarySSLConnection if ssl else PrimaryConnection)
        super().__init__(service, sentinels, **settings)  # type: ignore[no-untyped-call]
        self._named_at = 0.0

    async def get_master_address(self) -> tuple[str, int]:
        """Ask the Sentinels who is primary; idle connections to another are closed."""
        asked_at = time.monotonic()
        address: tuple[str, int] = await super().get_master_address()  # type: ignore[no-untyped-call]
        self._named_at = asked_at
        return address

    async def leads(self, address: tuple[str, int]) -> bool:
        """Whether this is the primary, as a Sentinel has said a moment ago."""
        if time.monotonic() - self._named_at > _BELIEVED_SECONDS:
            await self.get_master_address()
        return bool(self.master_address == address)


class PrimaryConnection(SentinelManagedConnection):
    """Believes no answer of a server that is not the primary any more."""

    async def read_response(self, *args: Any, **named: Any) -> Any:
        """The answer, if it came from the primary."""
        answer = await super().read_response(*args, **named)
        if not await self.connection_pool.leads((self.host, self.port)):
            await self.disconnect()
            raise Broken("the server that answered is not the primary any more")
        return answer


class PrimarySSLConnection(PrimaryConnection, SentinelManagedSSLConnection):
    """The same, encrypted."""


class Watched(msgspec.Struct, frozen=True):
    """What a URL says of Sentinels: who they are, and under which name they know the primary."""

    hosts: tuple[tuple[str, int], ...]
    service: str
    login: dict[str, str]  # to the Sentinels themselves

    @classmethod
    def read(cls, url: str) -> "tuple[str, Watched]":
        """The URL as it would be with one host and no Sentinels, and what was taken out of it."""
        try:
            parts = urlsplit(url)
            login, at, where = parts.netloc.rpartition("@")
            each = [urlsplit(f"//{name}") for name in where.split(",")]
            hosts = tuple((unquote(one.hostname or ""), one.port or _PORT) for one in each)
        except ValueError as error:
            raise ConfigError(f"not the URL of Sentinels: {error}") from None
        service, _, database = parts.path.strip("/").partition("/")
        if not service or not all(host for host, _ in hosts):
            raise ConfigError(
                "the redis+sentinel URL names Sentinels and the service they watch, as in "
                "redis+sentinel://one:26379,two:26379/mymaster/0"
            )
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        own = {
            name: options.pop(f"sentinel_{name}")
            for name in ("username", "password")
            if f"sentinel_{name}" in options
        }
        scheme = parts.scheme.partition("+")[0]
        plain = urlunsplit((scheme, f"{login}{at}localhost", f"/{database}", urlencode(options), ""))
        return plain, cls(hosts, unquote(service), own)

    def pool(self, like: ConnectionPool) -> PrimaryPool:
        """A pool of connections like those of another, to whichever server is the primary when they are made."""
        settings = {
            name: value for name, value in like.connection_kwargs.items() if name not in ("host", "port")
        }
        ssl = {name: value for name, value in settings.items() if name.startswith("ssl_")}
        if issubclass(like.connection_class, SSLConnection):
            ssl["ssl"] = settings["ssl"] = True
        seconds = min(_ASK_SECONDS, settings["socket_timeout"])
        sentinels = Sentinel(  # type: ignore[no-untyped-call]
            self.hosts,
            # Their own retries would take seconds before the next one is asked.
            sentinel_kwargs={
                "socket_timeout": seconds, "socket_connect_timeout": seconds, "retry": Retry(NoBackoff(), 0),
                **ssl, **self.login,
            },
        )  # fmt: skip
        return PrimaryPool(self.service, sentinels, max_connections=like.max_connections, **settings)


def renewed(pool: SentinelConnectionPool) -> SentinelConnectionPool:
    """A pool like this one that no event loop has used yet."""
    manager: Any = pool.sentinel_manager
    hosts = [
        (each.connection_pool.connection_kwargs["host"], each.connection_pool.connection_kwargs["port"])
        for each in manager.sentinels
    ]
    sentinels = Sentinel(hosts, sentinel_kwargs=manager.sentinel_kwargs)  # type: ignore[no-untyped-call]
    settings = {name: value for name, value in pool.connection_kwargs.items() if name != "connection_pool"}
    made: Any = type(pool)
    return made(  # type: ignore[no-any-return]
        pool.service_name,
        sentinels,
        connection_class=pool.connection_class,
        max_connections=pool.max_connections,
        **settings,
    )
