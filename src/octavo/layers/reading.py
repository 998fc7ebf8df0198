"""Reading layered memory: layers as they are or were, what answers a question, and the log."""

import math
from datetime import datetime

import msgspec

from octavo.errors import InvalidQuery, NotFound, StoreClosed
from octavo.kernel.model import Cursor, Query, Record, Scope
from octavo.kernel.ports import read_page
from octavo.layers import checking, history
from octavo.layers.deciding import Layer
from octavo.layers.paging import last_changed
from octavo.layers.parts import Parts
from octavo.layers.records import COLLECTIONS, LOG, memory_of
from octavo.layers.values import Action, Found, LogEntry, Memory

_PAGE = 200  # nearly every profile is smaller, and an embedded store reads as many without a thread


class Reading:
    """What can be asked of a tenant's memory."""

    tenant: str
    _parts: Parts

    async def get(self, memory_id: str) -> Memory:
        """One memory, or NotFound."""
        self._begin()
        return memory_of(await self._found(memory_id, None, None, None))

    async def profile(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        category: str | None = None,
        limit: int | None = None,
        as_of: datetime | None = None,
    ) -> list[Memory]:
        """Who somebody is, what changed last first; or was, at that time."""
        most = checking.limit(limit)
        if as_of is not None:
            return await self._layer("profile", user_id, agent_id, category, most, None, None, as_of)
        found = await self._layer("profile", user_id, agent_id, category, _PAGE, None, None, None)
        if len(found) == _PAGE:  # perhaps there are more, and what changed last is anywhere among them
            found = await self._layer("profile", user_id, agent_id, category, None, None, None, None)
        found.sort(key=lambda memory: (memory.updated_at, memory.id), reverse=True)
        return found[:most]

    async def events(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        category: str | None = None,
        limit: int | None = 50,
        since: datetime | None = None,
        until: datetime | None = None,
        as_of: datetime | None = None,
    ) -> list[Memory]:
        """What happened, newest first: what was remembered from `since` on and before `until`, as it is, or was at a time."""
        return await self._layer("event", user_id, agent_id, category, limit, since, until, as_of)

    async def profile_page(
        self,
        *,
        limit: int,
        max_bytes: int,
        after: Cursor | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        category: str | None = None,
        as_of: datetime | None = None,
    ) -> tuple[list[Memory], Cursor | None]:
        """As `profile`, from a cursor on: what fits into so many bytes, at least one memory, and where to go on."""
        if as_of is not None:
            return await self._then(
                "profile", user_id, agent_id, category, limit, None, None, as_of, after, max_bytes
            )
        query = self._query("profile", user_id, agent_id, category, None, None)
        return await last_changed(self._begin().store, query, limit, max_bytes, after)

    async def event_page(
        self,
        *,
        limit: int,
        max_bytes: int,
        after: Cursor | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        category: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        as_of: datetime | None = None,
    ) -> tuple[list[Memory], Cursor | None]:
        """As `events`, from a cursor on: what fits into so many bytes, at least one memory, and where to go on."""
        if as_of is not None:
            return await self._then(
                "event", user_id, agent_id, category, limit, since, until, as_of, after, max_bytes
            )
        query = self._query("event", user_id, agent_id, category, since, until)
        query = msgspec.structs.replace(query, limit=limit, after=after)
        found, following = await read_page(self._begin().store, query, max_bytes)
        return [memory_of(record) for record in found], following

    def _query(
        self,
        layer: Layer,
        user_id: str | None,
        agent_id: str | None,
        category: str | None,
        since: datetime | None,
        until: datetime | None,
    ) -> Query:
        """What asks for all of a layer that can be seen now, newest first."""
        kind = None if category is None else checking.category(category, layer)
        return Query(
            collection=COLLECTIONS[layer], scope=checking.owner(user_id, agent_id).scope(self.tenant),
            kinds=None if kind is None else (kind,), since=checking.moment("since", since),
            until=checking.moment("until", until), alive_at=self._begin().ledger.clock(), newest_first=True,
        )  # fmt: skip

    async def _layer(
        self,
        layer: Layer,
        user_id: str | None,
        agent_id: str | None,
        category: str | None,
        limit: int | None,
        since: datetime | None,
        until: datetime | None,
        as_of: datetime | None,
    ) -> list[Memory]:
        most = checking.limit(limit)
        if as_of is not None:
            then, _ = await self._then(layer, user_id, agent_id, category, most, since, until, as_of)
            return then
        query = self._query(layer, user_id, agent_id, category, since, until)
        found = await self._begin().store.find(msgspec.structs.replace(query, limit=most))
        return [memory_of(record) for record in found]

    async def _then(
        self,
        layer: Layer,
        user_id: str | None,
        agent_id: str | None,
        category: str | None,
        limit: int | None,
        since: datetime | None,
        until: datetime | None,
        as_of: datetime,
        after: Cursor | None = None,
        max_bytes: int | None = None,
    ) -> tuple[list[Memory], Cursor | None]:
        at = checking.moment("as_of", as_of) or as_of
        query = self._query(layer, user_id, agent_id, category, since, until)
        return await history.as_of(
            self._begin().store, checking.owner(user_id, agent_id), self.tenant, layer, at,
            category=query.kinds[0] if query.kinds else None, limit=limit, since=query.since, until=query.until,
            after=after, max_bytes=max_bytes,
        )  # fmt: skip

    async def recall(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        layer: Layer | None = None,
        top_k: int = 10,
        everyone: bool = False,
    ) -> list[Found]:
        """The memories of an owner that answer a question best, of both layers or of one; `everyone` is the whole tenant."""
        found, _ = await self._recall(query, user_id, agent_id, layer, top_k, everyone, None)
        return found

    async def recall_page(
        self,
        query: str,
        *,
        max_bytes: int,
        user_id: str | None = None,
        agent_id: str | None = None,
        layer: Layer | None = None,
        top_k: int = 10,
        everyone: bool = False,
    ) -> tuple[list[Found], int]:
        """As `recall`: the best that fit into so many bytes, at least one memory, and how many more there are."""
        return await self._recall(query, user_id, agent_id, layer, top_k, everyone, max_bytes)

    async def _recall(
        self,
        query: str,
        user_id: str | None,
        agent_id: str | None,
        layer: Layer | None,
        top_k: int,
        everyone: bool,
        max_bytes: int | None,
    ) -> tuple[list[Found], int]:
        parts = self._begin()
        owner = checking.perhaps_owner(user_id, agent_id)
        if (owner is not None) is bool(everyone):
            both = "" if owner is None else ", not both"
            raise InvalidQuery(f"whose memories? give user_id or agent_id, or everyone=True{both}")
        one = checking.perhaps_layer(layer)
        scope = Scope(tenant=self.tenant) if owner is None else owner.scope(self.tenant)
        names = tuple(COLLECTIONS.values()) if one is None else (COLLECTIONS[one],)
        hits = await parts.recall.recall(
            query, scope, top_k, max_bytes=max_bytes, collections=names, everyone=everyone
        )
        best = max((hit.score for hit in hits), default=0.0)
        # Recall's own scores only rank. Here the best one is how likely it is that memory holds an answer at all.
        found = [
            Found(memory=memory_of(hit.record), score=round(hits.presence * math.exp(hit.score - best), 4))
            for hit in hits
        ]
        return found, hits.left_out

    async def history(self, memory_id: str) -> list[LogEntry]:
        """All that happened to a memory, oldest first, also when it is gone; NotFound when there never was one."""
        found = await self.logs(memory_id, limit=None)
        if not found:
            raise NotFound(f"there is no memory {memory_id!r}, and there was none")
        return found[::-1]

    async def logs(
        self,
        memory_id: str | None = None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        memory_layer: Layer | None = None,
        action: Action | None = None,
        limit: int | None = 100,
    ) -> list[LogEntry]:
        """The log of a memory, of an owner or of the whole tenant, newest first."""
        query, layer = self._log_query(memory_id, user_id, agent_id, memory_layer, action)
        return await history.newest(self._parts.store, query, layer, checking.limit(limit))

    async def log_page(
        self,
        memory_id: str | None = None,
        *,
        limit: int,
        max_bytes: int,
        after: Cursor | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        memory_layer: Layer | None = None,
        action: Action | None = None,
    ) -> tuple[list[LogEntry], Cursor | None]:
        """As `logs`, from a cursor on: what fits into so many bytes, at least one row, and where to go on."""
        query, layer = self._log_query(memory_id, user_id, agent_id, memory_layer, action)
        query = msgspec.structs.replace(query, after=after)
        return await history.newest_page(self._parts.store, query, layer, limit, max_bytes)

    def _log_query(
        self,
        memory_id: str | None,
        user_id: str | None,
        agent_id: str | None,
        memory_layer: Layer | None,
        action: Action | None,
    ) -> tuple[Query, Layer | None]:
        """What asks for log rows, and the layer that they are to be of."""
        self._begin()
        owner = checking.perhaps_owner(user_id, agent_id)
        scope = Scope(tenant=self.tenant) if owner is None else owner.scope(self.tenant)
        if memory_id is not None:
            if not checking.name("memory_id", memory_id):
                raise InvalidQuery("memory_id is empty")
            scope = msgspec.structs.replace(scope, session=memory_id)
        layer, kind = checking.perhaps_layer(memory_layer), checking.action(action)
        return Query(collection=LOG, scope=scope, kinds=None if kind is None else (kind,)), layer

    def _begin(self) -> Parts:
        if self._parts.closed:
            raise StoreClosed("this LayeredMemory was closed; make another one")
        self._parts.sweeper.start()
        return self._parts

    async def _found(
        self, memory_id: str, user_id: str | None, agent_id: str | None, layer: Layer | None
    ) -> Record:
        """The record of a memory that can be seen, if it is that owner's; else it is as if there were none."""
        owner = checking.perhaps_owner(user_id, agent_id)
        one = checking.perhaps_layer(layer)
        scope = Scope(tenant=self.tenant) if owner is None else owner.scope(self.tenant)
        ledger = self._parts.ledger
        return await ledger.find(checking.name("memory_id", memory_id), scope, one, alive_at=ledger.clock())
