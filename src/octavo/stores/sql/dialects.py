"""What a SQL database must be asked differently from the others: SQLite and PostgreSQL. MySQL is in `mysql.py`."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import msgspec

from octavo.stores.sql.statements import Ask, Do, DoEach, Script

if TYPE_CHECKING:
    from octavo.stores.sql.schema import Table

Row = Sequence[Any]
_FEW = 8  # rows that SQLite is given one by one
_ARRAYS = {"time": "timestamptz[]", "int": "bigint[]", "flag": "boolean[]"}  # of PostgreSQL
_encode = msgspec.json.Encoder().encode


class Counters(NamedTuple):
    """What new rows move: the table of counters, the slot to count in, and for each counted axis the counter of each row."""

    table: str
    slot: int
    names: list[list[str]]


class Dialect:
    """One database's spelling of types, placeholders, functions and conflict-ignoring inserts."""

    name: ClassVar[str]
    lists_table: ClassVar[str]  # a statement that finds a table of the name it binds
    types: ClassVar[dict[str, str]]
    contains: ClassVar[str]  # a format of column and needle
    lock_rows: ClassVar[str] = " FOR UPDATE"
    no_limit: ClassVar[str]
    #: Formats of a text column, and of a time: the same value, for which the planner chooses no index.
    hidden_text: ClassVar[str] = "{}"
    hidden_time: ClassVar[str]
    partial: ClassVar[bool] = True  # whether an index may be of some rows only
    row_values: ClassVar[bool] = True  # whether (a, b) > (x, y) walks an index
    most_counted: ClassVar[int] = 0  # rows that `insert_counted` takes in one statement; 0 where it cannot
    order_tail: ClassVar[tuple[str, ...]] = (
        "created_at",
        "seq",
    )  # the end of every index that gives an order
    slots: ClassVar[int] = 16  # rows of each counter, so that processes do not wait for each other
    octets: str = "OCTET_LENGTH({})"  # a format of a text column: how many bytes it has
    most_bytes: int | None = None  # that one column of one row may have, where the server has a say in it

    def quote(self, name: str) -> str:
        """A name of a table or column as it stands in a statement."""
        return f'"{name}"'

    def placeholder(self, number: int) -> str:
        """The placeholder of the number-th value, counted from 1."""
        raise NotImplementedError

    def typed_placeholder(self, number: int, type_: str) -> str:
        """A placeholder where the database cannot tell from its position what it will be given."""
        del type_
        return self.placeholder(number)

    def one_of(self, column: str, values: Sequence[str], first: int) -> tuple[str, list[Any]]:
        """A test that the column is one of many values, and what to bind from placeholder `first` on."""
        placeholders = ", ".join(self.placeholder(first + offset) for offset in range(len(values)))
        return f"{column} IN ({placeholders})", list(values)

    def holding(self, text: str) -> tuple[str, str]:
        """A test, as a format of a column and a placeholder, that the column holds this text; and what to bind."""
        return self.contains, text

    def as_text(self, column: str) -> str:
        """A JSON column as the text that was stored."""
        return column

    def time(self, at: datetime) -> Any:
        """A moment as this database takes it."""
        raise NotImplementedError

    def moment(self, stored: Any) -> datetime:
        """A stored time as an aware one."""
        raise NotImplementedError

    def lock_schema(self, name: str) -> Script[None]:
        """Hold off everybody else who wants to change the schema, until `unlock_schema` or the end of the transaction."""
        raise NotImplementedError

    def unlock_schema(self, name: str) -> Script[None]:
        """Let the next one change the schema."""
        del name
        yield from ()

    def save(self) -> Script[None]:
        """Commit what was done so far, where the next CREATE would do so anyway."""
        yield from ()

    def exists(self, table: str) -> Script[bool]:
        """Whether there is a table of this name, whoever made it."""
        return bool((yield Ask(self.lists_table, (table,))))

    def insert(self, table: "Table", rows: list[Row]) -> Script[list[bool]]:
        """Insert what is not there yet; answer for each row whether it went in."""
        raise NotImplementedError

    def insert_counted(self, table: "Table", rows: list[Row], counters: Counters) -> Script[list[bool]]:
        """Insert and count in one statement, which is all of the transaction; at most `most_counted` rows."""
        raise NotImplementedError

    def upsert_counts(self, counts: str, rows: list[Row]) -> Script[None]:
        """Add each n to its counter (counter, kind, slot)."""
        raise NotImplementedError


