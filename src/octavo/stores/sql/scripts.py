"""The three verbs as scripts over any dialect."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET

from octavo.codec import Kept, Prepared, Sealed, seal
from octavo.model import Change, Query, Record, Scope, Tally
from octavo.stores.sql.compile import (
    PARTS,
    READ,
    Nominated,
    count,
    count_from,
    open_parts,
    read_with,
    reads_forward,
    select,
)
from octavo.stores.sql.counting import Counting, Tables, counted_of, counters_of, shelf_of
from octavo.stores.sql.schema import FIELDS, Table
from octavo.stores.sql.statements import Ask, Do, DoEach, Script

_body = msgspec.json.Decoder(dict[str, Any]).decode
_marks = msgspec.json.Decoder(tuple[str, ...]).decode
_MUTABLE = ("kind", "text", "search", "data", "metadata", "marks", "updated_at", "expires_at")
_MUTABLE_AT = tuple(
    at for at, (field, _) in enumerate(FIELDS) if field in _MUTABLE
)  # where they stand in a row
_SCOPE = tuple((part, "name") for part in PARTS)
_GONE = (("rowno", "int"), ("kind", "name"), ("place", "name"), *_SCOPE)
_FEW = 200  # rows that are read in less time than it takes to ask another thread to do it
_TAIL = 250  # rows a tally may count on the spot before it is worth sweeping them


def apply_all(tables: Tables, batches: Sequence[list[Prepared]]) -> Script[list[list[int]]]:
    """Apply several callers' batches in one transaction; answer each caller's counts."""
    if len(batches) == 1 and tables.dialect.most_whole and (alone := _alone(batches[0])) is not None:
        return [[(yield from _append(tables, alone))]]
    counts = [[0] * len(batch) for batch in batches]
    counting = Counting(tables)
    waiting: dict[str, list[tuple[Sealed, list[int], int]]] = {}
    whole = True
    for batch, answer in zip(batches, counts, strict=True):
        for number, op in enumerate(batch):
            if isinstance(op, Kept):  # adds wait for each other, to go in together
                for sealed in op.records:
                    waiting.setdefault(sealed.collection, []).append((sealed, answer, number))
                continue
            whole = False
            yield from _add(waiting, counting)
            table = tables[op.query.collection]
            if isinstance(op, Change):
                answer[number] = yield from _change(table, op, counting)
            else:
                answer[number] = yield from _remove(table, op.query, counting)
    yield from _add(waiting, counting, whole=whole and len(waiting) == 1)
    if moves := counting.rows(tables.slot):
        yield from tables.dialect.upsert_counts(tables.counts, moves)
    return counts


def _alone(batch: list[Prepared]) -> Sealed | None:
    """The one record, without marks, that the batch adds, if that is all it does; nearly every append is that."""
    if len(batch) == 1 and isinstance(op := batch[0], Kept) and len(op.records) == 1:
        sealed = op.records[0]
        return None if sealed.marks else sealed
    return None


def _append(tables: Tables, sealed: Sealed) -> Script[int]:
    """The short way for what is done most."""
    table = tables[sealed.collection]
    counters = counters_of(tables, table, [sealed])
    row = table.row(sealed)
    [added] = yield from table.dialect.insert_whole(table.name, table.columns, table.types, [row], counters)
    if table.dialect.counts_later:
        tables.added(sealed.collection, added)
    return int(added)


def _add(
    waiting: dict[str, list[tuple[Sealed, list[int], int]]], counting: Counting, *, whole: bool = False
) -> Script[None]:
    """Insert what waits; `whole` says that there is nothing else to the transaction."""
    for collection, entries in waiting.items():
        table = counting.tables[collection]
        later = table.dialect.counts_later
        first: dict[tuple[str, str], tuple[Sealed, list[int], int]] = {}
        for entry in entries:
            first.setdefault(entry[0].key, entry)
        new = list(first.values())
        # Writers that take their row locks in one order do not dead-lock each other.
        if table.dialect.lock_rows:
            new.sort(key=lambda entry: entry[0].key)
        rows: list[Sequence[Any]] = [table.row(sealed) for sealed, _, _ in new]
        if whole and len(rows) <= table.dialect.most_whole and not any(sealed.marks for sealed, _, _ in new):
            counters = counters_of(counting.tables, table, [sealed for sealed, _, _ in new])
            went_in = yield from table.dialect.insert_whole(
                table.name, table.columns, table.types, rows, counters
            )
            counted = True
        else:
            went_in = yield from table.dialect.insert(table.name, table.columns, table.types, rows)
            counted = later
        marked = []
        for (sealed, answer, number), is_new in zip(new, went_in, strict=True):
            if is_new:
                answer[number] += 1
                if not counted:
                    counting.move(table, sealed.scope, sealed.place, sealed.kind, 1)
                if sealed.marks:
                    marked.append(sealed)
        if later:
            counting.tables.added(collection, len(rows))
        if marked and table.marks:
            yield from _mark(table, marked)
    waiting.clear()


def _mark(table: Table, marked: list[Sealed]) -> Script[None]:
    """Enter each mark of these records into the table that finds records by mark."""
    hole = table.dialect.hole
    sql = (
        f"INSERT INTO {table.marks} (place, mark, rowno, message_id) "
        f"SELECT place, {table.dialect.typed_hole(1, 'name')}, rowno, {table.column('id')} FROM {table.name} "
        f"WHERE {table.column('id')} = {hole(2)} AND place = {hole(3)}"
    )
    yield DoEach(sql, [(mark, sealed.id, sealed.place) for sealed in marked for mark in sealed.marks])


def _change(table: Table, change: Change, counting: Counting) -> Script[int]:
    """Read and lock what matches, change it in Python, write back what differs."""
    if change.kind is not UNSET:  # what is not counted yet cannot be moved from one kind to another
        yield from counting.sweep(table)
    rows = yield select(table, change.query, (*READ, *_SCOPE, ("rowno", "int")), lock=True)
    records, _ = _records(table, [row[:-1] for row in rows], change.query.scope, PARTS)
    updates: list[Sequence[Any]] = []
    remarked: list[Sealed] = []
    unmarked: list[int] = []
    reworded: list[int] = []
    for row, record in zip(rows, records, strict=True):
        after = change.applied_to(record)
        if after is record:
            continue
        sealed = seal(after)
        values = table.row(sealed)
        updates.append((*(values[at] for at in _MUTABLE_AT), *values[len(FIELDS) :], row[-1]))
        if sealed.kind != record.kind:
            counting.move(table, sealed.scope, sealed.place, record.kind, -1)
            counting.move(table, sealed.scope, sealed.place, sealed.kind, 1)
        if sealed.marks != record.marks:
            unmarked.append(row[-1])
            remarked.append(sealed)
        if sealed.text != record.text or after.data is not record.data:
            reworded.append(row[-1])
    if updates:
        yield DoEach(_update(table), updates)
        if table.marks and unmarked:
            yield from _delete(table.marks, unmarked)
            yield from _mark(table, remarked)
        yield from table.dialect.reworded(table.plain_name, table.versions, reworded)
    return len(updates)


def _update(table: Table) -> str:
    hole = table.dialect.hole
    sets = [
        f"{table.column(FIELDS[at][0])} = {table.dialect.typed_hole(number, FIELDS[at][1])}"
        for number, at in enumerate(_MUTABLE_AT, 1)
    ]
    extras = [table.dialect.quote(extra.name) for extra in table.shape.extras]
    sets += [f"{name} = {hole(number)}" for number, name in enumerate(extras, len(sets) + 1)]
    return f"UPDATE {table.name} SET {', '.join(sets)} WHERE rowno = {hole(len(sets) + 1)}"


def _remove(table: Table, query: Query, counting: Counting) -> Script[int]:
    yield from counting.sweep(table)
    rows = yield select(table, query, _GONE, lock=True)
    for _, kind, place, *scope in rows:
        counting.move(table, _scope(*scope), place, kind, -1)
    numbers = [row[0] for row in rows]
    if table.marks:
        yield from _delete(table.marks, numbers)
    yield from _delete(table.name, numbers)
    yield from table.dialect.removed(table.plain_name, table.versions, numbers)
    yield from counting.sweep(table)
    return len(numbers)


def _delete(name: str, numbers: list[int]) -> Script[None]:
    for start in range(0, len(numbers), 1000):
        listed = ", ".join(str(int(number)) for number in numbers[start : start + 1000])
        yield Do(f"DELETE FROM {name} WHERE rowno IN ({listed})")


def find(table: Table, query: Query, nominated: Nominated | None = None) -> Script[list[Record]]:
    """Answer the query as `Query.over` would, from all rows or from those that alone may match."""
    parts = open_parts(query.scope)
    fields = read_with(parts)
    sorts = len(table.dialect.order_tail)
    if sorts < 4 and not query.offset:
        # The index orders by time and seq, which hardly ever tie; sorting by the whole rank would copy every row.
        rows = yield select(table, query, fields, order=sorts, more=1, nominated=nominated)
        limit = query.limit
        if limit is not None and len(rows) > limit:
            cut = _ties(rows[limit - 1], rows[limit])
            rows = (yield select(table, query, fields, nominated=nominated)) if cut else rows[:limit]
    else:
        rows = yield select(table, query, fields, nominated=nominated)
    records, ties = _records(table, rows, query.scope, parts)
    if ties:
        records.sort(key=lambda record: record.rank, reverse=not reads_forward(query))
    if not reads_forward(query) and not query.newest_first:
        records.reverse()
    return records


def _records(
    table: Table, rows: Sequence[Sequence[Any]], asked: Scope, parts: tuple[str, ...]
) -> tuple[list[Record], bool]:
    """The records of rows that have READ and the open parts of their scope, and whether any two neighbours tie."""
    collection, moment = table.shape.collection, table.dialect.moment
    scopes: dict[tuple[str, ...], Scope] = {}
    records: list[Record] = []
    ties, last, last_seq = False, None, -1
    # One loop without calls: this is where a read spends its time.
    for row in rows:
        id_, kind, text, data, metadata, marks, created, updated, expires, seq = row[:10]
        scope = scopes.get(key := tuple(row[10:]))
        if scope is None:
            fixed = {part: getattr(asked, part) or "" for part in PARTS}
            scope = scopes[key] = _scope(**(fixed | dict(zip(parts, key, strict=True))))
        created_at = moment(created)
        records.append(
            Record(
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
        )
        ties = ties or (seq == last_seq and created == last)
        last, last_seq = created, seq
    return records, ties


def is_small(table: Table, query: Query) -> bool:
    """Whether a find reads a few rows straight off an index, whatever the table holds."""
    if query.ids is not None:
        return len(query.ids) <= _FEW
    if query.limit is None or query.limit + query.offset > _FEW or query.kinds is not None:
        return False
    # Times only shorten the walk; what has ended lengthens it, until it is swept.
    walked = msgspec.structs.replace(query, since=None, until=None, alive_at=None)
    return walked.plain and _axis_asked(table, query.scope) is not None


def has_counters(tables: Tables, query: Query) -> bool:
    """Whether counters answer a tally, with few rows left to count on the spot."""
    table = tables[query.collection]
    few = tables.uncounted.get(query.collection, 0) <= _TAIL
    return few and query.plain and query.kinds is None and _axis_asked(table, query.scope) in table.counted


def _ties(row: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two rows of READ have the same time and seq."""
    return bool(row[6] == other[6] and row[9] == other[9])


