"""The index of terms of one table: its tables, what waits to be indexed, and how words are looked up.

`<table>_terms` keeps one entry for each record. Beside it SQLite has an FTS5 table over the entries, PostgreSQL a tsvector
with a GIN index, and MySQL a table of postings. All of it is made together with the table. Whoever writes a record only
notes that it waits; the entry is made later (docs/decisions/007-term-index.md).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from octavo.kernel.terms.matching import FOUND_BY_JSON
from octavo.kernel.terms.terms import MOST_CHARACTERS
from octavo.stores.sql.dialects import Row, chunks
from octavo.stores.sql.statements import Ask, Do, DoEach, Script, listed
from octavo.stores.sql.words import Entry, ScopeTags, fts_match, lexemes, token, tokens, tsquery

if TYPE_CHECKING:
    from octavo.stores.sql.schema import Table

_AT_ONCE = 1000  # numbers in one statement


class TermIndex:
    """What all three have in common. The scripts run inside the transaction of whoever calls them."""

    #: What to select from to see every record that waits, and a test of it, if it takes one.
    late: tuple[str, str]
    #: The test of one record, by its number, for waiting.
    waits: str
    #: What a select of claimed records ends with, to read them as they were when claimed.
    as_claimed = ""
    #: Whether the same words of all tenants are found together, so that those of one take a tag as well.
    shared = True

    def __init__(self, table: "Table") -> None:
        quote = table.dialect.quote
        self.table = table
        self.terms = quote(f"{table.plain_name}_terms")
        self.waiting = quote(f"{table.plain_name}_waiting")
        text, data = table.column("text"), table.dialect.as_text(table.column("data"))
        found_by = f"SUBSTR({data}, 1, {len(FOUND_BY_JSON)}) = '{FOUND_BY_JSON}'"
        #: The text a record is found by, as far as terms are made of it, and its data when that says what it is found by.
        self.said = f"SUBSTR({text}, 1, {MOST_CHARACTERS}), CASE WHEN {text} = '' OR {found_by} THEN {data} ELSE '' END"
        parts = [table.column(part) for part in ("tenant", "user", "agent", "session")]
        #: What joins a record's row with its entry, which is `b` then.
        self.joined = f"JOIN {self.terms} AS b ON b.number = rowno"
        #: What an entry is made of.
        self.content = ", ".join(["rowno", *parts, self.said])

    def names(self) -> tuple[str, ...]:
        """The names of all its tables."""
        return (f"{self.table.plain_name}_terms", f"{self.table.plain_name}_waiting")

    def create(self) -> list[str]:
        """The statements that make its tables."""
        raise NotImplementedError

    def queue(self, numbers: Sequence[int]) -> Script[None]:
        """Note that these records have another text than before; new ones are noted without it."""
        raise NotImplementedError

    def claim(self, most: int) -> Script[list[int]]:
        """The numbers of some records that wait, which nobody else indexes until this transaction ends."""
        raise NotImplementedError

    def settle(self, numbers: Sequence[int]) -> Script[None]:
        """Note that what was claimed has been indexed."""
        raise NotImplementedError

    def put(self, entries: list[Entry]) -> Script[None]:
        """Have these entries in place of those that are kept under their numbers."""
        raise NotImplementedError

    def forget(self, numbers: Sequence[int]) -> Script[None]:
        """Remove the entries of records that were removed."""
        raise NotImplementedError

    def candidates(self, values: list[Any], asked: ScopeTags, words: Sequence[str] | None) -> tuple[str, str]:
        """What to select from to see the indexed records of a scope that hold any of the words, and a test of it.

        Without words: all of them. The entry is `b` there, and the record's row beside it. Adds the values it binds.
        """
        raise NotImplementedError

    def holders(self, values: list[Any], asked: ScopeTags, words: Sequence[str] | None) -> tuple[str, str]:
        """The same without the entry, where that is less to read."""
        return self.candidates(values, asked, words)

    def count(
        self, values: list[Any], asked: ScopeTags, words: Sequence[str], but: Sequence[int], most: int
    ) -> str:
        """An expression: how many indexed records of a scope hold any of the words, without some of them; up to `most`."""
        raise NotImplementedError

    def sample(self, asked: ScopeTags, words: Sequence[str], size: int) -> Ask | None:
        """In how many of so many entries each word stands, whichever they are; None where counting all is quick."""
        del asked, words, size
        return None

    def size(self, asked: ScopeTags, most: int) -> Ask:
        """How many indexed records are in a scope, counted up to `most`."""
        raise NotImplementedError

    def lost(self, entries: Sequence[Entry]) -> Script[list[int]]:
        """The numbers of entries that the database's own index does not find by all of their words."""
        del entries
        yield from ()
        return []

    def mend(self) -> Script[None]:
        """Make the database's own index anew from the entries."""
        yield from ()

    def analyze(self) -> Script[None]:
        """Let the planner look at tables that have grown by much: until it does so by itself, it guesses."""
        yield from ()

    def entries(self, numbers: Sequence[int]) -> Script[list[Entry]]:
        """What is kept under these numbers now, whatever the transaction saw before."""
        found: list[Entry] = []
        for start in range(0, len(numbers), _AT_ONCE):
            some = listed(numbers[start : start + _AT_ONCE])
            sql = f"SELECT number, length, bag, more, tags FROM {self.terms} WHERE number IN ({some})"
            found += [Entry(*row) for row in (yield Ask(sql + self.table.dialect.lock_rows))]
        return found

    def bind(self, values: list[Any], value: Any) -> str:
        """Bind one more value; answer its placeholder."""
        values.append(value)
        return self.table.dialect.placeholder(len(values))

    def _delete(self, table: str, numbers: Sequence[int]) -> Script[None]:
        for start in range(0, len(numbers), _AT_ONCE):
            yield Do(f"DELETE FROM {table} WHERE number IN ({listed(numbers[start : start + _AT_ONCE])})")


