"""Pages of memories that are in another order than the one they were remembered in."""

import heapq
from datetime import datetime

import msgspec

from octavo.kernel.model import START, Cursor, Head, Query
from octavo.kernel.ports import Store, fitting, heads
from octavo.layers.records import memory_of
from octavo.layers.values import Memory

_HEADS = 2000  # that are read at once


async def last_changed(
    store: Store, query: Query, limit: int, max_bytes: int, after: Cursor | None
) -> tuple[list[Memory], Cursor | None]:
    """What changed last first: what fits into so many bytes, at least one, and where to go on.

    What changed last may be anywhere, so all of it is looked through, but only as far as the page goes is it read.
    """
    if not limit:
        return [], None
    newest: list[Head] = []
    query = msgspec.structs.replace(query, newest_first=True, limit=_HEADS, after=START)
    while found := await heads(store, query):
        later = [head for head in found if is_past((head.updated_at, head.id), after)]
        newest = heapq.nlargest(limit + 1, (*newest, *later), key=lambda head: (head.updated_at, head.id))
        if len(found) < _HEADS:
            break
        query = msgspec.structs.replace(query, after=found[-1].cursor)
    page = newest[: fitting((head.size_bytes for head in newest[:limit]), max_bytes)]
    place = {head.id: number for number, head in enumerate(page)}
    named = msgspec.structs.replace(query, ids=tuple(place), after=None, limit=None)
    records = sorted(await store.find(named), key=lambda record: place[record.id])
    following = Cursor(at=page[-1].updated_at, id=page[-1].id) if len(page) < len(newest) else None
    return [memory_of(record) for record in records], following


def is_past(stands: tuple[datetime, str], after: Cursor | None) -> bool:
    """Whether what stands there, the latest first, comes after the cursor."""
    return after is None or after.at is None or stands < (after.at, after.id)
