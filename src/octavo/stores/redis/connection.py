"""Talking to Redis: scripts by their names, bytes whatever the client decodes, errors in Octavo's words; Sentinels."""

import asyncio
import re
import time
import weakref
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

import msgspec
from redis import exceptions as told
from redis.asyncio import ConnectionPool, Sentinel, SSLConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import (
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)
from redis.backoff import NoBackoff

from octavo.errors import ConfigError, OctavoError, StoreError, StoreUnavailable
from octavo.stores.redis.scripts import Script

#: Replies that pass by themselves; before Redis 7 a script's error carries them inside, behind a minus sign.
_PASSING = re.compile(
    r"(?:^|-)(?:BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|MISCONF|NOREPLICAS|OOM|READONLY|TRYAGAIN)\b"
)
_NO_SCRIPTS = re.compile("unknown command ['`]eval", re.IGNORECASE)
_TWO_SLOTS = re.compile("the same (?:key )?slot")  # the server's words and the client's
_UNAVAILABLE = (told.ConnectionError, told.TimeoutError, told.OutOfMemoryError, told.ReadOnlyError, OSError)
#: These are ConnectionErrors too, and no retry mends them.
_LOGIN = (told.AuthenticationError, told.AuthorizationError)
# RuntimeError is asyncio's for a connection whose event loop is gone; a cluster's exception is no RedisError.
_FAILURES = (told.RedisError, told.RedisClusterException, OSError, RuntimeError)
#: Whoever has a cluster's client has also decided that all of a tenant lives on one node.
CLUSTERED = (
    "a Redis Cluster is not opened by a URL: hand redis.asyncio.RedisCluster.from_url('redis://host:6379') to "
    "octavo.stores.redis.RedisStore; each tenant is kept on one of its nodes"
)
_WIDTH = 16  # commands on their way at once; Redis answers them one by one anyway
_PORT = 26379
_ASK_SECONDS = 1.0  # for a Sentinel to answer, before the next one is asked
_BELIEVED_SECONDS = 0.25  # for which a server is taken for the primary once a Sentinel has named it
_turns: weakref.WeakKeyDictionary[Any, tuple[asyncio.AbstractEventLoop, asyncio.Semaphore]] = (
    weakref.WeakKeyDictionary()
)


def _turns_at(pool: Any) -> asyncio.Semaphore:
    """Whose turn it is at a pool, for all stores of this event loop that share it.

    A plain pool refuses rather than waits when it is used up, so no more is asked of it than it has.
    """
    loop = asyncio.get_running_loop()
    known = _turns.get(pool)
    if known is None or known[0] is not loop:
        most = min(_WIDTH, getattr(pool, "max_connections", _WIDTH))
        known = _turns[pool] = (loop, asyncio.Semaphore(most))
    return known[1]


class LoopClient:
    """A client as one event loop uses it."""

    def __init__(self, client: Any) -> None:
        self._client = client
        pool = getattr(client, "connection_pool", client)
        self._turns = _turns_at(pool)
        self._seconds = getattr(pool, "connection_kwargs", {}).get("socket_timeout")

    async def run(self, script: Script, keys: Sequence[bytes], *args: bytes) -> Any:
        """A script's answer, as bytes.

        When the connection broke, which is how a restarted server shows, it is asked once more. That is safe although
        the first run may have happened: adding what is kept changes nothing, a swap looks before it writes, and both are
        told that they are asked again so that they answer what the first run would have.
        """
        try:
            return await self._evaluate(script, keys, b"0", *args)
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, told.ConnectionError):
                raise
        return await self._evaluate(script, keys, b"1", *args)

    async def ask(self, *words: str | bytes) -> Any:
        """A command's answer, as bytes, parsed by the client."""
        return await self._say(*words)

    async def _evaluate(self, script: Script, keys: Sequence[bytes], *args: bytes) -> Any:
        given = (len(keys), *keys, *args)
        try:
            return await self._say("EVALSHA", script.sha, *given)
        except StoreError as error:
            # A server that is new, was restarted or had its scripts flushed.
            if not isinstance(error.__cause__, told.NoScriptError):
                raise
        return await self._say("EVAL", script.text, *given)

    async def _say(self, *words: Any) -> Any:
        await self._turn()
        try:
            return await self._client.execute_command(*words, NEVER_DECODE=True)
        except _FAILURES as error:
            raise translate_error(error) from error
        finally:
            self._turns.release()

    async def _turn(self) -> None:
        """Wait for one's turn, and no longer than for an answer: whoever came last would wait for all that are stuck."""
        if not self._turns.locked():
            await self._turns.acquire()
            return
        try:
            async with asyncio.timeout(self._seconds):
                await self._turns.acquire()
        except TimeoutError as error:
            raise StoreUnavailable(
                f"Redis is unavailable: none of the calls before this one was answered within {self._seconds:g} s"
            ) from error


