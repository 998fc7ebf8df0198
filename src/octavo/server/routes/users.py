"""Who has memories, and all that is kept about one of them."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from fastapi import Response
from starlette.responses import StreamingResponse

from octavo.assemble import queue_folder
from octavo.client.answers import User
from octavo.erasing import Certificate, Subject, forget
from octavo.kernel.ids import now
from octavo.kernel.model import Cursor, NameCount, Query, Scope
from octavo.kernel.ports import Store
from octavo.kernel.shapes import SHAPES
from octavo.layers.values import OwnerType
from octavo.memory.exporting import PersonReach, json_lines, markdown
from octavo.server.openapi import ExportedRecord, Routes, UserList, answer
from octavo.server.requests import AfterName, Limit, PathName, token
from octavo.server.routing import Admitted, require_names

router = Routes("memories")
#: Where users have what is remembered of them, by the word for it in an answer.
COLLECTIONS = {"profile": "profile", "event": "episodes", "messages": "messages"}
_OF_AGENTS = {"profile": "profile", "event": "episodes", "events": "events"}
_MOST = 200  # users of one answer: each is looked up in every collection


@router.answers("GET", "/users", "Who has memories", UserList, 501)
async def list_users(request: Admitted, limit: Limit = 100, after: AfterName = None) -> Response:
    """The users of the caller's tenant by name, each with how much is remembered and since when; `next` goes on.

    One answer has 200 users at most.
    """
    if (only := request.user_id()) is not None:
        scope, at = Scope(tenant=request.tenant, user=only), now()
        counted = {word: await _count(request.store, each, scope, at) for word, each in COLLECTIONS.items()}
        alone = [user for user in [_user(only, counted, COLLECTIONS)] if user is not None][:limit]
        return answer(UserList(count=len(alone), users=alone))
    begin = "" if after is None else after.id
    found, following = await users_page(request.store, request.tenant, limit, begin)
    return answer(UserList(count=len(found), users=found, next=token(following)))


@router.answers(
    "GET",
    "/users/{user_id:name}/export",
    "All that is kept about a user",
    ExportedRecord,
    media=("application/x-ndjson", "text/markdown"),
)
async def export_user(user_id: PathName, request: Admitted, page: bool = False) -> Response:
    """Everything of one user, also what was kept for nobody in sessions where that is the only user.

    One record a line, between a line that begins the export and one that ends it, as `octavo import` reads it; or as
    a `page` of Markdown, for people.
    """
    request.owner(user_id, None)
    reach = await PersonReach.of_user(request.store, user_id, request.tenant)
    if page:
        return StreamingResponse(markdown(request.store, reach), media_type="text/markdown; charset=utf-8")
    return StreamingResponse(json_lines(request.store, reach), media_type="application/x-ndjson")


@router.answers("DELETE", "/users/{user_id:name}", "Erase a user's data for good", Certificate, 409)
async def forget_user(
    user_id: PathName,
    request: Admitted,
    dry_run: bool = False,
    scrub: bool = False,
    keep_rejected: bool = False,
) -> Response:
    """Erase all that is kept of a user, its log too, and answer the certificate, which is kept; a dry run only counts.

    The scrub, which looks through the bytes, takes as long as there are files: without it, it is left pending.
    """
    erased = await erase_user(request, user_id, dry_run=dry_run, scrub=scrub, keep_rejected=keep_rejected)
    return answer(erased)


async def erase_user(request: Admitted, user_id: str, **how: Any) -> Certificate:
    """Erase all that is kept of a user, if the caller may."""
    request.owner(user_id, None)
    subject, key = Subject.of(request.tenant, user_id=user_id), request.memories.digest_key
    queue = queue_folder(request.memories.settings)
    return await forget(request.store, subject, key, queue=queue, vault=request.vault, **how)


async def users_page(
    store: Store,
    tenant: str,
    limit: int,
    after: str = "",
    part: OwnerType = "user",
    collections: Mapping[Any, str] | None = None,
) -> tuple[list[User], Cursor | None]:
    """The users, or agents, behind a name, in the order of their names' characters, and where to go on.

    Each collection tells its first names; who is among the first of all of them is so in each that knows him.
    """
    lister, most, at = require_names(store), min(limit, _MOST), now()
    if not most:
        return [], None
    collections = collections or (COLLECTIONS if part == "user" else _OF_AGENTS)
    counted: dict[str, dict[str, NameCount]] = {}
    for word, collection in collections.items():
        for one in await lister.names(collection, part, Scope(tenant=tenant), after=after, limit=most + 1):
            counted.setdefault(one.name, {})[word] = one
    names = sorted(counted)[:most]
    ending = [word for word, each in collections.items() if await _has_expired(store, tenant, each, at)]
    found = []
    for name in names:
        own: dict[str, NameCount | None] = {**counted[name]}
        for word in ending:
            scope = Scope(tenant=tenant, **{part: name})
            own[word] = await _count(store, collections[word], scope, at)
        if (user := _user(name, own, collections)) is not None:
            found.append(user)
    return found, Cursor(id=names[-1]) if len(counted) > most else None


async def _has_expired(store: Store, tenant: str, collection: str, at: datetime) -> bool:
    """Whether a collection holds what has expired and is not swept yet: names count that too, and nobody may see it."""
    if not SHAPES[collection].expiry_index:
        return False
    query = Query(collection=collection, scope=Scope(tenant=tenant), expired_at=at)
    return (await store.tally(query)).total > 0


async def _count(store: Store, collection: str, scope: Scope, at: datetime) -> NameCount | None:
    told = await store.tally(Query(collection=collection, scope=scope, alive_at=at))
    if not (told.first and told.last):
        return None
    return NameCount(name=scope.user or scope.agent or "", total=told.total, first=told.first, last=told.last)


def _user(name: str, counted: Mapping[str, NameCount | None], words: Iterable[str]) -> User | None:
    """Somebody as the collections count them; None when nothing of theirs is left."""
    known = {word: one for word, one in counted.items() if one is not None}
    if not known:
        return None
    counts = {word: known[word].total if word in known else 0 for word in words}
    return User(
        user_id=name,
        total=sum(counts.values()),
        counts=counts,
        first_at=min(one.first for one in known.values()),
        last_at=max(one.last for one in known.values()),
    )
