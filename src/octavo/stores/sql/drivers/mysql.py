"""MySQL and MariaDB through asyncmy."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import asyncmy
from asyncmy import errors as mysql

from octavo.errors import ConfigError, OctavoError, StoreClosed, StoreError, StoreUnavailable
from octavo.kernel.codec import MAX_RECORD_BYTES
from octavo.kernel.ports import Finding, PoolUse
from octavo.kernel.text import pluralize
from octavo.stores.sql.dialects import Dialect
from octavo.stores.sql.dialects.mysql import MySQL, error_of, send_in_parts
from octavo.stores.sql.drivers import BUILD_SECONDS, CONNECT_SECONDS, Driver, Spare, run
from octavo.stores.sql.statements import Build, ConnectionLost, Do, DoEach, Fetch, Statement, StatementTimeout
from octavo.stores.sql.urls import DatabaseUrl

_AMPLE_BYTES = 4 * MAX_RECORD_BYTES
_LOCK_SECONDS = 50  # how long MySQL waits for a lock unless told otherwise


class MySQLDriver(Driver):
    """A pool of connections that compare byte for byte and keep microseconds."""

    def __init__(self, address: DatabaseUrl) -> None:
        self._pool_size = address.option("pool_size", 10, int)
        super().__init__(lanes=min(2, self._pool_size))
        self.dialect: Dialect = MySQL()
        self._timeout = address.option("timeout", 60.0, float)
        address.options.pop("charset", None)  # SQLAlchemy URLs carry it; ours is always utf8mb4
        socket = address.option("unix_socket", None)
        address.refuse_unknown("pool_size, timeout, prefix, unix_socket")
        if not address.path.strip("/"):
            raise ConfigError("the mysql URL names no database: mysql://user:password@host/DATABASE")
        #: The hosts in the order in which they are tried: the one in use first.
        self._hosts = [{"host": host or "localhost", "port": port or 3306} for host, port in address.hosts]
        self._login = {
            "user": address.user or "root", "password": address.password.encode(),  # asyncmy would take text for Latin-1
            "database": address.path.strip("/"), "charset": "utf8mb4",
            "autocommit": True, "unix_socket": socket,
        }  # fmt: skip

    def abandon(self) -> None:
        super().abandon()
        self._spare = Spare(_is_open, _give_up)
        self._failed = False  # whether the host in use is to be left for another
        self._moving = asyncio.Lock()

    async def open(self) -> None:
        errors: list[StoreError] = []
        for _ in self._hosts:
            try:
                self._pool = await self._open_pool()
            except StoreError as error:
                errors.append(error)
                self._hosts.append(self._hosts.pop(0))
            else:
                return
        lasting = [error for error in errors if not isinstance(error, StoreUnavailable)]
        if len(errors) == 1 or len(lasting) == len(errors):
            raise errors[0]
        raise ConnectionLost(f"no host takes writes now ({'; '.join(map(str, errors))})") from errors[0]

    async def _open_pool(self) -> Any:
        """Connections to the first host."""
        login, several = self._hosts[0] | self._login, len(self._hosts) > 1
        # asyncmy's own limit ends when the port is open: a server that stands still would be waited for, for ever.
        seconds = min(CONNECT_SECONDS / len(self._hosts), self._timeout)
        with _translate_errors():
            async with _timeout(seconds):
                probe = await asyncmy.connect(**login)
                try:
                    version = probe.get_server_info().lower()
                    async with probe.cursor() as cursor:
                        # A node may not have heard of what another has acknowledged.
                        if several and "mariadb" in version:
                            await cursor.execute("SET SESSION wsrep_sync_wait = 1")
                        await cursor.execute("SHOW VARIABLES LIKE 'wsrep_on'")
                        galera = [value for _, value in await cursor.fetchall()] == ["ON"]
                        if galera:  # the next answer waits until the node has what others have acknowledged
                            await cursor.execute("SET SESSION wsrep_sync_wait = 1")
                        await cursor.execute("SELECT @@max_allowed_packet")
                        self.dialect = MySQL.of(version, (await cursor.fetchone())[0], galera=galera)
                finally:
                    probe.close() if several else await probe.ensure_closed()
                # Quoting rules we know, no silent truncation, and no gap locks, on which conflict-ignoring inserts dead-lock.
                isolation = "tx_isolation" if "mariadb" in version else "transaction_isolation"
                # What nobody waits for any more must not go on holding its other locks until the server gives it up by itself.
                lock = min(_LOCK_SECONDS, math.ceil(self._timeout) + 1)
                settings = (
                    "sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', "
                    f"SESSION {isolation} = 'READ-COMMITTED', SESSION innodb_lock_wait_timeout = {lock}"
                )
                return await asyncmy.create_pool(
                    minsize=1,
                    maxsize=self._pool_size,
                    pool_recycle=3600,
                    init_command=f"SET SESSION {settings}",
                    **login,
                )

    async def _move(self) -> None:
        """Leave a host that has failed for the next one that takes writes."""
        async with self._moving:
            if not self._failed or self._pool is None:
                return
            left = self._pool
            self._hosts.append(self._hosts.pop(0))
            await self.open()
            self._failed = False
            self._spare.drop()
            left.terminate()

    def pool_use(self) -> PoolUse | None:
        if (pool := self._pool) is None:
            return None
        idle = pool.freesize + len(self._spare)
        return PoolUse(pool.size - idle, idle, self._pool_size)

    async def close(self) -> None:
        await self.settle()
        pool, self._pool = self._pool, None
        if pool is not None:
            if (spare := self._spare.pop()) is not None:
                pool.release(spare)
            pool.close()
            try:
                await asyncio.wait_for(pool.wait_closed(), min(CONNECT_SECONDS, self._timeout))
            except TimeoutError:
                pool.terminate()

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        if self._pool is None:
            raise StoreClosed("the MySQL store was closed")
        if self._failed:
            await self._move()
        pool = self._pool  # its connections go back to it also while the store is being closed
        kept = False
        try:
            with _translate_errors():
                connection = await self._spare.take(pool, lambda: self._acquire(pool))
        except StoreUnavailable:
            self._leave_host(pool)
            raise
        try:
            yield connection
            kept = pool is self._pool and not self._failed and self._spare.keep(pool, connection)
        except BaseException as error:
            # A cancelled or broken exchange leaves bytes on the wire that the next user would take for an answer.
            if isinstance(error, StoreUnavailable) or not isinstance(error, OctavoError):
                _cut(connection)
            if isinstance(error, StoreUnavailable):
                self._spare.drop()
                self._leave_host(pool)
            raise
        finally:
            if not kept:  # not awaited: it would wait for whoever is connecting now
                pool.release(connection)

    async def _acquire(self, pool: Any) -> Any:
        async with _timeout(self._timeout):
            return await pool.acquire()

    def _leave_host(self, pool: Any) -> None:
        """Have the next call go to another host, if there is one and nobody has gone there already."""
        self._failed = self._failed or (len(self._hosts) > 1 and pool is self._pool)

    async def send(self, connection: Any, statement: Statement) -> Any:
        if isinstance(statement, DoEach):
            for row in statement.rows:
                await self.send(connection, Do(statement.sql, row))
            return None
        seconds = BUILD_SECONDS if isinstance(statement, Build) else self._timeout
        most = self.dialect.most_bytes or 0
        # A value of this length is not spelled for nothing: two of them, with all quotes doubled, may be too long together.
        long = max([len(value) for value in statement.values if type(value) is str], default=0) > most // 8
        sql = "" if long else _fill_in(connection, statement.sql, statement.values)
        if long or (len(sql) * 4 >= most and len(sql.encode()) >= most):  # with the byte that says what it is
            return await run(send_in_parts(statement, most), lambda part: self.send(connection, part))
        with _translate_errors():
            try:
                async with asyncio.timeout(seconds), connection.cursor() as cursor:
                    await cursor.execute(sql)
                    return cursor.rowcount if isinstance(statement, Do) else await cursor.fetchall()
            except TimeoutError as error:
                raise StatementTimeout(f"MySQL did not answer within {seconds:g} s") from error

    async def describe(self) -> list[Finding]:
        names = ("version", "innodb_flush_log_at_trx_commit", "max_allowed_packet", "collation_database")
        sql = f"SHOW VARIABLES WHERE Variable_name IN ({', '.join(['%s'] * len(names))})"
        async with self.connection() as connection:
            has = {row[0]: row[1] for row in await self.send(connection, Fetch(sql, names))}
        flush, packet, collation = (has[name] for name in names[1:])
        lossy = "the last second of commits may be lost; set it to 1"
        merges = (
            f"{collation} merges names that differ by case or accent in your own tables; "
            "Octavo's columns compare byte for byte all the same"
        )
        return [
            Finding("store", "mysql"),
            Finding("version", has["version"]),
            Finding("innodb_flush_log_at_trx_commit", flush, "" if flush == "1" else lossy),
            Finding("max_allowed_packet", packet, _packet_warning(int(packet))),
            Finding("collation", collation, "" if collation.endswith("bin") else merges),
            Finding("pool", pluralize(self._pool_size, "connection")),
        ]


@contextlib.asynccontextmanager
async def _timeout(seconds: float) -> AsyncIterator[None]:
    """As `asyncio.timeout`; once more a second later, since asyncmy's `wait_for` may swallow a cancellation before Python 3.12."""
    async with asyncio.timeout(seconds + 1), asyncio.timeout(seconds):
        yield


