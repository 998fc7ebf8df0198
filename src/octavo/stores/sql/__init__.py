"""SQL databases: one compiler, three dialects, thin drivers. Drivers load when a URL asks for them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from octavo.errors import ConfigError
from octavo.stores.sql.store import SQLStore
from octavo.stores.sql.urls import parse, parse_sqlite

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession


def open_sqlite(url: str) -> SQLStore:
    """Open `sqlite:///relative.db`, `sqlite:////absolute.db` or `sqlite:///:memory:`."""
    from octavo.stores.sql.drivers.sqlite import SQLiteDriver

    path, durability, timeout, prefix = parse_sqlite(url)
    return SQLStore(SQLiteDriver(path, durability, timeout), prefix)


def open_postgres(url: str) -> SQLStore:
    """Open `postgresql://user:password@host:port/database`."""
    try:
        from octavo.stores.sql.drivers.postgres import PostgresDriver
    except ModuleNotFoundError as error:
        raise _missing(error, "asyncpg", "postgres") from error
    address = parse(url)
    prefix = address.prefix()
    return SQLStore(PostgresDriver(address), prefix)


def open_mysql(url: str) -> SQLStore:
    """Open `mysql://user:password@host:port/database`, on MySQL or MariaDB."""
    try:
        from octavo.stores.sql.drivers.mysql import MySQLDriver
    except ModuleNotFoundError as error:
        raise _missing(error, "asyncmy", "mysql") from error
    address = parse(url)
    prefix = address.prefix()
    return SQLStore(MySQLDriver(address), prefix)


def SQLAlchemyStore(  # noqa: N802
    engine_or_session: "AsyncEngine | AsyncSession", prefix: str = "", together: Iterable[str] = ()
) -> SQLStore:
    """A store over a caller's engine or session, which it neither commits nor closes.

    The tables of the collections used `together` are made before any of them is used: a transaction of MySQL cannot come
    to a table that was made after it began to read.
    """
    try:
        from octavo.stores.sql.drivers.sqlalchemy import SQLAlchemyDriver
    except ModuleNotFoundError as error:
        raise _missing(error, "sqlalchemy", "sqlalchemy") from error
    return SQLStore(SQLAlchemyDriver(engine_or_session), prefix, together)


def _missing(error: ModuleNotFoundError, package: str, extra: str) -> Exception:
    if error.name != package:  # something else is broken, and must not hide behind advice that does not help
        return error
    return ConfigError(f"this store needs {package}: pip install 'octavo[{extra}]'")


__all__ = ["SQLAlchemyStore", "SQLStore", "open_mysql", "open_postgres", "open_sqlite"]
