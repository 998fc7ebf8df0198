"""SQLite, as far as it differs from the other databases."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from octavo.stores.sql.dialects import Counters, Dialect, Row
from octavo.stores.sql.statements import Do, DoEach, Fetch, Script, in_list
from octavo.stores.sql.term_index import AT_ONCE, IndexedRecord, ScopeTags, SqlTermIndex

if TYPE_CHECKING:
    from octavo.stores.sql.schema import Table

_encode = msgspec.json.Encoder().encode


class SQLiteTerms(SqlTermIndex):
    """An external-content FTS5 table. Row numbers follow the order of commits, so all rows after the last entry wait."""

    def __init__(self, table: "Table") -> None:
        super().__init__(table)
        self.index = table.dialect.quote(f"{table.plain_name}_index")
        self.upto = f"(SELECT COALESCE(MAX(number), 0) FROM {self.terms})"
        new = f"SELECT rowno AS number FROM {table.name} NOT INDEXED WHERE rowno > {self.upto}"
        both = f"SELECT number FROM {self.waiting} UNION ALL {new}"
        self.late = (f"({both}) AS w CROSS JOIN {table.name} ON rowno = w.number", "")
        self.waits = f"(rowno > {self.upto} OR EXISTS (SELECT 1 FROM {self.waiting} WHERE number = rowno))"

    def names(self) -> tuple[str, ...]:
        return (*super().names(), f"{self.table.plain_name}_index")

    def create(self) -> list[str]:
        return [
            (
                f"CREATE TABLE {self.terms} (number INTEGER PRIMARY KEY, length INTEGER NOT NULL, bag TEXT NOT NULL, "
                "more TEXT NOT NULL, tags TEXT NOT NULL)"
            ),
            f"CREATE TABLE {self.waiting} (number INTEGER PRIMARY KEY)",  # that were indexed, and changed since
            # Neither positions nor columns nor sizes are asked for: without them the index is a fifth of the size.
            (
                f"CREATE VIRTUAL TABLE {self.index} USING fts5(tags, bag, content={self.terms}, content_rowid='number', "
                "detail=none, columnsize=0, tokenize=\"ascii tokenchars '~'\")"
            ),
        ]

    def queue(self, numbers: Sequence[int]) -> Script[None]:
        # Only up to the last entry: an entry of a later row would make all between them look indexed.
        for start in range(0, len(numbers), AT_ONCE):
            some = in_list(numbers[start : start + AT_ONCE])
            yield Do(
                f"INSERT OR IGNORE INTO {self.waiting} (number) "
                f"SELECT rowno FROM {self.table.name} WHERE rowno IN ({some}) AND rowno <= {self.upto}"
            )

    def claim(self, most: int) -> Script[list[int]]:
        changed = yield Fetch(f"SELECT number FROM {self.waiting} LIMIT {int(most)}")
        new = yield Fetch(
            f"SELECT rowno FROM {self.table.name} WHERE rowno > {self.upto} ORDER BY rowno LIMIT {most - len(changed)}"
        )
        return [row[0] for row in (*changed, *new)]

    def settle(self, numbers: Sequence[int]) -> Script[None]:
        yield from self._delete(self.waiting, numbers)

    def put(self, entries: list[IndexedRecord]) -> Script[None]:
        yield from self._drop([one.number for one in entries])
        yield DoEach(
            f"INSERT INTO {self.terms} (number, length, bag, more, tags) VALUES (?, ?, ?, ?, ?)", entries
        )
        yield DoEach(
            f"INSERT INTO {self.index} (rowid, tags, bag) VALUES (?, ?, ?)",
            [(one.number, one.tags, one.bag) for one in entries],
        )

    def forget(self, numbers: Sequence[int]) -> Script[None]:
        yield from self._drop(numbers)
        yield from self._delete(self.waiting, numbers)

    def _drop(self, numbers: Sequence[int]) -> Script[None]:
        if old := (yield from self.entries(numbers)):
            yield DoEach(
                f"INSERT INTO {self.index} ({self.index}, rowid, tags, bag) VALUES ('delete', ?, ?, ?)",
                [(one.number, one.tags, one.bag) for one in old],
            )
            yield from self._delete(self.terms, [one.number for one in old])

    def find_lost(self, entries: Sequence[IndexedRecord]) -> Script[list[int]]:
        lost: list[int] = []
        for one in entries:
            match = '"' + '" AND "'.join(f"{one.tags} {one.bag}".split()) + '"'
            sql = f"SELECT 1 FROM {self.index} WHERE {self.index} MATCH ? AND rowid = ?"
            if not (yield Fetch(sql, (match, one.number))):
                lost.append(one.number)
        return lost

    def mend(self) -> Script[None]:
        yield Do(f"INSERT INTO {self.index} ({self.index}) VALUES ('rebuild')")

    def candidates(self, values: list[Any], asked: ScopeTags, words: Sequence[str] | None) -> tuple[str, str]:
        source = (
            f"{self.index} CROSS JOIN {self.terms} AS b ON b.number = {self.index}.rowid "
            f"CROSS JOIN {self.table.name} ON rowno = b.number"
        )
        return source, f"{self.index} MATCH {self.bind(values, _match(asked, words))}"

    def holders(self, values: list[Any], asked: ScopeTags, words: Sequence[str] | None) -> tuple[str, str]:
        source = f"{self.index} CROSS JOIN {self.table.name} ON rowno = {self.index}.rowid"
        return source, f"{self.index} MATCH {self.bind(values, _match(asked, words))}"

    def count(
        self, values: list[Any], asked: ScopeTags, words: Sequence[str], but: Sequence[int], most: int
    ) -> str:
        test = f"{self.index} MATCH {self.bind(values, _match(asked, words))}"
        test += f" AND rowid NOT IN ({in_list(but)})" if but else ""
        return f"(SELECT COUNT(*) FROM (SELECT 1 FROM {self.index} WHERE {test} LIMIT {int(most)}))"

    def size(self, asked: ScopeTags, most: int) -> Fetch:
        some = f"SELECT 1 FROM {self.index} WHERE {self.index} MATCH ? LIMIT {int(most)}"
        return Fetch(f"SELECT COUNT(*) FROM ({some})", (_match(asked, None),))


class SQLite(Dialect):
    """SQLite 3.35 or later, with its JSON functions (all have them since 3.38) and FTS5."""

    name = "sqlite"
    terms = SQLiteTerms
    types: ClassVar = {
        "name": "TEXT", "tenant": "TEXT", "digest": "TEXT", "text": "TEXT", "json": "TEXT", "time": "TEXT",
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
        rows = yield Fetch("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,))
        return bool(rows)

    def insert(self, table: "Table", rows: list[Row], counters: Counters | None = None) -> Script[list[bool]]:
        del counters  # they are moved by themselves
        sql = table.statement("insert", lambda: _insert(table))
        changed = yield DoEach(sql, rows)
        return [n == 1 for n in changed]

    def upsert_counts(self, counts: str, rows: list[Row]) -> Script[None]:
        yield DoEach(
            f"INSERT INTO {counts} (counter, kind, slot, n) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (counter, kind, slot) DO UPDATE SET n = n + excluded.n",
            rows,
        )


def _insert(table: "Table") -> str:
    placeholders = ", ".join("?" * len(table.columns))
    return f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({placeholders}) ON CONFLICT DO NOTHING"


def _match(asked: ScopeTags, words: Sequence[str] | None) -> str:
    """What SQLite looks up: any of the words together with all tags, none of which holds a quote."""
    held = [] if words is None else ['("' + '" OR "'.join(words) + '")']
    return " AND ".join([*[f'"{each}"' for each in asked.tags + asked.words], *held])
