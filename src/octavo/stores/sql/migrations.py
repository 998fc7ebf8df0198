"""The schema: a table is made, with all that belongs to it, when its collection is first used.

`octavo_tables` keeps the version of each. A later version of the schema is one more migration at the end of `MIGRATIONS`.
It only adds (an index, a table, a column with a default), so that servers of the version before go on beside those that have
made it, and can be started again. What they could not live with is a version of the next hundred, which they refuse.
"""

from collections.abc import Callable

from octavo.errors import ConfigError, StoreError
from octavo.stores.sql.dialects import Dialect
from octavo.stores.sql.schema import FIELDS, Table
from octavo.stores.sql.statements import Do, Fetch, Script

_ADDING = 100  # versions, from one hundred to the next, that an older Octavo can live with
_USER, _KIND = ("user",), ("kind",)
#: The collections that version 1 had no index of users for.
_USER_LATER = frozenset({
    "events", "observations", "turns", "configs", "knowledge", "versions", "summaries", "entities", "exchanges",
})  # fmt: skip


def ensure(table: Table) -> Script[bool]:
    """Bring the table to the current version, whoever else is trying the same; answer whether anything was to do."""
    if ((yield from _version(table)) or 0) >= len(MIGRATIONS):
        return False
    dialect = table.dialect
    lock = f"{table.prefix}octavo schema"
    yield from dialect.lock_schema(lock)
    try:
        yield from _migrate(table)
    except StoreError:
        yield from dialect.unlock_schema(lock)
        raise
    # Not in `finally`: of a call that was cancelled nobody runs the rest; its connection goes, and the lock with it.
    yield from dialect.unlock_schema(lock)
    return True


def is_missing(table: Table) -> Script[bool]:
    """Whether nothing was ever written to the table; one of the same name that is not Octavo's is refused."""
    if (yield from _version(table)) is not None:
        return False
    for name in names_of(table):
        if (yield from table.dialect.exists(name)):
            # Somebody may have made it since: it is noted before it is there, and a snapshot would not show that.
            yield from table.dialect.save()
            if (yield from _version(table)) is not None:
                return False
            raise StoreError(
                f"a table {name!r} that is not Octavo's is in the way, and was left as it is; name another database "
                "or schema, or give Octavo's tables other names with ?prefix=octavo_ in the URL"
            )
    return True


def list_tables(dialect: Dialect, prefix: str) -> Script[frozenset[str]]:
    """The names of the collections' tables that are there, or being made."""
    if not (yield from dialect.exists(f"{prefix}octavo_tables")):
        return frozenset()
    rows = yield Fetch(f"SELECT name FROM {dialect.quote(f'{prefix}octavo_tables')}")
    return frozenset(row[0] for row in rows)


def names_of(table: Table) -> list[str]:
    """The tables that belong to this one, itself first."""
    marks = [table.prefix + table.shape.marks_table] if table.marks else []
    return [table.plain_name, *marks, *table.index.names()]


def _version(table: Table) -> Script[int | None]:
    """The version of the table; 0 while it is made, None where nobody has begun to."""
    if not (yield from table.dialect.exists(f"{table.prefix}octavo_tables")):
        return None
    rows = yield Fetch(
        f"SELECT version FROM {_versions(table)} WHERE name = {table.dialect.placeholder(1)}",
        (table.plain_name,),
    )
    if not rows:
        return None
    version, known = int(rows[0][0]), len(MIGRATIONS)
    if version // _ADDING > known // _ADDING:
        raise ConfigError(
            f"table {table.plain_name!r} has schema version {version}, this Octavo knows {known}: "
            "upgrade octavo, or open the database with the version that wrote it"
        )
    return version


def _versions(table: Table) -> str:
    return table.dialect.quote(f"{table.prefix}octavo_tables")


def _migrate(table: Table) -> Script[None]:
    dialect, types, prefix, versions = table.dialect, table.dialect.types, table.prefix, _versions(table)
    new = yield from is_missing(table)  # before anything is made: a stranger's database is left as it is
    if not (yield from dialect.exists(f"{prefix}octavo_tables")):
        yield Do(f"CREATE TABLE {versions} (name {types['name']} PRIMARY KEY, version INTEGER NOT NULL)")
    if not (yield from dialect.exists(f"{prefix}octavo_counts")):
        yield Do(
            f"CREATE TABLE {dialect.quote(f'{prefix}octavo_counts')} (counter {types['digest']} NOT NULL, kind {types['name']} NOT NULL, "
            "slot INTEGER NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (counter, kind, slot))"
        )
    version = (yield from _version(table)) or 0
    placeholder = dialect.placeholder
    if new:
        # Noted before it is made: where DDL commits by itself, a crash half-way must not look like a stranger's table.
        yield Do(f"INSERT INTO {versions} (name, version) VALUES ({placeholder(1)}, 0)", (table.plain_name,))
        yield from dialect.save()
    elif version == 0:  # somebody died while making it; it has never been used
        for name in reversed(names_of(table)):
            if (yield from dialect.exists(name)):
                yield Do(f"DROP TABLE {dialect.quote(name)}")
    for number, migration in enumerate(MIGRATIONS[version:], version + 1):
        yield from migration(table)
        yield Do(
            f"UPDATE {versions} SET version = {placeholder(1)} WHERE name = {placeholder(2)}",
            (number, table.plain_name),
        )


