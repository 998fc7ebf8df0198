"""Bringing the index of terms up to date, making it anew and comparing it with the records, as scripts over any engine."""

from collections.abc import Sequence

from octavo.stores.sql.dialects import Dialect
from octavo.stores.sql.engines import Engine, entries_of, entry_of
from octavo.stores.sql.fts5 import InSQLite
from octavo.stores.sql.postings import InMySQL
from octavo.stores.sql.schema import Migrating, Table
from octavo.stores.sql.statements import Ask, Script
from octavo.stores.sql.tsvector import InPostgreSQL

#: What brings an index from each version to the next. Never edit one that was released: add another.
MIGRATIONS = (Engine.create,)
_ENGINES = {"sqlite": InSQLite, "postgresql": InPostgreSQL, "mysql": InMySQL}


def engine_of(table: Table, prefix: str) -> Engine:
    """The index of a table, in its database's way."""
    dialect: Dialect = table.dialect
    return _ENGINES[dialect.name](table, prefix)


def migrating(engine: Engine, prefix: str) -> Migrating:
    """The tables of an index, with a version of their own: they are made by the first search."""
    steps = [lambda step=step: getattr(engine, step.__name__)() for step in MIGRATIONS]
    return Migrating(engine.table.dialect, prefix, engine.plain_name, steps, engine.drop, engine.parts())


def index(engine: Engine, most: int) -> Script[int]:
    """Index some of what waits, in a transaction of its own; answer how many records that were."""
    claim = yield from engine.claim(most)
    if claim.numbers:
        yield from engine.enter(claim)
    yield from engine.settle(claim)
    return len(claim.numbers)


def reindex(engine: Engine, after: int, most: int) -> Script[tuple[int | None, int]]:
    """Make the entries of some records anew, and remove those that have none; answer where to go on, and how many."""
    yield from engine.lock()
    rows = yield from engine.rows(after, most)
    end = rows[-1][0] if len(rows) == most else None
    numbers = yield from engine.numbers(after, end)
    yield from engine.put(sorted({*numbers, *(row[0] for row in rows)}), (yield from entries_of(rows)))
    return end, len(rows)


def compare(engine: Engine, after: int, most: int) -> Script[tuple[int | None, int, list[int]]]:
    """Compare some records with their entries; answer where to go on, how many they were, and which look wrong."""
    rows = yield from engine.rows(after, most)
    end = rows[-1][0] if len(rows) == most else None
    kept = {one.number: one for one in (yield from engine.kept(after, end))}
    made = yield from entries_of(rows)
    wrong = [row[0] for row, entry in zip(rows, made, strict=True) if kept.pop(row[0], None) != entry]
    return end, len(rows), [*wrong, *kept]


def lost(engine: Engine, after: int, most: int) -> Script[tuple[int | None, list[str]]]:
    """Of some records, the ids of those that the database's own index does not find by their entry; and where to go on."""
    rows = yield from engine.rows(after, most)
    end = rows[-1][0] if len(rows) == most else None
    ids = {row[0]: row[-1] for row in rows}
    numbers = yield from engine.unfound((yield from engine.kept(after, end)))
    return end, [ids[number] for number in numbers if number in ids]


def judge(engine: Engine, suspects: Sequence[int]) -> Script[tuple[list[str], int, int]]:
    """While nobody indexes: the ids of records without their entry, entries without a record, and how many wait."""
    yield from engine.lock()
    rows = {row[0]: row for row in (yield from engine.numbered(suspects))}
    kept = {one.number: one for one in (yield from engine.entries(suspects))}
    waiting = yield from engine.pending()  # read last: what is written meanwhile is in it
    wrong = [number for number in suspects if number not in waiting]
    missing = [row[-1] for n in wrong if (row := rows.get(n)) and kept.get(n) != entry_of(row)]
    return missing, sum(1 for n in wrong if n in kept and n not in rows), len(waiting)


def total(engine: Engine) -> Script[int]:
    """How many records there are."""
    return int((yield Ask(f"SELECT COUNT(*) FROM {engine.table.name}"))[0][0])
