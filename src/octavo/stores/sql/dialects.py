"""What differs between SQLite, PostgreSQL and MySQL/MariaDB, and nothing else."""

import functools
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

import msgspec

from octavo.stores.sql.statements import Ask, Contended, Do, DoEach, Duplicate, Script, T

Row = Sequence[Any]
_encode = msgspec.json.Encoder().encode


class Dialect:
    """One database's spelling of types, placeholders, functions and conflict-ignoring inserts."""

    name: ClassVar[str]
    types: ClassVar[dict[str, str]]
    contains: ClassVar[str]  # a format of column and needle
    lock_rows: ClassVar[str] = " FOR UPDATE"
    no_limit: ClassVar[str]
    unindexed: ClassVar[str] = (
        "{}"  # a format of a text column: the same, but no index is chosen for its sake
    )
    aside: ClassVar[str] = "{}"  # a format of any column where a narrower index is at hand than the one on it
    row_values: ClassVar[bool] = True  # whether (a, b) > (x, y) walks an index
    order_tail: ClassVar[tuple[str, ...]] = ("created_at", "seq")
    counts_later: ClassVar[bool] = (
        False  # whether appends leave the counters to a later sweep over the newest rows
    )

    def quote(self, name: str) -> str:
        return f'"{name}"'

    def hole(self, number: int) -> str:
        """The placeholder of the number-th value, counted from 1."""
        raise NotImplementedError

    def typed_hole(self, number: int, type_: str) -> str:
        """A placeholder where the database cannot tell from its place what it will be given."""
        del type_
        return self.hole(number)

    def one_of(self, column: str, values: Sequence[str], first: int) -> tuple[str, list[Any]]:
        """A test that the column is one of many values, and what to bind from placeholder `first` on."""
        holes = ", ".join(self.hole(first + offset) for offset in range(len(values)))
        return f"{column} IN ({holes})", list(values)

    def readable(self, column: str, type_: str) -> str:
        """The column as it must be selected to come back as the text that was stored."""
        del type_
        return column

    def as_text(self, column: str) -> str:
        """A JSON column as text."""
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
        del name
        yield from ()

    def save(self) -> Script[None]:
        """Commit what was done so far, where the next CREATE would do so anyway."""
        yield from ()

    def hurried(self, script: Script[T]) -> Script[T]:
        """The same script, which gives up when a lock is not to be had within a second."""
        raise NotImplementedError

    def exists(self, table: str) -> Script[bool]:
        raise NotImplementedError

    def insert(
        self, table: str, columns: Sequence[str], types: Sequence[str], rows: list[Row]
    ) -> Script[list[bool]]:
        """Insert what is not there yet; answer for each row whether it went in."""
        raise NotImplementedError

    def upsert_counts(self, table: str, rows: list[Row]) -> Script[None]:
        """Add each n to its counter (shelf, kind, slot)."""
        raise NotImplementedError

    def reworded(self, table: str, versions: str, numbers: Sequence[int]) -> Script[None]:
        """Tell the index of terms, if the table has one, that these rows have another text; here a trigger does so."""
        del table, versions, numbers
        yield from ()

    def removed(self, table: str, versions: str, numbers: Sequence[int]) -> Script[None]:
        """Tell the index of terms, if the table has one, that these rows are gone; here a trigger does so."""
        del table, versions, numbers
        yield from ()