def _packet_warning(packet: int) -> str:
    if packet >= _AMPLE_BYTES:
        return ""
    most = (
        f"records of more than {packet} bytes are refused"
        if packet < MAX_RECORD_BYTES
        else "a record of nearly 16 MiB is refused if it grows when it is folded for searching"
    )
    return f"{most}; SET GLOBAL max_allowed_packet = {_AMPLE_BYTES}, and in the server's configuration"


def _is_open(connection: Any) -> bool:
    return bool(connection.connected) and not connection._stream_broken  # noqa: SLF001 - as asyncmy's pool asks


def _give_up(pool: Any, connection: Any) -> None:
    _cut(connection)
    pool.release(connection)


def _cut(connection: Any) -> None:
    """Close a connection without a word: what is still to be sent would be waited for."""
    transport = connection._proto.transport if connection._proto is not None else None  # noqa: SLF001 - asyncmy cannot
    connection.close()
    connection._connected = False  # noqa: SLF001 - or the pool would hand it out again
    if transport is not None:
        transport.abort()


def _fill_in(connection: Any, sql: str, values: Sequence[Any]) -> str:
    """The statement with its values as literals: what asyncmy would send too, in a third of the time."""
    if not values:
        return sql
    literal = connection.literal
    # Doubling the quote says the same under every sql_mode; a backslash does not, and asyncmy knows which it is.
    backslash = connection.escape_string("\\")
    return sql % tuple(
        [
            "'" + (value.replace("\\", backslash) if "\\" in value else value).replace("'", "''") + "'"
            if type(value) is str
            else literal(value)
            for value in values
        ]
    )


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except mysql.MySQLError as error:
        number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        raise error_of(number, f"MySQL: {error}") from error
    except (ConnectionError, asyncio.IncompleteReadError) as error:
        raise ConnectionLost(f"MySQL cannot be reached: {error}") from error
    except (TimeoutError, OSError) as error:
        raise StoreUnavailable(f"MySQL: {error or 'timed out'}") from error
    except RuntimeError as error:  # asyncmy says so when the pool or the connection is closed
        raise ConnectionLost(f"MySQL: {error}") from error
