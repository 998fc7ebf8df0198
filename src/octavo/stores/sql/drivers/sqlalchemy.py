"""A caller's SQLAlchemy engine or session: connections are borrowed, and what was not opened here is not closed here."""

import asyncio
import contextlib
import sqlite3
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, Engine, event, exc
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession
from sqlalchemy.pool import AssertionPool, NullPool, Pool, QueuePool

from octavo.errors import ConfigError, StoreError, StoreUnavailable
from octavo.kernel.ports import Finding, Scrubbed
from octavo.stores.base import Progress
from octavo.stores.sql.dialects import Dialect, mysql, postgresql
from octavo.stores.sql.dialects.mysql import MySQL, send_in_parts
from octavo.stores.sql.dialects.postgresql import PostgreSQL
from octavo.stores.sql.dialects.sqlite import SQLite
from octavo.stores.sql.drivers import PATIENCE_SECONDS, Driver, run
from octavo.stores.sql.statements import (
    ConnectionLost,
    Contended,
    Do,
    DoEach,
    Duplicate,
    Fetch,
    Script,
    Statement,
)

T = TypeVar("T")
_DRIVERS = {"aiosqlite", "asyncpg", "asyncmy", "aiomysql"}


class SQLAlchemyDriver(Driver):
    """With an engine, transactions of its own; with a session, savepoints inside the caller's transaction."""

    def __init__(self, engine_or_session: AsyncEngine | AsyncSession) -> None:
        super().__init__()
        self._session = engine_or_session if isinstance(engine_or_session, AsyncSession) else None
        self._engine = engine_or_session if isinstance(engine_or_session, AsyncEngine) else None
        self.joins = self._session is not None
        bind = (
            engine_or_session.get_bind() if isinstance(engine_or_session, AsyncSession) else engine_or_session
        )
        if not hasattr(bind, "dialect"):
            raise ConfigError(f"an AsyncEngine or AsyncSession is needed; got {type(bind).__name__}")
        if bind.dialect.driver not in _DRIVERS:
            raise ConfigError(
                f"engines on {bind.dialect.driver} are not supported; use {', '.join(sorted(_DRIVERS))}"
            )
        self._bind = bind.sync_engine if isinstance(bind, AsyncEngine) else bind
        self.dialect: Dialect = {"sqlite": SQLite, "postgresql": PostgreSQL}.get(bind.dialect.name, MySQL)()
        # The system's SQLite may be old.
        if isinstance(self.dialect, SQLite) and sqlite3.sqlite_version_info < (3, 43):
            self.dialect.octets = "LENGTH(CAST({} AS BLOB))"
        self._number = 0

    async def open(self) -> None:
        if isinstance(self.dialect, MySQL):
            async with self.connection() as connection:
                [told] = await self.send(connection, Fetch("SELECT VERSION(), @@max_allowed_packet"))
            self.dialect = MySQL.of(*told)

    def abandon(self) -> None:
        super().abandon()
        self._running: set[asyncio.Task[Any]] = set()

    async def close(self) -> None:
        await self.settle()
        while self._running:
            await asyncio.wait(self._running)

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection]:
        async with self._turn():
            if self._session is not None:
                with _translate_errors():
                    connection = await self._session.connection()
                yield connection
                return
            assert self._engine is not None  # noqa: S101
            with _translate_errors():
                connection = await self._engine.connect()
                if isinstance(self.dialect, PostgreSQL):
                    # Whatever the engine's own level: others would not see what was made while they waited for its lock, and
                    # AUTOCOMMIT would make each statement a transaction. MySQL takes four more round trips for this.
                    await connection.execution_options(isolation_level="READ COMMITTED")
            try:
                yield connection
            finally:
                with contextlib.suppress(exc.SQLAlchemyError, OSError):
                    await connection.close()

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        shared, session = _find_shared(self._bind), self._session
        async with contextlib.AsyncExitStack() as turns:
            # A session serves one at a time, and goes wrong rather than wait; others may have a store over it too.
            if session is not None:
                await turns.enter_async_context(_turns_of(session.sync_session).take())
            if session is not None and isinstance(shared, Pool):
                await turns.enter_async_context(_turns_of(shared).take_for(session, shared))
            elif shared is not None:
                await turns.enter_async_context(_turns_of(shared).take())
            yield

    async def _with_connection(self, work: Callable[[Any], Awaitable[T]]) -> T:
        if self._session is not None:
            return await super()._with_connection(work)
        # Cancelled in the middle, a statement would leave its connection with a lock that nobody lets go.
        task = asyncio.ensure_future(super()._with_connection(work))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def make(self, name: str, script: Callable[[], Script[bool]]) -> bool:
        bind = self._session.bind if self._session is not None else None
        if not (isinstance(self.dialect, MySQL) and isinstance(bind, AsyncEngine)):
            return await super().make(name, script)
        # Any CREATE commits the transaction around it in MySQL, and that one is the caller's. So another connection, which
        # is not of the pool: sessions that hold all of it would wait for each other, each for one connection more.
        turns = _turns_of(bind.sync_engine)
        async with turns.take():
            if name not in turns.made:
                spare = AsyncEngine(Engine(bind.sync_engine.pool.recreate(), bind.dialect, bind.url))
                try:
                    await SQLAlchemyDriver(spare).write(script)
                finally:
                    await spare.dispose()
                turns.made.add(name)
        return False

    async def begin(self, connection: AsyncConnection) -> None:
        if isinstance(self.dialect, SQLite):
            raw = await connection.get_raw_connection()
            # Python's sqlite3 begins late and lazily: then a savepoint would be the transaction, and releasing it would
            # commit; and a transaction that reads first fails at once when another writer is there.
            if not raw.driver_connection.in_transaction:  # type: ignore[union-attr]
                await self.send(connection, Do("BEGIN IMMEDIATE"))
        elif self._engine is not None and isinstance(self.dialect, MySQL):
            raw = await connection.get_raw_connection()
            if raw.driver_connection.get_autocommit():  # type: ignore[union-attr] # each statement would be a transaction
                await self.send(connection, Do("BEGIN"))
        if self._session is not None:
            self._number += 1
            await self.send(connection, Do(f"SAVEPOINT octavo_{self._number}"))

    async def end(self, connection: AsyncConnection, *, keep: bool) -> None:
        if self._session is not None:
            word = "RELEASE SAVEPOINT" if keep else "ROLLBACK TO SAVEPOINT"
            await self.send(connection, Do(f"{word} octavo_{self._number}"))
            return
        with _translate_errors():
            await (connection.commit() if keep else connection.rollback())

    async def send(self, connection: AsyncConnection, statement: Statement) -> Any:
        if isinstance(statement, DoEach):
            return [await self.send(connection, Do(statement.sql, row)) for row in statement.rows]
        most = self.dialect.most_bytes
        # Each character may take four bytes, or two and a backslash.
        if most is not None and sum([len(v) for v in statement.values if isinstance(v, str)]) * 4 >= most:
            return await run(
                send_in_parts(statement, most), lambda part: self._send(connection, cast("Fetch", part))
            )
        return await self._send(connection, statement)

    async def _send(self, connection: AsyncConnection, statement: Fetch) -> Any:
        with _translate_errors():
            result = await connection.exec_driver_sql(statement.sql, tuple(statement.values) or None)
            return result.rowcount if isinstance(statement, Do) else result.fetchall()

    async def scrub(self, tables: Sequence[str], progress: Progress) -> Scrubbed:
        del tables, progress
        return Scrubbed(unreached=("the database, whose engine is the caller's: its VACUUM is, too",))

    async def describe(self) -> list[Finding]:
        owner = "session" if self._session is not None else "engine"
        return [Finding("store", f"{self.dialect.name} through the caller's SQLAlchemy {owner}")]


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except exc.DBAPIError as error:
        raise _error_of(error) from error
    except (exc.TimeoutError, OSError) as error:
        raise StoreUnavailable(f"the database cannot be reached: {error}") from error
    except exc.SQLAlchemyError as error:
        raise StoreError(f"SQLAlchemy: {error}") from error


