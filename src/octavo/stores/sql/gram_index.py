"""Keeping the index of substrings in MySQL and MariaDB: lists of row numbers for every three characters in a row."""

from collections.abc import Sequence
from itertools import accumulate, takewhile

from octavo.stores.sql.engines import Claim, Engine
from octavo.stores.sql.grams import CHUNK_BITS, Names, grams, packed, unpacked
from octavo.stores.sql.schema import Migrating, Table
from octavo.stores.sql.statements import Ask, Do, Script, listed

_CHUNK = 1 << CHUNK_BITS
_MOST_CHARACTERS = 300_000  # in one transaction, unless a single text is longer: others want to write too
_FEWEST = 500  # records indexed at once where that many wait: each run is then written once for all of them
_ROWS = 2000  # of the index in one statement
NEW, CHANGED = 1, 2  # what a record says of itself until it is in the index


class Grams(Engine):
    """Row numbers are only ever added. What a record no longer says, or was removed, is found out when it is looked at."""

    def __init__(self, table: Table, prefix: str) -> None:
        super().__init__(table, prefix)
        names = Names(table, prefix)
        self.prefix = prefix
        self.plain_name, self.index, self.flagged = names.plain, names.index, names.flagged
        self.search = table.column("search")

    def create(self) -> list[str]:
        return [
            (
                f"CREATE TABLE {self.index} (gram BIGINT NOT NULL, chunk BIGINT NOT NULL, held INTEGER NOT NULL, "
                "numbers MEDIUMBLOB NOT NULL, PRIMARY KEY (gram, chunk))"
            ),
            f"DELETE FROM {self.state} WHERE name = '{self.plain_name}'",
            f"INSERT INTO {self.state} (name, upto, until) VALUES ('{self.plain_name}', 0, 0)",
            # Last, since it is what other processes see; it waits for every transaction that writes here.
            (
                f"ALTER TABLE {self.table.name} ADD COLUMN unsought TINYINT NOT NULL DEFAULT {NEW}, "
                f"ADD INDEX {self.flagged} (unsought)"
            ),
        ]

    def parts(self) -> tuple[str, ...]:
        return (self.plain_name,)

    def drop(self) -> Script[None]:
        yield from super().drop()
        there = yield Ask(
            "SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = %s "
            "AND column_name = 'unsought'",
            (self.table.plain_name,),
        )
        if there:
            yield Do(f"ALTER TABLE {self.table.name} DROP COLUMN unsought")

    def tables(self) -> Migrating:
        """What there is of it, with a version of its own."""
        return Migrating(
            self.table.dialect, self.prefix, self.plain_name, [self.create], self.drop, self.parts()
        )

    def lag(self, most: int) -> Script[int]:
        return int((yield Ask(f"SELECT COUNT(*) FROM ({self._late('1', most + 1)}) AS late"))[0][0])

    def claim(self, most: int) -> Script[Claim]:
        upto, _ = yield from self.lock()
        # Rows that somebody is writing now are left for later: waiting for a caller's transaction could take for ever.
        sized = self._late(f"rowno, CHAR_LENGTH({self.search}), unsought", max(most, _FEWEST))
        waiting = yield Ask(f"{sized} FOR UPDATE SKIP LOCKED")
        sizes = accumulate(row[1] for row in waiting)
        some = waiting[: max(1, sum(1 for _ in takewhile(lambda size: size <= _MOST_CHARACTERS, sizes)))]
        numbers = [row[0] for row in some]
        rows = []
        if numbers:
            sql = f"SELECT rowno, {self.search}, unsought FROM {self.table.name} WHERE rowno IN ({listed(numbers)})"
            rows = list((yield Ask(sql)))
        return Claim(rows, numbers, upto)

    def enter(self, claim: Claim) -> Script[None]:
        held: dict[tuple[int, int], list[int]] = {}
        anew: dict[tuple[int, int], list[int]] = {}
        for number, said, state in claim.rows:
            chunk, place = divmod(number, _CHUNK)
            for one in grams(said):
                (held if state == NEW else anew).setdefault((one, chunk), []).append(place)
        for key, places in (yield from self._unknown(anew)).items():
            held.setdefault(key, []).extend(places)
        entries = [
            f"({one}, {chunk}, {len(places)}, x'{packed(places).hex()}')"
            for (one, chunk), places in sorted(held.items())
            if places
        ]
        for start in range(0, len(entries), _ROWS):
            yield Do(
                f"INSERT INTO {self.index} (gram, chunk, held, numbers) VALUES {', '.join(entries[start : start + _ROWS])} "
                "ON DUPLICATE KEY UPDATE held = held + VALUES(held), numbers = CONCAT(numbers, VALUES(numbers))"
            )

    def settle(self, claim: Claim) -> Script[None]:
        if claim.numbers:
            yield Do(f"UPDATE {self.table.name} SET unsought = 0 WHERE rowno IN ({listed(claim.numbers)})")
            yield from self.moved(claim.done + 1)

    def clear(self) -> Script[None]:
        """Have every record looked at anew, and entered where it is missing: until then texts are looked for without."""
        yield Do(f"UPDATE {self.table.name} SET unsought = {CHANGED} WHERE unsought = 0")

    def lost(self, after: int, most: int) -> Script[tuple[int | None, list[str]]]:
        """While nobody writes: of one chunk's records, the ids of those that the index does not find; and where to go on."""
        del most
        yield from self.lock()
        beyond = yield Ask(f"SELECT MIN(rowno) FROM {self.table.name} WHERE rowno > {int(after)}")
        if beyond[0][0] is None:
            return None, []
        chunk = beyond[0][0] // _CHUNK
        first, last = chunk * _CHUNK, (chunk + 1) * _CHUNK - 1
        sql = (
            f"SELECT rowno, {self.search}, {self.table.column('id')} FROM {self.table.name} "
            f"WHERE rowno BETWEEN {first} AND {last} AND unsought = 0 LOCK IN SHARE MODE"
        )
        rows = yield Ask(sql)
        said = {row[0]: grams(row[1]) for row in rows}
        known = yield from self._known({(one, chunk) for some in said.values() for one in some})
        missing = [
            row[2]
            for row in rows
            if any(row[0] - first not in known.get((one, chunk), ()) for one in said[row[0]])
        ]
        return last, missing

    def _late(self, picked: str, most: int) -> str:
        return f"SELECT {picked} FROM {self.table.name} FORCE INDEX ({self.flagged}) WHERE unsought > 0 LIMIT {int(most)}"

    def _unknown(self, entries: dict[tuple[int, int], list[int]]) -> Script[dict[tuple[int, int], list[int]]]:
        """Those of the entries that are not in the index: a record that is changed all day must not fill it."""
        known = yield from self._known(entries)
        return {
            key: [place for place in places if place not in known.get(key, ())]
            for key, places in entries.items()
        }

    def _known(
        self, keys: "Sequence[tuple[int, int]] | set[tuple[int, int]] | dict[tuple[int, int], list[int]]"
    ) -> Script[dict[tuple[int, int], set[int]]]:
        known: dict[tuple[int, int], set[int]] = {}
        asked = sorted(keys)
        for start in range(0, len(asked), _ROWS):
            some = asked[start : start + _ROWS]
            chunks = listed(sorted({chunk for _, chunk in some}))
            sql = (
                f"SELECT gram, chunk, numbers FROM {self.index} WHERE chunk IN ({chunks}) "
                f"AND gram IN ({listed(sorted({one for one, _ in some}))})"
            )
            known.update({(one, chunk): set(unpacked(numbers)) for one, chunk, numbers in (yield Ask(sql))})
        return known
