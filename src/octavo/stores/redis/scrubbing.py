"""What removed records leave behind in Redis: words in the indexes of terms, and commands in the append-only file."""

import asyncio
import time
from typing import Any

from octavo.errors import StoreError, StoreUnavailable
from octavo.kernel.ports import Scrubbed
from octavo.stores.base import Progress
from octavo.stores.redis.connection import Connection
from octavo.stores.redis.health import one_node
from octavo.stores.redis.layout import Layout

_AT_ONCE = 500
_SECONDS = 3600.0  # for Redis to write its file anew
_LOOK_SECONDS = 0.05


async def scrub(connection: Connection, layout: Layout, progress: Progress) -> Scrubbed:
    """Drop what can be made anew, and have the files of Redis written anew, as far as it takes such orders."""
    progress(0, 2)
    done = ["indexes of terms dropped"]
    await _drop_terms(connection, layout)
    progress(1, 2)
    unreached = ["copies that Redis has sent to its replicas"]
    if await _rewritten(connection):
        done.append("BGREWRITEAOF")
    else:
        unreached.append("the files of Redis, which took no BGREWRITEAOF: snapshots, until the next one")
    progress(2, 2)
    return Scrubbed(done=tuple(done), unreached=tuple(unreached))


async def _drop_terms(connection: Connection, layout: Layout) -> None:
    cursor: Any = b"0"
    while True:
        cursor, keys = await connection.ask(
            "SCAN", cursor, "MATCH", layout.any_terms, "COUNT", str(_AT_ONCE).encode()
        )
        for key in keys:  # one by one: in a cluster they are on several nodes
            await connection.ask("UNLINK", key)
        if cursor in (0, b"0"):
            return


async def _rewritten(connection: Connection) -> bool:
    """Whether Redis has an append-only file, and has written it anew."""
    try:
        if not (await _persistence(connection)).get("aof_enabled"):
            return False
        await _idle(connection)  # one that runs already may have begun too early
        await connection.ask("BGREWRITEAOF")
        await _idle(connection)
        return str((await _persistence(connection)).get("aof_last_bgrewrite_status")) == "ok"
    except StoreUnavailable:
        raise
    except StoreError:  # a server that lets nobody give such orders
        return False


async def _idle(connection: Connection) -> None:
    until = time.monotonic() + _SECONDS
    while True:
        told = await _persistence(connection)
        if not (told.get("aof_rewrite_in_progress") or told.get("aof_rewrite_scheduled")):
            return
        if time.monotonic() > until:
            raise StoreUnavailable(f"Redis has not written its append-only file anew within {_SECONDS:g} s")
        await asyncio.sleep(_LOOK_SECONDS)


async def _persistence(connection: Connection) -> dict[str, Any]:
    told: dict[str, Any] = one_node(await connection.ask("INFO", "persistence"))
    return told
