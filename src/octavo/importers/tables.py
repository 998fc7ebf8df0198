"""Tables of other people's databases, read row by row: SQLite, PostgreSQL, MySQL and MariaDB."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from octavo.errors import ConfigError, StoreUnavailable
from octavo.stores.sql.urls import parse
from octavo.util.extras import missing_packages, store_extra
from octavo.util.secrets import shown

_PAGE = 500
Row = dict[str, Any]


class Tables(Protocol):
    """A database that is only read."""

    quote: str

    async def names(self) -> set[str]:
        """The tables there are."""

    def run(self, sql: str) -> AsyncIterator[Row]:
        """The rows of a statement, a few at a time."""


async def rows(tables: Tables, table: str, *order: str) -> AsyncIterator[Row]:
    """The rows of a table by these columns; the names are ours, never a caller's."""
    by = ", ".join(f"{tables.quote}{column}{tables.quote}" for column in order)
    async for row in tables.run(f"SELECT * FROM {tables.quote}{table}{tables.quote} ORDER BY {by}"):
        yield row


async def need(tables: Tables, *wanted: str, what: str) -> None:
    """Refuse a database without one of these tables."""
    there = await tables.names()
    if missing := [name for name in wanted if name not in there]:
        found = ", ".join(sorted(there)[:8]) or "none"
        raise ConfigError(f"this is no database of {what}: there is no table {missing[0]!r} (found: {found})")


def decoded(value: Any) -> Any:
    """The value of a JSON column, whose text some drivers give; None for nothing."""
    return msgspec.json.decode(value) if isinstance(value, str | bytes) and value else value or None


def is_sqlite(path: Path) -> bool:
    """Whether this is a file with an SQLite database in it."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"


@asynccontextmanager
async def open_tables(path: Path | None, url: str | None) -> AsyncIterator[Tables]:
    """The database in a file, or behind a URL."""
    if path is not None:
        if not is_sqlite(path):
            raise ConfigError(f"{path} is no SQLite database")
        with _open_sqlite(path) as tables:
            yield tables
        return
    url = url or ""
    if missing := missing_packages(*store_extra(url)):
        raise ConfigError(f"reading {shown(url)} needs {missing}")
    opener = _open_postgres if url.startswith("postgres") else _open_mysql
    async with opener(url) as tables:
        yield tables


@contextmanager
def _open_sqlite(path: Path) -> Iterator[Tables]:
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    try:
        yield _SQLite(connection)
    except sqlite3.DatabaseError as error:
        raise StoreUnavailable(f"{path} cannot be read: {error}") from error
    finally:
        connection.close()


class _SQLite:
    quote = '"'

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def names(self) -> set[str]:
        return {
            row[0] for row in self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }

    async def run(self, sql: str) -> AsyncIterator[Row]:
        for row in self._connection.execute(sql):
            yield dict(row)


@asynccontextmanager
async def _open_postgres(url: str) -> AsyncIterator[Tables]:
    import asyncpg

    scheme, _, rest = url.partition("://")
    try:
        connection = await asyncpg.connect(f"{scheme.partition('+')[0]}://{rest}")
    except (OSError, asyncpg.PostgresError) as error:
        raise StoreUnavailable(f"{shown(url)} cannot be reached: {error}") from error
    try:
        async with connection.transaction(readonly=True):
            yield _Postgres(connection)
    finally:
        await connection.close()


class _Postgres:
    quote = '"'

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def names(self) -> set[str]:
        sql = "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = ANY (current_schemas(false))"
        return {row["name"] async for row in self.run(sql)}

    async def run(self, sql: str) -> AsyncIterator[Row]:
        async for row in self._connection.cursor(sql, prefetch=_PAGE):
            yield dict(row)


@asynccontextmanager
async def _open_mysql(url: str) -> AsyncIterator[Tables]:
    import asyncmy

    address = parse(url)
    login = {
        "host": address.host or "localhost",
        "port": address.port or 3306,
        "user": address.user or "root",
        "password": address.password.encode(),
        "database": address.path.strip("/"),
        "charset": "utf8mb4",
        "unix_socket": address.option("unix_socket", None),
    }
    try:
        connection = await asyncmy.connect(**login)
    except (OSError, asyncmy.errors.Error) as error:
        raise StoreUnavailable(f"{shown(url)} cannot be reached: {error}") from error
    try:
        yield _MySQL(connection)
    finally:
        await connection.ensure_closed()


class _MySQL:
    quote = "`"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def names(self) -> set[str]:
        sql = "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = DATABASE()"
        return {row["name"] async for row in self.run(sql)}

    async def run(self, sql: str) -> AsyncIterator[Row]:
        from asyncmy.cursors import SSDictCursor

        async with self._connection.cursor(SSDictCursor) as cursor:
            await cursor.execute(sql)
            while page := await cursor.fetchmany(_PAGE):
                for row in page:
                    yield row
