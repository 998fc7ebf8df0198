"""Applying writes, as scripts over any dialect."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

from octavo.kernel.codec import CheckedAdd, Prepared, seal
from octavo.kernel.model import Change, Remove, Scope, check_expected
from octavo.kernel.shapes import StoredRecord
from octavo.stores.sql.compile import PARTS, READ, select
from octavo.stores.sql.reading import records_of, scope_of
from octavo.stores.sql.schema import FIELDS, Table, Tables, counters_of
from octavo.stores.sql.statements import Do, DoEach, Fetch, Pause, Script, in_list

_MUTABLE = ("kind", "text", "search", "data", "metadata", "marks", "updated_at", "expires_at")
#: Where they stand in a row.
_MUTABLE_AT = tuple(at for at, (field, _) in enumerate(FIELDS) if field in _MUTABLE)
_SCOPE = tuple((part, "name") for part in PARTS)
_WHOLE = (*READ, *_SCOPE, ("rowno", "int"))
_GONE = (("rowno", "int"), ("kind", "name"), ("scope_key", "name"), *_SCOPE)


#: Records that wait to be inserted together, by collection: each with the counts of its caller, and where to add it there.
Waiting: TypeAlias = dict[str, list[tuple[StoredRecord, list[int], int]]]


class Counting:
    """How the counters move during one transaction; written once, at its end, in one order for all writers."""

    def __init__(self) -> None:
        self._moves: dict[tuple[str, str], int] = {}

    def move(self, table: Table, scope: Scope, scope_key: str, kind: str, by: int) -> None:
        """Count a record that came, or one that went."""
        moves = self._moves
        for counter in counters_of(table.shape.collection, scope, scope_key):
            moves[counter, kind] = moves.get((counter, kind), 0) + by

    def add(self, table: Table, records: Sequence[StoredRecord]) -> None:
        """Count new records; of a batch, most are of few scopes and kinds."""
        scopes = {sealed.scope_key: sealed.scope for sealed in records}
        for (scope_key, kind), n in Counter([(sealed.scope_key, sealed.kind) for sealed in records]).items():
            self.move(table, scopes[scope_key], scope_key, kind, n)

    def rows(self, slot: int) -> list[Sequence[Any]]:
        """The rows to add to the table of counters."""
        return [(counter, kind, slot, n) for (counter, kind), n in sorted(self._moves.items()) if n]


def apply_all(tables: Tables, batches: Sequence[list[Prepared]]) -> Script[list[list[int]]]:
    """Apply several callers' batches in one transaction; answer each caller's counts."""
    counts = [[0] * len(batch) for batch in batches]
    counting = Counting()
    waiting: Waiting = {}
    only_adds = True
    for batch, answer in zip(batches, counts, strict=True):
        for number, op in enumerate(batch):
            if isinstance(op, CheckedAdd):  # adds wait for each other, to go in together
                for sealed in op.records:
                    waiting.setdefault(sealed.collection, []).append((sealed, answer, number))
                if op.expect is not None:
                    only_adds = False
                    yield from _add_all(tables, waiting, counting)
                    check_expected(op.expect, answer[number])
                continue
            only_adds = False
            yield from _add_all(tables, waiting, counting)
            table = tables[op.query.collection]
            if isinstance(op, Change):
                answer[number] = yield from _change(table, op, counting)
            else:
                answer[number] = yield from _remove(table, op, counting)
    yield from _add_all(tables, waiting, counting, whole=only_adds and len(waiting) == 1)
    if moves := counting.rows(tables.slot):
        yield from tables.dialect.upsert_counts(tables.counts, moves)
    return counts


def _add_all(tables: Tables, waiting: Waiting, counting: Counting, *, whole: bool = False) -> Script[None]:
    """Insert what waits; `whole` says that there is nothing else to the transaction."""
    for collection, entries in waiting.items():
        table = tables[collection]
        first: dict[tuple[str, str], tuple[StoredRecord, list[int], int]] = {}
        for entry in entries:
            first.setdefault(entry[0].key, entry)
        new = list(first.values())
        # Writers that take their row locks in one order do not dead-lock each other.
        if table.dialect.lock_rows:
            new.sort(key=lambda entry: entry[0].key)
        records = [sealed for sealed, _, _ in new]
        rows: list[Sequence[Any]] = [table.row(sealed) for sealed in records]
        counted = whole and len(rows) <= table.dialect.most_counted and not any(r.marks for r in records)
        counters = tables.counters(table, records) if counted else None
        went_in = yield from table.dialect.insert(table, rows, counters)
        added = []
        for (sealed, answer, number), is_new in zip(new, went_in, strict=True):
            if is_new:
                answer[number] += 1
                added.append(sealed)
        if not counted:
            counting.add(table, added)
        if table.marks and (marked := [sealed for sealed in added if sealed.marks]):
            yield from _mark_new(table, marked)
    waiting.clear()


def _mark_new(table: Table, marked: list[StoredRecord]) -> Script[None]:
    """Enter the marks of records that were just added."""
    names = list(dict.fromkeys(sealed.id for sealed in marked))
    id_, scope_key = table.column("id"), table.column("scope_key")
    test, values = table.dialect.one_of(id_, names, 1)
    # Asked for at once: one by one, a plan made while the table was empty would look through all of it for each.
    rows = yield Fetch(f"SELECT {id_}, {scope_key}, rowno FROM {table.name} WHERE {test}", values)
    numbers = {(name, where): number for name, where, number in rows}
    yield from _mark(table, [(sealed, numbers[sealed.key]) for sealed in marked])


def _mark(table: Table, marked: list[tuple[StoredRecord, int]]) -> Script[None]:
    """Enter each mark of these records, which have these row numbers, into the table that finds records by mark."""
    placeholders = ", ".join(table.dialect.placeholder(number) for number in range(1, 5))
    rows = [(sealed.scope_key, mark, number, sealed.id) for sealed, number in marked for mark in sealed.marks]
    yield DoEach(
        f"INSERT INTO {table.marks} (scope_key, mark, rowno, message_id) VALUES ({placeholders})", rows
    )


def _change(table: Table, change: Change, counting: Counting) -> Script[int]:
    """Read and lock what matches, change it in Python, write back what differs."""
    rows = yield select(table, change.query, table.select_list(_WHOLE), lock=True)
    check_expected(change.expect, len(rows))
    records = yield from records_of(table, [row[:-1] for row in rows], change.query.scope, PARTS)
    updates: list[Sequence[Any]] = []
    remarked: list[tuple[StoredRecord, int]] = []
    reworded: list[int] = []
    for row, record in zip(rows, records, strict=True):
        after = change.applied_to(record)
        if after is record:
            continue
        sealed = seal(after)
        if sealed.slow_to_fold:
            for _ in sealed.fold_in_steps():
                yield Pause()
        values = table.row(sealed)
        updates.append((*(values[at] for at in _MUTABLE_AT), *values[len(FIELDS) :], row[-1]))
        if sealed.kind != record.kind:
            counting.move(table, sealed.scope, sealed.scope_key, record.kind, -1)
            counting.move(table, sealed.scope, sealed.scope_key, sealed.kind, 1)
        if sealed.marks != record.marks:
            remarked.append((sealed, row[-1]))
        if sealed.text != record.text or after.data is not record.data:
            reworded.append(row[-1])
    if updates:
        yield DoEach(_update(table), updates)
        if table.marks and remarked:
            yield from _delete(table.marks, [number for _, number in remarked])
            yield from _mark(table, remarked)
        if reworded:
            yield from table.index.queue(reworded)
    return len(updates)


def _update(table: Table) -> str:
    placeholder, casts = table.dialect.placeholder, table.dialect.casts
    sets = [
        f"{table.column(FIELDS[at][0])} = {placeholder(number)}{casts.get(FIELDS[at][1], '')}"
        for number, at in enumerate(_MUTABLE_AT, 1)
    ]
    extras = [table.dialect.quote(extra.name) for extra in table.shape.extras]
    sets += [f"{name} = {placeholder(number)}" for number, name in enumerate(extras, len(sets) + 1)]
    return f"UPDATE {table.name} SET {', '.join(sets)} WHERE rowno = {placeholder(len(sets) + 1)}"


def _remove(table: Table, remove: Remove, counting: Counting) -> Script[int]:
    rows = yield select(table, remove.query, table.select_list(_GONE), lock=True)
    check_expected(remove.expect, len(rows))
    for _, kind, scope_key, *scope in rows:
        counting.move(table, scope_of(*scope), scope_key, kind, -1)
    if numbers := [row[0] for row in rows]:
        if table.marks:
            yield from _delete(table.marks, numbers)
        yield from _delete(table.name, numbers)
        yield from table.index.forget(numbers)
    return len(numbers)


def _delete(name: str, numbers: list[int]) -> Script[None]:
    for start in range(0, len(numbers), 1000):
        yield Do(f"DELETE FROM {name} WHERE rowno IN ({in_list(numbers[start : start + 1000])})")


def drop_counters(tables: Tables) -> Script[int]:
    """Remove the counters that have come to nothing; answer how many."""
    counts, one, two, three = tables.counts, *map(tables.dialect.placeholder, (1, 2, 3))
    empty = yield Fetch(f"SELECT counter, kind FROM {counts} GROUP BY counter, kind HAVING SUM(n) = 0")
    dropped = 0
    for counter, kind in sorted(map(tuple, empty)):  # in the order in which writers move them
        # Read again, and locked: somebody may have counted since.
        rows = yield Fetch(
            f"SELECT slot, n FROM {counts} WHERE counter = {one} AND kind = {two} "
            f"ORDER BY slot{tables.dialect.lock_rows}",
            (counter, kind),
        )
        if sum(int(row[1]) for row in rows):
            continue
        for slot, _ in rows:
            test = f"counter = {one} AND kind = {two} AND slot = {three}"
            yield Do(f"DELETE FROM {counts} WHERE {test}", (counter, kind, slot))
        dropped += 1
    return dropped
