"""Writes that may be done twice: which of them leave the same records, and how some others are made to.

A commit whose answer was lost is applied again. Adds by id, and changes and removals of what they name, come out the same; "the
newest one" is another one the second time.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import UNSET

from octavo.kernel.codec import Kept, prepare
from octavo.kernel.model import Add, Change, Op, Query, Remove, Scope
from octavo.kernel.ports import Store
from octavo.vectors.base import exact_scope
from octavo.wraps.footprints import overlap
from octavo.wraps.vectors.waiting import pages_of_heads

#: Why a write is not queued that would mean something else later.
UNKNOWN = (
    "the store is away, and this write cannot be queued, since what it picks may be another record then; name the records by "
    "ids, or write again when the store is back"
)
_MOST_IDS = 500  # in one op, so that no backend is given too long a list


def checked(ops: Sequence[Op]) -> list[Op]:
    """The ops checked as every store checks them, and as they are stored: they share nothing with the caller's objects."""
    return [
        Add([sealed.record for sealed in op.records]) if isinstance(op, Kept) else op for op in prepare(ops)
    ]


def certain(ops: Sequence[Op]) -> bool:
    """Whether a look at each op by itself says that they are repeatable: nearly all writes are such."""
    return not any(map(_counts, ops)) and (len(ops) == 1 or not any(isinstance(op, Change) for op in ops))


def repeatable(ops: Iterable[Op]) -> bool:
    """Whether doing all of these a second time, in their order, leaves what the first time left."""
    return Repeatable().takes(ops)


class Repeatable:
    """Ops that are repeatable together; they are taken one after another, with their times in UTC."""

    def __init__(self) -> None:
        self._changes: defaultdict[str, list[Query]] = defaultdict(list)
        self._conditional: defaultdict[str, list[Query]] = defaultdict(
            list
        )  # those of them that look at more than names
        self._removals: defaultdict[str, list[Query]] = defaultdict(list)  # that look at more than names
        self._broad: defaultdict[str, list[Query]] = defaultdict(list)  # changes without ids
        self._by_id: defaultdict[tuple[str, str], list[Query]] = defaultdict(list)

    def takes(self, ops: Iterable[Op]) -> bool:
        """Whether these may follow those that were taken; after a False there is no going on."""
        return all(self._takes(op) for op in ops)

    def _takes(self, op: Op) -> bool:
        if isinstance(op, Add):
            # Added after a change that would have found it, a record is changed the second time.
            return not any(
                query.matches(record)
                for record in op.records
                for query in (*self._broad[record.collection], *self._by_id[record.collection, record.id])
            )
        query, collection = op.query, op.query.collection
        if _counts(op):
            return False
        if isinstance(op, Remove):
            if _conditional(query):
                self._removals[collection].append(query)
            return True
        # Of two changes of one record the last wins; not so the second time, if by then it no longer finds the record.
        rivals = self._changes if _conditional(query) else self._conditional
        if any(_meet(query, other) for other in rivals[collection]):
            return False
        if any(_meet(query, other) and _leads_to(op, other) for other in self._removals[collection]):
            return False
        self._changes[collection].append(query)
        if _conditional(query):
            self._conditional[collection].append(query)
        if query.ids is None:
            self._broad[collection].append(query)
        else:
            for id_ in query.ids:
                self._by_id[collection, id_].append(query)
        return True


async def bind(store: Store, ops: Sequence[Op]) -> tuple[list[Op], list[int]]:
    """The ops with ids in the place of limits and offsets, and how many ops each of them became.

    What an op picks after another op of the same call has touched its collection is not known before the call: such a one
    stays as it is.
    """
    bound: list[Op] = []
    sizes: list[int] = []
    touched: set[str] = set()
    for op in ops:
        parts: list[Op] = [op]
        if isinstance(op, Add):
            touched.update(record.collection for record in op.records)
        else:
            if _counts(op) and op.query.collection not in touched:
                parts = [
                    msgspec.structs.replace(op, query=query) for query in await _bind_query(store, op.query)
                ]
            touched.add(op.query.collection)
        bound += parts
        sizes.append(len(parts))
    return bound, sizes


async def _bind_query(store: Store, query: Query) -> list[Query]:
    """What the query finds, by name. Its other clauses stay: what somebody else has taken meanwhile is not taken again."""
    found: dict[Scope, list[str]] = {}  # an id names one record in each scope
    async for page in pages_of_heads(store, query):
        for head in page:
            found.setdefault(exact_scope(head.scope), []).append(head.id)
    return [
        msgspec.structs.replace(query.unpaged, scope=scope, ids=tuple(ids[start : start + _MOST_IDS]))
        for scope, ids in found.items()
        for start in range(0, len(ids), _MOST_IDS)
    ]


def summed(counts: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """The counts of the ops that were bound, from those of the ops that they became."""
    left = iter(counts)
    return [sum(next(left) for _ in range(size)) for size in sizes]


def _counts(op: Op) -> bool:
    """Whether it picks records by how many there are before them; a limit of 0 picks none, now and later."""
    return not isinstance(op, Add) and (op.query.offset > 0 or bool(op.query.limit))


def _conditional(query: Query) -> bool:
    """Whether a change can make a record match that did not, or no longer match."""
    return bool(
        query.marks is not None
        or query.without
        or query.kinds is not None
        or query.text
        or query.where
        or query.alive_at
        or query.expired_at
    )


def _meet(one: Query, other: Query) -> bool:
    """Whether both may find the same record of their collection."""
    if one.ids is not None and other.ids is not None and not set(one.ids) & set(other.ids):
        return False
    return overlap([one.scope], [other.scope])


def _leads_to(change: Change, query: Query) -> bool:
    """Whether a record may match the query because of the change."""
    spoken = any(value is not UNSET for value in (change.text, change.data, change.merge))
    return bool(
        (query.marks is not None and set(change.mark) & set(query.marks))
        or (query.without and (change.unmark is None or set(change.unmark) & set(query.without)))
        or (query.kinds is not None and change.kind in query.kinds)
        or (query.text and spoken)
        or (query.where and change.metadata is not UNSET)
        or ((query.alive_at or query.expired_at) and change.expires_at is not UNSET)
    )
