"""PostgreSQL through asyncpg."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import asyncpg

from octavo.errors import StoreClosed, StoreError, StoreUnavailable
from octavo.kernel.ports import Finding, PoolUse
from octavo.stores.sql.dialects import Dialect
from octavo.stores.sql.dialects.postgresql import PostgreSQL, error_of
from octavo.stores.sql.drivers import BUILD_SECONDS, CONNECT_SECONDS, Driver, Spare
from octavo.stores.sql.statements import (
    Build,
    ConnectionLost,
    Do,
    DoEach,
    Fetch,
    Script,
    Statement,
    StatementTimeout,
)
from octavo.stores.sql.urls import DatabaseUrl

T = TypeVar("T")
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
#: What a server says that is going, gone, or not there yet: 08…, 57P01 to 57P03.
_GONE = (
    asyncpg.PostgresConnectionError, asyncpg.AdminShutdownError, asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
)  # fmt: skip
_UNFIT = asyncpg.TargetServerAttributeNotMatched
_HEAD_START_SECONDS = 0.5  # for a host, before the next one is asked as well
#: In large tables PostgreSQL expects so much of a question about one user that it compiles it, which takes longer than to answer it.
_NO_COMPILING = "jit = off"
_CANCEL_SECONDS = 1.0  # for the server to break off what was not answered in time


class PostgresDriver(Driver):
    """A pool of connections; options of the URL that are asyncpg's or the server's go there as they are."""

    autocommits = True

    def __init__(self, address: DatabaseUrl) -> None:
        self._pool_size = address.option("pool_size", 10, int)
        super().__init__(lanes=min(2, self._pool_size))
        self.dialect: Dialect = PostgreSQL()
        self._timeout = address.option("timeout", 60.0, float)
        #: Behind a pooler, a connection is the same one for a transaction only: nothing is prepared for longer, or sent outside.
        self._pooled = address.choice("pooler", "session", ("session", "transaction")) == "transaction"
        self.autocommits = not self._pooled
        address.refuse_unknown(f"pool_size, timeout, pooler, prefix, {', '.join(_PASSED_ON)}", _PASSED_ON)
        if len(address.hosts) > 1:  # a standby would refuse every write
            address.options.setdefault("target_session_attrs", "read-write")
        #: Each host by its name, that of the last connection first.
        self._dsns = {_spell_host(*host): _dsn(address, host) for host in address.hosts}
        self._host = (
            ", ".join(self._dsns) if address.hosts[0][0] else address.options.get("host", "localhost")
        )

    def abandon(self) -> None:
        super().abandon()
        self._spare = Spare(_is_open, lambda _, connection: _give_up(connection))

    async def open(self) -> None:
        with _translate_errors(self._host):
            pool = await asyncpg.create_pool(
                next(iter(self._dsns.values())),
                # With a floor, asyncpg connects in the background, and writes a traceback for each time that fails.
                min_size=0,
                max_size=self._pool_size,
                timeout=min(CONNECT_SECONDS, self._timeout),
                command_timeout=self._timeout,
                reset=_as_it_is,
                connect=self._connect,
                init=None if self._pooled else _set_up,
                connection_class=_Connection,
                **({"statement_cache_size": 0} if self._pooled else {}),
            )
            try:
                # A server that cannot be reached must fail here, not later.
                await pool.release(await pool.acquire())
            except BaseException:
                pool.terminate()
                raise
        self._pool = pool

    def pool_use(self) -> PoolUse | None:
        if (pool := self._pool) is None:
            return None
        idle = pool.get_idle_size() + len(self._spare)
        return PoolUse(pool.get_size() - idle, idle, self._pool_size)

    async def close(self) -> None:
        await self.settle()
        pool, self._pool = self._pool, None
        if pool is not None:
            if (spare := self._spare.pop()) is not None:
                with contextlib.suppress(*_BROKEN):
                    await pool.release(spare)
            try:
                await asyncio.wait_for(pool.close(), min(CONNECT_SECONDS, self._timeout))
            except TimeoutError:
                pool.terminate()

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        if self._pool is None:
            raise StoreClosed("the PostgreSQL store was closed")
        pool = self._pool  # its connections go back to it also while the store is being closed
        with _translate_errors(self._host):
            connection = await self._spare.take(pool, lambda: pool.acquire(timeout=self._timeout))
        kept = False
        try:
            yield connection
            kept = pool is self._pool and self._spare.keep(pool, connection)
        except ConnectionLost:
            await self._expire(pool)  # where one has died, the others have too
            raise
        except StatementTimeout:
            if len(self._dsns) > 1:  # another may have taken over from a server that stands still
                await self._expire(pool)
            # asyncpg has asked for an end of it. Given up at once, it would go on and keep its locks; waited for, it may take
            # as long again.
            try:
                await connection.execute("ROLLBACK", timeout=_CANCEL_SECONDS)
            except _BROKEN:
                _give_up(connection)
            raise
        finally:
            if not kept:
                with contextlib.suppress(*_BROKEN):
                    await pool.release(connection)

    async def _expire(self, pool: Any) -> None:
        """Have no connection used again that there is now."""
        self._spare.drop()
        await pool.expire_connections()

    async def _connect(self, _dsn: str, **named: Any) -> Any:
        """Connect to the first host that will have us: the last one that did is asked first, and the next as soon as that
        has refused or said nothing for a moment.

        Each is asked in a task of its own, which nobody who gives up waiting interrupts: asyncpg would leave a future behind,
        which asyncio would report as an error when the server hangs up.
        """
        asked: dict[str, asyncio.Task[Any]] = {}
        left = list(self._dsns)
        try:
            while left or not all(task.done() for task in asked.values()):
                if left:
                    name = left.pop(0)
                    asked[name] = asyncio.create_task(asyncpg.connect(self._dsns[name], **named))
                await asyncio.wait(
                    [task for task in asked.values() if not task.done()],
                    timeout=_HEAD_START_SECONDS if left else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for name, task in asked.items():
                    if task.done() and task.exception() is None:
                        self._dsns = {name: self._dsns[name], **self._dsns}
                        return asked.pop(name).result()
        finally:
            for task in asked.values():
                task.add_done_callback(_hang_up)
        raise _refusal({name: task.exception() for name, task in asked.items()})

    async def begin(self, connection: Any) -> None:
        # Whatever the server's default: others would not see what was made while they waited for its lock.
        local = f"; SET LOCAL {_NO_COMPILING}" if self._pooled else ""
        await self.send(connection, Do(f"BEGIN ISOLATION LEVEL READ COMMITTED{local}"))

    async def read(self, script: Callable[[], Script[T]]) -> T:
        if self._pooled:
            return await self._with_connection(lambda connection: self._transact(connection, script))
        return await super().read(script)

    async def send(self, connection: Any, statement: Statement) -> Any:
        with _translate_errors():
            try:
                if isinstance(statement, Build):
                    return await connection.execute(statement.sql, timeout=BUILD_SECONDS)
                if isinstance(statement, Do):
                    status: str = await connection.execute(statement.sql, *statement.values)
                    word = status.rpartition(" ")[2]
                    return int(word) if word.isdigit() else 0
                if isinstance(statement, DoEach):
                    return await connection.executemany(statement.sql, statement.rows)
                return await connection.fetch(statement.sql, *statement.values)
            except TimeoutError as error:
                raise StatementTimeout(f"PostgreSQL did not answer within {self._timeout:g} s") from error

    async def describe(self) -> list[Finding]:
        sql = "SELECT name, setting FROM pg_settings WHERE name = ANY($1::text[])"
        names = ["server_version", "server_encoding", "max_connections", *_WARNINGS]

        def ask() -> Script[Any]:
            return (yield Fetch(sql, [names]))

        has = {row[0]: row[1] for row in await self.read(ask)}
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


def _is_open(connection: Any) -> bool:
    try:
        return not connection.is_closed()
    except asyncpg.InterfaceError:  # the pool has taken it back, as it was closed
        return False


def _give_up(connection: Any) -> None:
    with contextlib.suppress(asyncpg.InterfaceError):  # the pool has taken it back already
        connection.terminate()


def _hang_up(connecting: "asyncio.Future[Any]") -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().terminate()


def _refusal(errors: Mapping[str, BaseException | None]) -> BaseException:
    """What to tell of hosts none of which would have us: an outage, unless all of them have a reason that will not pass."""
    known = [error for error in errors.values() if error is not None]
    lasting = [
        error for error in known if isinstance(error, asyncpg.PostgresError) and not isinstance(error, _GONE)
    ]
    if len(known) == 1 or len(lasting) == len(known):
        return known[0]
    told = "; ".join(
        f"{name}: {'a standby, or read-only' if isinstance(error, _UNFIT) else error or 'no answer'}"
        for name, error in errors.items()
    )
    return ConnectionError(f"no host takes writes now ({told})")


def _spell_host(host: str, port: int | None) -> str:
    return (f"[{host}]" if ":" in host else quote(host, safe="")) + (f":{port}" if port else "")


def _dsn(address: DatabaseUrl, host: tuple[str, int | None]) -> str:
    login = quote(address.user, safe="") + (
        f":{quote(address.password, safe='')}" if address.password else ""
    )
    dsn = f"postgresql://{login}{'@' if login else ''}{_spell_host(*host)}{quote(address.path)}"
    return dsn + (f"?{urlencode(address.options)}" if address.options else "")


async def _set_up(connection: Any) -> None:
    await connection.execute(f"SET {_NO_COMPILING}", timeout=CONNECT_SECONDS)


async def _as_it_is(connection: Any) -> None:
    """Nothing: no statement outlasts its transaction, and undoing nothing would be one more round trip for each call."""


@contextlib.contextmanager
def _translate_errors(host: str = "") -> Iterator[None]:
    try:
        yield
    except socket.gaierror as error:
        raise StoreUnavailable(
            f"PostgreSQL: the host {host!r} cannot be found ({error.strerror}); check its name"
        ) from error
    except asyncpg.PostgresError as error:
        raise error_of(error.sqlstate or "", f"PostgreSQL: {error}") from error
    except ConnectionError as error:
        raise ConnectionLost(f"PostgreSQL cannot be reached: {error}") from error
    except OSError as error:  # a TimeoutError is one
        raise StoreUnavailable(f"PostgreSQL: {error or 'timed out'}") from error
    except asyncpg.InternalClientError as error:
        # So asyncpg answers whoever speaks on a connection that has died.
        raise ConnectionLost(f"PostgreSQL: {error}") from error
    except asyncpg.InterfaceError as error:
        if "closed" in str(error):
            raise ConnectionLost(f"PostgreSQL: {error}") from error
        raise StoreError(f"PostgreSQL: {error}") from error
