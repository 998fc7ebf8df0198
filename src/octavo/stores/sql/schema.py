"""One collection's table in one dialect: its quoted names, a record as its row, and the counters that a record moves."""

import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from octavo.errors import InvalidRecord
from octavo.kernel.model import NAMES_HELD, Scope
from octavo.kernel.shapes import SHAPES, Shape, StoredRecord
from octavo.kernel.text import spell
from octavo.stores.sql.dialects import Counters, Dialect

#: The fields of a row in the order they are written; (id, scope_key) is the key and comes first.
FIELDS = (
    ("id", "name"), ("scope_key", "digest"), ("tenant", "tenant"), ("user", "name"), ("agent", "name"), ("session", "name"),
    ("kind", "name"), ("text", "text"), ("search", "text"), ("data", "json"), ("metadata", "json"), ("marks", "text"),
    ("created_at", "time"), ("updated_at", "time"), ("expires_at", "time"), ("seq", "int"),
)  # fmt: skip


class Table:
    """One collection's table in one dialect: its quoted names and the statements that never vary."""

    def __init__(self, shape: Shape, dialect: Dialect, prefix: str) -> None:
        self.shape = shape
        self.dialect = dialect
        self.prefix = prefix
        self.plain_name = prefix + shape.table
        self.name = dialect.quote(self.plain_name)
        self.marks = dialect.quote(prefix + shape.marks_table) if shape.marks_table else ""
        own = {"scope_key": "scope_key", "search": "search", "rowno": "rowno"}
        fields = (*(field for field, _ in FIELDS), "rowno")
        self._columns = {field: dialect.quote(own.get(field) or shape.name(field)) for field in fields}
        self.columns = (
            *(self.column(field) for field, _ in FIELDS),
            *(dialect.quote(extra.name) for extra in shape.extras),
        )
        self.types = (*(type_ for _, type_ in FIELDS), *(extra.type for extra in shape.extras))
        self.order = tuple(self.column(field) for field in ("created_at", "seq", "id", "scope_key"))
        self.index = dialect.terms(self)
        self._statements: dict[Any, str] = {}

    def column(self, field: str) -> str:
        """The quoted name of the column that holds this field."""
        return self._columns[field]

    def statement(self, name: Any, make: Callable[[], str]) -> str:
        """A statement, or a part of one, that is put together once; there are few."""
        known = self._statements.get(name)
        if known is None:
            known = self._statements[name] = make()
        return known

    def select_list(self, fields: tuple[tuple[str, str], ...]) -> str:
        """What to select to read these fields."""
        as_text = self.dialect.as_text
        return self.statement(
            fields,
            lambda: ", ".join(
                as_text(self.column(field)) if type_ == "json" else self.column(field)
                for field, type_ in fields
            ),
        )

    def row(self, sealed: StoredRecord) -> tuple[Any, ...]:
        """The values of a record, in the order of `columns`."""
        scope, time = sealed.scope, self.dialect.time
        created = time(sealed.created_at)
        row = (
            sealed.id, sealed.scope_key, scope.tenant, scope.user or "", scope.agent or "", scope.session or "",
            sealed.kind, sealed.text, sealed.search, sealed.data_json, sealed.metadata_lines, mark_lines(sealed.marks),
            created, created if sealed.updated_at is sealed.created_at else time(sealed.updated_at),
            None if sealed.expires_at is None else time(sealed.expires_at), sealed.seq,
        )  # fmt: skip
        # Folding makes a character into 18 at most, of up to four bytes: hardly any record is looked at.
        most = self.dialect.most_bytes
        size = len(sealed.text) + len(sealed.data_json) + len(sealed.metadata_json)
        if most is not None and size * 72 > most:
            self._check_sizes(row, most)
        return (*row, *self._extras(sealed)) if self.shape.extras else row

    def _check_sizes(self, row: tuple[Any, ...], most: int) -> None:
        """Refuse what the server cannot take, however it is sent."""
        for (field, _), value in zip(FIELDS, row, strict=True):
            if isinstance(value, str) and (size := len(value.encode())) > most:
                raise InvalidRecord(
                    f"record {row[0]!r} of {self.shape.collection!r}: {size} bytes for its column "
                    f"{self.column(field)} are more than this MySQL server takes; raise its max_allowed_packet of "
                    f"{most} bytes (SET GLOBAL max_allowed_packet = {64 << 20}, and in its configuration)"
                )

    def _extras(self, sealed: StoredRecord) -> list[Any]:
        values = []
        for extra in self.shape.extras:
            value = extra.value(sealed)
            if extra.type == "name" and not (isinstance(value, str) and len(value.encode()) <= 255):
                value = None  # a repeated column must never be the reason a record is refused
            values.append(value)
        return values


def mark_lines(marks: tuple[str, ...]) -> str:
    """Marks as JSON with each between newlines, so that one can be found as text; nothing when there are none."""
    return "[" + ",".join(mark_line(mark) for mark in marks) + "]" if marks else ""


def mark_line(mark: str) -> str:
    """One mark as it stands in the stored text."""
    return f"\n{spell(mark)}\n"


class Tables:
    """Every table a store has used so far, and the one that counts."""

    def __init__(self, dialect: Dialect, prefix: str = "") -> None:
        self.dialect = dialect
        self.prefix = prefix
        self.by_collection: dict[str, Table] = {}
        self.counts = dialect.quote(f"{prefix}octavo_counts")
        # Processes that count in rows of their own do not wait for each other.
        self.slot = random.randrange(dialect.slots)  # noqa: S311 - spreads load

    def __getitem__(self, collection: str) -> Table:
        return self.by_collection[collection]

    def counters(self, table: Table, new: list[StoredRecord]) -> Counters:
        """The counters that new records move."""
        moved = [counters_of(table.shape.collection, sealed.scope, sealed.scope_key) for sealed in new]
        return Counters(self.counts, self.slot, [list(axis) for axis in zip(*moved, strict=True)])


def counter_of(collection: str, axis: tuple[str, ...], scope: Scope, scope_key: str) -> str:
    """The short name of the counter of one value of one axis."""
    if axis == ("scope_key",):
        return _counter("", collection, "scope_key", scope_key)
    return _counter(
        scope.tenant, collection, axis[0] if axis else "", getattr(scope, axis[0]) or "" if axis else ""
    )


@lru_cache(maxsize=NAMES_HELD)
def counters_of(collection: str, scope: Scope, scope_key: str) -> tuple[str, ...]:
    """The counters that a record of this scope moves: one for each counted axis."""
    return tuple(counter_of(collection, axis, scope, scope_key) for axis in SHAPES[collection].counted)


@lru_cache(maxsize=NAMES_HELD)
def _counter(tenant: str, collection: str, axis: str, value: str) -> str:
    return Scope(tenant=tenant, user=collection, agent=axis, session=value).key
