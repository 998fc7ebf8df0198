"""The first page: how much is remembered, what changed last and how the store is; and a chart of the last days."""

import asyncio
import time
from datetime import datetime, timedelta

from fastapi import Response

from octavo.kernel.ids import now
from octavo.kernel.model import Query, Scope, Tally
from octavo.kernel.ports import Describes, ListsNames
from octavo.layers.records import COLLECTIONS
from octavo.server.console.pages import Page, Pages
from octavo.server.gate import caller_of
from octavo.server.requests import layers_of, memories_of, page_bytes
from octavo.service.records import EVENTS, TURNS

pages = Pages()
#: What is counted, by the collection that keeps it.
COUNTED = (*COLLECTIONS.values(), "messages", EVENTS, "events", TURNS, "log")
_DRAWN = ("messages", EVENTS, "events")
_DAYS = 30
_FRESH_SECONDS = 60.0
_MOST_USERS = 1000  # that are counted one by one
_MOST_CHARTS = 100  # tenants whose chart is held
_CHANGES = 10
#: tenant → when its days were counted, and by whom
_charts: dict[str, tuple[float, asyncio.Task[list[tuple[datetime, int]]]]] = {}


@pages.add("GET", "")
async def show_overview(page: Page) -> Response:
    """All numbers of the tenant; while there are none, how to begin."""
    request = page.request
    held, caller = memories_of(request), caller_of(request.scope)
    store, scope = held.assembled.store, Scope(tenant=caller.tenant)
    at = now()
    asked = [Query(collection=name, scope=scope, alive_at=at) for name in COUNTED]
    tallies: dict[str, Tally] = dict(
        zip(COUNTED, await asyncio.gather(*map(store.tally, asked)), strict=True)
    )
    if not any(tally.total for tally in tallies.values()):
        return page.render("first_run.html", server=str(request.base_url).rstrip("/"))
    changes = await layers_of(request).logs(limit=_CHANGES, max_bytes=page_bytes(request))
    health = await held.health()
    # What the store says of itself names hosts and paths.
    findings = await store.describe() if caller.admin and isinstance(store, Describes) else []
    return page.render(
        "overview.html",
        tallies=tallies,
        users=await _count_users(store, scope) if isinstance(store, ListsNames) else None,
        most_users=_MOST_USERS,
        changes=changes,
        health=health,
        queue=None if held.assembled.journal is None else held.assembled.journal.status(),
        findings=findings,
    )


@pages.add("GET", "/activity.svg")
async def draw_activity(page: Page) -> Response:
    """What was said and done on each of the last thirty days, counted once a minute at most."""
    store, tenant = memories_of(page.request).assembled.store, caller_of(page.request.scope).tenant
    since, counting = _charts.get(tenant, (0.0, None))
    if (
        counting is None
        or time.monotonic() - since > _FRESH_SECONDS
        or (counting.done() and _failed(counting))
    ):

        async def count() -> list[tuple[datetime, int]]:
            today = now().replace(hour=0, minute=0, second=0, microsecond=0)
            days = [today - timedelta(days=ago) for ago in reversed(range(_DAYS))]
            counted = []
            for day in days:
                ends = day + timedelta(days=1)
                asked = [
                    Query(collection=name, scope=Scope(tenant=tenant), since=day, until=ends)
                    for name in _DRAWN
                ]
                counted.append((day, sum([(await store.tally(each)).total for each in asked])))
            return counted

        while len(_charts) >= _MOST_CHARTS:
            del _charts[next(iter(_charts))]
        counting = asyncio.create_task(count())
        _charts[tenant] = (time.monotonic(), counting)
    days = await asyncio.shield(counting)
    response = page.render("activity.svg", days=days, most=max((count for _, count in days), default=0) or 1)
    response.headers["content-type"] = "image/svg+xml"
    return response


def _failed(counting: "asyncio.Task[list[tuple[datetime, int]]]") -> bool:
    return counting.cancelled() or counting.exception() is not None


async def _count_users(store: ListsNames, scope: Scope) -> int:
    """How many users have memories or messages; no more than are counted."""
    found = await asyncio.gather(
        *(store.names(name, "user", scope, limit=_MOST_USERS) for name in (*COLLECTIONS.values(), "messages"))
    )
    return min(len({one.name for names in found for one in names}), _MOST_USERS)
