"""The Redis store: hashes for records, sorted sets for their order, one script call per transaction."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
from redis.asyncio import ConnectionPool, Redis, RedisCluster
from redis.asyncio.sentinel import SentinelConnectionPool

from octavo.errors import ConfigError, StoreError, StoreUnavailable
from octavo.kernel.codec import Prepared
from octavo.kernel.model import Head, NameCount, Query, Record, Scope, ScopePart, Tally, check_count
from octavo.kernel.ports import Finding, Lexicon, PoolUse, Scrubbed
from octavo.kernel.shapes import SHAPES
from octavo.kernel.terms.matches import COMMON, LOOKED, Matches, is_unfiltered, newest
from octavo.stores.base import Progress, SearchingStore, ignore_progress
from octavo.stores.redis.connection import LoopClient, PrimaryPool
from octavo.stores.redis.layout import KeyLayout
from octavo.stores.redis.reading import RedisReader
from octavo.stores.redis.scripts import UNLIST
from octavo.stores.redis.searching import Searcher
from octavo.stores.redis.writing import Writer

_AT_ONCE = 500  # indexes of terms dropped by one call
_REWRITE_SECONDS = 3600.0  # for Redis to write its file anew
_LOOK_SECONDS = 0.05


class RedisStore(SearchingStore):
    """Records in a Redis; an acknowledgement means that Redis has replied.

    A client or pool that is handed in stays open and may decode responses or not; `owned=True` gives it away.
    With `ttl`, everything of a scope is forgotten so many seconds after the last write to it.
    """

    def __init__(
        self,
        client: Redis | RedisCluster | ConnectionPool,
        prefix: str = "octavo",
        ttl: int | None = None,
        owned: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(client, Redis | RedisCluster | ConnectionPool):
            raise ConfigError(
                f"a Redis store needs a client or pool of redis.asyncio; got {type(client).__name__}"
            )
        if ttl is not None:
            rule = "ttl is a number of seconds from 1 on, or None to keep records for good"
            check_count(ttl, rule, ConfigError, 1)
        self.client: Any = Redis(connection_pool=client) if isinstance(client, ConnectionPool) else client
        self._layout = KeyLayout(prefix)
        self._ttl = ttl
        self._owned = owned
        self._left = False  # whether the client was used in an event loop that has ended
        # From the moment the store is open in an event loop:
        self._connection: LoopClient
        self._reader: RedisReader
        self._writer: Writer
        self._searcher: Searcher

    async def _apply(self, ops: list[Prepared]) -> list[int]:
        return await self._writer.apply(ops)

    def pool_use(self) -> PoolUse | None:
        """How the client's connections are used now; None for a cluster, and for a client that does not tell."""
        pool = getattr(self.client, "connection_pool", None)
        busy = getattr(pool, "_in_use_connections", None)
        idle = getattr(pool, "_available_connections", ())
        return None if pool is None or busy is None else PoolUse(len(busy), len(idle), pool.max_connections)

    async def _find(self, query: Query) -> list[Record]:
        found, _ = await self._reader.find(query)
        return [record for record, _ in found]

    async def _heads(self, query: Query) -> list[Head]:
        return await self._reader.heads(query)

    async def _tally(self, query: Query) -> Tally:
        return await self._reader.tally(query)

    async def _names(self, query: Query, part: ScopePart, after: str) -> list[NameCount]:
        return await self._reader.names(query, part, after)

    async def _search(self, query: Query, terms: tuple[str, ...]) -> Matches:
        found, held = msgspec.structs.astuple(await self._searcher.search(query, terms))
        edge: list[Head] = []
        if len(found) > COMMON and is_unfiltered(query):
            asked = msgspec.structs.replace(
                query.unpaged, text=None, newest_first=True, offset=LOOKED - 1, limit=1
            )
            edge = await self._reader.heads(asked)
        return Matches(newest(found, edge[0].rank if edge else None), held)

    async def _reindex(self, collection: str, progress: Progress) -> int:
        return await self._searcher.reindex(collection, await self.tenants(), progress)

    async def _verify(self, collection: str, progress: Progress) -> Lexicon:
        return await self._searcher.verify(collection, await self.tenants(), progress)

    async def tenants(self) -> list[str]:
        """Every tenant that has a record, sorted."""
        await self._ensure_open()
        connection = self._connection
        kept = []
        for name in await connection.ask("SMEMBERS", self._layout.tenants):
            tenant = name.decode()
            orders = [self._layout.base(collection, tenant) + b"order:tenant" for collection in SHAPES]
            held = await connection.ask("EXISTS", *orders)
            if not held:
                with suppress(
                    StoreError
                ):  # a replica refuses this, and a cluster whose keys are on several nodes
                    held = await connection.run(UNLIST, [self._layout.tenants, *orders], b"SREM", name)
            if held:
                kept.append(tenant)
        return sorted(kept)

    async def renew(self, collections: Sequence[str], scope: Scope) -> None:
        """With a ttl: let all of a scope live on together, though only one of its collections was written to."""
        if self._ttl is not None:
            await self._ensure_open()
            await self._writer.renew(collections, scope)

    async def scrub(self, progress: Progress | None = None) -> Scrubbed:
        """Drop the indexes of terms, which the next search makes anew, and have Redis write its files anew."""
        await self._ensure_open()
        return await scrub(self._connection, self._layout, progress or ignore_progress)

    async def describe(self) -> list[Finding]:
        """What this Redis is, and what of it endangers the records."""
        await self._ensure_open()
        return await findings(self._connection, self._ttl)

    async def _open(self) -> None:
        if self._left and self._owned:
            self.client = _copy_unused(self.client)
        self._left = False
        self._connection = LoopClient(self.client)
        self._reader = RedisReader(self._connection, self._layout)
        self._writer = Writer(self._connection, self._layout, self._ttl, self._reader)
        self._searcher = Searcher(self._connection, self._layout)

    async def _leave(self) -> None:
        await self._writer.settle()
        if self._owned:
            await self.client.aclose()
            if (pool := getattr(self.client, "connection_pool", None)) is not None:
                await pool.disconnect()
                if isinstance(pool, SentinelConnectionPool):
                    await pool.sentinel_manager.aclose()

    def _abandon(self) -> None:
        self._left = True

    async def _close(self) -> None:
        if not self._left:
            await self._leave()


def _copy_unused(client: Any) -> Any:
    """A client like this one that no event loop has used yet."""
    pool = getattr(client, "connection_pool", None)
    if isinstance(pool, PrimaryPool):
        return Redis(connection_pool=pool.copy_unused())
    if pool is None or isinstance(pool, SentinelConnectionPool):
        raise StoreError("the event loop this Redis client was used in has ended; open another store")
    kind, most = pool.connection_class, pool.max_connections
    return Redis(
        connection_pool=type(pool)(connection_class=kind, max_connections=most, **pool.connection_kwargs)
    )


# --- what a Redis is, and what of it endangers records


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
        # Even volatile-* policies evict what has a ttl, one key at a time: an index may go before its records.
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
