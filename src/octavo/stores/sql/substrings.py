"""Looking for a text in SQLite: among the records that an index of its runs of three characters nominates.

The index (`octavo.stores.sql.trigrams`) is made by the first text query over much; until it is there and up to date, and wherever
it would not pay, every record in the scope is looked at. Whatever is nominated is still compared with the text itself,
so the way taken costs time and never changes an answer (docs/decisions/007-term-index.md).
"""

from collections.abc import Sequence
from math import isqrt
from typing import Any

from octavo.kernel.model import Query, Record, Scope, Tally
from octavo.kernel.text import fold
from octavo.stores.sql import reading
from octavo.stores.sql.compile import Nominated, Where
from octavo.stores.sql.counting import Tables
from octavo.stores.sql.schema import Table
from octavo.stores.sql.statements import Ask, Script

VERSION = 1  # of the index; another one is left alone
RUN = 3  # characters in each token of the index: a shorter text is in none
_SMALL = 3000  # records that are looked at sooner than an index is asked
FEW = 1000  # nominated records that are read whatever else is known
LATE = 300  # records not indexed yet that are looked at besides
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
    return (yield from reading.find(table, query, nominated)), wanted


def tally(tables: Tables, prefix: str, query: Query) -> Script[tuple[Tally, bool]]:
    """Count as `Tally.of` would; and whether the index should be made, or brought up to date."""
    nominated, wanted = yield from _way(tables[query.collection], prefix, query)
    return (yield from reading.tally(tables, query, nominated)), wanted


def runs(text: str) -> list[str]:
    """The runs of three characters to ask for: all of them, or enough of a long text."""
    last = len(text) - RUN
    starts: Sequence[int] = range(last + 1)
    if last >= _TOKENS:
        starts = [at * last // (_TOKENS - 1) for at in range(_TOKENS)]
    return list(dict.fromkeys(text[at : at + RUN] for at in starts))


def matching(text: str) -> str:
    """The expression that finds, in the index, whatever holds this text of three characters or more, and a little else."""
    # Not one phrase: without positions, which would make the index three times as large, FTS5 has none.
    return '"' + '" AND "'.join(run.replace('"', '""') for run in runs(text)) + '"'


def _way(table: Table, prefix: str, query: Query) -> Script[tuple[Nominated | None, bool]]:
    """Which rows to look at, all of them if it is not said; and whether the index should be made, or brought up to date."""
    text = fold(query.text or "")
    if len(text) < RUN or query.ids is not None:
        return None, False
    around = around_of(table, query)
    if (yield from is_small(table, around)):
        return None, False
    names = Names(table, prefix)
    made = yield Ask(f"SELECT version FROM {table.versions} WHERE name = ?", (names.plain,))
    if not made or made[0][0] != VERSION:
        return None, not made
    state = (
        f"SELECT (SELECT COALESCE(MAX(rowno), 0) FROM {table.name}), {names.upto}, "
        f"(SELECT COUNT(*) FROM (SELECT 1 FROM {names.waiting} LIMIT {LATE + 1}))"
    )
    [[last, upto, changed]] = yield Ask(state)
    if last - upto + changed > LATE:
        return None, True
    match = matching(text)
    if (yield from _held(names, match, FEW + 1)) > FEW:
        if worth(query, last) <= FEW:
            return None, False
        most = worth(query, (yield from _size(table, around, -1)))
        if most <= FEW or (yield from _held(names, match, most + 1)) > most:
            return None, False

    def nominated(values: list[Any]) -> tuple[str, str]:
        # In one statement, hence of one moment: a record is indexed, or it waits, whatever others index meanwhile.
        values.append(match)
        some = (
            f"SELECT rowid FROM {names.index} WHERE {names.index} MATCH ? UNION ALL SELECT number FROM {names.waiting} "
            f"UNION ALL SELECT rowno FROM {table.name} NOT INDEXED WHERE rowno > {names.upto}"
        )
        # NOT INDEXED, or SQLite would rather walk the index that gives the order, and ask of each row whether it is one.
        return f"{table.name} NOT INDEXED", f"rowno IN ({some})"

    return nominated, False


def worth(query: Query, size: int) -> int:
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


def is_small(table: Table, around: Query, times: int = 1) -> Script[bool]:
    """Whether what would have to be looked at is looked at sooner than an index is asked; or is not so many times that."""
    most = times * _SMALL
    return (yield from _size(table, around, most + 1)) <= most


def _size(table: Table, around: Query, most: int) -> Script[int]:
    """How many records would have to be looked at, counted up to `most` along an index."""
    where = Where(table, around)
    # In order, where times are asked for: PostgreSQL, which plans for no time in particular, would read the table from its
    # beginning to find the few newest.
    order = f" ORDER BY {table.column('created_at')} DESC" if around.since or around.until else ""
    sql = f"SELECT COUNT(*) FROM (SELECT 1 FROM {table.name} WHERE {where.sql}{order} LIMIT {int(most)}) AS around"
    return int((yield Ask(sql, where.values))[0][0])


def around_of(table: Table, query: Query) -> Query:
    """What is asked for, as far as an index of the table can tell it apart."""
    scope, axes = query.scope, table.shape.axes
    if not (scope.exact and ("place",) in axes):
        parts = [
            axis[0] for axis in axes if len(axis) == 1 and axis != ("place",) and getattr(scope, axis[0])
        ]
        scope = Scope(tenant=scope.tenant, **{part: getattr(scope, part) for part in parts[:1]})
    return Query(collection=query.collection, scope=scope, since=query.since, until=query.until)
