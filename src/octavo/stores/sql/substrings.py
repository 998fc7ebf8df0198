"""Looking for a piece of text: among the records that the database's own index of trigrams names, or through all of them.

SQLite has an FTS5 table over the folded text, filled from the first question on that has to look at much. PostgreSQL has
an index of the extension `pg_trgm`, where that is installed. MySQL and MariaDB look at every record of the scope. Whatever
an index names is still compared with the text itself, so an index costs time and never changes an answer.
"""

import re
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, TypeVar

from octavo.kernel.model import Query, Scope
from octavo.kernel.text import fold
from octavo.stores.sql.compile import Nominated, Where
from octavo.stores.sql.schema import Table
from octavo.stores.sql.statements import Build, Do, Fetch, Script, in_list

T = TypeVar("T")
_RUN = 3  # characters in each token of an index: a shorter text is in none
_SMALL = 3000  # records that are looked at sooner than an index is asked
#: Records that are read through an index; of a text that more hold, a page is found sooner in order.
_FEW = 1000
_LATE = 300  # records not indexed yet that are looked at besides
_TOKENS = 16  # runs of a long text that are asked for: more of them would cost more than they leave out
_MOST_CHARACTERS = 500_000  # in one transaction, unless a single text is longer: others want to write too
#: What pg_trgm makes trigrams of: three letters or digits in a row. Under the locale C, only those of ASCII.
_WORD = re.compile(r"[^\W_]{3}")
_ASCII_WORD = re.compile(r"[a-z0-9]{3}")


class TrigramNames:
    """What belongs to the index of trigrams of one table."""

    def __init__(self, table: Table) -> None:
        quote = table.dialect.quote
        sqlite = table.dialect.name == "sqlite"
        self.plain = f"{table.plain_name}_{'substrings' if sqlite else 'by_trigram'}"
        self.index = quote(self.plain)
        #: The number of the last row that SQLite's index has; rows go into it in order.
        self.upto = f"(SELECT COALESCE(MAX(id), 0) FROM {quote(f'{self.plain}_docsize')})"


def create(table: Table) -> Script[None]:
    """Make the index of a new table, where the database has one."""
    names = TrigramNames(table)
    if table.dialect.name == "sqlite":
        yield Do(
            # The text was folded before it was kept. Positions and columns are not asked for.
            f"CREATE VIRTUAL TABLE {names.index} USING fts5(search, content={table.name}, content_rowid='rowno', "
            'detail=none, tokenize="trigram case_sensitive 1")'
        )
        # What is taken out must be given as it went in. Rows that are not in it yet are left for later.
        quote = table.dialect.quote
        delete = f"INSERT INTO {names.index} ({names.index}, rowid, search) VALUES ('delete', old.rowno, old.search)"
        insert = f"INSERT INTO {names.index} (rowid, search) VALUES (new.rowno, new.search)"
        yield Do(
            f"CREATE TRIGGER {quote(f'{names.plain}_changed')} AFTER UPDATE OF search ON {table.name} "
            f"WHEN new.search IS NOT old.search AND old.rowno <= {names.upto} BEGIN {delete}; {insert}; END"
        )
        yield Do(
            f"CREATE TRIGGER {quote(f'{names.plain}_removed')} AFTER DELETE ON {table.name} "
            f"WHEN old.rowno <= {names.upto} BEGIN {delete}; END"
        )
    elif table.dialect.name == "postgresql":
        schema = yield Fetch(
            "SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace "
            "WHERE extname = 'pg_trgm'"
        )
        if schema:
            operators = f"{table.column('search')} {schema[0][0]}.gin_trgm_ops"
            yield Build(f"CREATE INDEX IF NOT EXISTS {names.index} ON {table.name} USING GIN ({operators})")


def look(table: Table, query: Query, read: Callable[[Nominated | None], Script[T]]) -> Script[tuple[T, bool]]:
    """What is read of the rows to look at; and whether the index waits to be filled."""
    nominated, late = yield from _nominate(table, query)
    return (yield from read(nominated)), late


def _nominate(table: Table, query: Query) -> Script[tuple[Nominated | None, bool]]:
    """Which rows to look at, all of them if it is not said; and whether the index waits to be filled."""
    text = fold(query.text or "")
    if table.dialect.name == "mysql" or query.ids is not None or len(text) < _RUN:
        return None, False
    if (yield from _is_small(table, query)):
        return None, False
    if table.dialect.name == "sqlite":
        return (yield from _nominate_sqlite(table, text))
    return (yield from _nominate_postgres(table, text)), False


def _nominate_sqlite(table: Table, text: str) -> Script[tuple[Nominated | None, bool]]:
    index, late = TrigramNames(table).index, _select_unindexed(table)
    [[waiting]] = yield Fetch(f"SELECT COUNT(*) FROM ({late} LIMIT {_LATE + 1})")
    if waiting > _LATE:
        return None, True
    match = _match(text)
    count = f"SELECT COUNT(*) FROM (SELECT 1 FROM {index} WHERE {index} MATCH ? LIMIT {_FEW + 1})"
    if (yield Fetch(count, (match,)))[0][0] > _FEW:
        return None, waiting > 0

    def nominated(values: list[Any]) -> tuple[str, str]:
        # In one statement, hence of one moment: a record is indexed, or it waits, whatever others index meanwhile.
        values.append(match)
        some = f"SELECT rowid FROM {index} WHERE {index} MATCH ? UNION ALL {late}"
        # NOT INDEXED, or SQLite would rather walk the index that gives the order, and ask of each row whether it is one.
        return f"{table.name} NOT INDEXED", f"rowno IN ({some})"

    return nominated, waiting > 0


