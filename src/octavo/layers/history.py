"""The memory as it was at a time: what is there now, with all that changed since taken back."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec.structs import replace

from octavo.kernel.model import START, Cursor, Head, Query, Record
from octavo.kernel.ports import Store, fitting, heads, read_page
from octavo.layers.deciding import Layer
from octavo.layers.paging import is_past
from octavo.layers.records import COLLECTIONS, LOG, Owner, entry_of, memory_at, memory_of
from octavo.layers.values import LogEntry, Memory, State

_TICK = timedelta(microseconds=1)
_LATEST = datetime.max.replace(tzinfo=UTC) - _TICK  # there is always a moment after it
_CHANGES = ("insert", "update", "delete", "expire")
_PAGE = 200  # rows read at once, when not all of them may be wanted
_LOG_BYTES = 4 * 2**20  # of the log that are in memory at once
_SPARE = 64  # more than asked for are read at first: some of them may have changed since


class _Was(msgspec.Struct, frozen=True):
    """A memory that could be seen then: what it stands by, how large it was, and which log row tells what it was."""

    at: datetime
    id: str
    size_bytes: int
    row: str = ""  # nothing where it has not changed since
    updated_at: datetime | None = None  # of the memory itself, where it has not


async def as_of(
    store: Store,
    owner: Owner,
    tenant: str,
    layer: Layer,
    at: datetime,
    *,
    category: str | None = None,
    limit: int | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    after: Cursor | None = None,
    max_bytes: int | None = None,
) -> tuple[list[Memory], Cursor | None]:
    """The memories of a layer that could be seen at that time, from a cursor on, as far as they fit; and where to go on.

    A profile stands by its last change, events by when they were remembered; the latest comes first. The cost is what there
    is to answer and what changed since; texts are read only of what is answered.
    """
    at = min(at, _LATEST)
    until = at + _TICK if until is None else min(until, at + _TICK)
    latest = layer == "event"
    if latest and after is not None and after.at is not None:
        until = min(until, after.at + _TICK)

    def wanted(state: State) -> bool:
        return (
            (state.expires_at is None or state.expires_at > at)
            and (category is None or state.category == category)
            and (since is None or state.created_at >= since)
            and state.created_at < until
        )

    spare = _SPARE
    while True:
        # What changed last may be anywhere; what was remembered last is at the end.
        most = limit + 1 + spare if latest and limit is not None else None
        query = Query(
            collection=COLLECTIONS[layer],
            scope=owner.scope(tenant),
            kinds=None if category is None else (category,),
            since=since,
            until=until,
            alive_at=at,
            newest_first=True,
            limit=most,
        )
        # The table first: whatever changes after it was read is in the log when that is read, and is taken back.
        present = await heads(store, query)
        changed = await _first_changes(store, owner, tenant, layer, at, wanted)
        same = [head for head in present if head.id not in changed]
        if most is not None and len(same) < most - spare and len(present) == most:
            spare = max(spare * 4, len(changed))
            continue
        was = [_Was(_moment(head, latest), head.id, head.size_bytes, "", head.updated_at) for head in same]
        was += [one for one in changed.values() if one is not None]
        was = sorted((one for one in was if is_past((one.at, one.id), after)), key=_stands, reverse=True)
        page = (
            was[:limit]
            if max_bytes is None
            else was[: fitting((one.size_bytes for one in was[:limit]), max_bytes)]
        )
        found = await _read_memories(store, owner, tenant, layer, page)
        if found is not None:
            following = Cursor(at=page[-1].at, id=page[-1].id) if page and len(page) < len(was) else None
            return found, following


async def _read_memories(
    store: Store, owner: Owner, tenant: str, layer: Layer, page: list[_Was]
) -> list[Memory] | None:
    """What these memories were, in their order; None when one of them has changed while it was looked for."""
    scope = owner.scope(tenant)
    same = {one.id: one.updated_at for one in page if not one.row}
    rows = tuple(one.row for one in page if one.row)
    told: dict[str, Memory] = {}
    if same:
        for record in await store.find(Query(collection=COLLECTIONS[layer], scope=scope, ids=tuple(same))):
            if record.updated_at == same[record.id]:
                told[record.id] = memory_of(record)
    if rows:
        for record in await store.find(Query(collection=LOG, scope=scope, ids=rows)):
            entry = entry_of(record)
            if entry.before is not None:
                told[entry.memory_id] = memory_at(entry.memory_id, owner, tenant, layer, entry.before)
    return [told[one.id] for one in page] if len(told) == len(page) else None


async def _first_changes(
    store: Store, owner: Owner, tenant: str, layer: Layer, at: datetime, wanted: Callable[[State], bool]
) -> dict[str, _Was | None]:
    """What each memory that changed after that time was then; None for one that was not there, or is not wanted."""
    first: dict[str, _Was | None] = {}
    query = Query(collection=LOG, scope=owner.scope(tenant), kinds=_CHANGES, since=at + _TICK, limit=1000)
    cursor: Cursor | None = START
    while cursor is not None:
        page, cursor = await read_page(store, replace(query, after=cursor), _LOG_BYTES)
        for record in page:
            name = record.scope.session or ""
            if record.data["memory_layer"] == layer and name not in first:
                state = entry_of(record).before
                first[name] = None if state is None or not wanted(state) else _was(state, name, layer, record)
    return first


def _was(state: State, name: str, layer: Layer, row: Record) -> _Was:
    size = len(state.content.encode()) + len(msgspec.json.encode(state.metadata))
    return _Was(_moment(state, layer == "event"), name, size, row.id)


def _moment(known: Head | State, latest: bool) -> datetime:
    return known.created_at if latest else known.updated_at


def _stands(one: _Was) -> tuple[datetime, str]:
    return one.at, one.id


async def newest_page(
    store: Store, query: Query, layer: Layer | None, limit: int, max_bytes: int
) -> tuple[list[LogEntry], Cursor | None]:
    """The newest log rows from the cursor of the query on that fit into so many bytes, and where to go on."""
    found: list[LogEntry] = []
    size = limit if layer is None else max(limit, _PAGE)
    cursor: Cursor | None = query.after
    while len(found) < limit:
        asked = replace(query, newest_first=True, limit=size, after=cursor)
        page, cursor = await read_page(store, asked, max_bytes)
        for record in page:
            if layer is None or record.data["memory_layer"] == layer:
                found.append(entry_of(record))
                max_bytes -= Head.of(record).size_bytes
                if len(found) == limit and (cursor is not None or record is not page[-1]):
                    return found, record.cursor
        if cursor is None or (found and (len(page) < size or max_bytes <= 0)):  # no more are there, or fit
            return found, cursor
    return found, cursor


async def newest(store: Store, query: Query, layer: Layer | None, limit: int | None) -> list[LogEntry]:
    """The newest log rows, newest first, of a layer or of both."""
    found: list[LogEntry] = []
    size = _PAGE if limit is None else limit if layer is None else max(limit, _PAGE)
    asked = replace(query, newest_first=True, limit=size)
    while limit is None or len(found) < limit:
        page = await store.find(asked)
        found += [
            entry_of(record) for record in page if layer is None or record.data["memory_layer"] == layer
        ]
        if len(page) < size:
            break
        asked = replace(asked, after=page[-1].cursor)
    return found[:limit]
