"""Tables, and the numbered migrations that bring them about; one table comes into being when it is first used."""

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from octavo.errors import ConfigError, InvalidRecord, StoreError
from octavo.kernel.codec import Sealed
from octavo.kernel.model import Scope
from octavo.kernel.shapes import Shape
from octavo.stores.sql.dialects import Dialect
from octavo.stores.sql.statements import Ask, Build, Do, Script

#: The fields of a row in the order they are written; (id, place) is the key and comes first.
FIELDS = (
    ("id", "name"), ("place", "place"), ("tenant", "tenant"), ("user", "name"), ("agent", "name"), ("session", "name"),
    ("kind", "name"), ("text", "text"), ("search", "text"), ("data", "json"), ("metadata", "json"), ("marks", "text"),
    ("created_at", "time"), ("updated_at", "time"), ("expires_at", "time"), ("seq", "int"),
)  # fmt: skip
_MOST_REMEMBERED = 4096


class Table:
    """One collection's table in one dialect: its quoted names and the statements that never vary."""

    def __init__(self, shape: Shape, dialect: Dialect, prefix: str) -> None:
        self.shape = shape
        self.dialect = dialect
        self.counted = shape.counted
        self.plain_name = prefix + shape.table
        self.name = dialect.quote(self.plain_name)
        self.versions = dialect.quote(f"{prefix}octavo_tables")
        self.marks = dialect.quote(prefix + shape.marks_table) if shape.marks_table else ""
        self.columns = (
            *(self.column(field) for field, _ in FIELDS),
            *(dialect.quote(e.name) for e in shape.extras),
        )
        self.types = (*(type_ for _, type_ in FIELDS), *(extra.type for extra in shape.extras))
        self._picked: dict[tuple[tuple[str, str], ...], str] = {}
        self.newest: dict[Scope, tuple[str, Sequence[Any]]] = {}
        self._spelled: dict[tuple[str, ...], str] = {}
        self.order = tuple(self.column(field) for field in ("created_at", "seq", "id", "place"))

    @functools.cached_property
    def _columns(self) -> dict[str, str]:
        own = {"place": "place", "search": "search", "rowno": "rowno"}
        fields = (*(field for field, _ in FIELDS), "rowno")
        return {field: self.dialect.quote(own.get(field) or self.shape.name(field)) for field in fields}

    def column(self, field: str) -> str:
        return self._columns[field]

    def picked(self, fields: tuple[tuple[str, str], ...]) -> str:
        """What to select to read these fields; remembered, as there are few ways to ask."""
        known = self._picked.get(fields)
        if known is None:
            names = [self.dialect.readable(self.column(field), type_) for field, type_ in fields]
            known = self._picked[fields] = ", ".join(names)
        return known

    def spelled(self, parts: tuple[str, ...]) -> str:
        """What to select to read a record as JSON; it binds the rest of the scope, after these parts of it."""
        known = self._spelled.get(parts)
        if known is None:
            columns = {field: self.column(field) for field, _ in FIELDS}
            known = self._spelled[parts] = self.dialect.spelled(self.shape.collection, columns, parts)
        return known

    def remember(self, scope: Scope, sql: str, values: Sequence[Any]) -> None:
        """Keep the statement for the newest of a scope, and what it binds before the limit."""
        if len(self.newest) >= _MOST_REMEMBERED:
            self.newest.clear()
        self.newest[scope] = (sys.intern(sql), values)  # of a few shapes, for many scopes

    def row(self, sealed: Sealed) -> tuple[Any, ...]:
        """The values of a record, in the order of `columns`."""
        scope, time = sealed.scope, self.dialect.time
        created = time(sealed.created_at)
        row = (
            sealed.id, sealed.place, scope.tenant, scope.user or "", scope.agent or "", scope.session or "",
            sealed.kind, sealed.text, sealed.search, sealed.data_json, sealed.metadata_lines, mark_lines(sealed.marks),
            created, created if sealed.updated_at is sealed.created_at else time(sealed.updated_at),
            None if sealed.expires_at is None else time(sealed.expires_at), sealed.seq,
        )  # fmt: skip
        # Folding makes a character into 18 at most, of up to four bytes: hardly any record is looked at.
        most = self.dialect.most_bytes
        size = len(sealed.text) + len(sealed.data_json) + len(sealed.metadata_json)
        if most is not None and size * 72 > most:
            self._check_sizes(row, most)
        return (*row, *self._extras(sealed)) if self.shape.extras else row

    def _check_sizes(self, row: tuple[Any, ...], most: int) -> None:
        """Refuse what the server cannot take, however it is sent."""
        for (field, _), value in zip(FIELDS, row, strict=True):
            if isinstance(value, str) and (size := len(value.encode())) > most:
                raise InvalidRecord(
                    f"record {row[0]!r} of {self.shape.collection!r}: {size} bytes for its column "
                    f"{self.column(field)} are more than this MySQL server takes; raise its max_allowed_packet of "
                    f"{most} bytes (SET GLOBAL max_allowed_packet = {64 << 20}, and in its configuration)"
                )

    def _extras(self, sealed: Sealed) -> list[Any]:
        values = []
        for extra in self.shape.extras:
            value = extra.value(sealed)
            if extra.type == "name" and not (isinstance(value, str) and len(value.encode()) <= 255):
                value = None  # a repeated column must never be the reason a record is refused
            values.append(value)
        return values