class SQLiteTerms(TermIndex):
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
        for start in range(0, len(numbers), _AT_ONCE):
            some = listed(numbers[start : start + _AT_ONCE])
            yield Do(
                f"INSERT OR IGNORE INTO {self.waiting} (number) "
                f"SELECT rowno FROM {self.table.name} WHERE rowno IN ({some}) AND rowno <= {self.upto}"
            )

    def claim(self, most: int) -> Script[list[int]]:
        changed = yield Ask(f"SELECT number FROM {self.waiting} LIMIT {int(most)}")
        new = yield Ask(
            f"SELECT rowno FROM {self.table.name} WHERE rowno > {self.upto} ORDER BY rowno LIMIT {most - len(changed)}"
        )
        return [row[0] for row in (*changed, *new)]

    def settle(self, numbers: Sequence[int]) -> Script[None]:
        yield from self._delete(self.waiting, numbers)

    def put(self, entries: list[Entry]) -> Script[None]:
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

    def lost(self, entries: Sequence[Entry]) -> Script[list[int]]:
        lost: list[int] = []
        for one in entries:
            match = '"' + '" AND "'.join(f"{one.tags} {one.bag}".split()) + '"'
            sql = f"SELECT 1 FROM {self.index} WHERE {self.index} MATCH ? AND rowid = ?"
            if not (yield Ask(sql, (match, one.number))):
                lost.append(one.number)
        return lost

    def mend(self) -> Script[None]:
        yield Do(f"INSERT INTO {self.index} ({self.index}) VALUES ('rebuild')")

    def candidates(self, values: list[Any], asked: ScopeTags, words: Sequence[str] | None) -> tuple[str, str]:
        source = (
            f"{self.index} CROSS JOIN {self.terms} AS b ON b.number = {self.index}.rowid "
            f"CROSS JOIN {self.table.name} ON rowno = b.number"
        )
        return source, f"{self.index} MATCH {self.bind(values, fts_match(asked, words))}"

    def holders(self, values: list[Any], asked: ScopeTags, words: Sequence[str] | None) -> tuple[str, str]:
        source = f"{self.index} CROSS JOIN {self.table.name} ON rowno = {self.index}.rowid"
        return source, f"{self.index} MATCH {self.bind(values, fts_match(asked, words))}"

    def count(
        self, values: list[Any], asked: ScopeTags, words: Sequence[str], but: Sequence[int], most: int
    ) -> str:
        test = f"{self.index} MATCH {self.bind(values, fts_match(asked, words))}"
        test += f" AND rowid NOT IN ({listed(but)})" if but else ""
        return f"(SELECT COUNT(*) FROM (SELECT 1 FROM {self.index} WHERE {test} LIMIT {int(most)}))"

    def size(self, asked: ScopeTags, most: int) -> Ask:
        some = f"SELECT 1 FROM {self.index} WHERE {self.index} MATCH ? LIMIT {int(most)}"
        return Ask(f"SELECT COUNT(*) FROM ({some})", (fts_match(asked, None),))


