"""What differs between SQLite, PostgreSQL and MySQL/MariaDB, and nothing else."""

import functools
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

import msgspec

from octavo.stores.sql.dialect import Counters, Dialect, Row, chunks
from octavo.stores.sql.mysql_dialect import MySQL
from octavo.stores.sql.statements import Ask, Do, DoEach, Script, T

__all__ = ["Dialect", "MySQL", "PostgreSQL", "Row", "SQLite", "chunks"]

_encode = msgspec.json.Encoder().encode


class SQLite(Dialect):
    """SQLite 3.35 or later, with its JSON functions: all have them since 3.38."""

    name = "sqlite"
    types: ClassVar = {
        "name": "TEXT", "tenant": "TEXT", "place": "TEXT", "text": "TEXT", "json": "TEXT", "time": "TEXT",
        "int": "INTEGER", "flag": "BOOLEAN", "rowno": "INTEGER PRIMARY KEY",
    }  # fmt: skip
    contains = "instr({}, {}) > 0"
    unindexed = "+{}"
    aside = "+{}"  # or it walks all of a place, along the index that also gives the order
    sorted_late = "+{}"
    lock_rows = ""  # the transaction holds the only write lock there is
    no_limit = "-1"
    # Row numbers follow the order of commits here, so "not counted yet" is a tail of the table. Counting at once would
    # write three more pages per append and halve the append rate.
    counts_later = True
    most_whole = 1
    # The rows stay in order: SQLite neither merges a query that sorts into one that adds up, nor drops its order.
    listed = "SELECT CAST('[' || group_concat(one, ',') || ']' AS BLOB) FROM ({})"

    def hole(self, number: int) -> str:
        del number
        return "?"

    def one_of(self, column: str, values: Sequence[str], first: int) -> tuple[str, list[Any]]:
        if len(values) <= 64:
            return super().one_of(column, values, first)
        # A statement takes 32,766 values at most; one JSON array holds any number.
        return f"{column} IN (SELECT value FROM json_each({self.hole(first)}))", [_encode(values).decode()]

    def spelled(self, collection: str, columns: Mapping[str, str], parts: Sequence[str]) -> str:
        of = {name: f"json_quote({column})" for name, column in columns.items()}
        scope = ",".join([f'"{part}":%s' for part in parts])
        # In the order of Record's fields and without the empty ones: so it is decoded fastest.
        form = (
            f'{{"collection":"{collection}","id":%s,"kind":%s,"scope":{"{" if parts else ""}{scope}%s%s,"data":%s,'
            '"metadata":%s%s,"created_at":"%s","updated_at":"%s"%s,"seq":%s}'
        )
        given = [
            of["id"],
            of["kind"],
            *(f"CASE {columns[part]} WHEN '' THEN 'null' ELSE {of[part]} END" for part in parts),
            self.hole(1),
            f"CASE {columns['text']} WHEN '' THEN '' ELSE ',\"text\":' || {of['text']} END",
            columns["data"],
            columns["metadata"],
            f"CASE {columns['marks']} WHEN '' THEN '' ELSE ',\"marks\":' || {columns['marks']} END",
            columns["created_at"],
            columns["updated_at"],
            f"',\"expires_at\":\"' || {columns['expires_at']} || '\"'",
            columns["seq"],
        ]
        return f"printf('{form}', {', '.join(given)}) AS one"

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
        self, table: str, columns: tuple[str, ...], types: tuple[str, ...], rows: list[Row]
    ) -> Script[list[bool]]:
        del types
        sql = self._insert_sql(table, columns)
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

    def insert_whole(
        self,
        table: str,
        columns: tuple[str, ...],
        types: tuple[str, ...],
        rows: list[Row],
        counters: Counters,
    ) -> Script[list[bool]]:
        del types, counters  # counted later
        return [(yield Do(self._insert_sql(table, columns), rows[0], whole=True)) == 1]

    @staticmethod
    @functools.lru_cache(maxsize=64)
    def _insert_sql(table: str, columns: tuple[str, ...]) -> str:
        holes = ", ".join("?" * len(columns))
        return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({holes}) ON CONFLICT DO NOTHING"

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
    sorted_late = "({} + INTERVAL '0')"
    no_limit = "ALL"
    most_whole = 5000

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
        self, table: str, columns: tuple[str, ...], types: tuple[str, ...], rows: list[Row]
    ) -> Script[list[bool]]:
        sql = self._insert_sql(table, columns, types)
        went_in: list[bool] = []
        for chunk in chunks(rows, most_rows=self.most_whole):
            added = {tuple(row) for row in (yield Ask(sql, _turned(chunk)))}
            went_in.extend([(row[0], row[1]) in added for row in chunk])
        return went_in

    def insert_whole(
        self,
        table: str,
        columns: tuple[str, ...],
        types: tuple[str, ...],
        rows: list[Row],
        counters: Counters,
    ) -> Script[list[bool]]:
        sql = self._insert_sql(table, columns, types)
        values: list[Any] = _turned(rows)
        if counters.shelves:
            sql = self._counted_sql(sql, columns, counters.table, len(counters.shelves))
            values += [counters.slot, *counters.shelves]
        added = {tuple(row) for row in (yield Ask(sql, values, whole=True))}
        return [(row[0], row[1]) in added for row in rows]

    @staticmethod
    @functools.lru_cache(maxsize=64)
    def _counted_sql(insert: str, columns: tuple[str, ...], counts: str, axes: int) -> str:
        """An insert that moves the counters by what went in. Ordered, as all writers take their locks in one order."""
        id_, place = columns[:2]
        slot = len(columns) + 1
        shelves = [f"s{axis}" for axis in range(axes)]
        arrays = ", ".join(f"${slot + 1 + axis}::text[]" for axis in range(axes))
        return (
            f"WITH added AS ({insert}), counted AS (INSERT INTO {counts} AS had (shelf, kind, slot, n) "
            f"SELECT shelf, kind, ${slot}::bigint, COUNT(*) FROM added "
            f"JOIN unnest($1::text[], $2::text[], $7::text[], {arrays}) AS given(id, place, kind, {', '.join(shelves)}) "
            f"ON given.id = added.{id_} AND given.place = added.{place} "
            f"CROSS JOIN LATERAL (VALUES {', '.join(f'({shelf})' for shelf in shelves)}) AS listed(shelf) "
            'GROUP BY shelf, kind ORDER BY shelf COLLATE "C", kind COLLATE "C" '
            "ON CONFLICT (shelf, kind, slot) DO UPDATE SET n = had.n + excluded.n) "
            f"SELECT {id_}, {place} FROM added"
        )

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
            _turned(rows),
        )


def _turned(rows: list[Row]) -> list[list[Any]]:
    """Rows as columns."""
    return [list(column) for column in zip(*rows, strict=True)]
