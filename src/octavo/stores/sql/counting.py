"""The counters that answer a tally: which ones a record moves, when they move, and how they are swept up."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from octavo.kernel.codec import Sealed
from octavo.kernel.model import NAMES_HELD, Scope
from octavo.kernel.shapes import SHAPES
from octavo.stores.sql.compile import PARTS
from octavo.stores.sql.dialect import Counters, Dialect
from octavo.stores.sql.schema import Table
from octavo.stores.sql.statements import Ask, Script

_SWEEP = 10_000  # rows a process adds before it counts them; a tally counts on the spot those that wait


class Tables:
    """Every table a store has used so far, and the one that counts."""

    def __init__(self, dialect: Dialect, counts: str, slot: int) -> None:
        self.dialect = dialect
        self.by_collection: dict[str, Table] = {}
        self.counts = counts
        self.slot = slot  # processes that count in rows of their own do not wait for each other
        self.uncounted: dict[str, int] = {}  # rows this process added since it last swept, by collection
        self.due: str | None = None  # a collection of which so many wait that they should be counted

    def __getitem__(self, collection: str) -> Table:
        return self.by_collection[collection]

    def added(self, collection: str, rows: int) -> None:
        """Note that so many rows wait to be counted."""
        waiting = self.uncounted[collection] = self.uncounted.get(collection, 0) + rows
        if waiting >= _SWEEP:
            self.due = collection


class Counting:
    """How the counters move during one transaction; written once, at its end, in one order for all writers."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.moves: dict[tuple[str, str], int] = {}
        self.swept: dict[str, int] = {}  # where this transaction has counted up to, by collection

    def sweep(self, table: Table) -> Script[None]:
        """Count the rows that were added since the last sweep; nothing where every append counts at once."""
        if not table.dialect.counts_later:
            return
        collection = table.shape.collection
        counted = (counted_of(collection), "")
        start = self.swept.get(collection)
        if start is None:
            start = (
                yield Ask(
                    f"SELECT COALESCE(SUM(n), 0) FROM {self.tables.counts} WHERE shelf = ?", counted[:1]
                )
            )[0][0]
        end = (yield Ask(f"SELECT COALESCE(MAX(rowno), 0) FROM {table.name}"))[0][0]
        if end > start:
            # Only by what is counted: thousands of sessions in the tail are one row when nobody counts by session.
            parts = [part for part in ("place", *PARTS[1:]) if any(part in axis for axis in table.counted)]
            fields = ", ".join([table.column(field) for field in ("kind", "tenant", *parts)])
            sql = f"SELECT {fields}, COUNT(*) FROM {table.name} NOT INDEXED WHERE rowno > ? GROUP BY {fields}"
            for kind, tenant, *values, n in (yield Ask(sql, (start,))):
                known = dict(zip(parts, values, strict=True))
                place = known.pop("place", "")
                self.move(table, Scope(tenant=tenant, **known), place, kind, n)
        # After a removal the end may lie before the start: numbers of removed rows are given out again.
        self.moves[counted] = self.moves.get(counted, 0) + end - start
        self.swept[collection] = end
        self.tables.uncounted[collection] = 0

    def move(self, table: Table, scope: Scope, place: str, kind: str, by: int) -> None:
        moves = self.moves
        for shelf in shelves_of(table.shape.collection, scope, place):
            moves[shelf, kind] = moves.get((shelf, kind), 0) + by

    def rows(self, slot: int) -> list[Sequence[Any]]:
        return [(shelf, kind, slot, n) for (shelf, kind), n in sorted(self.moves.items()) if n]


def shelf_of(collection: str, axis: tuple[str, ...], scope: Scope, place: str) -> str:
    """The short name of the counter of one value of one axis."""
    if axis == ("place",):
        return _shelf("", collection, "place", place)
    return _shelf(
        scope.tenant, collection, axis[0] if axis else "", getattr(scope, axis[0]) or "" if axis else ""
    )


@lru_cache(maxsize=NAMES_HELD)
def shelves_of(collection: str, scope: Scope, place: str) -> tuple[str, ...]:
    """The counters that a record of this scope moves: one for each counted axis."""
    return tuple(shelf_of(collection, axis, scope, place) for axis in SHAPES[collection].counted)


def counted_of(collection: str) -> str:
    """The name under which the number of the last counted row is kept."""
    return _shelf("", collection, "counted", "")


@lru_cache(maxsize=NAMES_HELD)
def _shelf(tenant: str, collection: str, axis: str, value: str) -> str:
    return Scope(tenant=tenant, user=collection, agent=axis, session=value).place


def counters_of(tables: Tables, table: Table, new: list[Sealed]) -> Counters:
    """The counters that new records move, where they move at once."""
    if table.dialect.counts_later:
        return Counters(tables.counts, tables.slot, [])
    moved = [shelves_of(table.shape.collection, sealed.scope, sealed.place) for sealed in new]
    return Counters(tables.counts, tables.slot, [list(axis) for axis in zip(*moved, strict=True)])


def sweep(tables: Tables, collection: str) -> Script[None]:
    """Count what waits to be counted, in a transaction of its own."""
    counting = Counting(tables)
    yield from counting.sweep(tables[collection])
    if moves := counting.rows(tables.slot):
        yield from tables.dialect.upsert_counts(tables.counts, moves)
