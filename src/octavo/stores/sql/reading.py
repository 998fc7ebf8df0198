"""Finding and counting, as scripts over any dialect."""

import itertools
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from octavo.errors import StoreError
from octavo.kernel.model import NAMES_HELD, Head, NameCount, Query, Record, Scope, ScopePart, Tally
from octavo.stores.sql.compile import READ, Where, count, count_from, reads_forward, select
from octavo.stores.sql.counting import Tables, counter_of
from octavo.stores.sql.schema import Table
from octavo.stores.sql.statements import Ask, Pause, Script

Ranked = TypeVar("Ranked", Record, Head)
_body = msgspec.json.Decoder(dict[str, Any]).decode
_marks = msgspec.json.Decoder(tuple[str, ...]).decode
_TURN_SECONDS = 0.005  # of making records, after which others go first

#: By whether the user, the agent and the session are given.
_AXES = {
    given: ("place",) if all(given) else tuple(itertools.compress(("user", "agent", "session"), given))
    for given in itertools.product((False, True), repeat=3)
}


def find(table: Table, query: Query) -> Script[list[Record]]:
    """Answer the query as `Query.over` would."""
    return (yield from _in_order(table, query, lambda order, more: _read_rows(table, query, order, more)))


def heads(table: Table, query: Query) -> Script[list[Head]]:
    """Answer the query with the `Head.of` each record."""
    return (yield from _in_order(table, query, lambda order, more: _read_heads(table, query, order, more)))


def _in_order(
    table: Table, query: Query, read: Callable[[int, int], Script[list[Ranked]]]
) -> Script[list[Ranked]]:
    """What `read` answers, given how many parts of the rank to sort by and how many rows more than asked for to read."""
    sorts = len(table.dialect.order_tail)
    if sorts < 4 and not query.offset:
        # The index orders by time and seq, which hardly ever tie; sorting by the whole rank would copy every row.
        found = yield from read(sorts, 1)
        if query.limit is not None and len(found) > query.limit:
            cut = found.pop()
            if found and cut.seq == found[-1].seq and cut.created_at == found[-1].created_at:
                found = yield from read(4, 0)
    else:
        found = yield from read(4, 0)
    forward = reads_forward(query)
    if len({one.seq for one in found}) < len(found):  # no others can tie
        found.sort(key=lambda one: one.rank, reverse=not forward)
    if not forward and not query.newest_first:
        found.reverse()
    return found


def _read_heads(table: Table, query: Query, order: int, more: int) -> Script[list[Head]]:
    fields = ("id", "kind", "created_at", "updated_at", "seq", "tenant", "user", "agent", "session")
    bodies = [table.dialect.as_text(table.column(field)) for field in ("text", "data", "metadata")]
    size = " + ".join(table.dialect.octets.format(body) for body in bodies)
    rows = yield select(table, query, ", ".join([size, *map(table.column, fields)]), order=order, more=more)
    moment = table.dialect.moment
    return [
        Head(
            id=id_,
            kind=kind,
            scope=scope_of(*scope),
            created_at=moment(created),
            updated_at=moment(updated),
            seq=seq,
            size_bytes=int(taken),
        )
        for taken, id_, kind, created, updated, seq, *scope in rows
    ]


def _read_rows(table: Table, query: Query, order: int, more: int) -> Script[list[Record]]:
    rows = yield select(table, query, table.picked(READ), order=order, more=more)
    return (yield from records_of(table, rows))


