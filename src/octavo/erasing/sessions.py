"""Sessions with one user: what names such a session and no user is that user's."""

from octavo.kernel.model import Query, Scope, ScopePart
from octavo.kernel.ports import ListsNames, Store, heads

#: Where a session is a conversation; in the log it is a memory, among versions a document.
TALK = ("messages", "summaries", "entities", "exchanges", "observations", "turns", "events")
_PAGE = 1000


async def own_sessions(store: Store, user: str, tenant: str = "") -> list[str]:
    """The sessions that have records of this user and of nobody, and none of another user."""
    whose = Scope(tenant=tenant, user=user)
    named = {name for collection in TALK for name in await _names(store, collection, "session", whose)}
    return [session for session in sorted(named) if await _is_own(store, user, tenant, session)]


async def _is_own(store: Store, user: str, tenant: str, session: str) -> bool:
    nobodys = Scope(tenant=tenant, user="", session=session)
    for collection in TALK:
        if (await store.tally(Query(collection=collection, scope=nobodys))).total:
            break
    else:
        return False
    scope = Scope(tenant=tenant, session=session)
    for collection in TALK:
        if set(await _names(store, collection, "user", scope, most=2)) - {user}:
            return False
    return True


async def _names(store: Store, collection: str, part: ScopePart, scope: Scope, most: int = 0) -> list[str]:
    """The names of users or sessions that have records there; of a store that lists none, by their heads."""
    if not isinstance(store, ListsNames):
        found = await heads(store, Query(collection=collection, scope=scope, newest_first=True))
        return sorted({name for head in found if (name := getattr(head.scope, part))})
    names: list[str] = []
    while page := await store.names(
        collection, part, scope, after=names[-1] if names else "", limit=most or _PAGE
    ):
        names += [one.name for one in page]
        if most:
            break
    return names
