"""Looking for a text in MySQL and MariaDB: among the records that an index of its runs of three characters nominates.

`<table>_substrings` keeps, for each run and each 4096 row numbers, which of them have held it. Each record says itself that
it is not in it yet, so whoever writes one need not know of the index. It is made in the background by the first text query
over much (`octavo.stores.sql.gram_index`). It may name a record too many and never one too few: whatever it nominates is
still compared with the text itself (docs/decisions/011-substrings.md).
"""

from array import array
from collections.abc import Iterable
from typing import Any

from octavo.kernel.model import Query, Record, Tally
from octavo.kernel.text import fold
from octavo.stores.sql import reading
from octavo.stores.sql.compile import Nominated
from octavo.stores.sql.counting import Tables
from octavo.stores.sql.schema import Table
from octavo.stores.sql.statements import Ask, Script, listed
from octavo.stores.sql.substrings import FEW, LATE, RUN, VERSION, around_of, is_small, runs, worth

CHUNK_BITS = 12  # of a row number: where it stands in its chunk
_READ = 8  # runs that are read, the rarest first; of the others it is enough to know that they are not rarer
_WORTH = 100  # so many numbers are read in less time than one record is looked at
_MANY_TIMES = (
    3  # what is looked at sooner without the index: from so many on it is worth what it costs writers
)

_TRIES = 3  # before it is looked without the index, since others index all the time


class Names:
    """What the index of one table is called, and what of the table belongs to it."""

    def __init__(self, table: Table, prefix: str) -> None:
        quote = table.dialect.quote
        self.plain = f"{table.plain_name}_substrings"
        self.index = quote(self.plain)
        self.flagged = quote(f"{table.plain_name}_unsought")
        self.state = quote(f"{prefix}octavo_indexed")
        #: Moves with every transaction that indexes: what was read between two equal ones is of one moment.
        self.turn = f"(SELECT COALESCE(MAX(upto), -1) FROM {self.state} WHERE name = '{self.plain}')"


def gram(run: str) -> int:
    """Three characters as one number."""
    return ord(run[0]) << 42 | ord(run[1]) << 21 | ord(run[2])


def grams(text: str) -> set[int]:
    """Every run of three characters of a text."""
    codes = [ord(character) for character in text]
    return {a << 42 | b << 21 | c for a, b, c in zip(codes, codes[1:], codes[2:], strict=False)}


def find(table: Table, prefix: str, query: Query) -> Script[tuple[list[Record], bool]]:
    """Answer as `Query.over` would; and whether the index should be made, or brought up to date."""
    for _ in range(_TRIES):
        nominated, wanted, turn = yield from way(table, prefix, query)
        found = yield from reading.find(table, query, nominated)
        if nominated is None or (yield from _turn(table, prefix)) == turn:
            return found, wanted
    return (yield from reading.find(table, query)), False


def tally(tables: Tables, prefix: str, query: Query) -> Script[tuple[Tally, bool]]:
    """Count as `Tally.of` would; and whether the index should be made, or brought up to date."""
    table = tables[query.collection]
    for _ in range(_TRIES):
        nominated, wanted, turn = yield from way(table, prefix, query)
        counted = yield from reading.tally(tables, query, nominated)
        if nominated is None or (yield from _turn(table, prefix)) == turn:
            return counted, wanted
    return (yield from reading.tally(tables, query)), False


def way(table: Table, prefix: str, query: Query) -> Script[tuple[Nominated | None, bool, int]]:
    """Which rows to look at, all of them if it is not said; whether the index should be made, or brought up to date;
    and the turn at which it was read."""
    text = fold(query.text or "")
    if len(text) < RUN or query.ids is not None:
        return None, False, 0
    around = around_of(table, query)
    if (yield from is_small(table, around)):
        return None, False, 0
    names = Names(table, prefix)
    made = yield Ask(f"SELECT version FROM {table.versions} WHERE name = %s", (names.plain,))
    if not made or made[0][0] == 0:
        return None, not (yield from is_small(table, around, _MANY_TIMES)), 0
    if made[0][0] != VERSION:
        return None, False, 0
    late = f"SELECT 1 FROM {table.name} FORCE INDEX ({names.flagged}) WHERE unsought > 0 LIMIT {LATE + 1}"
    state = f"SELECT {names.turn}, (SELECT COUNT(*) FROM ({late}) AS late), (SELECT COALESCE(MAX(rowno), 0) FROM {table.name})"
    [[turn, waiting, size]] = yield Ask(state)
    if waiting > LATE:
        return None, True, turn
    numbers = yield from _held(names, text, size, max(FEW, worth(query, size)))
    if numbers is None:
        return None, False, turn

    def nominated(values: list[Any]) -> tuple[str, str]:
        del values
        some = f"rowno IN ({listed(numbers)}) OR " if numbers else ""
        # Without the hint, the index that has the order is walked, and each row asked whether it is one of these.
        return f"{table.name} FORCE INDEX (PRIMARY, {names.flagged})", f"({some}unsought > 0)"

    return nominated, False, turn


def _turn(table: Table, prefix: str) -> Script[int]:
    return int((yield Ask(f"SELECT {Names(table, prefix).turn}"))[0][0])


def _held(names: Names, text: str, size: int, most: int) -> Script[list[int] | None]:
    """The numbers that hold all of the text's runs as far as is worth knowing; None when they are more than `most`."""
    asked = {gram(run) for run in runs(text)}
    sql = f"SELECT gram, SUM(held) FROM {names.index} WHERE gram IN ({listed(sorted(asked))}) GROUP BY gram"
    held = {row[0]: int(row[1]) for row in (yield Ask(sql))}
    if len(held) < len(asked):
        return []
    rarest = sorted(asked, key=lambda one: held[one])
    if held[rarest[0]] > max(most, size // 4):
        return None
    left: set[int] | None = None
    for one in rarest[:_READ]:
        if left is not None and held[one] > _WORTH * len(left):
            break  # reading it would take longer than looking at what is left
        some = numbered((yield Ask(f"SELECT chunk, numbers FROM {names.index} WHERE gram = {one}")))
        left = some if left is None else left & some
    return None if left is None or len(left) > most else sorted(left)


def numbered(rows: Iterable[tuple[int, bytes]]) -> set[int]:
    """The row numbers that some chunks name."""
    found: set[int] = set()
    for chunk, packed in rows:
        first = chunk << CHUNK_BITS
        found.update([first + place for place in unpacked(packed)])
    return found


def packed(places: Iterable[int]) -> bytes:
    """Places in a chunk, two bytes each."""
    return b"".join([place.to_bytes(2, "little") for place in places])


def unpacked(places: bytes) -> Iterable[int]:
    """The places that were packed so."""
    return (
        memoryview(array("H", places))
        if _LITTLE
        else [int.from_bytes(places[at : at + 2], "little") for at in range(0, len(places), 2)]
    )


_LITTLE = array("H", b"\x01\x00")[0] == 1