class SQLite(Dialect):
    """SQLite 3.35 or later."""

    name = "sqlite"
    types: ClassVar = {
        "name": "TEXT", "tenant": "TEXT", "place": "TEXT", "text": "TEXT", "json": "TEXT", "time": "TEXT",
        "int": "INTEGER", "flag": "BOOLEAN", "rowno": "INTEGER PRIMARY KEY",
    }  # fmt: skip
    contains = "instr({}, {}) > 0"
    unindexed = "+{}"
    aside = "+{}"  # or it walks all of a place, along the index that also gives the order
    lock_rows = ""  # the transaction holds the only write lock there is
    no_limit = "-1"
    # Row numbers follow the order of commits here, so "not counted yet" is a tail of the table. Counting at once would
    # write three more pages per append and halve the append rate.
    counts_later = True

    def hole(self, number: int) -> str:
        del number
        return "?"

    def one_of(self, column: str, values: Sequence[str], first: int) -> tuple[str, list[Any]]:
        if len(values) <= 64:
            return super().one_of(column, values, first)
        # A statement takes 32,766 values at most; one JSON array holds any number.
        return f"{column} IN (SELECT value FROM json_each({self.hole(first)}))", [_encode(values).decode()]

    def time(self, at: datetime) -> str:
        # Fixed width and always UTC, so that text order is time order; SQLite's own date functions read it too.
        # (`isoformat` on an aware time takes 2.4 µs; this takes 0.3.)
        spelled = _encode(at)[1:-1].decode()
        return spelled if at.microsecond else f"{spelled[:-1]}.000000Z"

    moment = staticmethod(datetime.fromisoformat)  # type: ignore[assignment] # no call in between: it runs per row

    def lock_schema(self, name: str) -> Script[None]:
        del name  # BEGIN IMMEDIATE has done it
        yield from ()

    def exists(self, table: str) -> Script[bool]:
        rows = yield Ask("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,))
        return bool(rows)

    def insert(
        self, table: str, columns: Sequence[str], types: Sequence[str], rows: list[Row]
    ) -> Script[list[bool]]:
        del types
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) ON CONFLICT DO NOTHING"
        if (
            len(rows) > 8
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

    def upsert_counts(self, table: str, rows: list[Row]) -> Script[None]:
        yield DoEach(
            f"INSERT INTO {table} (shelf, kind, slot, n) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (shelf, kind, slot) DO UPDATE SET n = n + excluded.n",
            rows,
        )


_ARRAYS = {"time": "timestamptz[]", "int": "bigint[]", "flag": "boolean[]"}


class PostgreSQL(Dialect):
    """PostgreSQL 12 or later, and what speaks its protocol."""

    name = "postgresql"
    types: ClassVar = {
        "name": 'TEXT COLLATE "C"', "tenant": 'TEXT COLLATE "C"', "place": 'TEXT COLLATE "C"', "text": 'TEXT COLLATE "C"',
        "json": "JSON", "time": "TIMESTAMPTZ", "int": "BIGINT", "flag": "BOOLEAN",
        "rowno": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
    }  # fmt: skip
    contains = "strpos({}, {}) > 0"
    unindexed = "({} || '')"
    no_limit = "ALL"

    def hole(self, number: int) -> str:
        return f"${number}"

    def typed_hole(self, number: int, type_: str) -> str:
        casts = {
            "name": "::text",
            "json": "::text::json",
        }  # text first: what is bound is text, not a JSON value
        return f"${number}{casts.get(type_, '')}"

    def one_of(self, column: str, values: Sequence[str], first: int) -> tuple[str, list[Any]]:
        # One array, because a statement takes 32,767 values at most.
        return f"{column} = ANY(${first}::text[])", [list(values)]

    def readable(self, column: str, type_: str) -> str:
        return f"{column}::text" if type_ == "json" else column

    def as_text(self, column: str) -> str:
        return f"{column}::text"

    def time(self, at: datetime) -> datetime:
        return at

    def moment(self, stored: datetime) -> datetime:
        if (
            stored.tzinfo is None
        ):  # how asyncpg says the last moment there is, which PostgreSQL calls infinity
            return stored.replace(tzinfo=UTC)
        return stored if stored.tzinfo is UTC else stored.astimezone(UTC)

    def lock_schema(self, name: str) -> Script[None]:
        yield Ask("SELECT pg_advisory_xact_lock(hashtext($1))", (name,))

    def hurried(self, script: Script[T]) -> Script[T]:
        yield Do("SET LOCAL lock_timeout = '1s'")
        return (yield from script)

    def exists(self, table: str) -> Script[bool]:
        # A query over the catalogue: to_regclass remembers that a table was not there, even after waiting for its maker.
        sql = "SELECT 1 FROM pg_tables WHERE schemaname = ANY(current_schemas(false)) AND tablename = $1"
        return bool((yield Ask(sql, (table,))))

    def insert(
        self, table: str, columns: Sequence[str], types: Sequence[str], rows: list[Row]
    ) -> Script[list[bool]]:
        sql = self._insert_sql(table, tuple(columns), tuple(types))
        went_in: list[bool] = []
        for chunk in chunks(rows, most_rows=5000):
            added = {
                tuple(row) for row in (yield Ask(sql, [list(column) for column in zip(*chunk, strict=True)]))
            }
            went_in.extend([(row[0], row[1]) in added for row in chunk])
        return went_in

    @staticmethod
    @functools.lru_cache(maxsize=64)
    def _insert_sql(table: str, columns: tuple[str, ...], types: tuple[str, ...]) -> str:
        arrays = ", ".join(f"${n}::{_ARRAYS.get(type_, 'text[]')}" for n, type_ in enumerate(types, 1))
        picks = ", ".join(f"c{n}::json" if type_ == "json" else f"c{n}" for n, type_ in enumerate(types))
        names = ", ".join(f"c{n}" for n in range(len(types)))
        return (
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {picks} FROM unnest({arrays}) AS given({names}) "
            f"ON CONFLICT DO NOTHING RETURNING {columns[0]}, {columns[1]}"
        )

    def upsert_counts(self, table: str, rows: list[Row]) -> Script[None]:
        yield Do(
            f"INSERT INTO {table} AS had (shelf, kind, slot, n) "
            "SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) "
            "ON CONFLICT (shelf, kind, slot) DO UPDATE SET n = had.n + excluded.n",
            [list(column) for column in zip(*rows, strict=True)],
        )


class MySQL(Dialect):
    """MySQL 8 and MariaDB 10.5 or later; `binary` is the server's collation that compares byte for byte."""

    name = "mysql"
    contains = "LOCATE({1}, {0}) > 0"
    no_limit = "18446744073709551615"
    row_values = False  # MySQL reads the whole index for a row comparison
    order_tail = (
        "created_at",
        "seq",
        "id",
        "place",
    )  # without all of them it sorts every match of a LIMIT query

    def __init__(self, binary: str = "utf8mb4_nopad_bin") -> None:
        exact = f"CHARACTER SET utf8mb4 COLLATE {binary}"
        self.types = {  # type: ignore[misc] # depends on the server's flavour
            "name": f"VARCHAR(255) {exact}", "tenant": f"VARCHAR(64) {exact}",
            "place": "VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin", "text": f"LONGTEXT {exact}",
            "json": f"LONGTEXT {exact}", "time": "DATETIME(6)", "int": "BIGINT", "flag": "BOOLEAN",
            "rowno": "BIGINT AUTO_INCREMENT PRIMARY KEY",
        }  # fmt: skip

    def quote(self, name: str) -> str:
        return f"`{name}`"

    def hole(self, number: int) -> str:
        del number
        return "%s"

    def time(self, at: datetime) -> str:
        return at.replace(tzinfo=None).isoformat(" ", "microseconds")

    def moment(self, stored: datetime) -> datetime:
        return stored.replace(tzinfo=UTC)

    def lock_schema(self, name: str) -> Script[None]:
        rows = yield Ask("SELECT GET_LOCK(CONCAT(LEFT(DATABASE(), 30), %s), 60)", (f":{name}",))
        if rows[0][0] != 1:
            raise Contended("another process is changing the schema")

    def unlock_schema(self, name: str) -> Script[None]:
        yield Ask("SELECT RELEASE_LOCK(CONCAT(LEFT(DATABASE(), 30), %s))", (f":{name}",))

    def save(self) -> Script[None]:
        yield Do("COMMIT")

    def hurried(self, script: Script[T]) -> Script[T]:
        waits = "SET SESSION lock_wait_timeout = {0}, SESSION innodb_lock_wait_timeout = {0}"
        yield Do(waits.format(1))
        try:
            return (yield from script)
        finally:
            yield Do(waits.format("DEFAULT"))

    def exists(self, table: str) -> Script[bool]:
        rows = yield Ask(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = %s",
            (table,),
        )
        return bool(rows)

    def insert(
        self, table: str, columns: Sequence[str], types: Sequence[str], rows: list[Row]
    ) -> Script[list[bool]]:
        del types
        went_in: list[bool] = []
        for chunk in chunks(rows, most_rows=500, most_characters=2_000_000):
            went_in += yield from self._insert_chunk(table, columns, chunk)
        return went_in

    def _insert_chunk(self, table: str, columns: Sequence[str], rows: list[Row]) -> Script[list[bool]]:
        """All rows in one statement; when a key is taken, the ones that are not; when that races, one by one.

        A failed statement undoes itself in InnoDB. INSERT IGNORE would also swallow truncation, and how many rows
        ON DUPLICATE KEY UPDATE reports depends on a flag of the connection.
        """
        head = f"INSERT INTO {table} ({', '.join(columns)}) VALUES "
        holes = f"({', '.join(['%s'] * len(columns))})"
        try:
            yield Do(head + ", ".join([holes] * len(rows)), [value for row in rows for value in row])
        except Duplicate:
            pass
        else:
            return [True] * len(rows)
        test, values = self.one_of(columns[0], [row[0] for row in rows], 1)
        taken = {
            tuple(row)
            for row in (yield Ask(f"SELECT {columns[0]}, {columns[1]} FROM {table} WHERE {test}", values))
        }
        went_in = []
        for row in rows:
            try:
                if (row[0], row[1]) not in taken:
                    yield Do(head + holes, row)
                    went_in.append(True)
                    continue
            except Duplicate:
                pass
            went_in.append(False)
        return went_in

    def upsert_counts(self, table: str, rows: list[Row]) -> Script[None]:
        for chunk in chunks(rows, most_rows=1000):
            yield Do(
                f"INSERT INTO {table} (shelf, kind, slot, n) VALUES {', '.join(['(%s, %s, %s, %s)'] * len(chunk))} "
                "ON DUPLICATE KEY UPDATE n = n + VALUES(n)",
                [value for row in chunk for value in row],
            )

    # Triggers would take a privilege that few accounts have where the server keeps a binary log.

    def reworded(self, table: str, versions: str, numbers: Sequence[int]) -> Script[None]:
        if numbers and (yield from self._indexed(table, versions)):
            for start in range(0, len(numbers), 1000):
                some = ", ".join([str(int(number)) for number in numbers[start : start + 1000]])
                yield Do(f"UPDATE {self.quote(table)} SET unindexed = 1 WHERE rowno IN ({some})")

    def removed(self, table: str, versions: str, numbers: Sequence[int]) -> Script[None]:
        if numbers and (yield from self._indexed(table, versions)):
            for start in range(0, len(numbers), 1000):
                some = ", ".join([f"({int(number)})" for number in numbers[start : start + 1000]])
                yield Do(f"INSERT INTO {self.quote(f'{table}_waiting')} (number) VALUES {some}")

    def _indexed(self, table: str, versions: str) -> Script[bool]:
        # Asked after the table was touched, so that nobody can begin an index now; and as it is now, whatever the
        # snapshot of the caller's transaction says.
        sql = f"SELECT version FROM {versions} WHERE name = %s LOCK IN SHARE MODE"
        rows = yield Ask(sql, (f"{table}_terms",))
        return bool(rows) and rows[0][0] > 0


def chunks(rows: list[Row], most_rows: int, most_characters: int | None = None) -> Iterator[list[Row]]:
    """Rows in groups small enough for one statement."""
    chunk: list[Row] = []
    size = 0
    for row in rows:
        weight = sum(len(value) for value in row if isinstance(value, str)) if most_characters else 0
        if chunk and (len(chunk) >= most_rows or (most_characters and size + weight > most_characters)):
            yield chunk
            chunk, size = [], 0
        chunk.append(row)
        size += weight
    if chunk:
        yield chunk
