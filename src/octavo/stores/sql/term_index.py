"""The index of terms of one table: what it keeps of a record, what waits to be indexed, and how words are looked up.

`<table>_terms` keeps one entry for each record. In SQLite it is an FTS5 table, in PostgreSQL it has a tsvector with a GIN
index, and MySQL has a table of postings beside it. All of it is made together with the table. Whoever writes a record only
notes that it waits; the entry is made later (docs/decisions/007-term-index.md).

A word is a term as it stands, when that is letters and digits; anything else is a digest of it. A tag names one part of
a scope together with its tenant: a record has four of them, a search asks for those of the parts it names.
"""

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import msgspec

from octavo.kernel.model import NAMES_HELD, Scope
from octavo.kernel.terms.matching import content
from octavo.kernel.terms.terms import MOST_CHARACTERS, terms
from octavo.stores.sql.dialects import Row, chunks
from octavo.stores.sql.statements import PAUSE_CHARACTERS, Ask, Do, DoEach, Pause, Script, listed

if TYPE_CHECKING:
    from octavo.stores.sql.schema import Table

_MOST_BYTES = 1_000_000  # of the words in one tsvector, which ends at 1 MiB
_AT_ONCE = 1000  # numbers in one statement
# Upper case is left out because SQLite's tokenizer would fold it; surrogates because no driver can send them.
_PLAIN = re.compile(r"[a-z0-9\x80-\ud7ff\ue000-\U0010ffff]{1,64}").fullmatch
_data = msgspec.json.Decoder().decode


class Entry(NamedTuple):
    """One record in the index; its words each once, between single spaces, and those that repeat once more."""

    number: int
    length: int
    bag: str
    more: str
    tags: str


def entry(number: int, scope: tuple[str, str, str, str], text: str, data: str) -> Entry:
    """The entry of a record, from what its table keeps."""
    words = [spelled(term) for term in terms(text or content("", _data(data)))]
    distinct = dict.fromkeys(words)
    more = ""
    if len(distinct) < len(words):
        seen: set[str] = set()
        more = " ".join([word for word in words if word in seen or seen.add(word)])  # type: ignore[func-returns-value]
    return Entry(number, len(words), f" {' '.join(distinct)} ", more, " ".join(tags(*scope)))


def entries_of(rows: Sequence[Row]) -> Script[list[Entry]]:
    """The entries of records, of which an index's `content` was read."""
    made = []
    work = 0
    for number, tenant, user, agent, session, text, data in rows:
        made.append(entry(number, (tenant, user, agent, session), text, data))
        if (work := work + len(text) + len(data)) > PAUSE_CHARACTERS:
            work = 0
            yield Pause()
    return made


def spelled(term: str) -> str:
    """The word that stands for a term."""
    return term if _PLAIN(term) else f"~{_digest(term, 12)}"


@lru_cache(maxsize=NAMES_HELD)
def tags(tenant: str, user: str, agent: str, session: str) -> tuple[str, str, str, str]:
    """The four tags of a record: of its tenant, user, agent and session; one it does not have is a tag as well."""
    parts = (("u", user), ("a", agent), ("s", session))
    user_, agent_, session_ = (f"~{letter}{_digest(tenant + chr(0) + part)}" for letter, part in parts)
    return f"~t{_digest(tenant)}", user_, agent_, session_


class ScopeTags(NamedTuple):
    """What a search is about: the tag of its tenant, and the tags that all records inside its scope have."""

    tenant: str
    tags: tuple[str, ...]  # the narrowest first


def scope_tags(scope: Scope) -> ScopeTags:
    """The tags to look for; that of the tenant is in every other one, and stands alone only."""
    of_tenant, *parts = tags(scope.tenant, scope.user or "", scope.agent or "", scope.session or "")
    given = (scope.user, scope.agent, scope.session)
    named = [tag for tag, part in zip(parts, given, strict=True) if part is not None]
    return ScopeTags(of_tenant, tuple(named[::-1]) or (of_tenant,))


