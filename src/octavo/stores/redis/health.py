"""What a Redis is, and what of it endangers records."""

import contextlib
from typing import Any

from octavo.errors import StoreError, StoreUnavailable
from octavo.kernel.ports import Finding
from octavo.stores.redis.connection import Connection


async def findings(connection: Connection, ttl: int | None) -> list[Finding]:
    """Facts and warnings; what the server does not tell is left out or said to be unknown."""
    info: dict[str, Any] = {}
    for section in ("server", "persistence", "memory"):
        info.update(one_node(await connection.ask("INFO", section)))
    server = f"{info.get('server_name', 'redis')} {info.get('redis_version', 'of unknown version')}"
    found = [
        Finding("store", "redis"),
        Finding("server", server),
        _durability(info, await _saves(connection)),
        _memory(info),
    ]
    if ttl is not None:
        found.append(Finding("ttl", f"a place is forgotten {ttl} s after its last write"))
    return found


async def _saves(connection: Connection) -> str | None:
    """The save points, or None where the server keeps its configuration to itself, as hosted ones do."""
    try:
        settings = one_node(await connection.ask("CONFIG GET", "save"))
    except StoreUnavailable:
        raise
    except StoreError:
        return None
    with contextlib.suppress(AttributeError):
        return str({_word(name): _word(value) for name, value in settings.items()}.get("save", ""))
    return None


def one_node(answer: Any) -> Any:
    """A cluster's client answers for each node; they are taken to be alike."""
    per_node = isinstance(answer, dict) and answer and all(isinstance(told, dict) for told in answer.values())
    return next(iter(answer.values())) if per_node else answer


def _durability(info: dict[str, Any], saves: str | None) -> Finding:
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


def _memory(info: dict[str, Any]) -> Finding:
    policy, most = str(info.get("maxmemory_policy", "unknown")), info.get("maxmemory_human", "unknown")
    limit = f"at most {most}" if info.get("maxmemory") else "no limit"
    warning = ""
    if policy not in {"noeviction", "unknown"}:
        # Even volatile-* policies evict what has a ttl, one key at a time: a lane may go before its bodies.
        warning = (
            f"{policy} throws records away when memory runs short; CONFIG SET maxmemory-policy noeviction"
        )
    return Finding("memory", f"{limit}, {policy}", warning)


def _word(word: Any) -> str:
    return word.decode() if isinstance(word, bytes) else str(word)
