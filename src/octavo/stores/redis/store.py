"""The Redis store: hashes for records, sorted sets for their order, one script call per transaction."""

import asyncio
import contextlib
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from redis.asyncio import ConnectionPool, Redis, RedisCluster

from octavo.errors import ConfigError, Conflict, StoreError
from octavo.kernel.codec import Kept, Prepared, Sealed
from octavo.kernel.model import Head, Query, Record, Scope, Tally
from octavo.kernel.ports import Finding, Lexicon
from octavo.kernel.shapes import SHAPES
from octavo.kernel.terms.matches import Matches
from octavo.stores.base import Progress, SearchingStore
from octavo.stores.draft import Effect, Key, Lookup, draft
from octavo.stores.redis import rows
from octavo.stores.redis.commits import Commits
from octavo.stores.redis.health import findings
from octavo.stores.redis.idle import Indexes
from octavo.stores.redis.layout import Layout
from octavo.stores.redis.reading import Reader
from octavo.stores.redis.wire import Wire
from octavo.stores.redis.writing import Writer

if TYPE_CHECKING:
    from octavo.stores.redis.indexing import Index

_ATTEMPTS = 60  # at a record others keep changing
_PAUSE_SECONDS = 0.002


class RedisStore(SearchingStore):
    """Records in a Redis; an acknowledgement means that Redis has replied.

    A client or pool that is handed in stays open and may decode responses or not; `owned=True` gives it away.
    With `ttl`, everything of a place is forgotten so many seconds after the last write to it.
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
        self._layout = Layout(prefix)
        self._ttl = ttl
        self._owned = owned
        self._line: _Line  # from the moment the store is open
        self._left = False  # whether the client was used in an event loop that has ended

    async def _apply(self, ops: list[Prepared]) -> list[int]:
        line = self._line
        adds = [op.records for op in ops if isinstance(op, Kept)]
        if len(adds) < len(ops):
            return await self._swapped(line, ops)
        records = adds[0] if len(adds) == 1 else [sealed for batch in adds for sealed in batch]
        digits = await line.commits.add(records) if records else b""
        counts, start = [], 0
        for batch in adds:
            counts.append(digits.count(b"1", start, start + len(batch)))
            start += len(batch)
        return counts

    async def _find(self, query: Query) -> list[Record]:
        line = self._line
        return [record for record, _ in (await line.reader.find(query)).found]

    async def _heads(self, query: Query) -> list[Head]:
        line = self._line
        return await line.reader.heads(query)

    async def _tally(self, query: Query) -> Tally:
        line = self._line
        return await line.reader.tally(query)

    async def _search(self, query: Query, terms: tuple[str, ...]) -> Matches:
        from octavo.stores.redis.searching import (
            Search,
        )  # with the patterns of terms, which only a search needs

        line = self._line
        return await Search(line.indexes.index(query.collection, query.scope.tenant), query, terms).matches()

    async def _reindex(self, collection: str, progress: Progress) -> int:
        from octavo.stores.redis.checking import reindexed

        return await reindexed(await self._indexes(collection), progress)

    async def _verify(self, collection: str, progress: Progress) -> Lexicon:
        from octavo.stores.redis.checking import verified

        return await verified(collection, await self._indexes(collection), progress)

    async def _indexes(self, collection: str) -> "list[Index]":
        line = self._line
        return [line.indexes.index(collection, tenant) for tenant in await self.tenants()]

    async def tenants(self) -> list[str]:
        """Every tenant that has a record, sorted."""
        await self._ready()
        wire = self._line.wire
        listed = [_text(tenant) for tenant in await wire.ask("SMEMBERS", self._layout.tenants)]
        kept = [tenant for tenant in listed if await self._holds(wire, tenant)]
        for tenant in set(listed) - set(kept):
            await wire.ask("SREM", self._layout.tenants, tenant.encode())
            if await self._holds(wire, tenant):  # it came back meanwhile
                await wire.ask("SADD", self._layout.tenants, tenant.encode())
                kept.append(tenant)
        return sorted(kept)

    async def _holds(self, wire: Wire, tenant: str) -> bool:
        lanes = [self._layout.tenant_lane(collection, tenant) for collection in SHAPES]
        return bool(await wire.ask("EXISTS", *lanes))

    async def renew(self, collections: Sequence[str], scope: Scope) -> None:
        """With a ttl: let all of a place live on together, though only one of its collections was written to."""
        if self._ttl is not None:
            await self._ready()
            await self._line.writer.renew(collections, scope)

    async def describe(self) -> list[Finding]:
        """What this Redis is, and what of it endangers the records."""
        await self._ready()
        return await findings(self._line.wire, self._ttl)

    async def _open(self) -> None:
        if self._left and self._owned:
            self.client = _renewed(self.client)
        self._left = False
        self._line = _Line(self.client, self._layout, self._ttl)

    async def _leave(self) -> None:
        await self._line.commits.settled()
        await self._line.indexes.stop()
        if self._owned:
            await self.client.aclose()
            if (pool := getattr(self.client, "connection_pool", None)) is not None:
                await pool.disconnect()

    def _abandon(self) -> None:
        self._left = True

    async def _close(self) -> None:
        if not self._left:
            await self._leave()

    async def _swapped(self, line: "_Line", ops: list[Prepared]) -> list[int]:
        """Work out what the ops come to, then bring it about if nothing of it has moved meanwhile; else start over.

        A record that others merely add between the two steps counts as added after this batch.
        """
        for attempt in range(_ATTEMPTS):
            # Whoever has lost a race waits in line behind the losers of this process, so that somebody always wins.
            async with line.losers if attempt else contextlib.nullcontext():
                sight = _Sight(line.reader, ops)
                with contextlib.suppress(_Moved):
                    effects, counts = await sight.drafted(ops)
                    if not effects or await line.writer.swap(effects, sight):
                        return counts
            await asyncio.sleep(random.uniform(0, _PAUSE_SECONDS * min(attempt + 1, 10)))  # noqa: S311
        raise Conflict(
            f"others changed the same records {_ATTEMPTS} times in a row; nothing of the batch was applied"
        )


class _Moved(Exception):  # noqa: N818
    """Two looks at one record saw different things."""


class _Sight:
    """What a draft has seen of Redis, and must still be so when its effects are brought about."""

    def __init__(self, reader: Reader, ops: Sequence[Prepared]) -> None:
        self.bodies: dict[tuple[str, Key], str] = {}
        self.witnesses: list[tuple[str, str, Scope]] = []  # adds that found their id taken rely on it
        self.versions: dict[bytes, str] = {}
        self._reader = reader
        kept = (sealed for op in ops if isinstance(op, Kept) for sealed in op.records)
        self._scopes = {sealed.place: sealed.scope for sealed in kept}

    async def drafted(self, ops: list[Prepared]) -> tuple[list[Effect], list[int]]:
        asking = draft(ops)
        try:
            question = next(asking)
            while True:
                question = asking.send(await self._answer(question))
        except StopIteration as done:
            drafted: tuple[list[Effect], list[int]] = done.value
            return drafted

    async def _answer(self, question: Lookup | Query) -> list[Sealed]:
        if isinstance(question, Query):
            look = await self._reader.find(question)
            if (
                look.version is not None
                and self.versions.setdefault(look.watched, look.version) != look.version
            ):
                raise _Moved
            return [self._seen(body) for _, body in look.found]
        _, bodies = await self._reader.bodies(question.collection, question.keys, self._scopes)
        kept = [self._seen(body) for body in bodies]
        self.witnesses += [(sealed.collection, sealed.id, sealed.scope) for sealed in kept]
        return kept

    def _seen(self, body: str) -> Sealed:
        sealed = rows.sealed(body)
        if self.bodies.setdefault((sealed.collection, sealed.key), body) != body:
            raise _Moved
        return sealed


class _Line:
    """All that belongs to one event loop."""

    def __init__(self, client: Any, layout: Layout, ttl: int | None) -> None:
        self.wire = Wire(client)
        self.reader = Reader(self.wire, layout)
        self.indexes = Indexes(self.wire, layout)
        self.writer = Writer(self.wire, layout, ttl, self.indexes.noted)
        self.commits = Commits(self.writer.add)
        self.losers = asyncio.Lock()


def _renewed(client: Any) -> Any:
    """A client like this one that no event loop has used yet."""
    if isinstance(client, RedisCluster):
        raise StoreError("the event loop this Redis cluster client was used in has ended; open another store")
    pool = client.connection_pool
    kind, most = pool.connection_class, pool.max_connections
    return Redis(
        connection_pool=type(pool)(connection_class=kind, max_connections=most, **pool.connection_kwargs)
    )


def _text(word: str | bytes) -> str:
    return word.decode() if isinstance(word, bytes) else word