class TermIndex:
    """What all three have in common. The scripts run inside the transaction of whoever calls them."""

    late: str  # what to select from to see every record that waits, up to its WHERE and a test
    waiting = ""  # the table of numbers that wait, in PostgreSQL
    join: ClassVar[str] = "JOIN"  # joins two tables in this order
    beside: ClassVar[tuple[str, ...]] = ()  # the ends of the names of its other tables

    def __init__(self, table: "Table") -> None:
        quote = table.dialect.quote
        self.table = table
        self.terms = quote(f"{table.plain_name}_terms")
        self.entries = self.terms  # what to select entries from
        text, data = table.column("text"), table.dialect.as_text(table.column("data"))
        #: The text a record is found by, as far as terms are made of it, and its data when there is no text.
        self.said = f"SUBSTR({text}, 1, {MOST_CHARACTERS}), CASE WHEN {text} = '' THEN {data} ELSE '' END"
        parts = [table.column(part) for part in ("tenant", "user", "agent", "session")]
        self.content = ", ".join(["rowno", *parts, self.said])  # what an entry is made of

    def names(self) -> list[str]:
        """The names of all its tables."""
        return [f"{self.table.plain_name}_{name}" for name in ("terms", *self.beside)]

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

    def numbers(self, values: list[Any], asked: ScopeTags, words: Sequence[str] | None) -> str:
        """A select of the numbers of the indexed records in a scope that hold any of the words; without words, of all.

        Adds the values it binds.
        """
        raise NotImplementedError

    def candidates(self, values: list[Any], asked: ScopeTags, words: Sequence[str] | None) -> str:
        """What to select from to see those records: the entry is `b` there, and the record's row beside it."""
        numbers = self.numbers(values, asked, words)
        entries = f"({numbers}) AS m {self.join} {self.entries} AS b ON b.number = m.number"
        return f"{entries} {self.join} {self.table.name} ON rowno = b.number"

    def index(self, numbers: Sequence[int]) -> Script[None]:
        """Make the entries of these records as they are now."""
        for start in range(0, len(numbers), _AT_ONCE):
            some = listed(numbers[start : start + _AT_ONCE])
            rows = yield Ask(f"SELECT {self.content} FROM {self.table.name} WHERE rowno IN ({some})")
            yield from self.put((yield from entries_of(rows)))

    def mend(self) -> Script[None]:
        """Make the database's own index anew from the entries."""
        yield from ()

    def analyze(self) -> Script[None]:
        """Let the planner look at tables that have grown by much: until it does so by itself, it guesses."""
        yield from ()

    def bind(self, values: list[Any], value: Any) -> str:
        """Bind one more value; answer its placeholder."""
        values.append(value)
        return self.table.dialect.placeholder(len(values))


class SQLiteTerms(TermIndex):
    """An FTS5 table. Row numbers follow the order of commits, so all rows after the last entry wait.

    What is changed before that row gets its new entry in the same transaction.
    """

    join = "CROSS JOIN"

    def __init__(self, table: "Table") -> None:
        super().__init__(table)
        kept = table.dialect.quote(f"{table.plain_name}_terms_content")  # where FTS5 keeps what it was given
        self.entries = f"(SELECT id AS number, c0 AS length, c1 AS bag, c2 AS more, c3 AS tags FROM {kept})"
        self.upto = f"(SELECT COALESCE(MAX(id), 0) FROM {kept})"
        self.late = f"{table.name} NOT INDEXED WHERE rowno > {self.upto}"

    def create(self) -> list[str]:
        # Neither positions nor columns nor sizes are asked for: without them the index is a fifth of the size.
        slim = "detail=none, columnsize=0, tokenize=\"ascii tokenchars '~'\""
        fields = "length UNINDEXED, bag, more UNINDEXED, tags"
        return [f"CREATE VIRTUAL TABLE {self.terms} USING fts5({fields}, {slim})"]

    def queue(self, numbers: Sequence[int]) -> Script[None]:
        # Only up to the last entry: an entry of a later row would make all between them look indexed.
        [[upto]] = yield Ask(f"SELECT {self.upto}")
        yield from self.index([number for number in numbers if number <= upto])

    def claim(self, most: int) -> Script[list[int]]:
        rows = yield Ask(f"SELECT rowno FROM {self.late} ORDER BY rowno LIMIT {int(most)}")
        return [row[0] for row in rows]

    def settle(self, numbers: Sequence[int]) -> Script[None]:
        del numbers  # what has an entry does not wait
        yield from ()

    def put(self, entries: list[Entry]) -> Script[None]:
        yield from self.forget([one.number for one in entries])
        fields = "rowid, length, bag, more, tags"
        yield DoEach(f"INSERT INTO {self.terms} ({fields}) VALUES (?, ?, ?, ?, ?)", entries)

    def forget(self, numbers: Sequence[int]) -> Script[None]:
        yield DoEach(f"DELETE FROM {self.terms} WHERE rowid = ?", [(number,) for number in numbers])

    def mend(self) -> Script[None]:
        yield Do(f"INSERT INTO {self.terms} ({self.terms}) VALUES ('rebuild')")

    def numbers(self, values: list[Any], asked: ScopeTags, words: Sequence[str] | None) -> str:
        # No word or tag holds a quote.
        match = " AND ".join([f'"{tag}"' for tag in asked.tags])
        if words is not None:
            match += ' AND ("' + '" OR "'.join(words) + '")'
        return f"SELECT rowid AS number FROM {self.terms} WHERE {self.terms} MATCH {self.bind(values, match)}"