def mark_lines(marks: tuple[str, ...]) -> str:
    """Marks as JSON with each between newlines, so that one can be found as text; nothing when there are none."""
    return "[" + ",".join(mark_line(mark) for mark in marks) + "]" if marks else ""


def mark_line(mark: str) -> str:
    from octavo.kernel.text import spell

    return f"\n{spell(mark)}\n"


def _create(table: Table, prefix: str) -> list[str]:
    """Version 1: the table with its documented columns, its key, and one index for each axis its readers ask by."""
    dialect, shape = table.dialect, table.shape
    quote, types = dialect.quote, dialect.types
    nullable = {"expires_at"}
    columns = [f"{quote('rowno')} {types['rowno']}"]
    columns += [
        f"{table.column(field)} {types[type_]}{'' if field in nullable else ' NOT NULL'}"
        for field, type_ in FIELDS
    ]
    columns += [f"{quote(extra.name)} {types[extra.type]}" for extra in shape.extras]
    columns.append(f"UNIQUE ({table.column('id')}, {table.column('place')})")
    indexes = []
    for axis in shape.axes:
        parts = axis if axis == ("place",) else ("tenant", *axis)
        fields = [table.column(field) for field in dict.fromkeys((*parts, *dialect.order_tail))]
        indexes.append((f"{table.plain_name}_by_{'_'.join(axis) or 'time'}", fields))
    made = [f"CREATE TABLE {table.name} ({', '.join(columns)})"]
    made += [_index(dialect, name, table.name, fields) for name, fields in indexes]
    if table.marks:
        made.append(
            f"CREATE TABLE {table.marks} ({quote('place')} {types['place']} NOT NULL, "
            f"{quote('mark')} {types['name']} NOT NULL, {quote('rowno')} BIGINT NOT NULL, "
            f"{quote('message_id')} {types['name']} NOT NULL, PRIMARY KEY (place, mark, rowno))"
        )
        made.append(_index(dialect, f"{prefix}{shape.marks_table}_by_row", table.marks, [quote("rowno")]))
    return made


def _index(dialect: Dialect, name: str, table: str, fields: list[str]) -> str:
    return f"CREATE INDEX {dialect.quote(name)} ON {table} ({', '.join(fields)})"


def _index_expiry(table: Table, prefix: str) -> list[str]:
    """Version 2: an index of what ends, so that finding what has ended looks at nothing else."""
    dialect, shape = table.dialect, table.shape
    ends, documented = table.column("expires_at"), shape.expiry_index
    name = prefix + documented if documented else f"{table.plain_name}_by_expiry"
    made = _index(dialect, name, table.name, [table.column("tenant"), ends])
    if dialect.partial:
        return [f"{made} WHERE {ends} IS NOT NULL"]  # appending what never ends does not touch it
    return dialect.unless_indexed(table.plain_name, name, made) if documented else []


#: What brings a table from each version to the next. Never edit one that was released: add another.
MIGRATIONS: tuple[Callable[[Table, str], list[str]], ...] = (_create, _index_expiry)


def ensure(table: Table, prefix: str) -> Script[bool]:
    """Bring the table to the current version, whoever else is trying the same; answer whether anything was to do."""
    return (yield from _migrating(table, prefix).ensure())


def missing(table: Table, prefix: str) -> Script[bool]:
    """Whether nothing was ever written to the table; a stranger's of the same name is refused."""
    return (yield from _migrating(table, prefix).missing())


def _migrating(table: Table, prefix: str) -> "Migrating":
    migrations = [functools.partial(migration, table, prefix) for migration in MIGRATIONS]
    marks = (prefix + table.shape.marks_table,) if table.marks else ()
    return Migrating(table.dialect, prefix, table.plain_name, migrations, lambda: _drop(table, prefix), marks)


