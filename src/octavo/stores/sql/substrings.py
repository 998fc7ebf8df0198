"""Looking for a text in SQLite: among the records that an index of its runs of three characters nominates.

The index (`octavo.stores.sql.trigrams`) is made by the first text query over much; until it is there and up to date, and wherever
it would not pay, every record in the scope is looked at. Whatever is nominated is still compared with the text itself,
so the way taken costs time and never changes an answer (docs/decisions/007-term-index.md).
"""

from collections.abc import Callable, Sequence
from math import isqrt
from typing import Any, TypeAlias

from octavo.model import Query, Record, Scope, Tally
from octavo.stores.sql import scripts
from octavo.stores.sql.compile import Where
from octavo.stores.sql.schema import Table
from octavo.stores.sql.statements import Ask, Script
from octavo.text import fold

#: Adds the values it binds, and answers the rows that may hold the text as a subquery of their numbers.
Nominated: TypeAlias = Callable[[list[Any]], str]

VERSION = 1  # of the index; another one is left alone
RUN = 3  # characters in each token of the index: a shorter text is in none
_SMALL = 3000  # records that are looked at sooner than an index is asked
_FEW = 1000  # nominated records that are read whatever else is known
_LATE = 300  # records not indexed yet that are looked at besides
_TOKENS = 16  # runs of a long text that are asked for: more of them would cost more than they leave out


class Names:
    """What the index of one table is called, and the tables beside it."""

    def __init__(self, table: Table, prefix: str) -> None:
        quote = table.dialect.quote
        self.plain = f"{table.plain_name}_substrings"
        self.index = quote(self.plain)
        self.waiting = quote(f"{self.plain}_waiting")
        self.state = quote(f"{prefix}octavo_indexed")
        self.upto = f"(SELECT upto FROM {self.state} WHERE name = '{self.plain}')"


def find(table: Table, prefix: str, query: Query) -> Script[tuple[list[Record], bool]]:
    """Answer as `Query.over` would; and whether the index should be made, or brought up to date."""
    nominated, wanted = yield from _way(table, prefix, query)
    return (yield from scripts.find(table, query, nominated)), wanted


def tally(tables: scripts.Tables, prefix: str, query: Query) -> Script[tuple[Tally, bool]]:
    """Count as `Tally.of` would; and whether the index should be made, or brought up to date."""
    nominated, wanted = yield from _way(tables[query.collection], prefix, query)
    return (yield from scripts.tally(tables, query, nominated)), wanted


def matching(text: str) -> str:
    """The expression that finds, in the index, whatever holds this text of three characters or more, and a little else."""
    last = len(text) - RUN
    starts: Sequence[int] = range(last + 1)
    if last >= _TOKENS:
        starts = [at * last // (_TOKENS - 1) for at in range(_TOKENS)]
    runs = dict.fromkeys(text[at : at + RUN].replace('"', '""') for at in starts)
    # Not one phrase: without positions, which would make the index three times as large, FTS5 has none.
    return '"' + '" AND "'.join(runs) + '"'


def _way(table: Table, prefix: str, query: Query) -> Script[tuple[Nominated | None, bool]]:
    """Which rows to look at, all of them if it is not said; and whether the index should be made, or brought up to date."""
    text = fold(query.text or "")
    if len(text) < RUN or query.ids is not None:
        return None, False
    around = _walked(table, query)
    if (yield from _size(table, around, _SMALL + 1)) <= _SMALL:
        return None, False
    names = Names(table, prefix)
    made = yield Ask(f"SELECT version FROM {table.versions} WHERE name = ?", (names.plain,))
    if not made or made[0][0] != VERSION:
        return None, not made
    state = (
        f"SELECT (SELECT COALESCE(MAX(rowno), 0) FROM {table.name}), {names.upto}, "
        f"(SELECT COUNT(*) FROM (SELECT 1 FROM {names.waiting} LIMIT {_LATE + 1}))"
    )
    [[last, upto, changed]] = yield Ask(state)
    if last - upto + changed > _LATE:
        return None, True
    match = matching(text)
    if (yield from _held(names, match, _FEW + 1)) > _FEW:
        if _worth(query, last) <= _FEW:
            return None, False
        most = _worth(query, (yield from _size(table, around, -1)))
        if most <= _FEW or (yield from _held(names, match, most + 1)) > most:
            return None, False

    def nominated(values: list[Any]) -> str:
        # In one statement, hence of one moment: a record is indexed, or it waits, whatever others index meanwhile.
        values.append(match)
        return (
            f"SELECT rowid FROM {names.index} WHERE {names.index} MATCH ? UNION ALL SELECT number FROM {names.waiting} "
            f"UNION ALL SELECT rowno FROM {table.name} NOT INDEXED WHERE rowno > {names.upto}"
        )

    return nominated, False


def _worth(query: Query, size: int) -> int:
    """So many nominated records are read sooner than the page is filled by looking at one record after the other.

    In order, every record costs about a third, and the more hold the text the sooner the page is full.
    """
    if query.limit is None:
        return size // 4
    return min(size // 4, isqrt((query.limit + query.offset) * size // 3))


def _held(names: Names, match: str, most: int) -> Script[int]:
    """How many entries the index finds, counted up to `most`."""
    sql = f"SELECT COUNT(*) FROM (SELECT 1 FROM {names.index} WHERE {names.index} MATCH ? LIMIT ?)"
    return int((yield Ask(sql, (match, most)))[0][0])


def _size(table: Table, around: Query, most: int) -> Script[int]:
    """How many records would have to be looked at, counted up to `most` along an index."""
    where = Where(table, around)
    sql = f"SELECT COUNT(*) FROM (SELECT 1 FROM {table.name} WHERE {where.sql} LIMIT {int(most)})"
    return int((yield Ask(sql, where.values))[0][0])


def _walked(table: Table, query: Query) -> Query:
    """What is asked for, as far as an index of the table can tell it apart."""
    scope, axes = query.scope, table.shape.axes
    if not (scope.exact and ("place",) in axes):
        parts = [
            axis[0] for axis in axes if len(axis) == 1 and axis != ("place",) and getattr(scope, axis[0])
        ]
        scope = Scope(tenant=scope.tenant, **{part: getattr(scope, part) for part in parts[:1]})
    return Query(collection=query.collection, scope=scope, since=query.since, until=query.until)