def tally_and_lag(tables: Tables, query: Query) -> Script[tuple[Tally, bool]]:
    """A tally, and whether so many rows wait to be counted that the next one would feel it."""
    answer = yield from tally(tables, query)
    return answer, (yield from _lags(tables, query.collection))


def _lags(tables: Tables, collection: str) -> Script[bool]:
    table = tables[collection]
    if not table.dialect.counts_later:
        return False
    sql = (
        f"SELECT (SELECT COALESCE(MAX(rowno), 0) FROM {table.name}) - "
        f"(SELECT COALESCE(SUM(n), 0) FROM {tables.counts} WHERE shelf = ?)"
    )
    return bool((yield Ask(sql, (counted_of(collection),)))[0][0] > _TAIL)


def tally(tables: Tables, query: Query, nominated: Nominated | None = None) -> Script[Tally]:
    """Count as `Tally.of` would: from the counters where they serve, else by an index."""
    table = tables[query.collection]
    axis = _axis_asked(table, query.scope) if query.plain else None
    if axis is None or axis not in table.counted:
        rows = yield count(table, query, nominated)
    else:
        shelf = shelf_of(query.collection, axis, query.scope, query.scope.place)
        rows = yield count_from(tables.counts, shelf, counted_of(query.collection), table, query)
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


def _axis_asked(table: Table, scope: Scope) -> tuple[str, ...] | None:
    """The axis, of those that have an index, that holds what the scope covers and nothing else."""
    axes = table.shape.axes
    if scope.exact:
        return ("place",) if ("place",) in axes else None
    axis = tuple(part for part in PARTS[1:] if getattr(scope, part) is not None)
    return axis if axis in axes else None


@lru_cache(maxsize=4096)
def _scope(tenant: str, user: str, agent: str, session: str) -> Scope:
    return Scope(tenant=tenant, user=user or None, agent=agent or None, session=session or None)