class Migrating:
    """Something that has a version of its own under its name, and what brings it from each version to the next."""

    def __init__(
        self,
        dialect: Dialect,
        prefix: str,
        name: str,
        migrations: Sequence[Callable[[], list[str]]],
        drop: Callable[[], Script[None]],
        more: Sequence[str] = (),
    ) -> None:
        self._dialect = dialect
        self._prefix = prefix
        self._name = name
        self._migrations = migrations
        self._drop = drop
        self._names = (name, *more)  # of all tables that it consists of
        self._versions = dialect.quote(f"{prefix}octavo_tables")

    def ensure(self) -> Script[bool]:
        """Bring it to the current version, whoever else is trying the same; answer whether anything was to do."""
        if (yield from self.current()):
            return False
        lock = f"{self._prefix}octavo schema"
        yield from self._dialect.lock_schema(lock)
        try:
            yield from self._migrate()
        except StoreError:
            yield from self._dialect.unlock_schema(lock)
            raise
        # Not in `finally`: of a call that was cancelled nobody runs the rest; its connection goes, and the lock with it.
        yield from self._dialect.unlock_schema(lock)
        return True

    def current(self) -> Script[bool]:
        """Whether it is there, and of the current version."""
        there = yield from self._dialect.exists(f"{self._prefix}octavo_tables")
        return there and (yield from self._version()) == len(self._migrations)

    def missing(self) -> Script[bool]:
        """Whether nothing of it was ever made; a table that somebody else has under its name is refused."""
        if (yield from self._is_known()):
            return False
        for name in self._names:
            if (yield from self._dialect.exists(name)):
                # Somebody may have made it since: it is noted before it is there, and a snapshot would not show that.
                yield from self._dialect.save()
                if (yield from self._is_known()):
                    return False
                raise StoreError(
                    f"a table {name!r} that is not Octavo's is in the way, and was left as it is; name another database "
                    "or schema, or give Octavo's tables other names with ?prefix=octavo_ in the URL"
                )
        return True

    def _is_known(self) -> Script[bool]:
        there = yield from self._dialect.exists(f"{self._prefix}octavo_tables")
        return there and (yield from self._version()) is not None

    def _version(self) -> Script[int | None]:
        hole = self._dialect.hole(1)
        rows = yield Ask(f"SELECT version FROM {self._versions} WHERE name = {hole}", (self._name,))
        if not rows:
            return None
        version, known = int(rows[0][0]), len(self._migrations)
        if version > known:
            raise ConfigError(
                f"table {self._name!r} has schema version {version}, this Octavo knows {known}: "
                "upgrade octavo, or open the database with the version that wrote it"
            )
        return version

    def _migrate(self) -> Script[None]:
        dialect, types, prefix = self._dialect, self._dialect.types, self._prefix
        counts = dialect.quote(f"{prefix}octavo_counts")
        new = yield from self.missing()  # before anything is made: a stranger's database is left as it is
        if not (yield from dialect.exists(f"{prefix}octavo_tables")):
            yield Do(
                f"CREATE TABLE {self._versions} (name {types['name']} PRIMARY KEY, version INTEGER NOT NULL)"
            )
        if not (yield from dialect.exists(f"{prefix}octavo_counts")):
            yield Do(
                f"CREATE TABLE {counts} (shelf {types['place']} NOT NULL, kind {types['name']} NOT NULL, "
                "slot INTEGER NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (shelf, kind, slot))"
            )
        # Where indexing of terms stands: rows above `upto`, and not above `until` where that is given, wait for it.
        if not (yield from dialect.exists(f"{prefix}octavo_indexed")):
            yield Do(
                f"CREATE TABLE {dialect.quote(f'{prefix}octavo_indexed')} (name {types['name']} PRIMARY KEY, "
                "upto BIGINT NOT NULL, until BIGINT NOT NULL)"
            )
        version = (yield from self._version()) or 0
        if new:
            # Noted before it is made: where DDL commits by itself, a crash half-way must not look like a stranger's table.
            yield Do(
                f"INSERT INTO {self._versions} (name, version) VALUES ({dialect.hole(1)}, 0)", (self._name,)
            )
            yield from dialect.save()
        elif version == 0:  # somebody died while making it; it has never been used
            yield from self._drop()
        for number, migration in enumerate(self._migrations[version:], version + 1):
            for sql in migration():
                # What a new column or index takes is a matter of how much there is, not of a server that is stuck.
                yield (Build if sql.startswith("ALTER TABLE") else Do)(sql)
            yield Do(
                f"UPDATE {self._versions} SET version = {dialect.hole(1)} WHERE name = {dialect.hole(2)}",
                (number, self._name),
            )


def searched_among(tables: Sequence[Table], prefix: str) -> Script[list[tuple[str, str]]]:
    """The collections among these that have an index, of terms or of substrings, each with what the index's name ends in."""
    rows = yield Ask(
        f"SELECT name FROM {tables[0].dialect.quote(f'{prefix}octavo_tables')} WHERE version > 0"
    )
    made = {row[0] for row in rows}
    endings = ("_terms", "_substrings")
    return [(t.shape.collection, end) for t in tables for end in endings if f"{t.plain_name}{end}" in made]


def _drop(table: Table, prefix: str) -> Script[None]:
    for plain, name in ((table.plain_name, table.name), (prefix + table.shape.marks_table, table.marks)):
        if name and (yield from table.dialect.exists(plain)):
            yield Do(f"DROP TABLE {name}")
