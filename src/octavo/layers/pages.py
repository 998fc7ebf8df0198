"""Pages of memories and of log rows: as they are, and as they were at a time."""

import heapq
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from octavo.kernel.model import START, Cursor, Head, Query, Record
from octavo.kernel.ports import Store, fitting, heads, read_page
from octavo.layers.changes import CHANGES
from octavo.layers.deciding import Layer
from octavo.layers.records import LOG, entry_of, memory_at, memory_of, owner_of, record_of
from octavo.layers.values import LogEntry, Memory, State

_TICK = timedelta(microseconds=1)
_LATEST = datetime.max.replace(tzinfo=UTC) - _TICK  # there is always a moment after it
_ROWS = 200  # of the log are read at once, when not all of them may be wanted
_LOG_BYTES = 4 * 2**20  # of the log that are in memory at once
_HEADS = 2000  # that are read at once
_SPARE = 64  # more than asked for are read at first: some of them may have changed since


async def newest(store: Store, query: Query, max_bytes: int | None) -> tuple[list[Record], Cursor | None]:
    """What answers a query, newest first, as far as it fits (None: whatever its size), and where to go on."""
    if max_bytes is not None:
        return await read_page(store, query, max_bytes)
    found = await store.find(query)
    return found, found[-1].cursor if query.limit and len(found) == query.limit else None


async def read_heads(store: Store, query: Query, chosen: Sequence[Head], max_bytes: int) -> list[Record]:
    """The records of these heads, in their order, as far as they fit into so many bytes; at least one."""
    page = chosen[: fitting((head.size_bytes for head in chosen), max_bytes)]
    place = {head.id: number for number, head in enumerate(page)}
    if not place:
        return []
    found = await store.find(replace(query, ids=tuple(place), after=None, limit=None))
    return sorted(found, key=lambda record: place[record.id])


async def last_changed(
    store: Store, query: Query, limit: int | None, max_bytes: int | None, after: Cursor | None
) -> tuple[list[Memory], Cursor | None]:
    """What changed last first, as far as it fits, and where to go on.

    What changed last may be anywhere, so all of it is looked through, but only as far as the page goes is it read.
    """
    if max_bytes is None or not limit:
        found = await store.find(query) if limit != 0 else []
        found.sort(key=lambda record: (record.updated_at or record.created_at, record.id), reverse=True)
        return [memory_of(record) for record in found[:limit]], None
    latest: list[Head] = []
    query = replace(query, limit=_HEADS, after=START)
    while page := await heads(store, query):
        later = [head for head in page if _is_past(head.updated_at, head.id, after)]
        latest = heapq.nlargest(limit + 1, (*latest, *later), key=lambda head: (head.updated_at, head.id))
        if len(page) < _HEADS:
            break
        query = replace(query, after=page[-1].cursor)
    chosen = latest[: fitting((head.size_bytes for head in latest[:limit]), max_bytes)]
    found = await read_heads(store, query, chosen, max_bytes)
    following = Cursor(at=chosen[-1].updated_at, id=chosen[-1].id) if len(chosen) < len(latest) else None
    return [memory_of(record) for record in found], following


async def log_rows(
    store: Store, query: Query, layer: Layer | None, limit: int | None, max_bytes: int | None
) -> tuple[list[LogEntry], Cursor | None]:
    """The newest log rows of a layer, or of both, from the cursor of the query on, as far as they fit; and where to go on."""
    found: list[LogEntry] = []
    size = _ROWS if limit is None else limit if layer is None else max(limit, _ROWS)
    cursor: Cursor | None = query.after
    room = max_bytes
    while limit is None or len(found) < limit:
        page, cursor = await newest(store, replace(query, newest_first=True, limit=size, after=cursor), room)
        for record in page:
            if layer is None or record.data["memory_layer"] == layer:
                found.append(entry_of(record))
                room = None if room is None else room - Head.of(record).size_bytes
                if len(found) == limit and (cursor is not None or record is not page[-1]):
                    return found, record.cursor
        full = room is not None and found and (len(page) < size or room <= 0)
        if cursor is None or full:
            break
    return found, cursor


# --- as they were


class _Seen(NamedTuple):
    """A memory that could be seen then: what it stands by, how large it was, and which log row tells what it was."""

    at: datetime
    id: str
    size_bytes: int
    row: str = ""  # nothing where it has not changed since
    updated_at: datetime | None = None  # of the memory itself, where it has not


