"""The names an exact index gives to what it keeps in a store."""

import base64
import hashlib

from octavo.kernel.model import Query, Record, Scope
from octavo.kernel.ports import EntryKey

COLLECTION = "vectors"

# What an index knows about itself stands in the tenant "", apart from every vector: those have their space for a kind,
# these have none.
SPACES = Scope(user="", agent="", session="octavo:spaces")
TENANTS = Scope(user="", agent="", session="octavo:tenants")
PLACES = Scope(user="", agent="", session="octavo:places")


def short(*parts: str) -> str:
    """A short fixed-length name for these parts."""
    # Lengths in front keep ("ab", "c") and ("a", "bc") apart, whatever characters the names hold.
    spelled = "".join([f"{len(part)}:{part}" for part in parts])
    digest = hashlib.blake2b(spelled.encode(), digest_size=15).digest()
    return base64.urlsafe_b64encode(digest).decode()


def vector_id(space: str, key: EntryKey) -> str:
    """The id a vector is kept under; with its place in it, one that names a single vector in all of a tenant."""
    return short(space, key.collection, key.id, key.place)


def listed(scope: Scope, *ids: str) -> Query:
    """What an index knows about itself: all of a list, or those of these ids."""
    return Query(collection=COLLECTION, scope=scope, ids=ids or None)


def space_record(space: str, dimensions: int) -> Record:
    data = {"name": space, "dimensions": dimensions, "complete": False}
    return Record(collection=COLLECTION, id=short(space), scope=SPACES, text="space", data=data)


def tenant_record(tenant: str) -> Record:
    id_ = Scope(tenant=tenant).place
    return Record(collection=COLLECTION, id=id_, scope=TENANTS, text="tenant", data={"tenant": tenant})


def place_record(scope: Scope) -> Record:
    """What finds a scope by its place, which is all that a key tells of it."""
    parts = {
        "tenant": scope.tenant,
        "user": scope.user or "",
        "agent": scope.agent or "",
        "session": scope.session or "",
    }
    return Record(collection=COLLECTION, id=scope.place, scope=PLACES, text="place", data=parts)


def exactly(scope: Scope) -> Scope:
    """A record's scope as a query that finds what is in the very same place."""
    return Scope(
        tenant=scope.tenant, user=scope.user or "", agent=scope.agent or "", session=scope.session or ""
    )
