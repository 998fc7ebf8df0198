"""The first page: how much is remembered, what changed last and how the store is; and a chart of the last days."""

import asyncio
import logging
import math
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from fastapi import Response
from msgspec.structs import replace

from octavo.config import local_path
from octavo.errors import OctavoError, StoreClosed
from octavo.kernel.ids import now
from octavo.kernel.model import Query, Scope, Tally
from octavo.kernel.ports import Describes, ListsNames, Store, heads
from octavo.kernel.shapes import SHAPES
from octavo.layers.records import COLLECTIONS
from octavo.server.console.pages import Page, Pages
from octavo.server.gate import caller_of
from octavo.server.requests import layers_of, memories_of, page_bytes
from octavo.service.records import EVENTS, TURNS

pages = Pages()
_log = logging.getLogger("octavo.server")
#: What is counted, by the collection that keeps it.
COUNTED = (*COLLECTIONS.values(), "messages", EVENTS, "events", TURNS, "log")
_DRAWN = ("messages", EVENTS, "events")
_DAYS = 30
_FRESH_SECONDS, _PAST_SECONDS = 60.0, 3600.0
_PATIENCE_SECONDS = 0.05
_PARTS, _BREATH_SECONDS = 8, 0.02  # in which a day is counted, and what is left to others in between
_MOST_USERS = 1000  # that are counted one by one
_MOST_TENANTS = 100  # whose numbers are held
_CHANGES = 10


@pages.add("GET", "")
async def show_overview(page: Page) -> Response:
    """All numbers of the tenant; while there are none, how to begin."""
    request = page.request
    held, caller = memories_of(request), caller_of(request.scope)
    store, scope = held.assembled.store, Scope(tenant=caller.tenant)
    tallies = dict(
        zip(COUNTED, await asyncio.gather(*(_alive(store, scope, name) for name in COUNTED)), strict=True)
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
        users=await _numbers_of(page).users(),
        most_users=_MOST_USERS,
        changes=changes,
        health=health,
        queue=None if held.assembled.journal is None else held.assembled.journal.status(),
        findings=findings,
        disk_bytes=await asyncio.to_thread(_disk_bytes, held.settings.database.dsn) if caller.admin else None,
    )


@pages.add("GET", "/activity.svg")
async def draw_activity(page: Page) -> Response:
    """What was said and done on each of the last thirty days, as far as it is counted; nobody waits for it."""
    days = await _numbers_of(page).days()
    response = page.render("activity.svg", days=days, most=max(count or 0 for _, count in days) or 1)
    response.headers["content-type"] = "image/svg+xml"
    return response


class _Numbers:
    """What takes long to count of a tenant, behind the pages' back: its users, and its days one after the other.

    Those are counted once an hour, and the last one once a minute.
    """

    def __init__(self, store: Store, tenant: str) -> None:
        self._store = store
        self._scope = Scope(tenant=tenant)
        self._counted: dict[datetime, tuple[float, int]] = {}
        self._users: int | None = None
        self._asked = 0.0
        self._counting: asyncio.Task[None] | None = None
        self._counting_days: asyncio.Task[None] | None = None

    async def users(self) -> int | None:
        """How many users have memories or messages, as far as they are counted; None while nobody knows."""
        store = self._store
        if not isinstance(store, ListsNames):
            return None
        if self._counting is None or time.monotonic() - self._asked > _FRESH_SECONDS:
            self._asked = time.monotonic()
            self._counting = asyncio.create_task(self._count_users(store))
        # No page waits long for it; the next one has it.
        await asyncio.wait({self._counting}, timeout=_PATIENCE_SECONDS)
        return self._users

    async def _count_users(self, store: ListsNames) -> None:
        try:
            found = {
                one.name
                for name in (*COLLECTIONS.values(), "messages")
                for one in await store.names(name, "user", self._scope, limit=_MOST_USERS)
            }
        except OctavoError as error:
            _log.warning("users could not be counted: %s", type(error).__name__)
        else:
            self._users = min(len(found), _MOST_USERS)

    async def days(self) -> list[tuple[datetime, int | None]]:
        """How much there is of each day, the oldest first; None of those that are not counted yet."""
        today = now().replace(hour=0, minute=0, second=0, microsecond=0)
        days = [today - timedelta(days=ago) for ago in range(_DAYS)]
        self._counted = {day: told for day, told in self._counted.items() if day in days}
        if self._counting_days is None or self._counting_days.done():
            self._counting_days = asyncio.create_task(self._count_days(days))
        await asyncio.wait({self._counting_days}, timeout=_PATIENCE_SECONDS)
        return [(day, self._counted.get(day, (0.0, None))[1]) for day in reversed(days)]

    async def _count_days(self, days: Sequence[datetime]) -> None:
        try:
            for day in days:
                since, _ = self._counted.get(day, (-math.inf, 0))
                if time.monotonic() - since > (_FRESH_SECONDS if day == days[0] else _PAST_SECONDS):
                    self._counted[day] = (time.monotonic(), await self._of(day))
        except StoreClosed:  # the server stops
            return
        except OctavoError as error:
            _log.warning("days could not be counted: %s", type(error).__name__)

    async def _of(self, day: datetime) -> int:
        """How much there is of a day, counted in parts with pauses: whoever asks for a page goes first."""
        total = 0
        for name in _DRAWN:
            query = Query(collection=name, scope=self._scope, since=day, until=day + timedelta(days=1))
            if not await heads(self._store, replace(query, newest_first=True, limit=1)):
                continue
            for part in range(_PARTS):
                since, until = (day + timedelta(days=at / _PARTS) for at in (part, part + 1))
                total += (await self._store.tally(replace(query, since=since, until=until))).total
                await asyncio.sleep(_BREATH_SECONDS)
        return total


def _numbers_of(page: Page) -> _Numbers:
    """Those of the caller's tenant, which all its pages share."""
    state, tenant = page.request.app.state, caller_of(page.request.scope).tenant
    if not hasattr(state, "numbers"):
        state.numbers = {}
    held: dict[str, _Numbers] = state.numbers
    if tenant not in held:
        while len(held) >= _MOST_TENANTS:
            del held[next(iter(held))]
        held[tenant] = _Numbers(memories_of(page.request).assembled.store, tenant)
    return held[tenant]


def _disk_bytes(dsn: str) -> int | None:
    """What the file of an embedded store takes, with what is beside it; None for any other store."""
    path = local_path(dsn)
    if not path or not Path(path).is_file():
        return None
    beside = (Path(f"{path}{ending}") for ending in ("", "-wal", "-shm"))
    return sum(part.stat().st_size for part in beside if part.exists())


async def _alive(store: Store, scope: Scope, collection: str) -> Tally:
    """How many there are that have not expired: all, which a store knows by heart, without those that have."""
    query = Query(collection=collection, scope=scope)
    counted = await store.tally(query)
    if not SHAPES[collection].expiry_index:
        return counted
    gone = await store.tally(replace(query, expired_at=now()))
    by_kind = {kind: count - gone.by_kind.get(kind, 0) for kind, count in counted.by_kind.items()}
    return replace(counted, total=counted.total - gone.total, by_kind=by_kind)
