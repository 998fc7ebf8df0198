"""Indexes in SQLite: what of a table waits for them, and FTS5 over the entries of terms."""

from collections.abc import Sequence
from typing import Any

from octavo.kernel.model import Query
from octavo.stores.sql.compile import Where
from octavo.stores.sql.engines import Claim, Engine, changed
from octavo.stores.sql.schema import Table
from octavo.stores.sql.statements import Ask, Do, DoEach, Script, listed
from octavo.stores.sql.words import Asked, Entry


class InOrder(Engine):
    """What waits, where row numbers follow the order of commits: a watermark tells of appends, triggers note the rest."""

    def noting(self, changed: str, removed: str, columns: Sequence[str], note: str) -> list[str]:
        """The triggers, so named: a process that knows nothing of the index cannot leave it wrong."""
        name = self.table.name
        differs = " OR ".join([f"new.{column} IS NOT old.{column}" for column in columns])
        # Numbers of removed rows are given out again from the last row on: what gets them then must count as new.
        last = f"(SELECT COALESCE(MAX(rowno), 0) FROM {name})"
        back = f"UPDATE {self.state} SET upto = {last} WHERE name = '{self.plain_name}' AND upto > {last}"
        return [
            (
                f"CREATE TRIGGER {changed} AFTER UPDATE OF {', '.join(columns)} ON {name} WHEN {differs} "
                f"BEGIN {note}; END"
            ),
            f"CREATE TRIGGER {removed} AFTER DELETE ON {name} BEGIN {note}; {back}; END",
        ]

    @property
    def _upto(self) -> str:
        return f"(SELECT upto FROM {self.state} WHERE name = '{self.plain_name}')"

    def lag(self, most: int) -> Script[int]:
        sql = f"SELECT (SELECT COALESCE(MAX(rowno), 0) FROM {self.table.name}) - {self._upto}, "
        sql += f"(SELECT COUNT(*) FROM (SELECT 1 FROM {self.waiting} LIMIT {int(most) + 1}))"
        [[tail, changed]] = yield Ask(sql)
        return int(max(tail, 0) + changed)

    def pending(self) -> Script[set[int]]:
        sql = f"SELECT number FROM {self.waiting} UNION SELECT rowno FROM {self.table.name} WHERE rowno > {self._upto}"
        return {row[0] for row in (yield Ask(sql))}

    def claim(self, most: int) -> Script[Claim]:
        upto, _ = yield from self.lock()
        noted = [row[0] for row in (yield Ask(f"SELECT number FROM {self.waiting} LIMIT ?", (most,)))]
        rows = yield from self.numbered(noted)
        left = most - len(noted)
        tail = (
            (
                yield Ask(
                    f"SELECT {self.content} FROM {self.table.name} WHERE rowno > ? ORDER BY rowno LIMIT ?",
                    (upto, left),
                )
            )
            if left
            else []
        )
        if tail:
            end = tail[-1][0]
        else:  # numbers of removed rows are given out again, so the end moves back with the last row
            [[last]] = yield Ask(f"SELECT COALESCE(MAX(rowno), 0) FROM {self.table.name}")
            end = min(upto, last)
        known = set(noted)
        fresh = [row for row in tail if row[0] not in known]
        return Claim([*rows, *fresh], [*noted, *(row[0] for row in fresh)], (noted, upto, end))

    def settle(self, claim: Claim) -> Script[None]:
        noted, upto, end = claim.done
        if noted:
            yield Do(f"DELETE FROM {self.waiting} WHERE number IN ({listed(noted)})")
        if end != upto:
            yield from self.moved(end)


