"""SQLite through apsw: one thread that writes, a few that read, and group commit in the writing thread."""

import asyncio
import contextlib
import itertools
import os
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import apsw

from octavo.errors import OctavoError, StoreClosed, StoreError, StoreUnavailable
from octavo.ports import Finding
from octavo.stores.sql.dialects import Dialect, SQLite
from octavo.stores.sql.drivers.port import ApplyAll, Batch
from octavo.stores.sql.statements import Ask, Do, DoEach, Script, Statement

T = TypeVar("T")
_SYNCHRONOUS = {"full": "FULL", "fast": "NORMAL"}


class SQLiteDriver:
    """A database file, or one in memory; `durability` full survives power loss, fast survives kill -9."""

    joins = False

    def __init__(self, path: str, durability: str = "full", timeout: float = 60.0, readers: int = 2) -> None:
        self.dialect: Dialect = SQLite()
        self.path = path
        self.durability = durability
        self.timeout = timeout
        self._reader_count = readers
        self._writer: _Worker | None = None
        self._readers: list[_Worker] = []
        self._turn = itertools.count()

    async def open(self) -> None:
        self._writer = _Worker(self._connect, "octavo-sqlite-writer")
        try:
            await self._writer.run(lambda _: None)  # a file that cannot be opened must fail here, not later
        except OctavoError:
            await self.close()
            raise
        # A database in memory belongs to its connection, so that one reads as well.
        count = 0 if self.path == ":memory:" else self._reader_count
        self._readers = [_Worker(self._connect, "octavo-sqlite-reader") for _ in range(count)] or [
            self._writer
        ]

    async def commit(self, batch: Batch, apply_all: ApplyAll) -> list[int]:
        return await self._worker().commit(batch, apply_all)

    async def write(self, script: Callable[[], Script[T]]) -> T:
        return await self._worker().run(lambda connection: _transact(connection, script))

    async def migrate(self, script: Callable[[], Script[T]]) -> T:
        return await self.write(script)

    async def read(self, script: Callable[[], Script[T]]) -> T:
        self._worker()
        reader = self._readers[next(self._turn) % len(self._readers)]
        return await reader.run(lambda connection: _run(connection, script()))

    async def describe(self) -> list[Finding]:
        version = apsw.sqlite_lib_version()
        mode = await self._worker().run(
            lambda c: [_pragma(c, name) for name in ("journal_mode", "synchronous")]
        )
        keeps = self.path != ":memory:"
        level = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}[mode[1]]
        loss = (
            ""
            if mode[1] >= 2 or not keeps
            else "the last transactions may be lost when the power fails; use durability=full"
        )
        return [
            Finding("store", "sqlite"),
            Finding("version", version, "" if _number(version) >= (3, 46) else "an old SQLite; upgrade apsw"),
            Finding("file", self.path, "" if keeps else "everything is lost when the process ends"),
            Finding(
                "journal",
                str(mode[0]),
                "" if mode[0] == "wal" or not keeps else "not WAL: readers block the writer",
            ),
            Finding("durability", f"{self.durability} (synchronous={level})", loss),
        ]

    async def close(self) -> None:
        workers = {id(worker): worker for worker in (*self._readers, self._writer) if worker is not None}
        self._readers, self._writer = [], None
        for worker in workers.values():
            await worker.stop()

    def _worker(self) -> "_Worker":
        if self._writer is None:
            raise StoreClosed("the SQLite store was closed")
        return self._writer

    def _connect(self) -> apsw.Connection:
        if self.path != ":memory:":
            with contextlib.suppress(FileExistsError):
                Path(self.path).absolute().parent.mkdir(parents=True)
        connection = apsw.Connection(self.path)
        connection.set_busy_timeout(int(self.timeout * 1000))
        deadline = time.monotonic() + self.timeout
        while True:
            try:  # going over to WAL does not wait for others by itself, so parallel first use would fail
                connection.execute("PRAGMA journal_mode = WAL").fetchall()
                break
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
        connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[self.durability]}")
        connection.execute(
            "PRAGMA cache_size = -65536"
        )  # 64 MiB keep the indexes of a million records in memory
        connection.execute("PRAGMA temp_store = MEMORY")
        return connection


