"""People and agents: who is remembered, all that is known of one of them, and the forms to add, export and erase."""

import asyncio
import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from fastapi import Response

from octavo.erasing import Subject, count_owned
from octavo.kernel.model import Cursor, Query, Scope
from octavo.kernel.pages import list_heads
from octavo.kernel.ports import ListsNames, Store
from octavo.layers.records import Owner
from octavo.layers.values import CATEGORIES, LAYERS, OwnerType
from octavo.server.console.pages import ConsoleRequest, Pages
from octavo.server.requests import AfterName, Body, Name, NewMemory, token
from octavo.server.routes import memories, users
from octavo.service.records import EVENTS

pages = Pages()
PAGE = 50
#: Where a session may have something.
TALK = ("messages", EVENTS, "events")
_PROFILE, _EPISODES, _CHANGES, _SESSIONS = 200, 30, 10, 20
_COUNTED = 1000  # records of a collection that are counted before somebody is forgotten
_NEWEST = 1000  # records of somebody that are looked through for their sessions
_LAST = "\U0010ffff"


class _PeopleFilters(Body):
    """Which people are listed."""

    after: AfterName = None
    name: Name | None = None


@pages.add("GET", "/people")
async def list_people(page: ConsoleRequest) -> Response:
    """Everybody by name, or those whose name begins so."""
    if (only := page.user_id()) is not None:
        return page.redirect(page.address("people", only))
    return await _list(page, "user")


@pages.add("GET", "/agents")
async def list_agents(page: ConsoleRequest) -> Response:
    """The agents that keep memories of their own, or record what they do."""
    return await _list(page, "agent")


async def _list(page: ConsoleRequest, part: OwnerType) -> Response:
    asked = page.read(_PeopleFilters)
    found, following = await users.users_page(
        page.store, page.tenant, PAGE, begin(asked.after, asked.name), part
    )
    if asked.name:
        named = [user for user in found if user.user_id.startswith(asked.name)]
        found, following = named, following if len(named) == len(found) else None
    return page.render(
        "people.html", people=found, following=token(following) or "", name=asked.name or "", part=part
    )


@pages.add("GET", "/people/{user:name}")
@pages.add("GET", "/agents/{agent:name}")
async def show_owner(page: ConsoleRequest) -> Response:
    """The profile of somebody, or of an agent, as cards, what happened, the sessions and the last changes."""
    owner, layers, most = _owner(page), page.layers, page.page_bytes
    whose: dict[str, Any] = {f"{owner.type}_id": owner.id}
    # Only events can be read by their agent without reading those of all others.
    talk = TALK if owner.type == "user" else ("events",)
    profile, episodes, changes, sessions = await asyncio.gather(
        layers.profile(**whose, limit=_PROFILE, max_bytes=most),
        layers.events(**whose, limit=_EPISODES, max_bytes=most),
        layers.logs(**whose, limit=_CHANGES, max_bytes=most),
        recent_sessions(layers.store, owner.scope(layers.tenant), _SESSIONS, talk),
    )
    cards = {name: [each for each in profile if each.category == name] for name in CATEGORIES["profile"]}
    return page.render(
        "person.html",
        owner=owner,
        cards={name: facts for name, facts in cards.items() if facts},
        episodes=episodes,
        changes=changes,
        sessions=sessions,
        layers=LAYERS,
        categories=[each for layer in LAYERS for each in CATEGORIES[layer]],
    )


@pages.add("POST", "/people")
async def find_or_add(page: ConsoleRequest) -> Response:
    """Begin with somebody new."""
    return page.redirect(page.address("people", page.read(_PeopleFilters, "name").name or " "))


@pages.add("POST", "/people/{user:name}/memories")
@pages.add("POST", "/agents/{agent:name}/memories")
async def add_memory(page: ConsoleRequest) -> Response:
    """Remember something about somebody, or for an agent."""
    owner = _owner(page)
    body = page.read(NewMemory, "content", "memory_layer", "category", "reason", "expiry_date")
    await memories.remember({f"{owner.type}_id": owner.id}, body, page)
    where = "people" if owner.type == "user" else "agents"
    return page.redirect(page.address(where, owner.id, done="added"))


