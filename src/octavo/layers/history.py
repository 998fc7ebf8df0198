"""The memory as it was at a time: what is there now, with all that changed since taken back."""

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from octavo.layers.deciding import Layer
from octavo.layers.records import COLLECTIONS, LOG, Owner, entry_of, memory_at, memory_of
from octavo.layers.values import LogEntry, Memory
from octavo.model import Cursor, Head, Query
from octavo.ports import Store, read_page, walk

_TICK = timedelta(microseconds=1)
_LATEST = datetime.max.replace(tzinfo=UTC) - _TICK  # there is always a moment after it
_CHANGES = ("insert", "update", "delete", "expire")
_PAGE = 200  # rows read at once, when not all of them may be wanted
_SPARE = 64  # more than asked for are read at first: some of them may have changed since


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
) -> list[Memory]:
    """The memories of a layer that could be seen at that time; its cost is what there is to answer and what changed since."""
    at = min(at, _LATEST)
    before = at + _TICK if until is None else min(until, at + _TICK)

    def wanted(memory: Memory) -> bool:
        return (
            (memory.expiry_date is None or memory.expiry_date > at)
            and (category is None or memory.category == category)
            and (since is None or memory.created_at >= since)
            and memory.created_at < before
        )

    spare = _SPARE
    while True:
        query = Query(
            collection=COLLECTIONS[layer],
            scope=owner.scope(tenant),
            kinds=None if category is None else (category,),
            since=since,
            until=before,
            alive_at=at,
            limit=None if limit is None else limit + spare,
        )
        # The table first: whatever changes after it was read is in the log when that is read, and is taken back.
        present = await store.find(query)
        changed = await _first_changes(store, owner, tenant, layer, at)
        same = [memory_of(record) for record in present if record.id not in changed]
        if limit is None or len(same) >= limit or len(present) < limit + spare:
            break
        spare = max(spare * 4, len(changed))
    then = [
        memory_at(entry.memory_id, owner, tenant, layer, entry.before)
        for entry in changed.values()
        if entry.before is not None
    ]
    return [memory for memory in (*same, *then) if wanted(memory)]


async def _first_changes(
    store: Store, owner: Owner, tenant: str, layer: Layer, at: datetime
) -> dict[str, LogEntry]:
    """The first change of each memory after that time: what it was before is what it was then."""
    first: dict[str, LogEntry] = {}
    query = Query(collection=LOG, scope=owner.scope(tenant), kinds=_CHANGES, since=at + _TICK)
    async for page in walk(store, query):
        for record in page:
            if record.data["memory_layer"] == layer:
                first.setdefault(record.scope.session or "", entry_of(record))
    return first


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
