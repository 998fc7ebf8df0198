"""Whose records a write may touch, so that writes of others need not wait for it."""

from collections.abc import Iterable, Sequence

from octavo.kernel.model import Add, Op, Scope

_MOST = 64  # scopes; a write that touches more is taken to touch the whole of its tenants


def footprint(ops: Sequence[Op]) -> frozenset[Scope]:
    """The scopes that the ops may touch, where None means any."""
    scopes: set[Scope] = set()
    for op in ops:
        if isinstance(op, Add):
            scopes.update([record.scope for record in op.records])
        else:
            scopes.add(op.query.scope)
    return frozenset(scopes) if len(scopes) <= _MOST else frozenset(Scope(tenant=s.tenant) for s in scopes)


def overlap(these: Iterable[Scope], those: Iterable[Scope]) -> bool:
    """Whether a record could be in one of these and in one of those."""
    return any(_meet(one, other) for one in these for other in those)


def _meet(one: Scope, other: Scope) -> bool:
    return (
        one.tenant == other.tenant
        and _same(one.user, other.user)
        and _same(one.agent, other.agent)
        and _same(one.session, other.session)
    )


def _same(one: str | None, other: str | None) -> bool:
    # A record of nobody has None or "", a query for anybody has None: taken as the same, nothing is ever overtaken.
    return not one or not other or one == other