class PostgreSQLTerms(TermIndex):
    """A tsvector of the words as they are, with a GIN index. The insert of a record puts its number into the queue.

    A number in the queue is locked while it is indexed, or removed: who comes second sees what the first has done.
    """

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
        return [row[0] for row in (yield Ask(sql, (most,)))]

    def settle(self, numbers: Sequence[int]) -> Script[None]:
        yield Do(f"DELETE FROM {self.waiting} WHERE number = ANY($1::bigint[])", (list(numbers),))

    def put(self, entries: list[Entry]) -> Script[None]:
        sql = (
            f"INSERT INTO {self.terms} (number, length, bag, more, tags, lexemes) "
            "SELECT n, l, b, m, t, x::tsvector FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], "
            "$6::text[]) AS given(n, l, b, m, t, x) ON CONFLICT (number) DO UPDATE SET length = excluded.length, "
            "bag = excluded.bag, more = excluded.more, tags = excluded.tags, lexemes = excluded.lexemes"
        )
        rows: list[Row] = [(*one, lexemes(one)) for one in entries]
        for chunk in chunks(rows, most_rows=500, most_characters=4_000_000):
            yield Do(sql, [list(column) for column in zip(*chunk, strict=True)])

    def forget(self, numbers: Sequence[int]) -> Script[None]:
        yield from self.settle(numbers)  # first: it waits for whoever is indexing them
        yield Do(f"DELETE FROM {self.terms} WHERE number = ANY($1::bigint[])", (list(numbers),))

    def analyze(self) -> Script[None]:
        # Without statistics a search for a common word took a second now and then, until autovacuum came by.
        for name in (self.terms, self.table.name):
            yield Do(f"ANALYZE {name}")

    def candidates(self, values: list[Any], asked: ScopeTags, words: Sequence[str] | None) -> tuple[str, str]:
        match = self.bind(values, tsquery(asked, words))
        # OFFSET 0 keeps the planner from reading one table or the other as a whole.
        entries = f"SELECT number, length, bag, more FROM {self.terms} WHERE lexemes @@ {match}::text::tsquery OFFSET 0"
        record = f"SELECT * FROM {self.table.name} WHERE rowno = b.number OFFSET 0"
        return f"({entries}) AS b, LATERAL ({record}) AS r", ""

    def count(
        self, values: list[Any], asked: ScopeTags, words: Sequence[str], but: Sequence[int], most: int
    ) -> str:
        test = f"lexemes @@ {self.bind(values, tsquery(asked, words))}::text::tsquery"
        test += f" AND number <> ALL({self.bind(values, list(but))}::bigint[])" if but else ""
        # Materialized, it is planned as if all were wanted: for the first few, the planner would rather read the table.
        held = f"WITH held AS MATERIALIZED (SELECT FROM {self.terms} WHERE {test})"
        return f"({held} SELECT COUNT(*) FROM (SELECT FROM held LIMIT {int(most)}) AS few)"

    def sample(self, asked: ScopeTags, words: Sequence[str], size: int) -> Ask:
        values: list[Any] = []
        tests = [f"lexemes @@ {self.bind(values, tsquery(asked, [word]))}::text::tsquery" for word in words]
        counts = ", ".join([f"COUNT(*) FILTER (WHERE {test})" for test in tests])
        return Ask(
            f"SELECT {counts} FROM (SELECT lexemes FROM {self.terms} LIMIT {int(size)}) AS sampled", values
        )

    def size(self, asked: ScopeTags, most: int) -> Ask:
        some = f"SELECT 1 FROM {self.terms} WHERE lexemes @@ $1::text::tsquery LIMIT {int(most)}"
        return Ask(f"SELECT COUNT(*) FROM ({some}) AS inside", (tsquery(asked, None),))


