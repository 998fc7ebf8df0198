"""What a Redis is, what of it endangers records, and what removed records leave behind in it."""

import asyncio
import time
from typing import Any

from octavo.errors import StoreError, StoreUnavailable
from octavo.kernel.ports import Finding, Scrubbed
from octavo.stores.base import Progress
from octavo.stores.redis.connection import LoopClient
from octavo.stores.redis.layout import KeyLayout

_AT_ONCE = 500
_REWRITE_SECONDS = 3600.0  # for Redis to write its file anew
_LOOK_SECONDS = 0.05


async def findings(connection: LoopClient, ttl: int | None) -> list[Finding]:
    """Facts and warnings; what the server does not tell is left out or said to be unknown."""
    info = await _read_info(connection, "server", "persistence", "memory")
    server = f"{info.get('server_name', 'redis')} {info.get('redis_version', 'of unknown version')}"
    found = [
        Finding("store", "redis"),
        Finding("server", server),
        _judge_durability(info, await _read_save_points(connection)),
        _judge_memory(info),
    ]
    if ttl is not None:
        found.append(Finding("ttl", f"a scope is forgotten {ttl} s after its last write"))
    return found


async def _read_info(connection: LoopClient, *sections: str) -> dict[str, Any]:
    """What the server tells of itself."""
    told: dict[str, Any] = {}
    for section in sections:
        told.update(_one_node(await connection.ask("INFO", section)))
    return told


async def _read_save_points(connection: LoopClient) -> str | None:
    """The save points, or None where the server keeps its configuration to itself, as hosted ones do."""
    try:
        settings = _one_node(await connection.ask("CONFIG GET", "save"))
    except StoreUnavailable:
        raise
    except StoreError:
        return None
    return str(settings.get("save", ""))


def _one_node(answer: Any) -> Any:
    """A cluster's client answers for each node; they are taken to be alike."""
    per_node = isinstance(answer, dict) and answer and all(isinstance(told, dict) for told in answer.values())
    return next(iter(answer.values())) if per_node else answer


def _judge_durability(info: dict[str, Any], saves: str | None) -> Finding:
    if info.get("aof_enabled"):
        return Finding("durability", "append-only file; a crash of the server may lose its last second")
    if saves:
        warning = (
            "a crash of the server loses what was written since its last snapshot; CONFIG SET appendonly yes"
        )
        return Finding("durability", f"snapshots ({saves})", warning)
    if saves is None:
        return Finding(
            "durability", "no append-only file; the server does not tell whether it takes snapshots"
        )
    warning = "this Redis keeps nothing on disk: a restart loses every record; CONFIG SET appendonly yes"
    return Finding("durability", "none", warning)


def _judge_memory(info: dict[str, Any]) -> Finding:
    policy, most = str(info.get("maxmemory_policy", "unknown")), info.get("maxmemory_human", "unknown")
    limit = f"at most {most}" if info.get("maxmemory") else "no limit"
    warning = ""
    if policy not in {"noeviction", "unknown"}:
        # Even volatile-* policies evict what has a ttl, one key at a time: a lane may go before its bodies.
        warning = (
            f"{policy} throws records away when memory runs short; CONFIG SET maxmemory-policy noeviction"
        )
    return Finding("memory", f"{limit}, {policy}", warning)


# --- what removed records leave behind: words in the indexes of terms, and commands in the append-only file


async def scrub(connection: LoopClient, layout: KeyLayout, progress: Progress) -> Scrubbed:
    """Drop what can be made anew, and have the files of Redis written anew, as far as it takes such orders."""
    progress(0, 2)
    done = ["indexes of terms dropped"]
    await _drop_terms(connection, layout)
    progress(1, 2)
    unreached = ["copies that Redis has sent to its replicas"]
    if await _rewrite_log(connection):
        done.append("BGREWRITEAOF")
    else:
        unreached.append("the files of Redis, which took no BGREWRITEAOF: snapshots, until the next one")
    progress(2, 2)
    return Scrubbed(done=tuple(done), unreached=tuple(unreached))


async def _drop_terms(connection: LoopClient, layout: KeyLayout) -> None:
    cursor: Any = b"0"
    while True:
        cursor, keys = await connection.ask(
            "SCAN", cursor, "MATCH", layout.any_terms, "COUNT", str(_AT_ONCE).encode()
        )
        for key in keys:  # one by one: in a cluster they are on several nodes
            await connection.ask("UNLINK", key)
        if cursor in (0, b"0"):
            return


async def _rewrite_log(connection: LoopClient) -> bool:
    """Whether Redis has an append-only file, and has written it anew."""
    try:
        if not (await _read_info(connection, "persistence")).get("aof_enabled"):
            return False
        await _wait_for_rewrite(connection)  # one that runs already may have begun too early
        await connection.ask("BGREWRITEAOF")
        return str((await _wait_for_rewrite(connection)).get("aof_last_bgrewrite_status")) == "ok"
    except StoreUnavailable:
        raise
    except StoreError:  # a server that lets nobody give such orders
        return False


async def _wait_for_rewrite(connection: LoopClient) -> dict[str, Any]:
    """What the server tells once it does not write its file anew."""
    until = time.monotonic() + _REWRITE_SECONDS
    while True:
        told = await _read_info(connection, "persistence")
        if not (told.get("aof_rewrite_in_progress") or told.get("aof_rewrite_scheduled")):
            return told
        if time.monotonic() > until:
            raise StoreUnavailable(
                f"Redis has not written its append-only file anew within {_REWRITE_SECONDS:g} s"
            )
        await asyncio.sleep(_LOOK_SECONDS)