def _create(table: Table) -> Script[None]:
    """Version 1: the documented columns, the key, an index for each axis that readers ask by, and one of what ends."""
    dialect, shape, types, quote = table.dialect, table.shape, table.dialect.types, table.dialect.quote
    columns = [f"{quote('rowno')} {types['rowno']}"]
    columns += [
        f"{table.column(field)} {types[type_]}{'' if field == 'expires_at' else ' NOT NULL'}"
        for field, type_ in FIELDS
    ]
    columns += [f"{quote(extra.name)} {types[extra.type]}" for extra in shape.extras]
    if dialect.name == "mysql":
        columns.append("unindexed TINYINT NOT NULL DEFAULT 1")  # until the index of terms has the record
        columns.append(f"INDEX {quote(f'{table.plain_name}_unindexed')} (unindexed)")
    columns.append(f"UNIQUE ({table.column('id')}, {table.column('scope_key')})")
    yield Do(f"CREATE TABLE {table.name} ({', '.join(columns)})")
    for axis in shape.axes:
        if axis != _USER or shape.collection not in _USER_LATER:
            yield Do(_axis_index(table, axis))
    ends = table.column("expires_at")
    name = table.prefix + shape.expiry_index if shape.expiry_index else f"{table.plain_name}_by_expiry"
    by_end = _index(table, name, table.name, [table.column("tenant"), ends])
    if dialect.partial:  # appending what never ends does not touch it
        yield Do(f"{by_end} WHERE {ends} IS NOT NULL")
    elif shape.expiry_index:
        yield Do(by_end)
    if table.marks:
        yield Do(
            f"CREATE TABLE {table.marks} ({quote('scope_key')} {types['digest']} NOT NULL, "
            f"{quote('mark')} {types['name']} NOT NULL, {quote('rowno')} BIGINT NOT NULL, "
            f"{quote('message_id')} {types['name']} NOT NULL, PRIMARY KEY (scope_key, mark, rowno))"
        )
        by_row = f"{table.prefix}{shape.marks_table}_by_row"
        yield Do(_index(table, by_row, table.marks, [quote("rowno")]))
    for sql in table.index.create():
        yield Do(sql)


def _index_users(table: Table) -> Script[None]:
    """Version 2: what a user has is found by an index in every table; rows that name no user stay as they are."""
    if table.shape.collection not in _USER_LATER:
        return
    # Where DDL commits by itself, somebody may have made it and died before that was noted.
    if not (yield from table.dialect.has_index(table.plain_name, _axis_name(table, _USER))):
        yield Do(_axis_index(table, _USER))


def _index_kinds(table: Table) -> Script[None]:
    """Version 3: changes of one action are found by an index, where they are few among many."""
    if table.shape.by_kind and not (
        yield from table.dialect.has_index(table.plain_name, _axis_name(table, _KIND))
    ):
        yield Do(_axis_index(table, _KIND))


def _axis_name(table: Table, axis: tuple[str, ...]) -> str:
    return f"{table.plain_name}_by_{'_'.join(axis) or 'time'}"


def _axis_index(table: Table, axis: tuple[str, ...]) -> str:
    """The index along which the records of one value of an axis are read in order."""
    parts = axis if axis == ("scope_key",) else ("tenant", *axis)
    fields = [table.column(field) for field in dict.fromkeys((*parts, *table.dialect.order_tail))]
    return _index(table, _axis_name(table, axis), table.name, fields)


def _index(table: Table, name: str, of: str, fields: list[str]) -> str:
    return f"CREATE INDEX {table.dialect.quote(name)} ON {of} ({', '.join(fields)})"


#: What brings a table from each version to the next. Never edit one that was released: add another.
MIGRATIONS: tuple[Callable[[Table], Script[None]], ...] = (_create, _index_users, _index_kinds)
