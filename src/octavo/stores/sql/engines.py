"""The index of terms in each database: the tables it takes, what waits to be indexed, and how words are looked up.

`<table>_terms` keeps the entries; beside it SQLite has an FTS5 table over them, PostgreSQL a tsvector with a GIN index, and
MySQL a table of postings. Each engine also knows which records are not indexed yet (docs/decisions/007-term-index.md).
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from octavo.kernel.model import Query
from octavo.kernel.terms.terms import MOST_CHARACTERS
from octavo.stores.sql.compile import PARTS
from octavo.stores.sql.schema import Table
from octavo.stores.sql.statements import PAUSE_CHARACTERS, Ask, Do, Pause, Script, listed
from octavo.stores.sql.words import Asked, Entry, entry
from octavo.util.cache import Cache

Row = Sequence[Any]


class Claim:
    """What one transaction is about to index: the rows as they are, and every number that is to have a new entry or none."""

    def __init__(self, rows: list[Row], numbers: Sequence[int], done: Any = None) -> None:
        self.rows = rows
        self.numbers = numbers
        self.done = done  # what the engine needs to know to note them as indexed


class Engine:
    """One table's index of terms. Methods that are scripts run inside a transaction that holds `lock`, unless they read."""

    counts_first: ClassVar[bool] = False  # whether a LIMIT does not make a search for many words shorter
    small: ClassVar[int] = 3000  # a scope with fewer records is read whole, whichever words are asked for
    few: ClassVar[int] = 2  # so many words are looked up in any scope

    def __init__(self, table: Table, prefix: str) -> None:
        quote = table.dialect.quote
        self.table = table
        self.plain_name = f"{table.plain_name}_terms"
        self.terms = quote(self.plain_name)
        self.waiting = quote(f"{table.plain_name}_waiting")
        self.state = quote(f"{prefix}octavo_indexed")
        self.wide: Cache[tuple[str, ...], tuple[bool, float]] = Cache()  # scopes lately measured
        text, data = table.column("text"), table.dialect.readable(table.column("data"), "json")
        #: The text a record is found by, as far as terms are made of it, and its data when there is no text.
        self.said = f"SUBSTR({text}, 1, {MOST_CHARACTERS}), CASE WHEN {text} = '' THEN {data} ELSE '' END"
        self.content = ", ".join(
            ["rowno", *(table.column(field) for field in PARTS), self.said, table.column("id")]
        )

    def create(self) -> list[str]:
        """Version 1 of the tables, with everything that is kept already waiting to be indexed."""
        raise NotImplementedError

    def drop(self) -> Script[None]:
        """Remove what is there of tables that somebody died over while making them."""
        for plain in self.parts():
            if (yield from self.table.dialect.exists(plain)):
                yield Do(f"DROP TABLE {self.table.dialect.quote(plain)}")

    def parts(self) -> tuple[str, ...]:
        return (self.plain_name, f"{self.table.plain_name}_waiting")

    def lock(self) -> Script[tuple[int, int]]:
        """Let nobody else index this table until the transaction ends; answer `upto` and `until`."""
        hole, wait = self.table.dialect.hole(1), self.table.dialect.lock_rows
        rows = yield Ask(
            f"SELECT upto, until FROM {self.state} WHERE name = {hole}{wait}", (self.plain_name,)
        )
        return tuple(rows[0])

    def moved(self, upto: int) -> Script[None]:
        hole = self.table.dialect.hole
        yield Do(f"UPDATE {self.state} SET upto = {hole(1)} WHERE name = {hole(2)}", (upto, self.plain_name))

    def lag(self, most: int) -> Script[int]:
        """How many records wait, counted up to a little more than `most`."""
        raise NotImplementedError

    def pending(self) -> Script[set[int]]:
        """The numbers of all that waits, removed records included."""
        raise NotImplementedError

    def claim(self, most: int) -> Script[Claim]:
        """What waits, `most` or a little more of it."""
        raise NotImplementedError

    def put(self, numbers: Sequence[int], entries: list[Entry]) -> Script[None]:
        """Have these entries, and no others under these numbers."""
        raise NotImplementedError

    def enter(self, claim: Claim) -> Script[None]:
        """Have entries of what was claimed as it is now."""
        yield from self.put(claim.numbers, (yield from entries_of(claim.rows)))

    def settle(self, claim: Claim) -> Script[None]:
        """Note that a claim has been indexed."""
        raise NotImplementedError

    def kept(self, after: int, end: int | None) -> Script[list[Entry]]:
        """The entries after one number and up to another."""
        rows = yield Ask(
            f"SELECT number, length, bag, more, tags FROM {self.terms} WHERE {_between(after, end)}"
        )
        return [Entry(*row) for row in rows]

    def numbers(self, after: int, end: int | None) -> Script[list[int]]:
        """The numbers of the entries after one number and up to another."""
        return [
            row[0] for row in (yield Ask(f"SELECT number FROM {self.terms} WHERE {_between(after, end)}"))
        ]

    def entries(self, numbers: Sequence[int]) -> Script[list[Entry]]:
        """What is kept under these numbers."""
        found: list[Entry] = []
        for start in range(0, len(numbers), 1000):
            some = listed(numbers[start : start + 1000])
            rows = yield Ask(
                f"SELECT number, length, bag, more, tags FROM {self.terms} WHERE number IN ({some})"
            )
            found += [Entry(*row) for row in rows]
        return found

    def rows(self, after: int, most: int) -> Script[list[Row]]:
        """Records by number, from the one after `after` on: what entries are made of, and their ids."""
        hole = self.table.dialect.hole
        order = f"WHERE rowno > {hole(1)} ORDER BY rowno LIMIT {hole(2)}"
        return list((yield Ask(f"SELECT {self.content} FROM {self.table.name} {order}", (after, most))))

    def numbered(self, numbers: Sequence[int]) -> Script[list[Row]]:
        """The records that have these numbers, likewise."""
        if not numbers:
            return []
        sql = f"SELECT {self.content} FROM {self.table.name} WHERE rowno IN ({listed(numbers)})"
        return list((yield Ask(sql)))

    def check(self) -> Script[None]:
        """Fail with StoreError if the database's own index does not agree with the entries."""
        yield from ()

    def unfound(self, entries: Sequence[Entry]) -> Script[list[int]]:
        """The numbers of entries that the database's own index does not find by all of their words."""
        del entries
        yield from ()
        return []

    def mend(self) -> Script[None]:
        """Make the database's own index anew from the entries."""
        yield from ()

    def learn(self) -> Script[int]:
        """Let the planner look at tables that have grown by much: until it does so by itself, it guesses."""
        yield from ()
        return 0

    # --- statements of a search; each binds its values in the order of its text

    def hits(
        self,
        values: list[Any],
        query: Query,
        asked: Asked,
        words: Sequence[str] | None,
        fields: str,
        entries: bool,
    ) -> str:
        """The indexed records that answer the query and hold any of the words (without words: are in the scope).

        With `entries`, the fields may be those of the entries (as `b`) too.
        """
        raise NotImplementedError

    def tail(self, values: list[Any], query: Query, fields: str) -> str:
        """The records that answer the query and are not indexed yet, or not as they are now."""
        raise NotImplementedError

    def count(
        self, values: list[Any], query: Query, asked: Asked, word: str, most: int, without: Sequence[int]
    ) -> str:
        """How many indexed records answer the query and hold the word, but for some; counted up to `most`."""
        hits = self.hits(values, query, asked, [word], "1", entries=False)
        but = f" AND rowno NOT IN ({listed(without)})" if without else ""
        return f"SELECT COUNT(*) FROM ({hits}{but} LIMIT {int(most)}) AS held"

    def size(self, asked: Asked, most: int) -> Ask:
        """How many records have these tags, counted up to `most`."""
        raise NotImplementedError

    def bind(self, values: list[Any], value: Any) -> str:
        values.append(value)
        return self.table.dialect.hole(len(values))


def entry_of(row: Row) -> Entry:
    """The entry of a record, of which an engine's `content` was read."""
    number, tenant, user, agent, session, text, data = row[:7]
    return entry(number, (tenant, user, agent, session), text, data)


def entries_of(rows: Sequence[Row]) -> Script[list[Entry]]:
    """The entries of records, of which an engine's `content` was read."""
    made = []
    work = 0
    for row in rows:
        made.append(entry_of(row))
        if (work := work + len(row[5]) + len(row[6])) > PAUSE_CHARACTERS:
            work = 0
            yield Pause()
    return made


def changed(entries: Sequence[Entry], old: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
    """The entries that are not kept already, and the kept ones that are no longer right."""
    kept, stays = set(old), set(entries)
    return [one for one in entries if one not in kept], [one for one in old if one not in stays]


def _between(after: int, end: int | None) -> str:
    return f"number > {int(after)}" + ("" if end is None else f" AND number <= {int(end)}")
