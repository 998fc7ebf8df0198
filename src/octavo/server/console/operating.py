"""For whoever runs the server: the first page with all numbers, what waits, erasures, documents, keys and settings."""

import asyncio
import functools
import logging
import math
import time
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

from fastapi import Response
from msgspec.structs import replace
from pydantic import Field

from octavo.config import local_path, shown_settings
from octavo.erasing import certificates
from octavo.errors import NotFound, OctavoError, StoreClosed
from octavo.kernel.ids import now
from octavo.kernel.model import Add, Query, Scope, Tally
from octavo.kernel.pages import list_heads
from octavo.kernel.ports import Describes, ListsNames, Store
from octavo.kernel.shapes import SHAPES
from octavo.keys import ACCESS, Access
from octavo.layers.records import COLLECTIONS
from octavo.server.console.pages import ConsoleRequest, Pages
from octavo.server.requests import Body, Name
from octavo.service.records import EVENTS, TURNS
from octavo.wraps.journal import DeadLetter, inspect

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
_CHANGES, _LETTERS, _ERASURES, _VERSIONS = 10, 100, 20, 20  # that are shown


@pages.add("GET", "")
async def show_overview(page: ConsoleRequest) -> Response:
    """All numbers of the tenant; while there are none, how to begin."""
    held, store, scope = page.memories, page.store, Scope(tenant=page.tenant)
    tallies = dict(
        zip(COUNTED, await asyncio.gather(*(_tally(store, scope, name) for name in COUNTED)), strict=True)
    )
    if not any(tally.total for tally in tallies.values()):
        return page.render("first_run.html", server=str(page.base_url).rstrip("/"))
    changes = await page.layers.logs(limit=_CHANGES, max_bytes=page.page_bytes)
    health = await held.health()
    # What the store says of itself names hosts and paths.
    findings = await store.describe() if page.caller.admin and isinstance(store, Describes) else []
    url = held.settings.database.dsn if page.caller.admin else ""
    return page.render(
        "overview.html",
        tallies=tallies,
        users=await _numbers_of(page).users(),
        most_users=_MOST_USERS,
        changes=changes,
        health=health,
        queue=None if held.assembled.journal is None else held.assembled.journal.status(),
        findings=findings,
        disk_bytes=await asyncio.to_thread(_disk_bytes, url) if url else None,
    )


@pages.add("GET", "/activity.svg")
async def draw_activity(page: ConsoleRequest) -> Response:
    """What was said and done on each of the last thirty days, as far as it is counted; nobody waits for it."""
    days = await _numbers_of(page).days()
    response = page.render("activity.svg", days=days, most=max(count or 0 for _, count in days) or 1)
    response.headers["content-type"] = "image/svg+xml"
    return response


class _Numbers:
    """What takes long to count of a tenant, behind the pages' back: its users, and its days one after the other.

    Those are counted once an hour, the last one and the users once a minute.
    """

    def __init__(self, store: Store, tenant: str) -> None:
        self._store = store
        self._scope = Scope(tenant=tenant)
        #: When each day was counted, and how much there was; None stands for the users.
        self._counted: dict[datetime | None, tuple[float, int]] = {}
        self._counting: asyncio.Task[None] | None = None

    async def users(self) -> int | None:
        """How many users have memories or messages, as far as they are counted; None while nobody knows."""
        await self._count_in_background()
        return self._counted.get(None, (0.0, None))[1]

    async def days(self) -> list[tuple[datetime, int | None]]:
        """How much there is of each day, the oldest first; None of those that are not counted yet."""
        days = await self._count_in_background()
        return [(day, self._counted.get(day, (0.0, None))[1]) for day in reversed(days)]

    async def _count_in_background(self) -> list[datetime]:
        """Have everything counted, unless it is just being; no page waits long for it. The days, the last one first."""
        today = now().replace(hour=0, minute=0, second=0, microsecond=0)
        days = [today - timedelta(days=ago) for ago in range(_DAYS)]
        self._counted = {each: told for each, told in self._counted.items() if each is None or each in days}
        if self._counting is None or self._counting.done():
            self._counting = asyncio.create_task(self._count(days))
        await asyncio.wait({self._counting}, timeout=_PATIENCE_SECONDS)
        return days

    async def _count(self, days: Sequence[datetime]) -> None:
        try:
            for day in (None, *days):
                since, _ = self._counted.get(day, (-math.inf, 0))
                fresh = _FRESH_SECONDS if day in (None, days[0]) else _PAST_SECONDS
                if time.monotonic() - since > fresh:
                    began = time.monotonic()
                    count = await (self._count_users() if day is None else self._count_day(day))
                    if count is not None:
                        self._counted[day] = (began, count)
        except StoreClosed:  # the server stops
            return
        except OctavoError as error:
            _log.warning("users and days could not be counted: %s", type(error).__name__)

    async def _count_users(self) -> int | None:
        if not isinstance(self._store, ListsNames):
            return None
        found = {
            one.name
            for name in (*COLLECTIONS.values(), "messages")
            for one in await self._store.names(name, "user", self._scope, limit=_MOST_USERS)
        }
        return min(len(found), _MOST_USERS)

    async def _count_day(self, day: datetime) -> int:
        """How much there is of a day, counted in parts with pauses: whoever asks for a page goes first."""
        total = 0
        for name in _DRAWN:
            query = Query(collection=name, scope=self._scope, since=day, until=day + timedelta(days=1))
            if not await list_heads(self._store, replace(query, newest_first=True, limit=1)):
                continue
            for part in range(_PARTS):
                since, until = (day + timedelta(days=at / _PARTS) for at in (part, part + 1))
                total += (await self._store.tally(replace(query, since=since, until=until))).total
                await asyncio.sleep(_BREATH_SECONDS)
        return total


