"""Talking to Redis: scripts by their names, bytes whatever the client decodes, and errors in Octavo's words."""

import asyncio
import re
import weakref
from collections.abc import Sequence
from typing import Any

from redis import exceptions as told

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


class Connection:
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
            raise translated(error) from error
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


def translated(error: Exception) -> OctavoError:
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