def translate_error(error: Exception) -> OctavoError:
    """What went wrong, as the error a caller can act on."""
    if _NO_SCRIPTS.search(str(error)):
        return ConfigError(
            "this Redis runs no Lua scripts, which Octavo writes with; fakeredis does with pip install 'fakeredis[lua]'"
        )
    if isinstance(error, told.MovedError):  # a cluster's client would have gone there by itself
        return ConfigError(CLUSTERED)
    if _TWO_SLOTS.search(str(error)):
        return StoreError("in a Redis Cluster, records of several tenants cannot be written by one apply")
    if isinstance(error, RuntimeError):
        return StoreError(
            f"the Redis client that was handed in belongs to an event loop that has ended ({error}); "
            "hand in one made in this loop, or open the store by its URL"
        )
    if isinstance(error, _LOGIN):
        return StoreError(f"Redis refused the login: {error}")
    if isinstance(error, _UNAVAILABLE) or _PASSING.search(str(error)):
        return StoreUnavailable(f"Redis is unavailable: {error or type(error).__name__}")
    return StoreError(f"Redis refused: {error}")


# --- a Redis whose primary is told by Sentinels: `redis+sentinel://host:port,host:port/service/db`


class PrimaryPool(SentinelConnectionPool):
    """Connections to the primary, of which the Sentinels are asked again while they are used.

    A primary that was paused or cut off comes back, and takes writes for some ten seconds before it hears that another has
    taken over; then it forgets them.
    """

    def __init__(
        self, service: str, hosts: Sequence[tuple[str, int]], asking: dict[str, Any], **settings: Any
    ) -> None:
        kind = PrimarySSLConnection if settings.get("ssl") else PrimaryConnection
        sentinels = Sentinel(hosts, sentinel_kwargs=asking)  # type: ignore[no-untyped-call]
        super().__init__(service, sentinels, **{"connection_class": kind, **settings})  # type: ignore[no-untyped-call]
        self._named_at = 0.0
        self._made_of = service, hosts, asking, settings

    def copy_unused(self) -> "PrimaryPool":
        """A pool like this one that no event loop has used yet."""
        service, hosts, asking, settings = self._made_of
        return PrimaryPool(service, hosts, asking, **settings)

    async def get_master_address(self) -> tuple[str, int]:
        """Ask the Sentinels who is primary; idle connections to another are closed."""
        asked_at = time.monotonic()
        address: tuple[str, int] = await super().get_master_address()  # type: ignore[no-untyped-call]
        self._named_at = asked_at
        return address

    async def is_primary(self, address: tuple[str, int]) -> bool:
        """Whether this is the primary, as a Sentinel has said a moment ago."""
        if time.monotonic() - self._named_at > _BELIEVED_SECONDS:
            await self.get_master_address()
        return bool(self.master_address == address)


class PrimaryConnection(SentinelManagedConnection):
    """Believes no answer of a server that is not the primary any more."""

    async def read_response(self, *args: Any, **named: Any) -> Any:
        """The answer, if it came from the primary."""
        answer = await super().read_response(*args, **named)
        if not await self.connection_pool.is_primary((self.host, self.port)):
            await self.disconnect()
            raise told.ConnectionError("the server that answered is not the primary any more")
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
        # Their own retries would take seconds before the next one is asked.
        asking = {
            "socket_timeout": seconds, "socket_connect_timeout": seconds, "retry": Retry(NoBackoff(), 0),
            **ssl, **self.login,
        }  # fmt: skip
        return PrimaryPool(self.service, self.hosts, asking, max_connections=like.max_connections, **settings)
