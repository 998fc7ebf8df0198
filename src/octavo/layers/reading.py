"""Reading layered memory: layers as they are or were, what answers a question, and the log."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from octavo.errors import InvalidQuery, NotFound
from octavo.kernel.codec import check_query, check_whose
from octavo.kernel.model import START, Cursor, Head, Query, Record, Scope
from octavo.kernel.pages import count_fitting, find_within, list_heads, read_page
from octavo.kernel.ports import Store
from octavo.layers import checking
from octavo.layers.records import (
    COLLECTIONS,
    LAYER_OF,
    LOG,
    entry_of,
    memory_of,
    owner_of,
    record_of,
    version_in,
)
from octavo.layers.shared import CHANGES, Shared
from octavo.layers.values import Action, Fact, Found, Layer, LogEntry, Page, State

_TICK = timedelta(microseconds=1)
LATEST = datetime.max.replace(tzinfo=UTC) - _TICK  # there is always a moment after it
_ROWS = 200  # of the log are read at once, when not all of them may be wanted
_LOOKED = 1000  # rows of the log that a list of bounded size looks through for those of one layer
_LOG_BYTES = 4 * 2**20  # of the log that are in memory at once


class LayerReading:
    """What can be asked of a tenant's memory.

    Each list ends where it would take more than `max_bytes`, after one memory or row at the earliest, and goes on `after`
    the cursor `following` of the list before it.
    """

    tenant: str
    _shared: Shared

    async def get(self, memory_id: str, *, user_id: str | None = None, agent_id: str | None = None) -> Fact:
        """One memory, or NotFound; of an owner that is named, only if it is theirs."""
        self._begin()
        return memory_of(await self._find(memory_id, user_id, agent_id, None))

    async def profile(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        category: str | None = None,
        limit: int | None = None,
        as_of: datetime | None = None,
        after: Cursor | None = None,
        max_bytes: int | None = None,
    ) -> Page[Fact]:
        """Who somebody is, what changed last first; or was, at that time."""
        query = self._layer_query("profile", user_id, agent_id, category)
        at, store = checking.moment("as_of", as_of), self._shared.store
        most, room = checking.limit(limit), checking.room(max_bytes)
        if at is None and after is None:  # most profiles are short enough to be read as they are
            asked = query if most is None else replace(query, limit=most + 1)
            found = await (store.find(asked) if room is None else find_within(store, asked, room))
            if found is not None and (most is None or len(found) <= most):
                found.sort(
                    key=lambda record: (record.updated_at or record.created_at, record.id), reverse=True
                )
                return _page(found)
        return _page(*await _read_latest(store, query, at, most, room, after))

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
        after: Cursor | None = None,
        max_bytes: int | None = None,
    ) -> Page[Fact]:
        """What happened, newest first: what was remembered from `since` on and before `until`, as it is, or was at a time."""
        begin, end = checking.span(since, until)
        query = replace(self._layer_query("event", user_id, agent_id, category), since=begin, until=end)
        at, store = checking.moment("as_of", as_of), self._shared.store
        most, room = checking.limit(limit), checking.room(max_bytes)
        if at is not None:
            return _page(*await _read_latest(store, query, at, most, room, after))
        return _page(*await read_page(store, replace(query, limit=most, after=after), room))

    async def recall(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        layer: Layer | None = None,
        top_k: int = 10,
        everyone: bool = False,
        max_bytes: int | None = None,
    ) -> Page[Found]:
        """The memories of an owner that answer a question best, of both layers or of one; `everyone` is the whole tenant.

        `left_out` of the answer counts those that did not fit into `max_bytes`.
        """
        shared = self._begin()
        scope = self._scope(user_id, agent_id)
        owned = scope != Scope(tenant=self.tenant)
        check_whose(owned, everyone, "whose memories? give user_id or agent_id")
        one = checking.optional_layer(layer)
        names = tuple(COLLECTIONS.values()) if one is None else (COLLECTIONS[one],)
        hits = await shared.recall.recall(
            query, scope, top_k, max_bytes=checking.room(max_bytes), collections=names, everyone=everyone
        )
        found = [Found(memory=memory_of(hit.record), score=hits.likelihood(hit)) for hit in hits]
        return Page(found, left_out=hits.left_out, probably_absent=hits.probably_absent)

    async def history(
        self, memory_id: str, *, user_id: str | None = None, agent_id: str | None = None
    ) -> list[LogEntry]:
        """All that happened to a memory, oldest first, also when it is gone; NotFound when there never was one."""
        name = checking.name("memory_id", memory_id)  # of None, everybody's
        found = await self.logs(name, user_id=user_id, agent_id=agent_id, limit=None)
        if not found:  # of one that was written by hand nothing is known
            try:
                await self.get(memory_id, user_id=user_id, agent_id=agent_id)
            except NotFound:
                raise NotFound(f"there is no memory {memory_id!r}, and there was none") from None
        return found[::-1]

    async def logs(
        self,
        memory_id: str | None = None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        memory_layer: Layer | None = None,
        action: Action | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = 100,
        after: Cursor | None = None,
        max_bytes: int | None = None,
    ) -> Page[LogEntry]:
        """The log of a memory, of an owner or of the whole tenant, newest first: from `since` on and before `until`."""
        scope = self._scope(user_id, agent_id)
        if memory_id is not None:
            if not checking.name("memory_id", memory_id):
                raise InvalidQuery("memory_id is empty")
            if scope == Scope(tenant=self.tenant):
                await self._begin().check_log(memory_id, self.tenant)
            scope = replace(scope, session=memory_id)
        kind = checking.optional_action(action)
        begin, end = checking.span(since, until)
        query = Query(
            collection=LOG,
            scope=scope,
            kinds=None if kind is None else (kind,),
            since=begin,
            until=end,
            after=after,
        )
        layer = checking.optional_layer(memory_layer)
        room = checking.room(max_bytes)
        return await _log_rows(self._begin().store, query, layer, checking.limit(limit), room)

    def _layer_query(
        self, layer: Layer, user_id: str | None, agent_id: str | None, category: str | None
    ) -> Query:
        return Query(
            collection=COLLECTIONS[layer],
            scope=checking.owner(user_id, agent_id).scope(self.tenant),
            kinds=None if category is None else (checking.category(category, layer),),
            alive_at=self._begin().clock(),
            newest_first=True,
        )

    def _scope(self, user_id: str | None, agent_id: str | None) -> Scope:
        """The scope of the owner that was named, or of the whole tenant when nobody was."""
        owner = checking.optional_owner(user_id, agent_id)
        return Scope(tenant=self.tenant) if owner is None else owner.scope(self.tenant)

    def _begin(self) -> Shared:
        """The parts, which then are in use: what was closed is refused, and the sweeping begins."""
        self._shared.start()
        return self._shared

    async def _find(
        self, memory_id: str, user_id: str | None, agent_id: str | None, layer: Layer | None
    ) -> Record:
        """The record of a memory that can be seen, if it is that owner's; else it is as if there were none."""
        scope, of = self._scope(user_id, agent_id), checking.optional_layer(layer)
        name = checking.name("memory_id", memory_id)
        return await self._shared.find(name, scope, of, alive_at=self._shared.clock())