def chunks(rows: list[Row], most_rows: int, most_characters: int | None = None) -> Iterator[list[Row]]:
    """Rows in groups small enough for one statement."""
    chunk: list[Row] = []
    size = 0
    for row in rows:
        weight = sum([len(value) for value in row if type(value) is str]) if most_characters else 0
        if chunk and (len(chunk) >= most_rows or (most_characters and size + weight > most_characters)):
            yield chunk
            chunk, size = [], 0
        chunk.append(row)
        size += weight
    if chunk:
        yield chunk


class SQLite(Dialect):
    """SQLite 3.35 or later, with its JSON functions (all have them since 3.38) and FTS5."""

    name = "sqlite"
    lists_table = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    types: ClassVar = {
        "name": "TEXT", "tenant": "TEXT", "place": "TEXT", "text": "TEXT", "json": "TEXT", "time": "TEXT",
        "int": "INTEGER", "flag": "BOOLEAN", "rowno": "INTEGER PRIMARY KEY",
    }  # fmt: skip
    contains = "instr({}, {}) > 0"
    hidden_text = "+{}"
    hidden_time = "+{}"
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

    def insert(self, table: "Table", rows: list[Row]) -> Script[list[bool]]:
        sql = table.statement("insert", lambda: _insert_into(table))
        if (
            len(rows) > _FEW
        ):  # all in one go, which is quicker but does not tell which of them were there already
            yield Do("SAVEPOINT bulk")
            [[before]] = yield Ask("SELECT total_changes()")
            yield DoEach(sql, rows)
            [[after]] = yield Ask("SELECT total_changes()")
            if after - before == len(rows):
                yield Do("RELEASE bulk")
                return [True] * len(rows)
            yield Do("ROLLBACK TO bulk")
            yield Do("RELEASE bulk")
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


def _insert_into(table: "Table") -> str:
    placeholders = ", ".join("?" * len(table.columns))
    return f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({placeholders}) ON CONFLICT DO NOTHING"


class PostgreSQL(Dialect):
    """PostgreSQL 12 or later, and what speaks its protocol."""

    name = "postgresql"
    # A query over the catalogue: to_regclass remembers that a table was not there, even after waiting for its maker.
    lists_table = "SELECT 1 FROM pg_tables WHERE schemaname = ANY(current_schemas(false)) AND tablename = $1"
    types: ClassVar = {
        "name": 'TEXT COLLATE "C"', "tenant": 'TEXT COLLATE "C"', "place": 'TEXT COLLATE "C"', "text": 'TEXT COLLATE "C"',
        "json": "JSON", "time": "TIMESTAMPTZ", "int": "BIGINT", "flag": "BOOLEAN",
        "rowno": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
    }  # fmt: skip
    contains = "strpos({}, {}) > 0"
    hidden_text = "({} || '')"
    hidden_time = "({} + INTERVAL '0')"
    no_limit = "ALL"
    most_counted = 5000

    def placeholder(self, number: int) -> str:
        return f"${number}"

    def typed_placeholder(self, number: int, type_: str) -> str:
        # JSON by way of text: what is bound is text, not a JSON value.
        casts = {"name": "::text", "json": "::text::json"}
        return f"${number}{casts.get(type_, '')}"

    def one_of(self, column: str, values: Sequence[str], first: int) -> tuple[str, list[Any]]:
        # One array, because a statement takes 32,767 values at most.
        return f"{column} = ANY(${first}::text[])", [list(values)]

    def holding(self, text: str) -> tuple[str, str]:
        # The one test that an index of trigrams can answer.
        return "{} LIKE {}", "%" + re.sub(r"([\\%_])", r"\\\1", text) + "%"

    def as_text(self, column: str) -> str:
        return f"{column}::text"

    def time(self, at: datetime) -> datetime:
        return at

    def moment(self, stored: datetime) -> datetime:
        if stored.tzinfo is None:  # so asyncpg says the last moment there is, which PostgreSQL calls infinity
            return stored.replace(tzinfo=UTC)
        return stored if stored.tzinfo is UTC else stored.astimezone(UTC)

    def lock_schema(self, name: str) -> Script[None]:
        yield Ask("SELECT pg_advisory_xact_lock(hashtext($1))", (name,))

    def insert(self, table: "Table", rows: list[Row]) -> Script[list[bool]]:
        sql = table.statement("insert", lambda: f"{_insert(table)} SELECT {_key(table)} FROM added")
        went_in: list[bool] = []
        for chunk in chunks(rows, most_rows=self.most_counted):
            added = {tuple(row) for row in (yield Ask(sql, _columns(chunk)))}
            went_in.extend([(row[0], row[1]) in added for row in chunk])
        return went_in

    def insert_counted(self, table: "Table", rows: list[Row], counters: Counters) -> Script[list[bool]]:
        values = _columns(rows)
        if counters.names:
            sql = table.statement("insert counted", lambda: _insert_and_count(table, counters))
            values += [counters.slot, *counters.names]
        else:
            sql = table.statement("insert", lambda: f"{_insert(table)} SELECT {_key(table)} FROM added")
        added = {tuple(row) for row in (yield Ask(sql, values, whole=True))}
        return [(row[0], row[1]) in added for row in rows]

    def upsert_counts(self, counts: str, rows: list[Row]) -> Script[None]:
        yield Do(
            f"INSERT INTO {counts} AS had (counter, kind, slot, n) "
            "SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) "
            "ON CONFLICT (counter, kind, slot) DO UPDATE SET n = had.n + excluded.n",
            _columns(rows),
        )


