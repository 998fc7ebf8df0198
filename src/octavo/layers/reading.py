"""Reading layered memory: layers as they are or were, what answers a question, and the log."""

import math
from datetime import datetime

import msgspec

from octavo.errors import InvalidQuery, NotFound, StoreClosed
from octavo.layers import checking, history
from octavo.layers.deciding import Layer
from octavo.layers.parts import Parts
from octavo.layers.records import COLLECTIONS, LOG, memory_of
from octavo.layers.values import Action, Found, LogEntry, Memory
from octavo.model import Query, Record, Scope

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
        found = await self._layer("profile", user_id, agent_id, category, _PAGE, None, None, as_of)
        if len(found) == _PAGE:  # perhaps there are more, and what changed last is anywhere among them
            found = await self._layer("profile", user_id, agent_id, category, None, None, None, as_of)
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
        parts = self._begin()
        owner = checking.owner(user_id, agent_id)
        kind = None if category is None else checking.category(category, layer)
        most = checking.limit(limit)
        first, last = checking.moment("since", since), checking.moment("until", until)
        at = checking.moment("as_of", as_of)
        if at is not None:
            then = await history.as_of(
                parts.store, owner, self.tenant, layer, at, category=kind, limit=most, since=first, until=last
            )
            return sorted(then, key=lambda memory: (memory.created_at, memory.id), reverse=True)[:most]
        query = Query(
            collection=COLLECTIONS[layer], scope=owner.scope(self.tenant), kinds=None if kind is None else (kind,),
            since=first, until=last, alive_at=parts.ledger.clock(), newest_first=True, limit=most,
        )  # fmt: skip
        return [memory_of(record) for record in await parts.store.find(query)]

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
        parts = self._begin()
        owner = checking.perhaps_owner(user_id, agent_id)
        if (owner is not None) is bool(everyone):
            both = "" if owner is None else ", not both"
            raise InvalidQuery(f"whose memories? give user_id or agent_id, or everyone=True{both}")
        one = checking.perhaps_layer(layer)
        scope = Scope(tenant=self.tenant) if owner is None else owner.scope(self.tenant)
        names = tuple(COLLECTIONS.values()) if one is None else (COLLECTIONS[one],)
        hits = await parts.recall.recall(query, scope, top_k, collections=names, everyone=everyone)
        best = max((hit.score for hit in hits), default=0.0)
        # Recall's own scores only rank. Here the best one is how likely it is that memory holds an answer at all.
        return [
            Found(memory=memory_of(hit.record), score=round(hits.presence * math.exp(hit.score - best), 4))
            for hit in hits
        ]

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
        parts = self._begin()
        owner = checking.perhaps_owner(user_id, agent_id)
        scope = Scope(tenant=self.tenant) if owner is None else owner.scope(self.tenant)
        if memory_id is not None:
            if not checking.name("memory_id", memory_id):
                raise InvalidQuery("memory_id is empty")
            scope = msgspec.structs.replace(scope, session=memory_id)
        layer, kind = checking.perhaps_layer(memory_layer), checking.action(action)
        query = Query(collection=LOG, scope=scope, kinds=None if kind is None else (kind,))
        return await history.newest(parts.store, query, layer, checking.limit(limit))

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
