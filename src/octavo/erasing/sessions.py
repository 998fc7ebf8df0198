"""Sessions with one user: what names such a session and no user is that user's."""

from octavo.kernel.model import Query, Scope
from octavo.kernel.ports import Store, every_name

#: Where a session is a conversation; in the log it is a memory, among versions a document.
TALK = ("messages", "summaries", "entities", "exchanges", "observations", "turns", "events", "checkpoints")


async def own_sessions(store: Store, user: str, tenant: str = "") -> list[str]:
    """The sessions that have records of this user and of nobody, and none of another user."""
    whose = Scope(tenant=tenant, user=user)
    named = {name for collection in TALK for name in await every_name(store, collection, "session", whose)}
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
        if set(await every_name(store, collection, "user", scope, most=2)) - {user}:
            return False
    return True
