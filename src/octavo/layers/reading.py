"""Reading layered memory: layers as they are or were, what answers a question, and the log."""

import math
from datetime import datetime

import msgspec

from octavo.errors import InvalidQuery, NotFound
from octavo.kernel.model import Cursor, Query, Record, Scope
from octavo.layers import checking, pages
from octavo.layers.deciding import Layer
from octavo.layers.records import COLLECTIONS, LOG, memory_of
from octavo.layers.shared import Shared
from octavo.layers.values import Action, Found, LogEntry, Memory


class Reading:
    """What can be asked of a tenant's memory; each list has a form that is read in pages of so many bytes."""

    tenant: str
    _shared: Shared

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
        found, _ = await self._page("profile", limit, None, None, user_id, agent_id, category, as_of=as_of)
        return found

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
        found, _ = await self._page(
            "event", limit, None, None, user_id, agent_id, category, since=since, until=until, as_of=as_of
        )
        return found

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
        return await self._page("profile", limit, max_bytes, after, user_id, agent_id, category, as_of=as_of)

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
        return await self._page(
            "event",
            limit,
            max_bytes,
            after,
            user_id,
            agent_id,
            category,
            since=since,
            until=until,
            as_of=as_of,
        )

    async def _page(
        self,
        layer: Layer,
        limit: int | None,
        max_bytes: int | None,
        after: Cursor | None,
        user_id: str | None,
        agent_id: str | None,
        category: str | None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        as_of: datetime | None = None,
    ) -> tuple[list[Memory], Cursor | None]:
        """A layer, the latest first, from a cursor on: what fits into so many bytes (None: all of it), and where to go on."""
        shared, most = self._begin(), checking.limit(limit)
        query = Query(
            collection=COLLECTIONS[layer],
            scope=checking.owner(user_id, agent_id).scope(self.tenant),
            kinds=None if category is None else (checking.category(category, layer),),
            since=checking.moment("since", since),
            until=checking.moment("until", until),
            alive_at=shared.writer.clock(),
            newest_first=True,
        )
        if (at := checking.moment("as_of", as_of)) is not None:
            return await pages.as_of(shared.store, query, layer, at, most, max_bytes, after)
        if layer == "profile":
            return await pages.last_changed(shared.store, query, most, max_bytes, after)
        query = msgspec.structs.replace(query, limit=most, after=after)
        found, following = await pages.newest(shared.store, query, max_bytes)
        return [memory_of(record) for record in found], following

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
        shared = self._begin()
        scope = self._scope(user_id, agent_id)
        owned = scope != Scope(tenant=self.tenant)
        if owned is bool(everyone):
            both = ", not both" if owned else ""
            raise InvalidQuery(f"whose memories? give user_id or agent_id, or everyone=True{both}")
        one = checking.perhaps_layer(layer)
        names = tuple(COLLECTIONS.values()) if one is None else (COLLECTIONS[one],)
        hits = await shared.recall.recall(
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
        found, _ = await self._log_page(memory_id, limit, None, None, user_id, agent_id, memory_layer, action)
        return found

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
        return await self._log_page(
            memory_id, limit, max_bytes, after, user_id, agent_id, memory_layer, action
        )

    async def _log_page(
        self,
        memory_id: str | None,
        limit: int | None,
        max_bytes: int | None,
        after: Cursor | None,
        user_id: str | None,
        agent_id: str | None,
        memory_layer: Layer | None,
        action: Action | None,
    ) -> tuple[list[LogEntry], Cursor | None]:
        """Log rows, newest first, from a cursor on: what fits into so many bytes (None: all), and where to go on."""
        scope = self._scope(user_id, agent_id)
        if memory_id is not None:
            if not checking.name("memory_id", memory_id):
                raise InvalidQuery("memory_id is empty")
            scope = msgspec.structs.replace(scope, session=memory_id)
        kind = checking.action(action)
        query = Query(collection=LOG, scope=scope, kinds=None if kind is None else (kind,), after=after)
        layer = checking.perhaps_layer(memory_layer)
        return await pages.log_rows(self._begin().store, query, layer, checking.limit(limit), max_bytes)

    def _scope(self, user_id: str | None, agent_id: str | None) -> Scope:
        """The scope of the owner that was named, or of the whole tenant when nobody was."""
        owner = checking.perhaps_owner(user_id, agent_id)
        return Scope(tenant=self.tenant) if owner is None else owner.scope(self.tenant)

    def _begin(self) -> Shared:
        """The parts, which then are in use: what was closed is refused, and the sweeping begins."""
        self._shared.start()
        return self._shared

    async def _found(
        self, memory_id: str, user_id: str | None, agent_id: str | None, layer: Layer | None
    ) -> Record:
        """The record of a memory that can be seen, if it is that owner's; else it is as if there were none."""
        scope, of = self._scope(user_id, agent_id), checking.perhaps_layer(layer)
        writer = self._shared.writer
        return await writer.find(checking.name("memory_id", memory_id), scope, of, alive_at=writer.clock())
