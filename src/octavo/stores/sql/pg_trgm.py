"""Looking for a text in PostgreSQL: among the records that an index of the extension pg_trgm nominates.

The index is made in the background by the first text query over much, where this account may create the extension; until
it is there, and wherever it would not pay, every record in the scope is looked at. The database keeps it in step with the
records. Whatever is nominated is still compared with the text itself, so the way taken costs time and never changes an
answer (docs/decisions/011-substrings.md).
"""

import re
from typing import Any

from octavo.errors import StoreError
from octavo.kernel.model import Query, Record, Tally
from octavo.kernel.text import fold
from octavo.stores.sql import reading
from octavo.stores.sql.compile import Nominated
from octavo.stores.sql.counting import Tables
from octavo.stores.sql.schema import Table
from octavo.stores.sql.statements import Ask, Build, Do, Lasting, Script
from octavo.stores.sql.substrings import FEW, around_of, is_small, worth

#: What the extension makes trigrams of: three letters or digits in a row. Everything else is a gap between words to it.
_RUN = re.compile(r"[^\W_]{3}")
_ASCII_RUN = re.compile(r"[a-z0-9]{3}")
_PENDING_KIB = (
    1024  # of what was written lately and is looked through; the server's own limit is four times that
)
_MANY_TIMES = (
    8  # what is looked at sooner without the index: from so many on it is worth what it costs writers
)


def name_of(table: Table) -> str:
    return f"{table.plain_name}_by_trigram"


def find(table: Table, prefix: str, query: Query) -> Script[tuple[list[Record], bool]]:
    """Answer as `Query.over` would; and whether the index should be made."""
    del prefix
    nominated, wanted = yield from way(table, query)
    return (yield from reading.find(table, query, nominated)), wanted


def tally(tables: Tables, prefix: str, query: Query) -> Script[tuple[Tally, bool]]:
    """Count as `Tally.of` would; and whether the index should be made."""
    del prefix
    nominated, wanted = yield from way(tables[query.collection], query)
    return (yield from reading.tally(tables, query, nominated)), wanted


def way(table: Table, query: Query) -> Script[tuple[Nominated | None, bool]]:
    """Which rows to look at, all of them if it is not said; and whether the index should be made."""
    text = fold(query.text or "")
    if query.ids is not None or not _RUN.search(text):
        return None, False
    around = around_of(table, query)
    if (yield from is_small(table, around)):
        return None, False
    state = yield from _state(table)
    if state is None or not state[0]:
        return None, not (yield from is_small(table, around, _MANY_TIMES))
    size = state[1]
    if not _ASCII_RUN.search(text) and not (yield from _knows_letters()):
        return None, False
    pattern = like(text)
    most = max(FEW, worth(query, size))
    sql = f"SELECT COUNT(*) FROM (SELECT 1 FROM {table.name} WHERE {table.column('search')} LIKE $1 LIMIT $2) AS held"
    if (yield Ask(sql, (pattern, most + 1)))[0][0] > most:
        return None, False

    def nominated(values: list[Any]) -> tuple[str, str]:
        values.append(pattern)
        hole = table.dialect.hole(len(values))
        # Behind OFFSET 0 the planner chooses a way for the text alone; else it walks an index that has the order.
        some = f"SELECT * FROM {table.name} WHERE {table.column('search')} LIKE {hole} OFFSET 0"
        return f"({some}) AS {table.name}", ""

    return nominated, False


def like(text: str) -> str:
    """The pattern of LIKE that holds for whatever has this text in it."""
    return "%" + re.sub(r"([\\%_])", r"\\\1", text) + "%"


def make(table: Table) -> Script[bool]:
    """Make the index while others write, outside of any transaction; False when somebody else is at it.

    Somebody who died over it left an index that is kept up and never read: it is made anew.
    """
    index, lock = table.dialect.quote(name_of(table)), f"octavo {name_of(table)}"
    [[mine]] = yield Lasting("SELECT pg_try_advisory_lock(hashtext($1))", (lock,))
    if not mine:
        return False
    try:
        state = yield from _state(table)
        if state is None or not state[0]:
            schema = yield from _extension()
            if state is not None:
                yield Build(f"DROP INDEX CONCURRENTLY IF EXISTS {index}")
            yield Build(
                f"CREATE INDEX CONCURRENTLY {index} ON {table.name} USING GIN "
                f"({table.column('search')} {schema}.gin_trgm_ops) WITH (gin_pending_list_limit = {_PENDING_KIB})"
            )
            yield Build(f"ANALYZE {table.name}")
    except StoreError:  # whoever is cancelled loses the lock with the connection
        yield Ask("SELECT pg_advisory_unlock(hashtext($1))", (lock,))
        raise
    yield Ask("SELECT pg_advisory_unlock(hashtext($1))", (lock,))
    return True


def drop_unfinished(table: Table) -> Script[None]:
    """Take away an index that was not finished, if that can be done at once: every write would go on feeding it."""
    state = yield from _state(table)
    if state is not None and not state[0]:
        yield Lasting("SET lock_timeout = '1s'")
        yield Do(f"DROP INDEX IF EXISTS {table.dialect.quote(name_of(table))}")


def _extension() -> Script[str]:
    """The schema of the extension, which is created if this account may."""
    sql = (
        "SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace "
        "WHERE extname = 'pg_trgm'"
    )
    rows = yield Ask(sql)
    if not rows:
        yield Do("CREATE EXTENSION IF NOT EXISTS pg_trgm")
        rows = yield Ask(sql)
    return str(rows[0][0])


def _state(table: Table) -> Script[tuple[bool, int] | None]:
    """Whether the index may be read, and about how many rows the table has; None when it is not there."""
    sql = (
        "SELECT indisvalid, GREATEST(t.reltuples, 0)::bigint FROM pg_class i JOIN pg_index ON indexrelid = i.oid "
        "JOIN pg_class t ON t.oid = indrelid JOIN pg_namespace n ON n.oid = i.relnamespace "
        "WHERE n.nspname = ANY(current_schemas(false)) AND i.relname = $1 AND t.relname = $2"
    )
    rows = yield Ask(sql, (name_of(table), table.plain_name))
    return (bool(rows[0][0]), int(rows[0][1])) if rows else None


def _knows_letters() -> Script[bool]:
    """Whether letters beyond ASCII are letters to this database; under the locale C they are not."""
    [[upper]] = yield Ask("SELECT '打' ~ '[[:alpha:]]'")
    return bool(upper)
