"""What removed records leave behind in SQL tables beside their rows: counters of kinds that nobody has any more."""

from octavo.stores.sql.counting import Tables
from octavo.stores.sql.migrations import names_of
from octavo.stores.sql.statements import Ask, Do, Script


def table_names(tables: Tables) -> list[str]:
    """Every table that holds something of a record, quoted."""
    quote = tables.dialect.quote
    named = [quote(name) for table in tables.by_collection.values() for name in names_of(table)]
    return [*named, tables.counts] if named else []


def drop_counters(tables: Tables) -> Script[int]:
    """Remove the counters that have come to nothing; answer how many."""
    counts, one, two, three = tables.counts, *map(tables.dialect.placeholder, (1, 2, 3))
    empty = yield Ask(f"SELECT counter, kind FROM {counts} GROUP BY counter, kind HAVING SUM(n) = 0")
    dropped = 0
    for counter, kind in sorted(map(tuple, empty)):  # in the order in which writers move them
        # Read again, and locked: somebody may have counted since.
        rows = yield Ask(
            f"SELECT slot, n FROM {counts} WHERE counter = {one} AND kind = {two} "
            f"ORDER BY slot{tables.dialect.lock_rows}",
            (counter, kind),
        )
        if sum(int(row[1]) for row in rows):
            continue
        for slot, _ in rows:
            test = f"counter = {one} AND kind = {two} AND slot = {three}"
            yield Do(f"DELETE FROM {counts} WHERE {test}", (counter, kind, slot))
        dropped += 1
    return dropped
