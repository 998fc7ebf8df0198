"""The index of terms in MySQL and MariaDB: a table of postings."""

from collections.abc import Sequence
from typing import Any

from octavo.kernel.model import Query
from octavo.stores.sql.compile import Where
from octavo.stores.sql.dialects import chunks
from octavo.stores.sql.engines import Claim, Engine, changed
from octavo.stores.sql.schema import Table
from octavo.stores.sql.statements import Ask, Do, Script, listed
from octavo.stores.sql.words import Asked, Entry, token, tokens


class InMySQL(Engine):
    """A table of postings. Each record says itself that it is not indexed yet: whoever writes one need not know of it."""

    counts_first = True
    small = 4000
    few = 0

    def __init__(self, table: Table, prefix: str) -> None:
        super().__init__(table, prefix)
        self.postings = table.dialect.quote(f"{table.plain_name}_postings")
        self.flagged = table.dialect.quote(f"{table.plain_name}_unindexed")

    def parts(self) -> tuple[str, ...]:
        return (*super().parts(), f"{self.table.plain_name}_postings")

    def create(self) -> list[str]:
        types = self.table.dialect.types
        return [
            (
                f"CREATE TABLE {self.terms} (number BIGINT PRIMARY KEY, length INTEGER NOT NULL, bag {types['text']} NOT NULL, "
                f"more {types['text']} NOT NULL, tags VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL)"
            ),
            f"CREATE TABLE {self.postings} (token BIGINT NOT NULL, number BIGINT NOT NULL, PRIMARY KEY (token, number))",
            f"CREATE TABLE {self.waiting} (id BIGINT AUTO_INCREMENT PRIMARY KEY, number BIGINT NOT NULL)",
            f"DELETE FROM {self.state} WHERE name = '{self.plain_name}'",
            f"INSERT INTO {self.state} (name, upto, until) VALUES ('{self.plain_name}', 0, 0)",
            # Last, since it is what other processes see; it waits for every transaction that writes here.
            f"ALTER TABLE {self.table.name} ADD COLUMN unindexed TINYINT NOT NULL DEFAULT 1, ADD INDEX {self.flagged} (unindexed)",
        ]

    def drop(self) -> Script[None]:
        yield from super().drop()
        there = yield Ask(
            "SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = %s "
            "AND column_name = 'unindexed'",
            (self.table.plain_name,),
        )
        if there:
            yield Do(f"ALTER TABLE {self.table.name} DROP COLUMN unindexed")

    def _unindexed(self, picked: str) -> str:
        return f"SELECT {picked} FROM {self.table.name} FORCE INDEX ({self.flagged}) WHERE unindexed = 1"

    def lag(self, most: int) -> Script[int]:
        sql = f"SELECT COUNT(*) FROM ({self._unindexed('1')} LIMIT {int(most) + 1}) AS late"
        return int((yield Ask(sql))[0][0])

    def pending(self) -> Script[set[int]]:
        sql = f"SELECT number FROM {self.waiting} UNION {self._unindexed('rowno')}"
        return {row[0] for row in (yield Ask(sql))}

    def claim(self, most: int) -> Script[Claim]:
        yield from self.lock()
        # Rows that somebody is writing now are left for later: waiting for a caller's transaction could take for ever.
        rows = yield Ask(f"{self._unindexed(self.content)} LIMIT {int(most)} FOR UPDATE SKIP LOCKED")
        gone = yield Ask(f"SELECT id, number FROM {self.waiting} ORDER BY id LIMIT {int(most)}")
        there = [row[0] for row in rows]
        return Claim(list(rows), [*there, *(row[1] for row in gone)], (there, [row[0] for row in gone]))

    def settle(self, claim: Claim) -> Script[None]:
        there, taken = claim.done
        if there:
            yield Do(f"UPDATE {self.table.name} SET unindexed = 0 WHERE rowno IN ({listed(there)})")
        if taken:
            yield Do(f"DELETE FROM {self.waiting} WHERE id IN ({listed(taken)})")

    def put(self, numbers: Sequence[int], entries: list[Entry]) -> Script[None]:
        old = yield from self.entries(numbers)
        new = entries
        if old:
            new, old = changed(entries, old)
        if old:
            yield from self._unpost(old)
            yield Do(f"DELETE FROM {self.terms} WHERE number IN ({listed([one.number for one in old])})")
        most = (self.table.dialect.most_bytes or 0) // 8
        for chunk in chunks(list(new), most_rows=500, most_characters=most):
            yield Do(
                f"INSERT INTO {self.terms} (number, length, bag, more, tags) VALUES "
                f"{', '.join(['(%s, %s, %s, %s, %s)'] * len(chunk))}",
                [value for row in chunk for value in row],
            )
        # In the order of the key: neighbours share a page. Those of an entry that stays should be there, but might not.
        postings = sorted([(found, one.number) for one in entries for found in tokens(one)])
        for start in range(0, len(postings), 5000):
            some = ", ".join([f"({found}, {number})" for found, number in postings[start : start + 5000]])
            yield Do(
                f"INSERT INTO {self.postings} (token, number) VALUES {some} ON DUPLICATE KEY UPDATE token = token"
            )

    def _unpost(self, entries: list[Entry]) -> Script[None]:
        for one in entries:
            held = sorted(tokens(one))
            for start in range(0, len(held), 1000):
                some = listed(held[start : start + 1000])
                yield Do(
                    f"DELETE FROM {self.postings} WHERE number = {int(one.number)} AND token IN ({some})"
                )

    def hits(
        self,
        values: list[Any],
        query: Query,
        asked: Asked,
        words: Sequence[str] | None,
        fields: str,
        entries: bool,
    ) -> str:
        narrow = "" if asked.tags[0] == asked.tenant else asked.tags[0]
        if words is None:
            postings = f"{self.postings} AS p"
            tests = [f"p.token = {token(asked.tags[0])}"]
        else:
            found = sorted(token(asked.tenant, word) for word in words)
            some = f"SELECT DISTINCT number FROM {self.postings} WHERE token IN ({listed(found)})"
            postings = f"{self.postings} AS p" if len(found) == 1 else f"({some}) AS p"
            tests = [f"p.token = {found[0]}"] if len(found) == 1 else []
            if narrow:  # looked up before the records, which are wide
                postings += f" STRAIGHT_JOIN {self.postings} AS g ON g.token = {token(narrow)} AND g.number = p.number"
        where = Where(self.table, query, values)
        if entries:
            postings += f" STRAIGHT_JOIN {self.terms} AS b ON b.number = p.number"
        return (
            f"SELECT {fields} FROM {postings} "
            f"STRAIGHT_JOIN {self.table.name} ON rowno = p.number WHERE {' AND '.join([*tests, where.sql])}"
        )

    def tail(self, values: list[Any], query: Query, fields: str) -> str:
        return f"{self._unindexed(fields)} AND {Where(self.table, query, values).sql}"

    def size(self, asked: Asked, most: int) -> Ask:
        some = f"SELECT 1 FROM {self.postings} WHERE token = {token(asked.tags[0])} LIMIT {int(most)}"
        return Ask(f"SELECT COUNT(*) FROM ({some}) AS inside")
