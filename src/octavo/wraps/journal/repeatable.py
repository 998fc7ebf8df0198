"""Which writes may be done twice, and whose records they touch.

A commit whose answer was lost is applied again. Adds by id, and changes and removals of what they name, come out the same; "the
newest one" is another one the second time.
"""

from collections.abc import Iterable, Sequence

from octavo.kernel.codec import CheckedAdd, prepare
from octavo.kernel.model import START, Add, Op, Query, Remove, Scope

_MOST_SCOPES = 64  # a write that touches more is taken to touch the whole of its tenants


def check_ops(ops: Sequence[Op]) -> list[Op]:
    """The ops checked as every store checks them, and as they are stored: they share nothing with the caller's objects."""
    return [
        Add([sealed.record for sealed in op.records], op.expect) if isinstance(op, CheckedAdd) else op
        for op in prepare(ops)
    ]


class Repeatable:
    """Ops that, done a second time in their order, leave what the first time left. In doubt an op is not taken."""

    def __init__(self) -> None:
        self._changes: list[Query] = []
        self._removals: list[Query] = []  # that look at what a change can alter
        # Collection and id of what all but the oldest were removed of.
        self._firsts: set[tuple[str, str]] = set()
        self._taken = False
        self._adds = True  # only adds were taken
        self._expects = False  # some of which expect something

    def take(self, ops: Sequence[Op]) -> bool:
        """Whether these may follow those that were taken; after a False there is no going on."""
        first, self._taken = not self._taken, True
        self._adds = self._adds and all(isinstance(op, Add) for op in ops)
        if self._expects and not self._adds:  # what expects something stands alone, or among adds
            return False
        if any(op.expect is not None for op in ops):
            # Done before, it expects new records that are no longer new: a Conflict, by which it is known if it is alone, or if
            # nothing that comes with it takes records away.
            self._expects = any(isinstance(op, Add) and op.expect for op in ops)
            return self._expects and (self._adds or first)
        return all(self._take(op) for op in ops)

    def _take(self, op: Op) -> bool:
        if self._firsts and self._touches_looked_at(op):
            return False
        if isinstance(op, Add):
            # Added after a change that would have found it, a record is changed the second time.
            return not self._changes or not any(
                _meet(change, Query(collection=record.collection, ids=(record.id,), scope=record.scope))
                for record in op.records
                for change in self._changes
            )
        query = op.query
        if keeps_oldest(op):
            # Whatever is added before it again, the oldest stays. Not so if an op behind it adds or removes the oldest.
            self._firsts.update((query.collection, id_) for id_ in query.ids or ())
            return True
        if query.offset or query.limit:  # it picks by count; a limit of 0 picks nothing, now and later
            return False
        if isinstance(op, Remove):
            if _is_conditional(query):
                self._removals.append(query)
            return True
        # Of two changes of one record the last wins; not so the second time, if by then it no longer finds the record. And
        # what a removal has passed over it may find the second time, since it was changed.
        rivals = [other for other in self._changes if _is_conditional(query) or _is_conditional(other)]
        self._changes.append(query)
        return not any(_meet(query, other) for other in (*rivals, *self._removals))

    def _touches_looked_at(self, op: Op) -> bool:
        """Whether the op touches what a removal of all but the oldest has looked at."""
        if isinstance(op, Add):
            return any((record.collection, record.id) in self._firsts for record in op.records)
        query = op.query
        if query.ids is not None:
            return any((query.collection, id_) in self._firsts for id_ in query.ids)
        return any(collection == query.collection for collection, _ in self._firsts)


def keeps_oldest(op: Op) -> bool:
    """Whether it removes all but the oldest of one id, in whatever scopes that is."""
    if not isinstance(op, Remove) or op.query.after is None:
        return False
    query = op.query
    bare = Query(collection=query.collection, ids=query.ids, scope=query.scope, after=START, offset=1)
    return query.ids is not None and len(query.ids) == 1 and query == bare


def _is_conditional(query: Query) -> bool:
    """Whether a change can make a record match that did not, or no longer match."""
    looks = query.marks is not None or query.kinds is not None or query.without or query.text or query.where
    return bool(looks or query.alive_at or query.expired_at)


def _meet(one: Query, other: Query) -> bool:
    """Whether both may find the same record."""
    if one.collection != other.collection:
        return False
    if one.ids is not None and other.ids is not None and not set(one.ids) & set(other.ids):
        return False
    return has_overlap([one.scope], [other.scope])


def touched_scopes(ops: Sequence[Op]) -> frozenset[Scope]:
    """The scopes whose records the ops may touch, where None means any."""
    scopes: set[Scope] = set()
    for op in ops:
        scopes.update([record.scope for record in op.records] if isinstance(op, Add) else [op.query.scope])
    if len(scopes) > _MOST_SCOPES:
        return frozenset(Scope(tenant=scope.tenant) for scope in scopes)
    return frozenset(scopes)


def has_overlap(these: Iterable[Scope], those: Iterable[Scope]) -> bool:
    """Whether a record could be in one of these and in one of those."""
    return any(
        one.tenant == other.tenant
        and _may_be_same(one.user, other.user)
        and _may_be_same(one.agent, other.agent)
        and _may_be_same(one.session, other.session)
        for one in these
        for other in those
    )


def _may_be_same(one: str | None, other: str | None) -> bool:
    # A record of nobody has None or "", and a query for anybody has None. Taking all of these as the same is on the safe
    # side: a write may wait for one that does not concern it, and never overtakes one that does.
    return not one or not other or one == other