def _numbers_of(page: ConsoleRequest) -> _Numbers:
    """Those of the caller's tenant, which all its pages share."""
    if not hasattr(page.app.state, "numbers"):
        page.app.state.numbers = functools.lru_cache(_MOST_TENANTS)(functools.partial(_Numbers, page.store))
    numbers: _Numbers = page.app.state.numbers(page.tenant)
    return numbers


def _disk_bytes(dsn: str) -> int | None:
    """What the file of an embedded store takes, with what is beside it; None for any other store."""
    path = local_path(dsn)
    if not path or not Path(path).is_file():
        return None
    beside = (Path(f"{path}{ending}") for ending in ("", "-wal", "-shm"))
    return sum(part.stat().st_size for part in beside if part.exists())


async def _tally(store: Store, scope: Scope, collection: str) -> Tally:
    """How many there are that have not expired: all, which a store knows by heart, without those that have."""
    query = Query(collection=collection, scope=scope)
    counted = await store.tally(query)
    if not SHAPES[collection].expiry_index:
        return counted
    gone = await store.tally(replace(query, expired_at=now()))
    by_kind = {kind: count - gone.by_kind.get(kind, 0) for kind, count in counted.by_kind.items()}
    return replace(counted, total=counted.total - gone.total, by_kind=by_kind)


# --- what waits


@pages.add("GET", "/reliability")
async def show_reliability(page: ConsoleRequest) -> Response:
    """The queue, what was given up, the last erasures and for how long things are kept."""
    held, journal = page.memories, page.memories.assembled.journal
    # The oldest dead letters that hold nothing of another tenant.
    dead = [] if journal is None else await journal.dead_letters(_LETTERS)
    erased = await certificates(page.store, page.tenant)
    return page.render(
        "reliability.html",
        health=await held.health(),
        queue=None if journal is None else journal.status(),
        spool=None if journal is None else await asyncio.to_thread(inspect, journal.status().directory),
        letters=[each for each in dead if _is_of(each, page.tenant)],
        erased=erased[::-1][:_ERASURES],
        retention=shown_settings(held.settings)["retention"],
    )


@pages.add("POST", "/reliability/replay")
async def replay(page: ConsoleRequest) -> Response:
    """Try at once to store what waits."""
    await page.journal.replay_now()
    return page.redirect(page.address("reliability", done="replayed"))


@pages.add("POST", "/reliability/letters/{letter:name}")
async def settle_letter(page: ConsoleRequest) -> Response:
    """Put a write that was given up back into the queue, or forget it for ever."""
    journal, name = page.journal, page.path_params["letter"]
    letter = await journal.dead_letter(name)
    if not _is_of(letter, page.tenant):
        raise NotFound(f"there is no dead letter {name}")
    if page.sent.get("how") == "discard":
        await journal.discard_dead([name])
        return page.redirect(page.address("reliability", done="discarded"))
    await journal.replay_dead([name])
    return page.redirect(page.address("reliability", done="retried"))


def _is_of(letter: DeadLetter, tenant: str) -> bool:
    about = [one for op in letter.ops for one in (op.records if isinstance(op, Add) else [op.query])]
    return all(one.scope.tenant == tenant for one in about)


# --- documents


@pages.add("GET", "/vault")
async def list_documents(page: ConsoleRequest) -> Response:
    """The documents by key, and what is not in step with the store."""
    async with page.vault or nullcontext() as vault:
        documents = None if vault is None else await vault.list()
        status = None if vault is None else await vault.status()
    return page.render("vault.html", documents=documents, state=status)


@pages.add("GET", "/vault/{key:name}")
async def show_document(page: ConsoleRequest) -> Response:
    """One document as it reads, and what it said before."""
    key = page.path_params["key"]
    async with page.vault or nullcontext() as vault:
        document = None if vault is None else await vault.get(key)
        versions = [] if vault is None else await vault.versions(key)
    if document is None and not versions:
        raise NotFound(f"there is no document {key!r}")
    bodies = [*(each.body for each in versions), "" if document is None else document.body]
    changes = [(version, bodies[number], bodies[number + 1]) for number, version in enumerate(versions)]
    return page.render("document.html", key=key, document=document, changes=changes[::-1][:_VERSIONS])


# --- who may call


class _NewKey(Body):
    """A key to be made."""

    name: Name
    access: Access = "read"
    user: Name | None = None
    days: Annotated[int, Field(ge=1, le=3650)] | None = None


@pages.add("GET", "/access")
async def show_access(page: ConsoleRequest) -> Response:
    """The keys of the tenant and all settings, without what must stay secret."""
    return await _access(page)


@pages.add("POST", "/access/keys")
async def create_key(page: ConsoleRequest) -> Response:
    """Make a key for this tenant, and show it this once."""
    asked = page.read(_NewKey)
    ends = None if asked.days is None else timedelta(days=asked.days)
    created = await page.memories.keys.create(
        asked.name, access=asked.access, tenant=page.tenant, user=asked.user, expires=ends
    )
    return await _access(page, created.key)


@pages.add("POST", "/access/keys/{key:name}/revoke")
async def revoke_key(page: ConsoleRequest) -> Response:
    """Make a key of this tenant useless for ever."""
    keys, name = page.memories.keys, page.path_params["key"]
    if name not in {each.id for each in await keys.list(page.tenant)}:
        raise NotFound("there is no key with this id")
    await keys.revoke(name)
    return page.redirect(page.address("access", done="revoked"))


async def _access(page: ConsoleRequest, made: str = "") -> Response:
    held = page.memories
    return page.render(
        "access.html",
        keys=(await held.keys.list(page.tenant))[::-1],
        made=made,
        at=now(),
        levels=ACCESS,
        settings=shown_settings(held.settings),
    )