def _error_of(error: exc.DBAPIError) -> StoreError:
    """What the driver below SQLAlchemy meant, by PostgreSQL's states, MySQL's numbers or SQLite's words."""
    message = f"database: {error.orig}"
    args = getattr(error.orig, "args", ())
    if args and isinstance(args[0], int):
        return mysql.error_of(args[0], message)
    if error.connection_invalidated:
        return ConnectionLost(message)
    if state := getattr(error.orig, "sqlstate", None):
        return postgresql.error_of(state, message)
    if "UNIQUE constraint failed" in message:
        return Duplicate(message)
    if "is locked" in message:
        return Contended(message)
    away = "unable to open" in message or "readonly database" in message
    return StoreUnavailable(message) if away else StoreError(message)


class _Turns:
    """Whose turn it is, for all who share an engine, a pool, a connection or a session in one event loop: a rollback of one
    would end the other's transaction.

    A session that leaves its transaction open keeps its turn until that has ended.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.lock = asyncio.Lock()
        self._holder: weakref.ref[Any] | None = None  # a session whose transaction is open
        self._listened: weakref.WeakSet[Any] = weakref.WeakSet()
        # Tables known to be in an engine's database, so that not every request looks again.
        self.made: set[str] = set()

    @contextlib.asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Wait for the turn, and have it for as long as the block lasts."""
        await self._acquire()
        try:
            yield
        finally:
            self.lock.release()

    @contextlib.asynccontextmanager
    async def take_for(self, session: AsyncSession, pool: Pool) -> AsyncIterator[None]:
        """The same for a session, and for as long as it leaves the pool's connection in the middle of a transaction."""
        owner = session.sync_session
        if self._holder is None or self._holder() is not owner:
            await self._acquire()
            self._hold(owner)
        try:
            yield
        finally:
            if not await _is_open(session, pool):
                self._let_go(owner)

    async def _acquire(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self.lock.acquire(), PATIENCE_SECONDS)
            except TimeoutError:
                if self._holder is not None:
                    raise StoreUnavailable(
                        "this engine has one connection for all, and a session has left its transaction open on it for "
                        f"{PATIENCE_SECONDS} s: commit or close that session, or give the engine a pool of several connections"
                    ) from None
            else:
                return

    def _hold(self, owner: Any) -> None:
        self._holder = weakref.ref(owner, lambda _: self._let_go(None))
        if owner not in self._listened:
            self._listened.add(owner)
            event.listen(owner, "after_transaction_end", self._end_turn)

    def _end_turn(self, owner: Any, transaction: Any) -> None:
        if transaction.parent is None and not self.loop.is_closed():
            self._let_go(owner)

    def _let_go(self, owner: Any) -> None:
        if self._holder is not None and self._holder() is owner:
            self._holder = None
            self.lock.release()