async def as_of(
    store: Store,
    query: Query,
    layer: Layer,
    at: datetime,
    limit: int | None,
    max_bytes: int | None,
    after: Cursor | None,
) -> tuple[list[Memory], Cursor | None]:
    """The memories of a layer that could be seen at that time, from a cursor on, as far as they fit; and where to go on.

    A profile stands by its last change, events by when they were remembered; the latest comes first. The cost is what there
    is to answer and what changed since; texts are read only of what is answered.
    """
    at = min(at, _LATEST)
    by_age = layer == "event"
    until = at + _TICK if query.until is None else min(query.until, at + _TICK)
    if by_age and after is not None and after.at is not None:
        until = min(until, after.at + _TICK)
    query = replace(query, until=until, alive_at=at)
    spare = _SPARE
    while True:
        # What changed last may be anywhere; what was remembered last is at the end.
        most = limit + 1 + spare if by_age and limit is not None else None
        # The table first: whatever changes after it was read is in the log when that is read, and is taken back.
        present = await heads(store, replace(query, limit=most))
        changed = await _first_changes(store, query, layer, at)
        same = [head for head in present if head.id not in changed]
        if most is not None and len(same) < most - spare and len(present) == most:
            spare = max(spare * 4, len(changed))
            continue
        seen = [_Seen(_moment(head, layer), head.id, head.size_bytes, "", head.updated_at) for head in same]
        seen += [one for one in changed.values() if one is not None]
        seen = sorted((one for one in seen if _is_past(one.at, one.id, after)), reverse=True)
        page = seen[:limit]
        if max_bytes is not None:
            page = page[: fitting((one.size_bytes for one in page), max_bytes)]
        found = await _read_seen(store, query, layer, page)
        if found is not None:
            following = Cursor(at=page[-1].at, id=page[-1].id) if page and len(page) < len(seen) else None
            return found, following


async def _first_changes(store: Store, query: Query, layer: Layer, at: datetime) -> dict[str, _Seen | None]:
    """What each memory that changed after that time was then; None for one that did not answer the query."""
    first: dict[str, _Seen | None] = {}
    scope = query.scope
    rows = Query(collection=LOG, scope=scope, kinds=CHANGES, since=at + _TICK, limit=1000)
    cursor: Cursor | None = START
    while cursor is not None:
        page, cursor = await read_page(store, replace(rows, after=cursor), _LOG_BYTES)
        for row in page:
            name = row.scope.session or ""
            if row.data["memory_layer"] != layer or name in first:
                continue
            first[name] = None
            if (state := entry_of(row).before) is not None:
                record = record_of(
                    name, owner_of(scope), scope.tenant, layer, state, int(state.data["version"])
                )
                if query.matches(record):
                    size = len(state.content.encode()) + len(msgspec.json.encode(state.metadata))
                    first[name] = _Seen(_moment(state, layer), name, size, row.id)
    return first


async def _read_seen(store: Store, query: Query, layer: Layer, page: list[_Seen]) -> list[Memory] | None:
    """What these memories were, in their order; None when one of them has changed while it was looked for."""
    scope, collection = query.scope, query.collection
    same = {one.id: one.updated_at for one in page if not one.row}
    rows = tuple(one.row for one in page if one.row)
    read: dict[str, Memory] = {}
    if same:
        for record in await store.find(Query(collection=collection, scope=scope, ids=tuple(same))):
            if record.updated_at == same[record.id]:
                read[record.id] = memory_of(record)
    if rows:
        for record in await store.find(Query(collection=LOG, scope=scope, ids=rows)):
            entry = entry_of(record)
            if entry.before is not None:
                owner = owner_of(scope)
                read[entry.memory_id] = memory_at(entry.memory_id, owner, scope.tenant, layer, entry.before)
    return [read[one.id] for one in page] if len(read) == len(page) else None


def _moment(known: Head | State, layer: Layer) -> datetime:
    """What a memory stands by in its layer."""
    return known.created_at if layer == "event" else known.updated_at


def _is_past(at: datetime, id_: str, after: Cursor | None) -> bool:
    """Whether what stands there, the latest first, comes after the cursor."""
    return after is None or after.at is None or (at, id_) < (after.at, after.id)
