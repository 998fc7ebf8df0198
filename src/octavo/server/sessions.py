"""Which sessions something happened in, told from the heads of events: what was said in them is not read."""

from msgspec.structs import replace

from octavo.client.answers import Session
from octavo.kernel.model import Cursor, Head, Query, Scope
from octavo.kernel.ports import Store, heads
from octavo.service.records import EVENTS

_NEWEST = 1000  # events that are looked through for their sessions


async def sessions_page(
    store: Store, tenant: str, limit: int, after: Cursor | None
) -> tuple[list[Session], Cursor | None]:
    """The sessions of the newest events from a cursor on, the latest first, and where to go on.

    A session stands where its newest event does. One that has a newer event than the cursor was on an earlier page.
    """
    query = Query(collection=EVENTS, scope=Scope(tenant=tenant), newest_first=True)
    newest = await heads(store, replace(query, limit=_NEWEST + 1, after=after)) if limit else []
    following = newest[_NEWEST - 1].cursor if len(newest) > _NEWEST else None
    held: dict[str, list[Head]] = {}
    for head in newest[:_NEWEST]:
        held.setdefault(head.scope.session or "", []).append(head)
    found: list[Session] = []
    for name, events in held.items():
        if after is not None:
            own = replace(query, scope=Scope(tenant=tenant, session=name), limit=1)
            if await heads(store, own) != events[:1]:
                continue
        if len(found) == limit:
            return found, newest[newest.index(events[0]) - 1].cursor
        found.append(
            Session(
                session=name, events=len(events), first_at=events[-1].created_at, last_at=events[0].created_at
            )
        )
    return found, following