# --- pages


def _page(found: Sequence[Record], following: Cursor | None = None) -> Page[Fact]:
    return Page(map(memory_of, found), following)


async def read_heads(store: Store, query: Query, chosen: Sequence[Head], max_bytes: int) -> list[Record]:
    """The records of these heads, in their order, as far as they fit into so many bytes; at least one."""
    page = chosen[: count_fitting((head.size_bytes for head in chosen), max_bytes)]
    rank = {head.id: number for number, head in enumerate(page)}
    if not rank:
        return []
    found = await store.find(replace(query, ids=tuple(rank), after=None, limit=None))
    return sorted(found, key=lambda record: rank[record.id])


async def _log_rows(
    store: Store, query: Query, layer: Layer | None, limit: int | None, max_bytes: int | None
) -> Page[LogEntry]:
    """The newest log rows of a layer, or of both, from the cursor of the query on, as far as they fit.

    No index knows the layer: a list of bounded size ends, perhaps empty, where it has looked through many rows for it.
    """
    found: Page[LogEntry] = Page(following=query.after)
    size = _ROWS if limit is None else limit if layer is None else max(limit, _ROWS)
    room, looked = max_bytes, 0
    while limit is None or len(found) < limit:
        asked = replace(query, newest_first=True, limit=size, after=found.following)
        page, found.following = await read_page(store, asked, room)
        for record in page:
            if layer is None or record.data["memory_layer"] == layer:
                found.append(entry_of(record))
                room = None if room is None else room - Head.of(record).size_bytes
                if len(found) == limit and (found.following is not None or record is not page[-1]):
                    found.following = record.cursor
                    return found
        looked += len(page)
        full = room is not None and found and (len(page) < size or room <= 0)
        tired = room is not None and layer is not None and looked >= _LOOKED
        if found.following is None or full or tired:
            break
    return found


