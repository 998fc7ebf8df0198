"""PostgreSQL through asyncpg."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote, urlencode

import asyncpg

from octavo.errors import StoreError, StoreUnavailable
from octavo.kernel.ports import Finding
from octavo.stores.sql.dialects import PostgreSQL
from octavo.stores.sql.drivers.port import BUILD_SECONDS, PoolDriver
from octavo.stores.sql.statements import (
    Ask,
    Build,
    ConnectionLost,
    Contended,
    Do,
    DoEach,
    Duplicate,
    NoAnswer,
    Statement,
)
from octavo.stores.sql.urls import Address
from octavo.util.user_code import translated

#: What asyncpg takes from a URL, and settings of a session that are often put there; others go in `options=-c name=value`.
_PASSED_ON = (
    "host", "port", "dbname", "database", "user", "password", "passfile", "service", "target_session_attrs",
    "sslmode", "sslcert", "sslkey", "sslrootcert", "sslnegotiation", "sslcrl", "sslpassword",
    "ssl_min_protocol_version", "ssl_max_protocol_version", "krbsrvname", "gsslib",
    "application_name", "search_path", "statement_timeout", "lock_timeout", "options",
)  # fmt: skip
#: What to say of a setting that is off.
_WARNINGS = {
    "fsync": "the database may be destroyed when the machine fails; set fsync=on",
    "synchronous_commit": "commits are lost when the machine fails; set it to on",
    "full_page_writes": "pages may be torn when the machine fails; set it to on",
}
_CANCEL_SECONDS = 1.0  # for the server to break off what was not answered in time
_BUSY = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError, asyncpg.LockNotAvailableError)
_LOST = (
    asyncpg.PostgresConnectionError,  # 08…
    asyncpg.AdminShutdownError, asyncpg.CrashShutdownError, asyncpg.CannotConnectNowError,  # 57P01 to 57P03
    ConnectionError,
    asyncpg.InternalClientError,  # how asyncpg answers whoever speaks on a connection that has died
)  # fmt: skip
_UNABLE = (
    asyncpg.InsufficientResourcesError, asyncpg.QueryCanceledError, TimeoutError, OSError,
    asyncpg.ReadOnlySQLTransactionError,  # a standby, or a primary that has become one
)  # fmt: skip
_BROKEN = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError)  # TimeoutError is one


class PostgresDriver(PoolDriver):
    """A pool of connections; options of the URL that are asyncpg's or the server's go there as they are."""

    server = "PostgreSQL"
    autocommits = True

    def __init__(self, address: Address) -> None:
        super().__init__(address, PostgreSQL())
        address.done(f"pool_size, timeout, prefix, {', '.join(_PASSED_ON)}", _PASSED_ON)
        password = f":{quote(address.password, safe='')}" if address.password else ""
        login = quote(address.user, safe="") + password
        host = f"[{address.host}]" if ":" in address.host else address.host
        port = f":{address.port}" if address.port else ""
        self._dsn = f"postgresql://{login}{'@' if login else ''}{host}{port}{quote(address.path)}"
        self._dsn += f"?{urlencode(address.options)}" if address.options else ""

    async def open(self) -> None:
        with translated(_error_of):
            self._pool = await asyncpg.create_pool(
                self._dsn,
                min_size=1,
                max_size=self._pool_size,
                timeout=self._connect_seconds,
                command_timeout=self._timeout,
                reset=_as_it_is,
            )

    async def _close_pool(self, pool: Any) -> None:
        await pool.close()

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        pool = self._open_pool()
        with translated(_error_of):
            connection = await pool.acquire(timeout=self._timeout)
        try:
            yield connection
        except ConnectionLost:
            await pool.expire_connections()  # where one has died, the others have too
            raise
        except NoAnswer:
            # asyncpg has asked for an end of it. Given up at once, it would go on and keep its locks; waited for, it may take
            # as long again.
            try:
                await connection.reset(timeout=_CANCEL_SECONDS)
            except _BROKEN:
                connection.terminate()
            raise
        finally:
            with contextlib.suppress(*_BROKEN):
                await pool.release(connection)

    async def begin(self, connection: Any) -> None:
        # Whatever the server's default: others would not see what was made while they waited for its lock.
        await self.send(connection, Do("BEGIN ISOLATION LEVEL READ COMMITTED"))

    async def send(self, connection: Any, statement: Statement) -> Any:
        with translated(_error_of):
            try:
                if isinstance(statement, DoEach):
                    return await connection.executemany(statement.sql, statement.rows)
                if not isinstance(statement, Do):
                    return await connection.fetch(statement.sql, *statement.values)
                seconds = BUILD_SECONDS if isinstance(statement, Build) else None
                status: str = await connection.execute(statement.sql, *statement.values, timeout=seconds)
            except TimeoutError as error:
                raise self._no_answer() from error
            word = status.rpartition(" ")[2]
            return int(word) if word.isdigit() else 0

    async def describe(self) -> list[Finding]:
        sql = "SELECT name, setting FROM pg_settings WHERE name = ANY($1::text[])"
        names = ["server_version", "server_encoding", "max_connections", *_WARNINGS]
        async with self.connection() as connection:
            has = {row[0]: row[1] for row in await self.send(connection, Ask(sql, [names]))}
        encoding = has["server_encoding"]
        foreign = "not UTF8: Chinese text is refused; create the database with ENCODING 'UTF8'"
        return [
            Finding("store", "postgresql"),
            Finding("version", has["server_version"]),
            Finding("encoding", encoding, "" if encoding == "UTF8" else foreign),
            *(
                Finding(name, has[name], warning if has[name] == "off" else "")
                for name, warning in _WARNINGS.items()
            ),
            Finding("pool", f"{self._pool_size} of the server's {has['max_connections']} connections"),
        ]


async def _as_it_is(connection: Any) -> None:
    """Nothing: no statement outlasts its transaction, and undoing nothing would be one more round trip for each call."""


def _error_of(error: Exception) -> StoreError | None:
    """What asyncpg's errors mean."""
    if isinstance(error, asyncpg.UniqueViolationError):
        return Duplicate(f"PostgreSQL: {error}")
    if isinstance(error, _BUSY):
        return Contended(f"PostgreSQL: {error}")
    if isinstance(error, _LOST) or (isinstance(error, asyncpg.InterfaceError) and "closed" in str(error)):
        return ConnectionLost(f"PostgreSQL cannot be reached: {error}")
    if isinstance(error, _UNABLE):
        return StoreUnavailable(f"PostgreSQL: {error or 'timed out'}")
    if isinstance(error, asyncpg.PostgresError | asyncpg.InterfaceError):
        return StoreError(f"PostgreSQL: {error}")
    return None
