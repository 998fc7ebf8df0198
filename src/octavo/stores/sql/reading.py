"""Finding and counting, as scripts over any dialect."""

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import msgspec

from octavo.errors import StoreError
from octavo.kernel.model import NAMES_HELD, Head, NameCount, Query, Record, Scope, ScopePart, Tally
from octavo.stores.sql.compile import (
    PARTS,
    Where,
    count,
    count_from,
    open_parts,
    read_with,
    reads_forward,
    select,
)
from octavo.stores.sql.schema import Table, Tables, counter_of
from octavo.stores.sql.statements import Fetch, Pause, Script

Ranked = TypeVar("Ranked", Record, Head)
# Named here, since what a function inside another one says of its answer is worked out at every call.
_Records: TypeAlias = Script[list[Record]]
_Heads: TypeAlias = Script[list[Head]]
_body = msgspec.json.Decoder(dict[str, Any]).decode
_marks = msgspec.json.Decoder(tuple[str, ...]).decode
_TURN_SECONDS = 0.005  # of making records, after which others go first
_STEPS = 500  # names found by one statement: a server gives up after a thousand steps


def find(table: Table, query: Query) -> Script[list[Record]]:
    """Answer the query as `Query.over` would."""
    parts = open_parts(query.scope)
    picked = table.select_list(read_with(parts))

    def read(order: int, more: int) -> _Records:
        rows = yield select(table, query, picked, order=order, more=more)
        return (yield from records_of(table, rows, query.scope, parts))

    return (yield from _read_in_order(table, query, read))


def heads(table: Table, query: Query) -> Script[list[Head]]:
    """Answer the query with the `Head.of` each record."""
    parts, moment = open_parts(query.scope), table.dialect.moment
    fields = [table.column(field) for field in ("id", "kind", "created_at", "updated_at", "seq", *parts)]
    size_bytes = _size_of(table)

    def read(order: int, more: int) -> _Heads:
        rows = yield select(table, query, ", ".join([size_bytes, *fields]), order=order, more=more)
        return [
            Head(
                id=id_,
                kind=kind,
                scope=scope_in(query.scope, parts, tuple(rest)),
                created_at=moment(created),
                updated_at=moment(updated),
                seq=seq,
                size_bytes=int(taken),
            )
            for taken, id_, kind, created, updated, seq, *rest in rows
        ]

    return (yield from _read_in_order(table, query, read))


def find_within(table: Table, query: Query, max_bytes: int) -> Script[list[Record] | None]:
    """Answer the query, unless texts and bodies of that take more than so many bytes."""
    sorts = len(table.dialect.order_tail)
    sized = select(table, query, f"{_size_of(table)} AS size_bytes", order=sorts)
    [[taken]] = yield Fetch(f"SELECT SUM(size_bytes) FROM ({sized.sql}) AS sized", sized.values)
    return None if (taken or 0) > max_bytes else (yield from find(table, query))


def _size_of(table: Table) -> str:
    """How many bytes the text and the bodies of a row take, in SQL."""
    bodies = [table.dialect.as_text(table.column(field)) for field in ("text", "data", "metadata")]
    return " + ".join(table.dialect.octets.format(body) for body in bodies)