class _Seen(NamedTuple):
    """A memory that can or could be seen: what it stands by, how large it is, and which log row tells what it was."""

    at: datetime
    id: str
    size_bytes: int
    row: str = ""  # nothing where it has not changed since
    updated_at: datetime | None = None  # of the memory itself, where it has not


async def _read_latest(
    store: Store,
    query: Query,
    at: datetime | None,
    limit: int | None = None,
    max_bytes: int | None = None,
    after: Cursor | None = None,
) -> tuple[list[Record], Cursor | None]:
    """The memories of a layer that can be seen, or could be at that time, the latest first; and where to go on.

    A profile stands by its last change, events by when they were remembered. All of the layer is looked through, but only
    what is answered is read.
    """
    layer = LAYER_OF[query.collection]
    check_query(replace(query, after=after))
    if at is not None:  # what was there and alive then, as far as time can be counted
        at = min(at, LATEST)
        until = at + _TICK if query.until is None else min(query.until, at + _TICK)
        query = replace(query, until=until, alive_at=at)
    while True:
        # The table first: whatever changes after it was read is in the log when that is read, and is taken back.
        seen: dict[str, _Seen | None] = {
            head.id: _Seen(_moment(head, layer), head.id, head.size_bytes, updated_at=head.updated_at)
            for head in await list_heads(store, query)
        }
        if at is not None:
            seen |= await _first_changes(store, query, layer, at)
        ordered = sorted((one for one in seen.values() if one and _is_past(one, after)), reverse=True)
        page = ordered[:limit]
        if max_bytes is not None:
            page = page[: count_fitting((one.size_bytes for one in page), max_bytes)]
        found = await _read_seen(store, query, layer, page)
        if len(found) == len(page):  # else one of them has changed while it was looked for
            more = page and len(page) < len(ordered)
            return found, Cursor(at=page[-1].at, id=page[-1].id) if more else None


async def records_as_of(store: Store, query: Query, at: datetime) -> list[Record]:
    """The memories of a layer that could be seen at that time, as they were then."""
    return (await _read_latest(store, replace(query, newest_first=True), at))[0]


async def _first_changes(store: Store, query: Query, layer: Layer, at: datetime) -> dict[str, _Seen | None]:
    """What each memory that changed after that time was then; None for one that did not answer the query."""
    first: dict[str, _Seen | None] = {}
    rows = Query(collection=LOG, scope=query.scope, kinds=CHANGES, since=at + _TICK, limit=1000)
    cursor: Cursor | None = START
    while cursor is not None:
        page, cursor = await read_page(store, replace(rows, after=cursor), _LOG_BYTES)
        for row in page:
            name = row.scope.session or ""
            if row.data["memory_layer"] != layer or name in first:
                continue
            state = entry_of(row).before
            first[name] = None
            if state is not None and query.matches(_record_then(row, layer, state)):
                size = len(state.content.encode()) + len(msgspec.json.encode(state.metadata))
                first[name] = _Seen(_moment(state, layer), name, size, row.id)
    return first


async def _read_seen(store: Store, query: Query, layer: Layer, page: list[_Seen]) -> list[Record]:
    """What these memories are or were, in their order, without those that have changed meanwhile."""
    same = {one.id: one.updated_at for one in page if not one.row}
    rows = tuple(one.row for one in page if one.row)
    read: dict[str, Record] = {}
    if same:
        for record in await store.find(
            Query(collection=query.collection, scope=query.scope, ids=tuple(same))
        ):
            if (record.updated_at or record.created_at) == same[record.id]:
                read[record.id] = record
    if rows:
        for row in await store.find(Query(collection=LOG, scope=query.scope, ids=rows)):
            if (state := entry_of(row).before) is not None:
                read[row.scope.session or ""] = _record_then(row, layer, state)
    return [read[one.id] for one in page if one.id in read]


def _record_then(row: Record, layer: Layer, state: State) -> Record:
    """The record of a memory as it was before the change of a log row."""
    scope = row.scope
    version = version_in(state.data)
    return record_of(scope.session or "", owner_of(scope), scope.tenant, layer, state, version)


def _moment(known: Head | State, layer: Layer) -> datetime:
    """What a memory stands by in its layer."""
    return known.created_at if layer == "event" else known.updated_at


def _is_past(one: _Seen, after: Cursor | None) -> bool:
    """Whether a memory, the latest first, comes after the cursor."""
    return after is None or after.at is None or (one.at, one.id) < (after.at, after.id)