class _Worker:
    """A thread with a connection of its own; each call is answered on the event loop it came from."""

    MOST_CALLERS = 500

    def __init__(self, connect: Callable[[], apsw.Connection], name: str) -> None:
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._connect = connect
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[apsw.Connection], T]) -> T:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._inbox.put((work, None, loop, answer))
        return await answer

    async def commit(self, batch: Batch, apply_all: ApplyAll) -> list[int]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[int]] = loop.create_future()
        self._inbox.put((batch, apply_all, loop, answer))
        return await answer

    async def stop(self) -> None:
        self._inbox.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def _live(self) -> None:
        connection: apsw.Connection | None = None
        ending = False
        while not ending:
            calls = [self._inbox.get()]
            with contextlib.suppress(queue.Empty):
                while len(calls) < self.MOST_CALLERS:
                    calls.append(self._inbox.get_nowait())
            if None in calls:
                ending = True
                calls = [call for call in calls if call is not None]
            try:
                with _translated():
                    connection = connection or self._connect()
            except OctavoError as error:
                _answer([(call[2], call[3], None, error) for call in calls])
                continue
            for work, group in itertools.groupby(calls, key=lambda call: call[1] is not None):
                (self._commit_all if work else self._run_each)(connection, list(group))
        if connection is not None:
            connection.close()

    def _run_each(self, connection: apsw.Connection, calls: list[Any]) -> None:
        for work, _, loop, answer in calls:
            try:
                with _translated():
                    result, error = work(connection), None
            except OctavoError as failed:
                result, error = None, failed
            _answer([(loop, answer, result, error)])

    def _commit_all(self, connection: apsw.Connection, calls: list[Any]) -> None:
        """One transaction for all; when it fails, each alone, so that a bad batch fails by itself."""
        apply_all: ApplyAll = calls[0][1]
        try:
            with _translated():
                counts = _transact(connection, lambda: apply_all([call[0] for call in calls]))
        except OctavoError as error:
            if len(calls) == 1 or isinstance(error, StoreUnavailable):
                _answer([(call[2], call[3], None, error) for call in calls])
                return
            for call in calls:
                self._commit_all(connection, [call])
        else:
            _answer([(call[2], call[3], count, None) for call, count in zip(calls, counts, strict=True)])


def _answer(outcomes: list[tuple[asyncio.AbstractEventLoop, Any, Any, OctavoError | None]]) -> None:
    """Hand results over to their event loops, waking each loop once."""
    for loop, group in itertools.groupby(outcomes, key=lambda outcome: outcome[0]):
        with contextlib.suppress(RuntimeError):  # the loop has ended, and with it whoever waited
            loop.call_soon_threadsafe(_resolve, list(group))


def _resolve(outcomes: list[tuple[Any, Any, Any, OctavoError | None]]) -> None:
    for _, answer, result, error in outcomes:
        if answer.done():  # its waiter was cancelled; the write stands all the same
            continue
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)


def _transact(connection: apsw.Connection, script: Callable[[], Script[T]]) -> T:
    # IMMEDIATE: a transaction that reads first and asks for the lock later fails at once when another has it.
    connection.execute("BEGIN IMMEDIATE")
    try:
        result = _run(connection, script())
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return result


def _run(connection: apsw.Connection, script: Script[T]) -> T:
    execute, changes = connection.execute, connection.changes
    answer: Any = None
    try:
        statement: Statement = next(script)
        while True:
            if type(statement) is Do:
                execute(statement.sql, statement.values)
                answer = changes()
            elif isinstance(statement, DoEach):
                connection.executemany(statement.sql, statement.rows)
                answer = None
            elif isinstance(statement, Ask):
                answer = execute(statement.sql, statement.values).fetchall()
            statement = script.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result


@contextlib.contextmanager
def _translated() -> Any:
    try:
        yield
    except (apsw.BusyError, apsw.LockedError, apsw.FullError, apsw.IOError) as error:
        raise StoreUnavailable(f"SQLite: {error}") from error
    except apsw.CantOpenError as error:
        raise StoreUnavailable(f"SQLite cannot open the database file: {error}") from error
    except apsw.Error as error:
        raise StoreError(f"SQLite: {error}") from error
    except OSError as error:
        raise StoreUnavailable(f"SQLite: {os.strerror(error.errno or 0)}: {error.filename}") from error


def _pragma(connection: apsw.Connection, name: str) -> Any:
    return connection.execute(f"PRAGMA {name}").fetchall()[0][0]


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