@pages.add("GET", "/people/{user:name}/export")
async def export_person(page: ConsoleRequest) -> Response:
    """All that is kept about somebody, to keep: lines of JSON, or a page of Markdown."""
    reads = page.query_params.get("as") == "page"
    response = await users.export_user(_owner(page).id, page, page=reads)
    response.headers["content-disposition"] = f'attachment; filename="export.{"md" if reads else "jsonl"}"'
    return response


@pages.add("GET", "/people/{user:name}/forget")
async def ask_to_forget(page: ConsoleRequest) -> Response:
    """What would be erased; nothing is. Of somebody who has much, all of it is counted only on request."""
    user = _owner(page).id
    exact = page.query_params.get("exact") == "on"
    if exact:
        removed = (await users.erase_user(page, user, dry_run=True)).removed
    else:
        removed = await count_owned(page.layers.store, Subject.of(page.tenant, user_id=user), _COUNTED)
    return page.render(
        "forget.html",
        user=user,
        certificate=None,
        removed=removed,
        exact=exact,
        most=math.inf if exact else _COUNTED,
    )


@pages.add("POST", "/people/{user:name}/forget")
async def forget_person(page: ConsoleRequest) -> Response:
    """Erase all that is kept about somebody, who was named once more."""
    user = _owner(page).id
    if page.sent.get("name", "").strip() != user.strip():
        return page.problem(422, "the name was not repeated, so that nothing was erased")
    told = await users.erase_user(page, user, keep_rejected=page.sent.get("keep_rejected") == "on")
    return page.render(
        "forget.html", user=user, certificate=told, removed=told.removed, exact=True, most=math.inf
    )


def _owner(page: ConsoleRequest) -> Owner:
    """The user or the agent in the path, if the caller may see what is theirs."""
    kind: OwnerType = "user" if "user" in page.path_params else "agent"
    named = {kind: page.read(_PeopleFilters, "name", name=page.path_params[kind]).name}
    [owner] = page.owner(named.get("user"), named.get("agent")).values()
    return Owner(kind, owner)


def begin(after: Cursor | None, name: str | None) -> str:
    """The name after which a listing goes on: that of a cursor, or one before all that begin so, or before all."""
    if after is not None or not name:
        return after.id if after is not None else ""
    last = ord(name[-1]) - 1
    return name[:-1] + (chr(0xD7FF if 0xD800 <= last <= 0xDFFF else last) + _LAST if last > 0 else "")


class SeenSession(msgspec.Struct, kw_only=True):
    """A session: how much there is of it in each collection, and when it was last heard of."""

    name: str
    counts: dict[str, int]
    last_at: datetime


async def sessions_by_name(store: Store, scope: Scope, after: str, limit: int) -> list[SeenSession]:
    """The sessions of a tenant behind a name, with what each has of messages, observations and agent events."""
    if not isinstance(store, ListsNames):
        return []
    listed = await asyncio.gather(
        *(store.names(each, "session", scope, after=after, limit=limit) for each in TALK)
    )
    found = _gather_by_name(
        (collection, one.name, one.total, one.last)
        for collection, names in zip(TALK, listed, strict=True)
        for one in names
    )
    return sorted(found, key=lambda one: one.name)[:limit]


async def recent_sessions(
    store: Store, scope: Scope, limit: int, collections: Sequence[str] = TALK
) -> list[SeenSession]:
    """The sessions of somebody's newest records, the latest first; what is older than those is not counted."""
    newest = await asyncio.gather(
        *(
            list_heads(store, Query(collection=each, scope=scope, newest_first=True, limit=_NEWEST))
            for each in collections
        )
    )
    found = _gather_by_name(
        (collection, head.scope.session, 1, head.created_at)
        for collection, page in zip(collections, newest, strict=True)
        for head in page
        if head.scope.session
    )
    return sorted(found, key=lambda one: one.last_at, reverse=True)[:limit]


def _gather_by_name(rows: Iterable[tuple[str, str, int, datetime]]) -> Iterable[SeenSession]:
    """The sessions of rows that say a collection, a session, how much there is of it and when it was last heard of."""
    found: dict[str, SeenSession] = {}
    for collection, name, count, at in rows:
        seen = found.setdefault(name, SeenSession(name=name, counts={}, last_at=at))
        seen.counts[collection] = seen.counts.get(collection, 0) + count
        seen.last_at = max(seen.last_at, at)
    return found.values()
