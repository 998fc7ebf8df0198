"""PostgreSQL, as far as it differs from the other databases."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from octavo.errors import StoreError, StoreUnavailable
from octavo.stores.sql.dialects import Counters, Dialect, Row, chunks
from octavo.stores.sql.statements import ConnectionLost, Contended, Do, Duplicate, Fetch, Script
from octavo.stores.sql.term_index import IndexedRecord, ScopeTags, SqlTermIndex

if TYPE_CHECKING:
    from octavo.stores.sql.schema import Table

_MOST_BYTES = 1_000_000  # of the words in one tsvector, which ends at 1 MiB
_ARRAYS = {"time": "timestamptz[]", "int": "bigint[]", "flag": "boolean[]"}


class PostgreSQLTerms(SqlTermIndex):
    """A tsvector of the words as they are, with a GIN index. The insert of a record puts its number into the queue.

    A number in the queue is locked while it is indexed, or removed: who comes second sees what the first has done.
    """

    as_queued = " FOR KEY SHARE"

    def __init__(self, table: "Table") -> None:
        super().__init__(table)
        # OFFSET 0 keeps the planner from reading the whole table to find a few numbers of it.
        source = (
            f"(SELECT number FROM {self.waiting} OFFSET 0) AS w, "
            f"LATERAL (SELECT * FROM {table.name} WHERE rowno = w.number OFFSET 0) AS r"
        )
        self.late = (source, "")
        self.joined = f"CROSS JOIN LATERAL (SELECT length, bag, more FROM {self.terms} WHERE number = rowno OFFSET 0) AS b"
        self.waits = f"EXISTS (SELECT 1 FROM {self.waiting} WHERE number = rowno)"

    def create(self) -> list[str]:
        text = self.table.dialect.types["text"]
        by_lexeme = self.table.dialect.quote(f"{self.table.plain_name}_by_lexeme")
        return [
            (
                f"CREATE TABLE {self.terms} (number BIGINT PRIMARY KEY, length INTEGER NOT NULL, bag {text} NOT NULL, "
                f"more {text} NOT NULL, tags {text} NOT NULL, lexemes TSVECTOR NOT NULL)"
            ),
            f"CREATE INDEX {by_lexeme} ON {self.terms} USING GIN (lexemes) WITH (fastupdate = off)",
            f"CREATE TABLE {self.waiting} (number BIGINT PRIMARY KEY)",
        ]

    def queue(self, numbers: Sequence[int]) -> Script[None]:
        yield Do(
            f"INSERT INTO {self.waiting} (number) SELECT unnest($1::bigint[]) "
            "ON CONFLICT (number) DO UPDATE SET number = excluded.number",
            (sorted(numbers),),
        )

    def claim(self, most: int) -> Script[list[int]]:
        # What somebody is writing now is left for later: waiting for a caller's transaction could take for ever.
        sql = f"SELECT number FROM {self.waiting} ORDER BY number LIMIT $1 FOR UPDATE SKIP LOCKED"
        return [row[0] for row in (yield Fetch(sql, (most,)))]

    def settle(self, numbers: Sequence[int]) -> Script[None]:
        yield Do(f"DELETE FROM {self.waiting} WHERE number = ANY($1::bigint[])", (list(numbers),))

    def put(self, entries: list[IndexedRecord]) -> Script[None]:
        sql = (
            f"INSERT INTO {self.terms} (number, length, bag, more, tags, lexemes) "
            "SELECT n, l, b, m, t, x::tsvector FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], "
            "$6::text[]) AS given(n, l, b, m, t, x) ON CONFLICT (number) DO UPDATE SET length = excluded.length, "
            "bag = excluded.bag, more = excluded.more, tags = excluded.tags, lexemes = excluded.lexemes"
        )
        rows: list[Row] = [(*one, _lexemes(one)) for one in entries]
        for chunk in chunks(rows, most_rows=500, most_characters=4_000_000):
            yield Do(sql, _columns(chunk))

    def forget(self, numbers: Sequence[int]) -> Script[None]:
        yield from self.settle(numbers)  # first: it waits for whoever is indexing them
        yield Do(f"DELETE FROM {self.terms} WHERE number = ANY($1::bigint[])", (list(numbers),))

    def analyze(self) -> Script[None]:
        # Without statistics a search for a common word took a second now and then, until autovacuum came by.
        for name in (self.terms, self.table.name):
            yield Do(f"ANALYZE {name}")

    def candidates(self, values: list[Any], asked: ScopeTags, words: Sequence[str] | None) -> tuple[str, str]:
        match = self.bind(values, _tsquery(asked, words))
        # OFFSET 0 keeps the planner from reading one table or the other as a whole.
        entries = f"SELECT number, length, bag, more FROM {self.terms} WHERE lexemes @@ {match}::text::tsquery OFFSET 0"
        record = f"SELECT * FROM {self.table.name} WHERE rowno = b.number OFFSET 0"
        return f"({entries}) AS b, LATERAL ({record}) AS r", ""

    def count(
        self, values: list[Any], asked: ScopeTags, words: Sequence[str], but: Sequence[int], most: int
    ) -> str:
        test = f"lexemes @@ {self.bind(values, _tsquery(asked, words))}::text::tsquery"
        test += f" AND number <> ALL({self.bind(values, list(but))}::bigint[])" if but else ""
        # Materialized, it is planned as if all were wanted: for the first few, the planner would rather read the table.
        held = f"WITH held AS MATERIALIZED (SELECT FROM {self.terms} WHERE {test})"
        return f"({held} SELECT COUNT(*) FROM (SELECT FROM held LIMIT {int(most)}) AS few)"

    def estimate(self, words: Sequence[str]) -> Fetch:
        # What the last ANALYZE saw: to count a word that a tenth of a million entries hold, all of those are read.
        sql = (
            "SELECT word, share * entries.reltuples FROM pg_class AS entries "
            "JOIN pg_namespace AS home ON home.oid = entries.relnamespace "
            "JOIN pg_stats AS seen ON seen.schemaname = home.nspname AND seen.tablename = entries.relname, "
            "LATERAL unnest(seen.most_common_elems::text::text[], seen.most_common_elem_freqs) AS common(word, share) "
            "WHERE entries.oid = to_regclass($1) AND seen.attname = 'lexemes' AND word = ANY($2::text[])"
        )
        return Fetch(sql, (self.terms, list(words)))

    def size(self, asked: ScopeTags, most: int) -> Fetch:
        some = f"SELECT 1 FROM {self.terms} WHERE lexemes @@ $1::text::tsquery LIMIT {int(most)}"
        return Fetch(f"SELECT COUNT(*) FROM ({some}) AS inside", (_tsquery(asked, None),))


class PostgreSQL(Dialect):
    """PostgreSQL 12 or later, and what speaks its protocol."""

    name = "postgresql"
    terms = PostgreSQLTerms
    scrubs = "VACUUM"
    unreached = (
        "the server's write-ahead log, until it is recycled",
        "free room inside the server's pages, until it is written over (VACUUM FULL writes the tables anew)",
    )
    types: ClassVar = {
        "name": 'TEXT COLLATE "C"', "tenant": 'TEXT COLLATE "C"', "digest": 'TEXT COLLATE "C"', "text": 'TEXT COLLATE "C"',
        "json": "JSON", "time": "TIMESTAMPTZ", "int": "BIGINT", "flag": "BOOLEAN",
        "rowno": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
    }  # fmt: skip
    # JSON by way of text: what is bound is text, not a JSON value.
    casts: ClassVar = {"name": "::text", "json": "::text::json"}
    contains = "strpos({}, {}) > 0"
    hidden_equal = "({} = {}) IS TRUE"  # the planner still knows how many rows that is
    hidden_time = "({} + INTERVAL '0')"
    no_limit = "ALL"
    most_counted = 5000

    def placeholder(self, number: int) -> str:
        return f"${number}"

    def one_of(self, column: str, values: Sequence[str], first: int) -> tuple[str, list[Any]]:
        # One array, because a statement takes 32,767 values at most.
        return f"{column} = ANY(${first}::text[])", [list(values)]

    def as_text(self, column: str) -> str:
        return f"{column}::text"

    def time(self, at: datetime) -> datetime:
        return at

    def moment(self, stored: datetime) -> datetime:
        if stored.tzinfo is None:  # so asyncpg says the last moment there is, which PostgreSQL calls infinity
            return stored.replace(tzinfo=UTC)
        return stored if stored.tzinfo is UTC else stored.astimezone(UTC)

    def lock_schema(self, name: str) -> Script[None]:
        yield Fetch("SELECT pg_advisory_xact_lock(hashtext($1))", (name,))

    def exists(self, table: str) -> Script[bool]:
        # A query over the catalogue: to_regclass remembers that a table was not there, even after waiting for its maker.
        sql = "SELECT 1 FROM pg_tables WHERE schemaname = ANY(current_schemas(false)) AND tablename = $1"
        return bool((yield Fetch(sql, (table,))))

    def insert(self, table: "Table", rows: list[Row], counters: Counters | None = None) -> Script[list[bool]]:
        if counters is not None and len(rows) == 1:
            sql = table.statement("insert one", lambda: _insert_one(table, counters))
            moved = [counters.slot, *[axis[0] for axis in counters.names]] if counters.names else []
            return [bool((yield Fetch(sql, [*rows[0], *moved], whole=True)))]
        moves = counters if counters is not None and counters.names else None
        sql = table.statement(("insert", moves is not None), lambda: _insert(table, moves))
        went_in: list[bool] = []
        for chunk in chunks(rows, most_rows=self.most_counted):
            values = _columns(chunk) + ([moves.slot, *moves.names] if moves is not None else [])
            added = {tuple(row) for row in (yield Fetch(sql, values, whole=counters is not None))}
            went_in.extend([(row[0], row[1]) in added for row in chunk])
        return went_in

    def upsert_counts(self, counts: str, rows: list[Row]) -> Script[None]:
        yield Do(
            f"INSERT INTO {counts} AS had (counter, kind, slot, n) "
            "SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) "
            "ON CONFLICT (counter, kind, slot) DO UPDATE SET n = had.n + excluded.n",
            _columns(rows),
        )


def _insert(table: "Table", counters: Counters | None) -> str:
    """The statement that inserts rows, given as one array a column, queues them for indexing, and moves the counters."""
    id_, scope_key = table.columns[:2]
    arrays = ", ".join(f"${n}::{_ARRAYS.get(type_, 'text[]')}" for n, type_ in enumerate(table.types, 1))
    picks = ", ".join(f"c{n}::json" if type_ == "json" else f"c{n}" for n, type_ in enumerate(table.types))
    names = ", ".join(f"c{n}" for n in range(len(table.types)))
    counted = "" if counters is None else f", counted AS ({_count(table, counters)})"
    return (
        f"WITH added AS (INSERT INTO {table.name} ({', '.join(table.columns)}) "
        f"SELECT {picks} FROM unnest({arrays}) AS given({names}) ON CONFLICT DO NOTHING RETURNING {id_}, {scope_key}, rowno), "
        f"queued AS (INSERT INTO {table.index.waiting} (number) SELECT rowno FROM added)"
        f"{counted} SELECT {id_}, {scope_key} FROM added"
    )


def _count(table: "Table", counters: Counters) -> str:
    """Move the counters by what was added. Ordered, as all writers take their locks in one order."""
    id_, scope_key = table.columns[:2]
    slot = len(table.columns) + 1
    names = [f"s{axis}" for axis in range(len(counters.names))]
    arrays = ", ".join(f"${slot + 1 + axis}::text[]" for axis in range(len(names)))
    return (
        f"INSERT INTO {counters.table} AS had (counter, kind, slot, n) "
        f"SELECT counter, kind, ${slot}::bigint, COUNT(*) FROM added "
        f"JOIN unnest($1::text[], $2::text[], $7::text[], {arrays}) AS given(id, scope_key, kind, {', '.join(names)}) "
        f"ON given.id = added.{id_} AND given.scope_key = added.{scope_key} "
        f"CROSS JOIN LATERAL (VALUES {', '.join(f'({counter})' for counter in names)}) AS listed(counter) "
        'GROUP BY counter, kind ORDER BY counter COLLATE "C", kind COLLATE "C" '
        "ON CONFLICT (counter, kind, slot) DO UPDATE SET n = had.n + excluded.n"
    )


def _insert_one(table: "Table", counters: Counters) -> str:
    """The same for a single row, without arrays: they take the driver and the server longer than the row does."""
    types = {"time": "timestamptz", "int": "bigint", "flag": "boolean", "json": "text::json"}
    values = ", ".join(f"${n}::{types.get(type_, 'text')}" for n, type_ in enumerate(table.types, 1))
    sql = (
        f"WITH added AS (INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({values}) "
        f"ON CONFLICT DO NOTHING RETURNING rowno), "
        f"queued AS (INSERT INTO {table.index.waiting} (number) SELECT rowno FROM added)"
    )
    if counters.names:
        slot = len(table.columns) + 1
        listed = ", ".join(f"(${slot + 1 + axis}::text)" for axis in range(len(counters.names)))
        sql += (
            f", counted AS (INSERT INTO {counters.table} AS had (counter, kind, slot, n) "
            f"SELECT counter, $7::text, ${slot}::bigint, 1 FROM added CROSS JOIN (VALUES {listed}) AS listed(counter) "
            'ORDER BY counter COLLATE "C" ON CONFLICT (counter, kind, slot) DO UPDATE SET n = had.n + excluded.n)'
        )
    return f"{sql} SELECT rowno FROM added"


def _columns(rows: list[Row]) -> list[Any]:
    """Rows as one list for each column."""
    return [list(column) for column in zip(*rows, strict=True)]


def _tsquery(asked: ScopeTags, words: Sequence[str] | None) -> str:
    """What is looked up: any of the words together with all tags, none of which holds a quote."""
    held = [] if words is None else ["('" + "' | '".join(words) + "')"]
    return " & ".join([*[f"'{each}'" for each in asked.tags + asked.words], *held])


def _lexemes(one: IndexedRecord) -> str:
    """An entry's words and tags as the text of a tsvector; none of them holds a quote or a backslash."""
    words = one.bag.strip(" ")
    if len(words) * 4 > _MOST_BYTES:
        words = words.encode()[:_MOST_BYTES].decode(errors="ignore")
    return "'" + f"{one.tags} {words}".rstrip(" ").replace(" ", "' '") + "'"


def error_of(state: str, message: str) -> StoreError:
    """The error that a state of PostgreSQL stands for."""
    if state == "23505":  # a unique key
        return Duplicate(message)
    if state in ("40001", "40P01", "55P03"):
        return Contended(message)
    # A server that is going, gone, not there yet, or a standby that takes no writes.
    if state[:2] == "08" or state[:3] == "57P" or state == "25006":
        return ConnectionLost(message)
    # Memory, disk or connections that have run out; a statement that was broken off.
    return StoreUnavailable(message) if state[:2] == "53" or state == "57014" else StoreError(message)
