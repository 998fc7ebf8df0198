"""People and agents: who is remembered, all that is known of one of them, and the forms to add, export and erase."""

import asyncio
import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from fastapi import Response

from octavo.erasing import Certificate, Subject, count_owned
from octavo.kernel.model import Query, Scope
from octavo.kernel.ports import ListsNames, Store, heads
from octavo.layers.records import Owner
from octavo.layers.values import CATEGORIES, LAYERS, OwnerType
from octavo.server.console.pages import Page, Pages
from octavo.server.gate import caller_of
from octavo.server.requests import (
    AfterName,
    Body,
    Name,
    NewMemory,
    layers_of,
    memories_of,
    one_owner,
    page_bytes,
    token,
    user_of,
)
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


class _Asked(Body):
    """Which people are listed."""

    after: AfterName = None
    name: Name | None = None


@pages.add("GET", "/people")
async def list_people(page: Page) -> Response:
    """Everybody by name, or those whose name begins so."""
    if (only := user_of(page.request)) is not None:
        return page.redirect(page.address("people", only))
    return await _list(page, "user")


@pages.add("GET", "/agents")
async def list_agents(page: Page) -> Response:
    """The agents that keep memories of their own, or record what they do."""
    return await _list(page, "agent")


async def _list(page: Page, part: OwnerType) -> Response:
    request = page.request
    asked = page.checked(_Asked, after=page.query.get("after"), name=page.query.get("name"))
    store, tenant = memories_of(request).assembled.store, caller_of(request.scope).tenant
    after = (
        before(asked.name)
        if asked.name and asked.after is None
        else ""
        if asked.after is None
        else asked.after.id
    )
    found, following = await users.users_page(store, tenant, PAGE, after, part)
    if asked.name:
        named = [user for user in found if user.user_id.startswith(asked.name)]
        found, following = named, following if len(named) == len(found) else None
    return page.render(
        "people.html", people=found, following=token(following) or "", name=asked.name or "", part=part
    )


@pages.add("GET", "/people/{user:name}")
async def show_person(page: Page) -> Response:
    """The profile as cards, what happened, the sessions and the last changes."""
    return await _show(page, Owner("user", _user(page)))


@pages.add("GET", "/agents/{agent:name}")
async def show_agent(page: Page) -> Response:
    """The same of an agent that keeps memories of its own."""
    return await _show(page, Owner("agent", _agent(page)))


async def _show(page: Page, owner: Owner) -> Response:
    request = page.request
    layers, most = layers_of(request), page_bytes(request)
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
async def find_or_add(page: Page) -> Response:
    """Begin with somebody new."""
    return page.redirect(page.address("people", page.checked(_Asked, name=page.form.get("name")).name or " "))


@pages.add("POST", "/people/{user:name}/memories")
async def add_memory(page: Page) -> Response:
    """Remember something about somebody."""
    return await _add(page, "people", Owner("user", _user(page)))


@pages.add("POST", "/agents/{agent:name}/memories")
async def add_memory_of_agent(page: Page) -> Response:
    """Remember something for an agent."""
    return await _add(page, "agents", Owner("agent", _agent(page)))


async def _add(page: Page, where: str, owner: Owner) -> Response:
    names = ("content", "memory_layer", "category", "reason", "expiry_date")
    body = page.checked(NewMemory, **{name: page.form.get(name) for name in names})
    await memories.remember(owner.type, owner.id, body, page.request)
    return page.redirect(page.address(where, owner.id, done="added"))


@pages.add("GET", "/people/{user:name}/export")
async def export_person(page: Page) -> Response:
    """All that is kept about somebody, to keep: lines of JSON, or a page of Markdown."""
    reads = page.query.get("as") == "page"
    response = await users.export_user(_user(page), page.request, page=reads)
    response.headers["content-disposition"] = f'attachment; filename="export.{"md" if reads else "jsonl"}"'
    return response


@pages.add("GET", "/people/{user:name}/forget")
async def ask_to_forget(page: Page) -> Response:
    """What would be erased; nothing is. Of somebody who has much, all of it is counted only on request."""
    user = _user(page)
    exact = page.query.get("exact") == "on"
    if exact:
        counted = await users.forget_user(user, page.request, dry_run=True)
        removed = msgspec.json.decode(bytes(counted.body), type=Certificate).removed
    else:
        layers = layers_of(page.request)
        subject = Subject.of(layers.tenant, user_id=user)
        removed = await count_owned(layers.store, subject, _COUNTED)
    return page.render(
        "forget.html",
        user=user,
        certificate=None,
        removed=removed,
        exact=exact,
        most=math.inf if exact else _COUNTED,
    )


@pages.add("POST", "/people/{user:name}/forget")
async def forget_person(page: Page) -> Response:
    """Erase all that is kept about somebody, who was named once more."""
    user = _user(page)
    if page.form.get("name", "").strip() != user.strip():
        return page.problem(422, "the name was not repeated, so that nothing was erased")
    kept = page.form.get("keep_rejected") == "on"
    erased = await users.forget_user(user, page.request, keep_rejected=kept)
    told = msgspec.json.decode(bytes(erased.body), type=Certificate)
    return page.render(
        "forget.html", user=user, certificate=told, removed=told.removed, exact=True, most=math.inf
    )


def _user(page: Page) -> str:
    """The user in the path, if the caller may see that user."""
    whose = one_owner(page.request, page.checked(_Asked, name=page.request.path_params["user"]).name, None)
    return str(whose["user_id"])


def _agent(page: Page) -> str:
    """The agent in the path, if the caller may see what is its own."""
    name = page.checked(_Asked, name=page.request.path_params["agent"]).name
    return str(one_owner(page.request, None, name)["agent_id"])


def before(name: str) -> str:
    """A name after which all come that begin so, and the name itself."""
    last = ord(name[-1]) - 1
    return name[:-1] + (chr(0xD7FF if 0xD800 <= last <= 0xDFFF else last) + _LAST if last > 0 else "")


class SeenSession(msgspec.Struct, frozen=True, kw_only=True):
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
    return [
        SeenSession(name=name, counts=counts, last_at=last)
        for name, (counts, last) in sorted(
            _gathered(
                (collection, one.name, one.total, one.last)
                for collection, names in zip(TALK, listed, strict=True)
                for one in names
            ).items()
        )[:limit]
    ]


async def recent_sessions(
    store: Store, scope: Scope, limit: int, collections: Sequence[str] = TALK
) -> list[SeenSession]:
    """The sessions of somebody's newest records, the latest first; what is older than those is not counted."""
    newest = await asyncio.gather(
        *(
            heads(store, Query(collection=each, scope=scope, newest_first=True, limit=_NEWEST))
            for each in collections
        )
    )
    found = _gathered(
        (collection, head.scope.session or "", 1, head.created_at)
        for collection, page in zip(collections, newest, strict=True)
        for head in page
        if head.scope.session
    )
    seen = [SeenSession(name=name, counts=counts, last_at=last) for name, (counts, last) in found.items()]
    return sorted(seen, key=lambda one: one.last_at, reverse=True)[:limit]


def _gathered(
    rows: Iterable[tuple[str, str, int, datetime]],
) -> dict[str, tuple[dict[str, int], datetime]]:
    """Counts by collection, and the last moment, of each name."""
    found: dict[str, tuple[dict[str, int], datetime]] = {}
    for collection, name, count, at in rows:
        counts, last = found.get(name, ({}, at))
        counts[collection] = counts.get(collection, 0) + count
        found[name] = (counts, max(last, at))
    return found
