"""The counters that answer a tally: which ones a record moves, and how they move in one transaction."""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from octavo.kernel.codec import StoredRecord
from octavo.kernel.model import NAMES_HELD, Scope
from octavo.kernel.shapes import SHAPES
from octavo.stores.sql.dialects import Counters, Dialect
from octavo.stores.sql.schema import Table


class Tables:
    """Every table a store has used so far, and the one that counts."""

    def __init__(self, dialect: Dialect, counts: str, slot: int) -> None:
        self.dialect = dialect
        self.by_collection: dict[str, Table] = {}
        self.counts = counts
        self.slot = slot  # processes that count in rows of their own do not wait for each other

    def __getitem__(self, collection: str) -> Table:
        return self.by_collection[collection]

    def counters(self, table: Table, new: list[StoredRecord]) -> Counters:
        """The counters that new records move."""
        moved = [counters_of(table.shape.collection, sealed.scope, sealed.place) for sealed in new]
        return Counters(self.counts, self.slot, [list(axis) for axis in zip(*moved, strict=True)])


class Counting:
    """How the counters move during one transaction; written once, at its end, in one order for all writers."""

    def __init__(self) -> None:
        self._moves: dict[tuple[str, str], int] = {}

    def move(self, table: Table, scope: Scope, place: str, kind: str, by: int) -> None:
        """Count a record that came, or one that went."""
        moves = self._moves
        for counter in counters_of(table.shape.collection, scope, place):
            moves[counter, kind] = moves.get((counter, kind), 0) + by

    def add(self, table: Table, records: Sequence[StoredRecord]) -> None:
        """Count new records; of a batch, most are of few scopes and kinds."""
        scopes = {sealed.place: sealed.scope for sealed in records}
        for (place, kind), n in Counter([(sealed.place, sealed.kind) for sealed in records]).items():
            self.move(table, scopes[place], place, kind, n)

    def rows(self, slot: int) -> list[Sequence[Any]]:
        """The rows to add to the table of counters."""
        return [(counter, kind, slot, n) for (counter, kind), n in sorted(self._moves.items()) if n]


def counter_of(collection: str, axis: tuple[str, ...], scope: Scope, place: str) -> str:
    """The short name of the counter of one value of one axis."""
    if axis == ("place",):
        return _counter("", collection, "place", place)
    return _counter(
        scope.tenant, collection, axis[0] if axis else "", getattr(scope, axis[0]) or "" if axis else ""
    )


@lru_cache(maxsize=NAMES_HELD)
def counters_of(collection: str, scope: Scope, place: str) -> tuple[str, ...]:
    """The counters that a record of this scope moves: one for each counted axis."""
    return tuple(counter_of(collection, axis, scope, place) for axis in SHAPES[collection].counted)


@lru_cache(maxsize=NAMES_HELD)
def _counter(tenant: str, collection: str, axis: str, value: str) -> str:
    return Scope(tenant=tenant, user=collection, agent=axis, session=value).place