def _read_in_order(
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


def records_of(
    table: Table, rows: Sequence[Sequence[Any]], asked: Scope, parts: tuple[str, ...]
) -> Script[list[Record]]:
    """The records of rows that have READ and the open parts of their scope."""
    collection, moment = table.shape.collection, table.dialect.moment
    scopes: dict[tuple[str, ...], Scope] = {}
    records: list[Record] = []
    until = time.perf_counter() + _TURN_SECONDS
    # One loop without calls: this is where a read of many spends its time.
    for row in rows:
        id_, kind, text, data, metadata, marks, created, updated, expires, seq = row[:10]
        scope = scopes.get(key := tuple(row[10:]))
        if scope is None:
            scope = scopes[key] = scope_in(asked, parts, key)
        try:
            created_at = moment(created)
            record = Record(
                collection=collection,
                id=id_,
                kind=kind,
                scope=scope,
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


def scope_in(asked: Scope, parts: tuple[str, ...], values: tuple[str, ...]) -> Scope:
    """The scope of a row, of which the query left these parts open."""
    fixed = {part: getattr(asked, part) or "" for part in PARTS}
    return scope_of(**(fixed | dict(zip(parts, values, strict=True))))


def tally(tables: Tables, query: Query) -> Script[Tally]:
    """Count as `Tally.of` would: from the counters where they serve, else by an index."""
    table = tables[query.collection]
    axis = find_axis(table, query.scope) if query.plain else None
    if axis is None or axis not in table.shape.counted:
        rows = yield count(table, query)
    else:
        counter = counter_of(query.collection, axis, query.scope, query.scope.key)
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
        return (yield from _list_names(tables, query, part, after))
    where = Where(table, query.unpaged, along=part)
    name, created = table.column(part), table.column("created_at")
    where.tests.append(f"{name} > {where.bind(after)}")
    if query.limit == 1:
        # It is the first in the index; to see that, a planner would have to know how many there are.
        [[following]] = yield Fetch(f"SELECT MIN({name}) FROM {table.name} WHERE {where.sql}", where.values)
        if following is None:
            return []
        where.tests.append(f"{name} = {where.bind(following)}")
    rows = yield Fetch(
        f"SELECT {name}, COUNT(*), MIN({created}), MAX({created}) FROM {table.name} WHERE {where.sql} "
        f"GROUP BY {name} ORDER BY {name} LIMIT {where.bind(query.limit)}",
        where.values,
    )
    moment = table.dialect.moment
    return [
        NameCount(name=name, total=int(total), first=moment(first), last=moment(last))
        for name, total, first, last in rows
    ]


def _list_names(tables: Tables, query: Query, part: ScopePart, after: str) -> Script[list[NameCount]]:
    """Step from one name to the next along the index, however many records each has: the counters know that."""
    table, scope, most = tables[query.collection], query.scope, query.limit or 0
    moment = table.dialect.moment
    found: list[NameCount] = []
    while (asked := min(most - len(found), _STEPS)) > 0:
        rows = yield _step_names(table, part, scope.tenant, after, asked)
        if not rows:
            break
        counters = {
            counter_of(query.collection, (part,), msgspec.structs.replace(scope, **{part: name}), ""): name
            for name, _, _ in rows
        }
        among, values = table.dialect.one_of("counter", list(counters), 1)
        sums = f"SELECT counter, SUM(n) FROM {tables.counts} WHERE {among} GROUP BY counter"
        totals = {counters[counter]: int(total) for counter, total in (yield Fetch(sums, values))}
        found += [
            NameCount(name=name, total=totals[name], first=moment(first), last=moment(last))
            for name, first, last in rows
            if totals.get(name) and first and last  # else somebody has just removed it
        ]
        if len(rows) < asked:
            break
        after = rows[-1][0]
    return found


def _step_names(table: Table, part: ScopePart, tenant: str, after: str, most: int) -> Fetch:
    """The names behind one, each found by a look into the index, with the first and the last time of each."""
    name, created = table.column(part), table.column("created_at")
    values: list[Any] = []

    def bind(value: str) -> str:
        values.append(value)
        return table.dialect.placeholder(len(values))

    def inside() -> str:
        return f"FROM {table.name} WHERE {table.column('tenant')} = {bind(tenant)} AND {name}"

    first = f"SELECT 1 AS step, (SELECT MIN({name}) {inside()} > {bind(after)}) AS name"
    following = f"SELECT step + 1, (SELECT MIN({name}) {inside()} > named.name) FROM named"
    steps = f"{first} UNION ALL {following} WHERE step < {int(most)} AND named.name IS NOT NULL"
    ends = [
        f"(SELECT {created} {inside()} = named.name ORDER BY {created}{way} LIMIT 1)" for way in ("", " DESC")
    ]
    return Fetch(
        f"WITH RECURSIVE named (step, name) AS ({steps}) SELECT named.name, {', '.join(ends)} FROM named "
        "WHERE named.name IS NOT NULL ORDER BY step",
        values,
    )


def find_axis(table: Table, scope: Scope) -> tuple[str, ...] | None:
    """The axis, of those that have an index, that holds what the scope covers and nothing else."""
    given = tuple([part for part in PARTS[1:] if getattr(scope, part) is not None])
    axis = ("scope_key",) if given == PARTS[1:] else given
    return axis if axis in table.shape.axes else None


@lru_cache(maxsize=NAMES_HELD)
def scope_of(tenant: str, user: str, agent: str, session: str) -> Scope:
    return Scope(tenant=tenant, user=user or None, agent=agent or None, session=session or None)
