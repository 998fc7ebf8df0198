"""The index of substrings in SQLite: FTS5 over every three characters in a row of the folded text."""

from itertools import accumulate, takewhile

from octavo.stores.sql.engines import Claim
from octavo.stores.sql.fts5 import InOrder
from octavo.stores.sql.schema import Migrating, Table
from octavo.stores.sql.statements import Ask, Do, DoEach, Script
from octavo.stores.sql.substrings import RUN, Names, matching

_MOST_CHARACTERS = 500_000  # in one transaction, unless a single text is longer: others want to write too


class Substrings(InOrder):
    """A contentless FTS5 table. What is to be taken out of it must be given as it went in, so the triggers keep that."""

    def __init__(self, table: Table, prefix: str) -> None:
        super().__init__(table, prefix)
        names = Names(table, prefix)
        self.prefix = prefix
        self.plain_name, self.index, self.waiting = names.plain, names.index, names.waiting
        self.search = table.column("search")
        self.content = f"rowno, {self.search}, {table.column('id')}"

    def create(self) -> list[str]:
        quote = self.table.dialect.quote
        changed, removed = quote(f"{self.plain_name}_changed"), quote(f"{self.plain_name}_removed")
        # Only what is indexed, and only its first change: that is the text the entry was made of.
        note = f"INSERT OR IGNORE INTO {self.waiting} (number, said) SELECT old.rowno, old.{self.search}"
        note += f" WHERE old.rowno <= {self._upto}"
        return [
            f"CREATE TABLE {self.waiting} (number INTEGER PRIMARY KEY, said TEXT NOT NULL)",
            # The text was folded before it was kept. Positions, columns and sizes are not asked for.
            (
                f"CREATE VIRTUAL TABLE {self.index} USING fts5(search, content='', detail=none, columnsize=0, "
                'tokenize="trigram case_sensitive 1")'
            ),
            *self.noting(changed, removed, (self.search,), note),
            f"INSERT INTO {self.state} (name, upto, until) VALUES ('{self.plain_name}', 0, 0)",
        ]

    def parts(self) -> tuple[str, ...]:
        return (self.plain_name, f"{self.plain_name}_waiting")

    def tables(self) -> Migrating:
        """What there is of it, with a version of its own."""
        return Migrating(
            self.table.dialect, self.prefix, self.plain_name, [self.create], self.drop, self.parts()
        )

    def claim(self, most: int) -> Script[Claim]:
        claim = yield from super().claim((yield from self._bearable(most)))
        # A noted row may lie beyond the watermark by now, its number being given out anew. It is indexed in its turn:
        # a change of it is not noted before.
        _, _, end = claim.done
        claim.rows = [row for row in claim.rows if row[0] <= end]
        return claim

    def _bearable(self, most: int) -> Script[int]:
        """How many of what waits next are indexed in one transaction: fewer where they are long."""
        now = f"COALESCE((SELECT LENGTH({self.search}) FROM {self.table.name} WHERE rowno = number), 0)"
        noted = yield Ask(f"SELECT LENGTH(said) + {now} FROM {self.waiting} LIMIT ?", (most,))
        sql = f"SELECT LENGTH({self.search}) FROM {self.table.name} WHERE rowno > {self._upto} ORDER BY rowno LIMIT ?"
        rows = yield Ask(sql, (most - len(noted),))
        sizes = accumulate(row[0] for row in (*noted, *rows))
        return max(1, sum(1 for _ in takewhile(lambda size: size <= _MOST_CHARACTERS, sizes)))

    def enter(self, claim: Claim) -> Script[None]:
        noted, _, _ = claim.done
        if noted:
            numbers = ", ".join([str(int(number)) for number in noted])
            old = yield Ask(f"SELECT number, said FROM {self.waiting} WHERE number IN ({numbers})")
            sql = f"INSERT INTO {self.index} ({self.index}, rowid, search) VALUES ('delete', ?, ?)"
            yield DoEach(sql, [tuple(row) for row in old])
        if claim.rows:
            sql = f"INSERT INTO {self.index} (rowid, search) VALUES (?, ?)"
            yield DoEach(sql, [tuple(row[:2]) for row in claim.rows])

    def clear(self) -> Script[None]:
        """Begin anew: until all is indexed again, texts are looked for without the index."""
        yield Do(f"INSERT INTO {self.index} ({self.index}) VALUES ('delete-all')")
        yield Do(f"DELETE FROM {self.waiting}")
        yield from self.moved(0)

    def lost(self, after: int, most: int) -> Script[tuple[int | None, list[str]]]:
        """While nobody writes: of some records, the ids of those that the index does not find; and where to go on."""
        rows = yield from self.rows(after, most)
        end = rows[-1][0] if len(rows) == most else None
        upto, _ = yield from self.lock()
        waiting = {
            row[0] for row in (yield Ask(f"SELECT number FROM {self.waiting} WHERE number > ?", (after,)))
        }
        missing: list[str] = []
        for number, said, id_ in rows:
            if number <= upto and number not in waiting and len(said) >= RUN:
                sql = f"SELECT 1 FROM {self.index} WHERE {self.index} MATCH ? AND rowid = ?"
                if not (yield Ask(sql, (matching(said), number))):
                    missing.append(id_)
        return end, missing