def records_of(table: Table, rows: Sequence[Sequence[Any]]) -> Script[list[Record]]:
    """The records of rows that begin with READ."""
    collection, moment = table.shape.collection, table.dialect.moment
    records: list[Record] = []
    until = time.perf_counter() + _TURN_SECONDS
    for row in rows:
        id_, kind, text, data, metadata, marks, created, updated, expires, seq = row[:10]
        try:
            created_at = moment(created)
            record = Record(
                collection=collection,
                id=id_,
                kind=kind,
                scope=scope_of(*row[10:14]),
                text=text,
                data=_body(data),
                metadata=_body(metadata) if metadata != "{}" else {},
                marks=_marks(marks) if marks else (),
                created_at=created_at,
                updated_at=created_at if updated == created else moment(updated),
                expires_at=None if expires is None else moment(expires),
                seq=seq,
            )
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            raise StoreError(
                f"record {id_!r} in table {table.plain_name} is not as Octavo wrote it: {error}; "
                "put its row right, or delete it"
            ) from error
        records.append(record)
        if time.perf_counter() > until:
            yield Pause()
            until = time.perf_counter() + _TURN_SECONDS
    return records


def tally(tables: Tables, query: Query) -> Script[Tally]:
    """Count as `Tally.of` would: from the counters where they serve, else by an index."""
    table = tables[query.collection]
    axis = _axis_asked(table, query.scope) if query.plain else None
    if axis is None or axis not in table.shape.counted:
        rows = yield count(table, query)
    else:
        counter = counter_of(query.collection, axis, query.scope, query.scope.place)
        rows = yield count_from(tables.counts, counter, table, query)
    if not rows:
        return Tally()
    moment = table.dialect.moment
    by_kind = {kind: int(n) for kind, n, _, _ in rows}
    return Tally(
        total=sum(by_kind.values()),
        by_kind=by_kind,
        first=min(moment(first) for _, _, first, _ in rows),
        last=max(moment(last) for _, _, _, last in rows),
    )


def names(tables: Tables, query: Query, part: ScopePart, after: str) -> Script[list[NameCount]]:
    """Who is named within the query's scope, behind that name and in order, no more than its limit."""
    table = tables[query.collection]
    if query.scope == Scope(tenant=query.scope.tenant) and (part,) in table.shape.counted:
        return (yield from _names_counted(tables, query, part, after))
    where = Where(table, query.unpaged)
    name, created = table.column(part), table.column("created_at")
    where.tests.append(f"{name} > {where.bind(after)}")
    rows = yield Ask(
        f"SELECT {name}, COUNT(*), MIN({created}), MAX({created}) FROM {table.name} WHERE {where.sql} "
        f"GROUP BY {name} ORDER BY {name} LIMIT {where.bind(query.limit)}",
        where.values,
    )
    moment = table.dialect.moment
    return [
        NameCount(name=name, total=int(total), first=moment(first), last=moment(last))
        for name, total, first, last in rows
    ]


def _names_counted(tables: Tables, query: Query, part: ScopePart, after: str) -> Script[list[NameCount]]:
    """Step from one name to the next along the index, however many records each has: the counters know that."""
    table, tenant = tables[query.collection], query.scope.tenant
    name, placeholder = table.column(part), table.dialect.placeholder
    following = (
        f"SELECT MIN({name}) FROM {table.name} WHERE {table.column('tenant')} = {placeholder(1)} "
        f"AND {name} > {placeholder(2)}"
    )
    found: list[NameCount] = []
    while len(found) < (query.limit or 0):
        [[after]] = yield Ask(following, (tenant, after))
        if after is None:
            break
        scope = msgspec.structs.replace(query.scope, **{part: after})
        counted = yield from tally(tables, Query(collection=query.collection, scope=scope))
        if counted.first and counted.last:
            found.append(NameCount(name=after, total=counted.total, first=counted.first, last=counted.last))
    return found


def _axis_asked(table: Table, scope: Scope) -> tuple[str, ...] | None:
    """The axis, of those that have an index, that holds what the scope covers and nothing else."""
    axis = _AXES[scope.user is not None, scope.agent is not None, scope.session is not None]
    return axis if axis in table.shape.axes else None


@lru_cache(maxsize=NAMES_HELD)
def scope_of(tenant: str, user: str, agent: str, session: str) -> Scope:
    """The scope that a row's columns tell: what is not there is empty."""
    return Scope(tenant=tenant, user=user or None, agent=agent or None, session=session or None)
