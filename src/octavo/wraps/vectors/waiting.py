"""What waits to be embedded: which records a write touches, and the markers that say so in the store itself."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import datetime

import msgspec
from msgspec import UNSET

from octavo.kernel.codec import answerable, asked
from octavo.kernel.ids import now
from octavo.kernel.model import START, Add, Change, Head, Op, Query, Record, Remove, Scope
from octavo.kernel.ports import EntryKey, Store, heads
from octavo.vectors.base import exact_scope

PENDING = "pending"
KIND = "vector"
MOST_KEYS = 500  # in one marker
_PAGE = 1000


class Key(msgspec.Struct, frozen=True, gc=False):
    """The whole name of a record. Its scope is exact, so that it can be asked for."""

    collection: str
    id: str
    scope: Scope

    @property
    def entry(self) -> EntryKey:
        return EntryKey(self.collection, self.id, self.scope.place)


def key_of(record: Record) -> Key:
    return Key(record.collection, record.id, exact_scope(record.scope))


# Markers.


def waiting(tenant: str) -> Query:
    """The markers of a tenant."""
    return Query(collection=PENDING, kinds=(KIND,), scope=Scope(tenant=tenant))


def markers(keys: Iterable[Key], tries: int = 0, due: datetime | None = None) -> list[Record]:
    """Records that name what has to be embedded, each under an id of its own: a used one would not be added again.

    One that is `due` later is born in the future, and left alone until then.
    """
    by_tenant: dict[str, list[list[str | None]]] = {}
    for key in keys:
        scope = key.scope
        named = [key.collection, key.id, scope.user, scope.agent, scope.session]
        by_tenant.setdefault(scope.tenant, []).append(named)
    return [
        Record(
            collection=PENDING,
            kind=KIND,
            scope=Scope(tenant=tenant),
            data={"keys": named[start : start + MOST_KEYS], "tries": tries},
            created_at=due or now(),
        )
        for tenant, named in by_tenant.items()
        for start in range(0, len(named), MOST_KEYS)
    ]


def keys_in(marker: Record) -> Iterator[Key]:
    """What a marker names."""
    for collection, id_, user, agent, session in marker.data["keys"]:
        scope = Scope(tenant=marker.scope.tenant, user=user, agent=agent, session=session)
        yield Key(collection, id_, scope)


def removal(read: Sequence[Record]) -> Remove:
    """The op that takes away exactly these markers, all of one tenant."""
    scope = exact_scope(read[0].scope)
    return Remove(Query(collection=PENDING, ids=tuple(marker.id for marker in read), scope=scope))


# What a write touches.


async def touched(store: Store, ops: Sequence[Op], collections: tuple[str, ...]) -> list[Key]:
    """Every record of these collections whose vector the ops may change; perhaps a few more, never fewer.

    A record that another writer adds between this look and the write is not among them. That writer's own marker names it.
    """
    last = {op.query.collection: at for at, op in enumerate(ops) if _alters(op) and not isinstance(op, Add)}
    keys: dict[Key, None] = {}
    moved: Counter[str] = Counter()  # records that the ops so far may have added, changed or removed
    for at, op in enumerate(ops):
        if isinstance(op, Add):
            for record in op.records:
                if record.collection in collections:
                    moved[record.collection] += 1
                    if record.text or record.data:
                        keys[key_of(record)] = None
            continue
        collection = op.query.collection
        # A change of marks alone matters too when a later op looks for those marks.
        if collection in collections and at <= last.get(collection, -1):
            found = await _find_keys(store, _widened(asked(op.query), moved[collection]))
            moved[collection] += len(found)
            keys.update(dict.fromkeys(found))
    return list(keys)


def _alters(op: Op) -> bool:
    if not isinstance(op, Change):
        return True
    # A record whose end is put off may have been dropped as expired.
    return any(value is not UNSET for value in (op.text, op.data, op.merge, op.expires_at))


def _widened(query: Query, moved: int) -> Query:
    """The query with room for so many records that earlier ops of the same call put in, or take out, before it looks."""
    if not moved or not (query.offset or query.limit is not None):
        return query
    limit = None if query.limit is None else query.limit + query.offset + moved
    return msgspec.structs.replace(query, limit=limit, offset=0)


async def _find_keys(store: Store, query: Query) -> list[Key]:
    if not answerable(query):
        return []
    if query.ids is not None and query.scope.exact:  # no need to look: naming too many costs little
        return [Key(query.collection, id_, query.scope) for id_ in dict.fromkeys(query.ids)]
    return [
        Key(query.collection, head.id, exact_scope(head.scope))
        async for page in pages_of_heads(store, query)
        for head in page
    ]


async def pages_of_heads(store: Store, query: Query) -> AsyncIterator[list[Head]]:
    """The heads of all that the query finds, in pages; from the newest on unless it says where to begin."""
    if query.after is None:
        query = msgspec.structs.replace(query, after=START, newest_first=True)
    left = query.limit
    while left is None or left > 0:
        size = _PAGE if left is None else min(_PAGE, left)
        page = await heads(store, msgspec.structs.replace(query, limit=size))
        if page:
            yield page
        if len(page) < size:
            return
        left = None if left is None else left - size
        query = msgspec.structs.replace(query, after=page[-1].cursor, offset=0)