_turns: weakref.WeakKeyDictionary[Any, _Turns] = weakref.WeakKeyDictionary()


def _turns_of(shared: Any) -> _Turns:
    """The turns of all who share this, in the running event loop."""
    loop = asyncio.get_running_loop()
    known = _turns.get(shared)
    if known is None or known.loop is not loop:
        known = _turns[shared] = _Turns(loop)
    return known


def _find_shared(bind: Engine | Connection) -> Pool | Connection | None:
    """What can give several callers one connection: a connection, or a pool of one; None when each has one of its own."""
    if isinstance(bind, Connection):
        return bind
    pool = bind.pool
    if isinstance(pool, QueuePool):
        return pool if pool.size() == 1 and pool._max_overflow == 0 else None  # noqa: SLF001 - nothing else tells
    return None if isinstance(pool, NullPool) else pool


async def _is_open(session: AsyncSession, pool: Pool) -> bool:
    """Whether others would end what the session has begun, or could not get its connection."""
    if not session.in_transaction():
        return False
    if isinstance(pool, QueuePool | AssertionPool):
        return True
    try:
        raw: Any = (await (await session.connection()).get_raw_connection()).driver_connection
    except exc.SQLAlchemyError:  # it is broken, and its caller's to roll back
        return True
    return bool(getattr(raw, "in_transaction", True))  # sqlite3 knows whether anything was written
