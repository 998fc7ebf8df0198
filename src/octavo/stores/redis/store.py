"""The Redis store: hashes for records, sorted sets for their order, one script call per transaction."""

from collections.abc import Sequence
from typing import Any

import msgspec
from redis.asyncio import ConnectionPool, Redis, RedisCluster
from redis.asyncio.sentinel import SentinelConnectionPool

from octavo.errors import ConfigError, StoreError
from octavo.kernel.codec import Prepared
from octavo.kernel.model import Head, NameCount, Query, Record, Scope, ScopePart, Tally
from octavo.kernel.ports import Finding, Lexicon, PoolUse, Scrubbed
from octavo.kernel.shapes import SHAPES
from octavo.kernel.terms.matches import COMMON, LOOKED, Matches, is_unfiltered, newest
from octavo.stores.base import Progress, SearchingStore, ignore_progress
from octavo.stores.redis.connection import LoopClient, PrimaryPool
from octavo.stores.redis.layout import KeyLayout
from octavo.stores.redis.reading import RedisReader
from octavo.stores.redis.searching import Searcher
from octavo.stores.redis.upkeep import findings, scrub
from octavo.stores.redis.writing import Writer


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
        if ttl is not None and (not isinstance(ttl, int) or ttl < 1):
            raise ConfigError(
                f"ttl is a number of seconds from 1 on, or None to keep records for good; got {ttl!r}"
            )
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
                await connection.ask("SREM", self._layout.tenants, name)
                held = await connection.ask("EXISTS", *orders)
                if held:  # it came back meanwhile
                    await connection.ask("SADD", self._layout.tenants, name)
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