class MySQLTerms(TermIndex):
    """A table of postings. Each record says itself that it waits, so that an append takes no further statement."""

    # In a caller's transaction of REPEATABLE READ a plain select sees only what was there when the transaction began to
    # read; a claim sees all, and a record claimed but not seen would count as indexed.
    as_claimed = " FOR UPDATE"
    shared = False

    def __init__(self, table: "Table") -> None:
        super().__init__(table)
        self.postings = table.dialect.quote(f"{table.plain_name}_postings")
        self.flagged = table.dialect.quote(f"{table.plain_name}_unindexed")
        self.waits = "unindexed = 1"
        self.late = (f"{table.name} FORCE INDEX ({self.flagged})", self.waits)

    def names(self) -> tuple[str, ...]:
        return (f"{self.table.plain_name}_terms", f"{self.table.plain_name}_postings")

    def create(self) -> list[str]:
        text = self.table.dialect.types["text"]
        return [
            (
                f"CREATE TABLE {self.terms} (number BIGINT PRIMARY KEY, length INTEGER NOT NULL, bag {text} NOT NULL, "
                f"more {text} NOT NULL, tags VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL)"
            ),
            f"CREATE TABLE {self.postings} (token BIGINT NOT NULL, number BIGINT NOT NULL, PRIMARY KEY (token, number))",
        ]

    def queue(self, numbers: Sequence[int]) -> Script[None]:
        yield from self._flag(numbers, 1)

    def claim(self, most: int) -> Script[list[int]]:
        source, test = self.late
        # Rows that somebody is writing now are left for later: waiting for a caller's transaction could take for ever.
        sql = f"SELECT rowno FROM {source} WHERE {test} LIMIT {int(most)} FOR UPDATE SKIP LOCKED"
        return [row[0] for row in (yield Ask(sql))]

    def settle(self, numbers: Sequence[int]) -> Script[None]:
        yield from self._flag(numbers, 0)

    def _flag(self, numbers: Sequence[int], flag: int) -> Script[None]:
        for start in range(0, len(numbers), _AT_ONCE):
            some = listed(numbers[start : start + _AT_ONCE])
            yield Do(f"UPDATE {self.table.name} SET unindexed = {flag} WHERE rowno IN ({some})")

    def put(self, entries: list[Entry]) -> Script[None]:
        yield from self.forget([one.number for one in entries])
        most = (self.table.dialect.most_bytes or 0) // 8
        for chunk in chunks(list(entries), most_rows=500, most_characters=most):
            yield Do(
                f"INSERT INTO {self.terms} (number, length, bag, more, tags) VALUES "
                f"{', '.join(['(%s, %s, %s, %s, %s)'] * len(chunk))}",
                [value for row in chunk for value in row],
            )
        # In the order of the key: neighbours share a page.
        postings = sorted([(found, one.number) for one in entries for found in tokens(one)])
        for start in range(0, len(postings), 5 * _AT_ONCE):
            some = ", ".join(
                [f"({found}, {number})" for found, number in postings[start : start + 5 * _AT_ONCE]]
            )
            # One that should not be there is no reason to fail.
            yield Do(
                f"INSERT INTO {self.postings} (token, number) VALUES {some} ON DUPLICATE KEY UPDATE token = token"
            )

    def forget(self, numbers: Sequence[int]) -> Script[None]:
        old = yield from self.entries(numbers)
        for one in old:
            held = sorted(tokens(one))
            for start in range(0, len(held), _AT_ONCE):
                some = listed(held[start : start + _AT_ONCE])
                yield Do(
                    f"DELETE FROM {self.postings} WHERE number = {int(one.number)} AND token IN ({some})"
                )
        yield from self._delete(self.terms, [one.number for one in old])

    def candidates(self, values: list[Any], asked: ScopeTags, words: Sequence[str] | None) -> tuple[str, str]:
        del values  # numbers need no placeholder
        if words is None:
            found = f"SELECT number FROM {self.postings} WHERE token = {token(asked.tags[0])}"
        else:
            held = listed(sorted(token(asked.tenant, word) for word in words))
            found = f"SELECT DISTINCT number FROM {self.postings} WHERE token IN ({held})"
        source = f"({found}) AS p"
        if words is not None and asked.tags[0] != asked.tenant:
            # Looked up before the records, which are wide.
            tag = token(asked.tags[0])
            source += f" STRAIGHT_JOIN {self.postings} AS g ON g.token = {tag} AND g.number = p.number"
        source += f" STRAIGHT_JOIN {self.terms} AS b ON b.number = p.number"
        return f"{source} STRAIGHT_JOIN {self.table.name} ON rowno = p.number", ""

    def count(
        self, values: list[Any], asked: ScopeTags, words: Sequence[str], but: Sequence[int], most: int
    ) -> str:
        del values
        held = listed(sorted(token(asked.tenant, word) for word in words))
        source, test = f"{self.postings} AS p", f"p.token IN ({held})"
        for at, tag in enumerate(asked.tags if asked.tags != (asked.tenant,) else ()):
            source += f" STRAIGHT_JOIN {self.postings} AS g{at} ON g{at}.token = {token(tag)} AND g{at}.number = p.number"
        test += f" AND p.number NOT IN ({listed(but)})" if but else ""
        picked = "DISTINCT p.number" if len(words) > 1 else "1"
        return (
            f"(SELECT COUNT(*) FROM (SELECT {picked} FROM {source} WHERE {test} LIMIT {int(most)}) AS held)"
        )

    def size(self, asked: ScopeTags, most: int) -> Ask:
        some = f"SELECT 1 FROM {self.postings} WHERE token = {token(asked.tags[0])} LIMIT {int(most)}"
        return Ask(f"SELECT COUNT(*) FROM ({some}) AS inside")


INDEXES: dict[str, type[TermIndex]] = {
    "sqlite": SQLiteTerms,
    "postgresql": PostgreSQLTerms,
    "mysql": MySQLTerms,
}
