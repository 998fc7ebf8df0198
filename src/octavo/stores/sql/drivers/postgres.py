"""PostgreSQL through asyncpg."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import quote, urlencode

import asyncpg

from octavo.errors import StoreClosed, StoreError, StoreUnavailable
from octavo.kernel.ports import Finding, PoolUse
from octavo.stores.sql.dialects import Dialect, PostgreSQL
from octavo.stores.sql.drivers.port import BUILD_SECONDS, CONNECT_SECONDS, ConnectionLost, Driver, NoAnswer
from octavo.stores.sql.statements import Ask, Build, Contended, Do, DoEach, Duplicate, Statement
from octavo.stores.sql.urls import Address

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
#: What a connection may answer with that has died; TimeoutError is an OSError.
_BROKEN = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
_CANCEL_SECONDS = 1.0  # for the server to break off what was not answered in time


class PostgresDriver(Driver):
    """A pool of connections; options of the URL that are asyncpg's or the server's go there as they are."""

    autocommits = True

    def __init__(self, address: Address) -> None:
        self._pool_size = address.option("pool_size", 10, int)
        super().__init__(lanes=min(2, self._pool_size))
        self.dialect: Dialect = PostgreSQL()
        self._timeout = address.option("timeout", 60.0, float)
        address.done(f"pool_size, timeout, prefix, {', '.join(_PASSED_ON)}", _PASSED_ON)
        login = quote(address.user, safe="") + (
            f":{quote(address.password, safe='')}" if address.password else ""
        )
        place = (f"[{address.host}]" if ":" in address.host else address.host) + (
            f":{address.port}" if address.port else ""
        )
        self._dsn = f"postgresql://{login}{'@' if login else ''}{place}{quote(address.path)}"
        self._dsn += f"?{urlencode(address.options)}" if address.options else ""
        self._host = address.host or str(address.options.get("host", "localhost"))

    async def open(self) -> None:
        with _translated(self._host):
            pool = await asyncpg.create_pool(
                self._dsn,
                # With a floor, asyncpg connects in the background, and writes a traceback for each time that fails.
                min_size=0,
                max_size=self._pool_size,
                timeout=min(CONNECT_SECONDS, self._timeout),
                command_timeout=self._timeout,
                reset=_as_it_is,
                connect=_connect,
                connection_class=_Connection,
            )
            try:
                await pool.release(
                    await pool.acquire()
                )  # a server that cannot be reached must fail here, not later
            except BaseException:
                pool.terminate()
                raise
        self._pool = pool

    def pool_use(self) -> PoolUse | None:
        if (pool := self._pool) is None:
            return None
        idle = pool.get_idle_size()
        return PoolUse(pool.get_size() - idle, idle, self._pool_size)

    async def close(self) -> None:
        await self.settle()
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                await asyncio.wait_for(pool.close(), min(CONNECT_SECONDS, self._timeout))
            except TimeoutError:
                pool.terminate()

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        if self._pool is None:
            raise StoreClosed("the PostgreSQL store was closed")
        pool = self._pool  # its connections go back to it also while the store is being closed
        with _translated(self._host):
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
                await connection.execute("ROLLBACK", timeout=_CANCEL_SECONDS)
            except _BROKEN:
                with contextlib.suppress(asyncpg.InterfaceError):  # the pool has taken it back already
                    connection.terminate()
            raise
        finally:
            with contextlib.suppress(*_BROKEN):
                await pool.release(connection)

    async def begin(self, connection: Any) -> None:
        # Whatever the server's default: others would not see what was made while they waited for its lock.
        await self.send(connection, Do("BEGIN ISOLATION LEVEL READ COMMITTED"))

    async def send(self, connection: Any, statement: Statement) -> Any:
        try:
            return await self._send(connection, statement)
        except StoreUnavailable as error:
            if isinstance(error.__cause__, TimeoutError):
                raise NoAnswer(f"PostgreSQL did not answer within {self._timeout:g} s") from error.__cause__
            raise

    async def _send(self, connection: Any, statement: Statement) -> Any:
        with _translated():
            if isinstance(statement, Build):
                return await connection.execute(statement.sql, timeout=BUILD_SECONDS)
            if isinstance(statement, Do):
                status: str = await connection.execute(statement.sql, *statement.values)
                word = status.rpartition(" ")[2]
                return int(word) if word.isdigit() else 0
            if isinstance(statement, DoEach):
                return await connection.executemany(statement.sql, statement.rows)
            assert isinstance(statement, Ask)  # noqa: S101
            return await connection.fetch(statement.sql, *statement.values)

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


class _Connection(asyncpg.Connection):  # type: ignore[misc]
    def _clean_tasks(self) -> None:
        """Let a request to cancel a query end by itself: interrupted, it leaves such a future behind as `_connect` does."""


async def _connect(*args: Any, **named: Any) -> Any:
    """Connect in a task of its own, which nobody who gives up waiting interrupts.

    Interrupted, asyncpg leaves a future behind, which asyncio would report as an error when the server hangs up.
    """
    connecting = asyncio.ensure_future(asyncpg.connect(*args, **named))
    try:
        await asyncio.wait([connecting])
    except asyncio.CancelledError:
        connecting.add_done_callback(_hang_up)
        raise
    return connecting.result()


def _hang_up(connecting: "asyncio.Future[Any]") -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().terminate()


async def _as_it_is(connection: Any) -> None:
    """Nothing: no statement outlasts its transaction, and undoing nothing would be one more round trip for each call."""


@contextlib.contextmanager
def _translated(host: str = "") -> Iterator[None]:
    try:
        yield
    except socket.gaierror as error:
        raise StoreUnavailable(
            f"PostgreSQL: the host {host!r} cannot be found ({error.strerror}); check its name"
        ) from error
    except asyncpg.UniqueViolationError as error:
        raise Duplicate(f"PostgreSQL: {error}") from error
    except (
        asyncpg.DeadlockDetectedError,
        asyncpg.SerializationError,
        asyncpg.LockNotAvailableError,
    ) as error:
        raise Contended(f"PostgreSQL: {error}") from error
    except (
        asyncpg.PostgresConnectionError,  # 08…
        asyncpg.AdminShutdownError, asyncpg.CrashShutdownError, asyncpg.CannotConnectNowError,  # 57P01 to 57P03
        ConnectionError,
    ) as error:  # fmt: skip
        raise ConnectionLost(f"PostgreSQL cannot be reached: {error}") from error
    except (
        asyncpg.InsufficientResourcesError, asyncpg.QueryCanceledError, TimeoutError, OSError,
        asyncpg.ReadOnlySQLTransactionError,  # a standby, or a primary that has become one
    ) as error:  # fmt: skip
        raise StoreUnavailable(f"PostgreSQL: {error or 'timed out'}") from error
    except (
        asyncpg.InternalClientError
    ) as error:  # how asyncpg answers whoever speaks on a connection that has died
        raise ConnectionLost(f"PostgreSQL: {error}") from error
    except asyncpg.InterfaceError as error:
        if "closed" in str(error):
            raise ConnectionLost(f"PostgreSQL: {error}") from error
        raise StoreError(f"PostgreSQL: {error}") from error
    except asyncpg.PostgresError as error:
        raise StoreError(f"PostgreSQL: {error}") from error