def _nominate_postgres(table: Table, text: str) -> Script[Nominated | None]:
    if not _WORD.search(text) or not (yield from _has_trigrams(table)):
        return None
    if not _ASCII_WORD.search(text):
        [[letters]] = yield Fetch("SELECT '打' ~ '[[:alpha:]]'")
        if not letters:
            return None
    pattern = "%" + re.sub(r"([\\%_])", r"\\\1", text) + "%"
    search = table.column("search")
    count = (
        f"SELECT COUNT(*) FROM (SELECT 1 FROM {table.name} WHERE {search} LIKE $1 LIMIT {_FEW + 1}) AS held"
    )
    if (yield Fetch(count, (pattern,)))[0][0] > _FEW:
        return None

    def nominated(values: list[Any]) -> tuple[str, str]:
        values.append(pattern)
        placeholder = table.dialect.placeholder(len(values))
        # Behind OFFSET 0 the planner chooses a way for the text alone; else it walks an index that has the order.
        return f"(SELECT * FROM {table.name} WHERE {search} LIKE {placeholder} OFFSET 0) AS {table.name}", ""

    return nominated


def _has_trigrams(table: Table) -> Script[bool]:
    sql = (
        "SELECT 1 FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_namespace n ON n.oid = relnamespace "
        "WHERE indisvalid AND n.nspname = ANY(current_schemas(false)) AND relname = $1"
    )
    return bool((yield Fetch(sql, (TrigramNames(table).plain,))))


def index_some(table: Table, most: int) -> Script[int]:
    """Enter some of the rows that SQLite's index does not have yet; answer how many."""
    if table.dialect.name != "sqlite":
        return 0
    search = table.column("search")
    late = f"{_select_unindexed(table, f'rowno, LENGTH({search})')} ORDER BY rowno LIMIT {int(most)}"
    rows = yield Fetch(late)
    sizes = accumulate(row[1] for row in rows)
    numbers = [row[0] for row, size in zip(rows, sizes, strict=True) if size <= _MOST_CHARACTERS]
    numbers = numbers or [row[0] for row in rows[:1]]
    if numbers:
        yield Do(
            f"INSERT INTO {TrigramNames(table).index} (rowid, search) SELECT rowno, {search} FROM {table.name} "
            f"WHERE rowno IN ({in_list(numbers)}) ORDER BY rowno"
        )
    return len(numbers)


def make_anew(table: Table) -> Script[bool]:
    """Make the index of trigrams anew, where the database has one; answer whether it waits to be filled."""
    if table.dialect.name != "sqlite":
        yield from create(table)
        return False
    names = TrigramNames(table)
    [[upto]] = yield Fetch(f"SELECT {names.upto}")
    if upto:
        yield Do(f"INSERT INTO {names.index} ({names.index}) VALUES ('delete-all')")
    return bool(upto)


def find_lost(table: Table, after: int, most: int) -> Script[list[int]]:
    """Of some rows, the numbers of those that SQLite's index should have and does not find."""
    if table.dialect.name != "sqlite":
        return []
    names = TrigramNames(table)
    search = table.column("search")
    rows = yield Fetch(
        f"SELECT rowno, {search} FROM {table.name} WHERE rowno > {int(after)} AND rowno <= {names.upto} "
        f"ORDER BY rowno LIMIT {int(most)}"
    )
    missing: list[int] = []
    for number, said in rows:
        sql = f"SELECT 1 FROM {names.index} WHERE {names.index} MATCH ? AND rowid = ?"
        if len(said) >= _RUN and not (yield Fetch(sql, (_match(said), number))):
            missing.append(number)
    return missing


def _select_unindexed(table: Table, fields: str = "rowno") -> str:
    """A select of the rows that SQLite's index does not have yet: their numbers are higher than all it has."""
    return f"SELECT {fields} FROM {table.name} NOT INDEXED WHERE rowno > {TrigramNames(table).upto}"


def _match(text: str) -> str:
    """The expression that finds, in FTS5, whatever holds this text of three characters or more, and a little else."""
    last = len(text) - _RUN
    starts: Sequence[int] = range(last + 1)
    if last >= _TOKENS:
        starts = [at * last // (_TOKENS - 1) for at in range(_TOKENS)]
    runs = dict.fromkeys(text[at : at + _RUN].replace('"', '""') for at in starts)
    # Not one phrase: without positions, which would make the index three times as large, FTS5 has none.
    return '"' + '" AND "'.join(runs) + '"'


def _is_small(table: Table, query: Query) -> Script[bool]:
    """Whether what would have to be looked at is looked at sooner than an index is asked."""
    scope, axes = query.scope, table.shape.axes
    if not (scope.exact and ("scope_key",) in axes):  # as far as an index of the table can tell it apart
        parts = [part for part in ("session", "user", "agent") if (part,) in axes and getattr(scope, part)]
        scope = Scope(tenant=scope.tenant, **{part: getattr(scope, part) for part in parts[:1]})
    around = Query(collection=query.collection, scope=scope, since=query.since, until=query.until)
    where = Where(table, around)
    # In order, where times are asked for: PostgreSQL would read the table from its beginning to find the few newest.
    order = f" ORDER BY {table.column('created_at')} DESC" if around.since or around.until else ""
    some = f"SELECT 1 FROM {table.name} WHERE {where.sql}{order} LIMIT {_SMALL + 1}"
    return bool((yield Fetch(f"SELECT COUNT(*) FROM ({some}) AS around", where.values))[0][0] <= _SMALL)
