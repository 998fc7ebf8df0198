"""Reading through a store, on whatever abilities it has: page by page, head by head, name by name."""

from collections.abc import AsyncIterator, Iterable

import msgspec

from octavo.kernel.model import (
    START,
    Cursor,
    Head,
    Query,
    Record,
    Scope,
    ScopePart,
)
from octavo.kernel.ports import FindsWithin, ListsHeads, ListsNames, Store

_NAMES = 1000  # read at once
_FEW = 16  # records that are read at once where nobody knows how large they are


async def walk(
    store: Store, query: Query, size: int = 1000, max_bytes: int | None = None
) -> AsyncIterator[list[Record]]:
    """All answers to a query in pages of `size`, oldest first, at the same cost per page however long it gets.

    With `max_bytes` a page ends where its texts and bodies would take more, after one record at the earliest.
    """
    cursor: Cursor | None = query.after or START
    while cursor is not None:
        asked = msgspec.structs.replace(query, after=cursor, limit=size, newest_first=False)
        page, cursor = await read_page(store, asked, max_bytes)
        if (
            max_bytes is None and page
        ):  # a store that leaves some out, as one of an earlier moment, may have more
            cursor = page[-1].cursor
        if page:
            yield page


async def list_heads(store: Store, query: Query) -> list[Head]:
    """The heads of all that answers a query; the query reads on from a cursor, or newest first."""
    if isinstance(store, ListsHeads):
        return await store.heads(query)
    found: list[Head] = []
    left = query.limit
    while left is None or left > 0:
        few = _FEW if left is None else min(left, _FEW)
        page = await store.find(msgspec.structs.replace(query, limit=few))
        found += [Head.of(record) for record in page]
        if len(page) < few:
            break
        left = None if left is None else left - few
        query = msgspec.structs.replace(query, after=page[-1].cursor, offset=0)
    return found


async def list_names(
    store: Store, collection: str, part: ScopePart, scope: Scope, most: int | None = None
) -> list[str]:
    """The users, agents or sessions that have records there, by name; of a store that lists none, by their heads."""
    if not isinstance(store, ListsNames):
        found = await list_heads(store, Query(collection=collection, scope=scope, newest_first=True))
        return sorted({name for head in found if (name := getattr(head.scope, part))})[:most]
    names: list[str] = []
    while page := await store.names(
        collection, part, scope, after=names[-1] if names else "", limit=most or _NAMES
    ):
        names += [one.name for one in page]
        if most:
            break
    return names


async def read_page(store: Store, query: Query, max_bytes: int | None) -> tuple[list[Record], Cursor | None]:
    """The first answers to a query whose texts and bodies take no more than `max_bytes`, and where to go on if there may be more.

    There is always one, however large; without `max_bytes`, size does not matter. The query has a limit, or no end, and reads
    on from a cursor or newest first.
    """
    if max_bytes is None:
        found = await store.find(query)
        return found, found[-1].cursor if query.limit and len(found) == query.limit else None
    most = query.limit or 0
    if not most:
        return [], None
    whole = await find_within(store, msgspec.structs.replace(query, limit=most + 1), max_bytes)
    if whole is not None:
        page = whole[:most]
        return page, page[-1].cursor if len(page) < len(whole) else None
    known = await list_heads(store, msgspec.structs.replace(query, limit=most + 1))
    fits = count_fitting((head.size_bytes for head in known[:most]), max_bytes)
    found = await store.find(msgspec.structs.replace(query, limit=fits)) if fits else []
    return found, found[-1].cursor if found and fits < len(known) else None


async def find_within(store: Store, query: Query, max_bytes: int) -> list[Record] | None:
    """All that answers a query, if it takes no more than `max_bytes`, and the store can tell that at once; else None."""
    return await store.find_within(query, max_bytes) if isinstance(store, FindsWithin) else None


def count_fitting(sizes: Iterable[int], max_bytes: int) -> int:
    """How many of these, from the first on, take at most `max_bytes` together; at least one, if there is one."""
    count = 0
    for size in sizes:
        max_bytes -= size
        if count and max_bytes < 0:
            break
        count += 1
    return count
