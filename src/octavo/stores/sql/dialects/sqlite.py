"""SQLite, as far as it differs from the other databases."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from octavo.stores.sql.dialects.base import Dialect, Row
from octavo.stores.sql.statements import Ask, Do, DoEach, Script

if TYPE_CHECKING:
    from octavo.stores.sql.schema import Table

_encode = msgspec.json.Encoder().encode


class SQLite(Dialect):
    """SQLite 3.35 or later, with its JSON functions (all have them since 3.38) and FTS5."""

    name = "sqlite"
    types: ClassVar = {
        "name": "TEXT", "tenant": "TEXT", "place": "TEXT", "text": "TEXT", "json": "TEXT", "time": "TEXT",
        "int": "INTEGER", "flag": "BOOLEAN", "rowno": "INTEGER PRIMARY KEY",
    }  # fmt: skip
    contains = "instr({}, {}) > 0"
    hidden_equal = "+{} = {}"
    hidden_name = hidden_time = "+{}"
    lock_rows = ""  # the transaction holds the only write lock there is
    slots = 1
    no_limit = "-1"

    def placeholder(self, number: int) -> str:
        del number
        return "?"

    def one_of(self, column: str, values: Sequence[str], first: int) -> tuple[str, list[Any]]:
        if len(values) <= 64:
            return super().one_of(column, values, first)
        # A statement takes 32,766 values at most; one JSON array holds any number.
        return f"{column} IN (SELECT value FROM json_each({self.placeholder(first)}))", [
            _encode(values).decode()
        ]

    def time(self, at: datetime) -> str:
        # Fixed width and always UTC, so that text order is time order; SQLite's own date functions read it too.
        spelled = _encode(at)[1:-1].decode()
        return spelled if at.microsecond else f"{spelled[:-1]}.000000Z"

    moment = staticmethod(datetime.fromisoformat)  # type: ignore[assignment] # no call in between: it runs per row

    def lock_schema(self, name: str) -> Script[None]:
        del name  # BEGIN IMMEDIATE has done it
        yield from ()

    def exists(self, table: str) -> Script[bool]:
        rows = yield Ask("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,))
        return bool(rows)

    def insert(self, table: "Table", rows: list[Row]) -> Script[list[bool]]:
        sql = table.statement("insert", lambda: _insert(table))
        went_in = []
        for row in rows:
            changed = yield Do(sql, row)
            went_in.append(changed == 1)
        return went_in

    def upsert_counts(self, counts: str, rows: list[Row]) -> Script[None]:
        yield DoEach(
            f"INSERT INTO {counts} (counter, kind, slot, n) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (counter, kind, slot) DO UPDATE SET n = n + excluded.n",
            rows,
        )


def _insert(table: "Table") -> str:
    placeholders = ", ".join("?" * len(table.columns))
    return f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({placeholders}) ON CONFLICT DO NOTHING"