class InSQLite(InOrder):
    """The index of terms: an external-content FTS5 table."""

    def __init__(self, table: Table, prefix: str) -> None:
        super().__init__(table, prefix)
        self.index = table.dialect.quote(f"{table.plain_name}_index")

    def create(self) -> list[str]:
        name, quote, column = self.table.plain_name, self.table.dialect.quote, self.table.column
        note = f"INSERT OR IGNORE INTO {self.waiting} (number) VALUES (old.rowno)"
        return [
            (
                f"CREATE TABLE {self.terms} (number INTEGER PRIMARY KEY, length INTEGER NOT NULL, bag TEXT NOT NULL, "
                "more TEXT NOT NULL, tags TEXT NOT NULL)"
            ),
            f"CREATE TABLE {self.waiting} (number INTEGER PRIMARY KEY)",
            # Neither positions nor columns nor sizes are asked for: without them the index is a fifth of the size.
            (
                f"CREATE VIRTUAL TABLE {self.index} USING fts5(tags, bag, content={self.terms}, content_rowid='number', "
                "detail=none, columnsize=0, tokenize=\"ascii tokenchars '~'\")"
            ),
            *self.noting(
                quote(f"{name}_changed"), quote(f"{name}_removed"), (column("text"), column("data")), note
            ),
            f"INSERT INTO {self.state} (name, upto, until) VALUES ('{self.plain_name}', 0, 0)",
        ]

    def put(self, numbers: Sequence[int], entries: list[Entry]) -> Script[None]:
        old = yield from self.entries(numbers)
        if old:
            entries, old = changed(entries, old)
        if old:
            yield DoEach(
                f"INSERT INTO {self.index} ({self.index}, rowid, tags, bag) VALUES ('delete', ?, ?, ?)",
                [(one.number, one.tags, one.bag) for one in old],
            )
            yield Do(f"DELETE FROM {self.terms} WHERE number IN ({listed([one.number for one in old])})")
        if entries:
            yield DoEach(
                f"INSERT INTO {self.terms} (number, length, bag, more, tags) VALUES (?, ?, ?, ?, ?)", entries
            )
            yield DoEach(
                f"INSERT INTO {self.index} (rowid, tags, bag) VALUES (?, ?, ?)",
                [(one.number, one.tags, one.bag) for one in entries],
            )

    def check(self) -> Script[None]:
        yield Do(f"INSERT INTO {self.index} ({self.index}, rank) VALUES ('integrity-check', 1)")

    def unfound(self, entries: Sequence[Entry]) -> Script[list[int]]:
        lost: list[int] = []
        for one in entries:
            words = [word for word in f"{one.tags} {one.bag}".split(" ") if word]
            match = '"' + '" AND "'.join(words) + '"'
            sql = f"SELECT 1 FROM {self.index} WHERE {self.index} MATCH ? AND rowid = ?"
            if not (yield Ask(sql, (match, one.number))):
                lost.append(one.number)
        return lost

    def mend(self) -> Script[None]:
        yield Do(f"INSERT INTO {self.index} ({self.index}) VALUES ('rebuild')")

    def hits(
        self,
        values: list[Any],
        query: Query,
        asked: Asked,
        words: Sequence[str] | None,
        fields: str,
        entries: bool,
    ) -> str:
        match = self.bind(values, _fts(asked, words))
        where = Where(self.table, query, values)
        joined = f"CROSS JOIN {self.terms} AS b ON b.number = {self.index}.rowid " if entries else ""
        return (
            f"SELECT {fields} FROM {self.index} {joined}CROSS JOIN {self.table.name} ON rowno = {self.index}.rowid "
            f"WHERE {self.index} MATCH {match} AND {where.sql}"
        )

    def tail(self, values: list[Any], query: Query, fields: str) -> str:
        newest = Where(self.table, query, values).sql
        sql = f"SELECT {fields} FROM {self.table.name} NOT INDEXED WHERE {newest} AND rowno > {self._upto}"
        changed = Where(self.table, query, values).sql
        return (
            f"{sql} UNION ALL SELECT {fields} FROM {self.waiting} CROSS JOIN {self.table.name} ON rowno = number "
            f"WHERE {changed} AND rowno <= {self._upto}"
        )

    def size(self, asked: Asked, most: int) -> Ask:
        sql = (
            f"SELECT COUNT(*) FROM (SELECT 1 FROM {self.index} WHERE {self.index} MATCH ? LIMIT {int(most)})"
        )
        return Ask(sql, (_fts(asked, None),))


def _fts(asked: Asked, words: Sequence[str] | None) -> str:
    """A match expression of words and tags, none of which holds a quote."""
    tags = " AND ".join([f'"{tag}"' for tag in asked.tags])
    return tags if words is None else tags + ' AND ("' + '" OR "'.join(words) + '")'