def _insert(table: "Table") -> str:
    """The beginning of a statement that inserts rows, given as one array a column, and queues them for indexing."""
    arrays = ", ".join(f"${n}::{_ARRAYS.get(type_, 'text[]')}" for n, type_ in enumerate(table.types, 1))
    picks = ", ".join(f"c{n}::json" if type_ == "json" else f"c{n}" for n, type_ in enumerate(table.types))
    names = ", ".join(f"c{n}" for n in range(len(table.types)))
    return (
        f"WITH added AS (INSERT INTO {table.name} ({', '.join(table.columns)}) "
        f"SELECT {picks} FROM unnest({arrays}) AS given({names}) ON CONFLICT DO NOTHING RETURNING {_key(table)}, rowno), "
        f"queued AS (INSERT INTO {table.index.waiting} (number) SELECT rowno FROM added)"
    )


def _insert_and_count(table: "Table", counters: Counters) -> str:
    """An insert that moves the counters by what went in. Ordered, as all writers take their locks in one order."""
    id_, place = table.columns[:2]
    slot = len(table.columns) + 1
    names = [f"s{axis}" for axis in range(len(counters.names))]
    arrays = ", ".join(f"${slot + 1 + axis}::text[]" for axis in range(len(names)))
    return (
        f"{_insert(table)}, counted AS (INSERT INTO {counters.table} AS had (counter, kind, slot, n) "
        f"SELECT counter, kind, ${slot}::bigint, COUNT(*) FROM added "
        f"JOIN unnest($1::text[], $2::text[], $7::text[], {arrays}) AS given(id, place, kind, {', '.join(names)}) "
        f"ON given.id = added.{id_} AND given.place = added.{place} "
        f"CROSS JOIN LATERAL (VALUES {', '.join(f'({counter})' for counter in names)}) AS listed(counter) "
        'GROUP BY counter, kind ORDER BY counter COLLATE "C", kind COLLATE "C" '
        "ON CONFLICT (counter, kind, slot) DO UPDATE SET n = had.n + excluded.n) "
        f"SELECT {_key(table)} FROM added"
    )


def _key(table: "Table") -> str:
    return f"{table.columns[0]}, {table.columns[1]}"


def _columns(rows: list[Row]) -> list[Any]:
    """Rows as one list for each column."""
    return [list(column) for column in zip(*rows, strict=True)]