class PostgreSQLTerms(TermIndex):
    """A tsvector of the words as they are, with a GIN index. The insert of a record puts its number into the queue.

    A number in the queue is locked while it is indexed, or removed: who comes second sees what the first has done.
    """

    beside = ("waiting",)

    def __init__(self, table: "Table") -> None:
        super().__init__(table)
        self.waiting = table.dialect.quote(f"{table.plain_name}_waiting")
        # OFFSET 0 keeps the planner from reading the whole table to find a few numbers of it.
        self.late = (
            f"(SELECT number FROM {self.waiting} OFFSET 0) AS w, "
            f"LATERAL (SELECT * FROM {table.name} WHERE rowno = w.number OFFSET 0) AS r WHERE TRUE"
        )

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
        rows: list[Row] = [(*one, _lexemes(one)) for one in entries]
        for chunk in chunks(rows, most_rows=500, most_characters=4_000_000):
            yield Do(sql, [list(column) for column in zip(*chunk, strict=True)])

    def forget(self, numbers: Sequence[int]) -> Script[None]:
        yield from self.settle(numbers)  # first: it waits for whoever is indexing them
        yield Do(f"DELETE FROM {self.terms} WHERE number = ANY($1::bigint[])", (list(numbers),))

    def analyze(self) -> Script[None]:
        # Without statistics a search for a common word took a second now and then, until autovacuum came by.
        for name in (self.terms, self.table.name):
            yield Do(f"ANALYZE {name}")

    def numbers(self, values: list[Any], asked: ScopeTags, words: Sequence[str] | None) -> str:
        return self._found("number", values, asked, words)

    def candidates(self, values: list[Any], asked: ScopeTags, words: Sequence[str] | None) -> str:
        # OFFSET 0 keeps the planner from reading one table or the other as a whole.
        entries = self._found("number, length, bag, more", values, asked, words)
        return f"({entries} OFFSET 0) AS b JOIN {self.table.name} ON rowno = b.number"

    def _found(self, fields: str, values: list[Any], asked: ScopeTags, words: Sequence[str] | None) -> str:
        match = " & ".join([f"'{tag}'" for tag in asked.tags])
        if words is not None:
            match += " & ('" + "' | '".join(words) + "')"
        test = f"lexemes @@ {self.bind(values, match)}::text::tsquery"
        return f"SELECT {fields} FROM {self.terms} WHERE {test}"


def _lexemes(one: Entry) -> str:
    """An entry's words and tags as the text of a tsvector; none of them holds a quote or a backslash."""
    words = one.bag.strip(" ")
    if len(words) * 4 > _MOST_BYTES:
        words = words.encode()[:_MOST_BYTES].decode(errors="ignore")
    return "'" + f"{one.tags} {words}".rstrip(" ").replace(" ", "' '") + "'"


def _digest(text: str, size: int = 8) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()
