"""SQLite through apsw: one thread writes and a few read; none of it is done on an event loop."""

import asyncio
import contextlib
import ctypes
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import apsw

from octavo.errors import StoreClosed, StoreError, StoreUnavailable
from octavo.kernel.ports import Finding, Scrubbed
from octavo.stores.base import Progress
from octavo.stores.sql.dialects import Dialect
from octavo.stores.sql.dialects.sqlite import SQLite
from octavo.stores.sql.drivers import Driver
from octavo.stores.sql.statements import Do, DoEach, Pause, Script, Statement
from octavo.util.disk import describe_access, make_folder, open_file, write_obstacle

T = TypeVar("T")
_STEPS = 10_000  # of SQLite's machine, after which a reader asks whether anybody still waits: a millisecond or less
_USED = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name LIKE '%octavo_tables'"  # with any prefix
_FULL_TEXT = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%USING fts5(%'"
)
_SYNCHRONOUS = {"full": "FULL", "fast": "NORMAL"}
_LEVELS = ("OFF", "NORMAL", "FULL", "EXTRA")
_PAGES = 10_000  # of the write-ahead log, 40 MiB, after which it is written back; hot pages then go to disk once for many writes
_MOMENT_SECONDS = 0.0005  # for which a call may hold its event loop up
_HELD_SECONDS = 0.002  # in all, after which others have their turn
_SPARED = 64  # calls at most, after several that took longer, for which the loop is not held up
_MAPPED_BYTES = 2**27  # of the file are read where the system has them, without a copy


class SQLiteDriver(Driver):
    """A database file, or one in memory; `durability` full survives power loss, fast survives kill -9."""

    def __init__(self, path: str, durability: str = "full", timeout: float = 60.0) -> None:
        super().__init__()
        self.dialect: Dialect = SQLite()
        self.path = path
        self.durability = durability
        self.timeout = timeout
        self._writer: Worker | None = None
        self._readers: list[Worker] = []

    async def open(self) -> None:
        if self._writer is not None:  # its threads work for any event loop, one after the other
            return
        self._writer = Worker(self._connect, "octavo-sqlite-writer", self.path)
        if self.path == ":memory:":  # belongs to its connection, so that one does everything
            self._readers = [self._writer]
        else:
            self._readers = [Worker(self._connect, "octavo-sqlite-reader", self.path) for _ in range(2)]
        try:
            await self._writer.run(lambda _: None)  # a file that cannot be opened must fail here, not later
        except BaseException:  # cancelled too: the threads would stay
            await self.close()
            raise

    async def write(self, script: Callable[[], Script[T]]) -> T:
        def work(connection: apsw.Connection) -> T:
            self._check_file(connection)
            return transact(connection, lambda c: run(c, script()))

        return await self._worker().run(work)

    def _check_file(self, connection: apsw.Connection) -> None:
        """Refuse to write where nobody will look again."""
        moved = ctypes.c_int()
        connection.file_control("main", apsw.SQLITE_FCNTL_HAS_MOVED, ctypes.addressof(moved))
        if moved.value:
            raise StoreUnavailable(
                f"SQLite: {self.path} was deleted, moved or replaced while it was open; start this process again"
            )

    async def make(self, name: str, script: Callable[[], Script[bool]]) -> bool:
        del name  # a store makes each once
        # Here and not when it is opened: going over to WAL writes to the file, and looking at one leaves it as it is.
        await self._worker().run(lambda connection: go_over_to_wal(connection, self.timeout))
        await self.write(script)
        return False

    async def read(self, script: Callable[[], Script[T]]) -> T:
        self._worker()
        reader = min(self._readers, key=Worker.load)
        given_up = False

        def work(connection: apsw.Connection) -> T:
            # Else a scan that nobody waits for goes on to its end, and whoever asks next waits for it.
            connection.set_progress_handler(lambda: given_up, _STEPS)
            try:
                return read(connection, script())
            finally:
                connection.set_progress_handler(None)

        try:
            return await reader.run(work)
        finally:
            given_up = True

    async def describe(self) -> list[Finding]:
        version = apsw.sqlite_lib_version()
        modern = tuple(int(part) for part in version.split(".")) >= (3, 46)
        [[journal]] = await self._worker().run(lambda c: c.execute("PRAGMA journal_mode").fetchall())
        [[level]] = await self._worker().run(lambda c: c.execute("PRAGMA synchronous").fetchall())
        synchronous = _LEVELS[int(str(level))]
        used = await self._worker().run(lambda connection: connection.execute(_USED).fetchall())
        keeps = self.path != ":memory:"
        lossy = "the last transactions may be lost when the power fails; use durability=full"
        obstacle = write_obstacle(self.path) if keeps else ""
        blocks = keeps and used and journal != "wal" and not obstacle
        return [
            Finding("store", "sqlite"),
            Finding("version", version, "" if modern else "an old SQLite; upgrade apsw"),
            Finding("file", self.path, obstacle if keeps else "everything is lost when the process ends"),
            Finding("journal", str(journal), "not WAL: readers block the writer" if blocks else ""),
            Finding(
                "durability",
                f"{self.durability} (synchronous={synchronous})",
                lossy if keeps and synchronous in ("OFF", "NORMAL") else "",
            ),
            *([Finding("access", *describe_access(Path(self.path)))] if keeps else []),
        ]

    async def scrub(self, tables: Sequence[str], progress: Progress) -> Scrubbed:
        del tables  # one file
        unreached = await self._worker().run(lambda connection: self._scrub(connection, progress))
        files = () if self.path == ":memory:" else (self.path, f"{self.path}-wal", f"{self.path}-shm")
        done = ("secure_delete", "full-text indexes merged", "VACUUM", "write-ahead log truncated")
        return Scrubbed(done=done, files=files, unreached=unreached)

    def _scrub(self, connection: apsw.Connection, progress: Progress) -> tuple[str, ...]:
        """In the writer's thread, so that this process writes nothing meanwhile."""
        indexes: Any = connection.execute(_FULL_TEXT).fetchall()
        total = len(indexes) + 3
        for done, (name,) in enumerate(indexes):
            progress(done, total)
            quoted = self.dialect.quote(name)
            connection.execute(f"INSERT INTO {quoted} ({quoted}) VALUES ('optimize')")
        connection.execute("PRAGMA temp_store = FILE")  # a copy of all of it would not fit into memory
        try:
            progress(total - 3, total)
            self._truncate_log(connection)
            progress(total - 2, total)
            connection.execute("VACUUM")
        finally:
            connection.execute("PRAGMA temp_store = MEMORY")
        progress(total - 1, total)
        truncated = self._truncate_log(connection)
        progress(total, total)
        return () if truncated else (f"{self.path}-wal: somebody reads it all the time; scrub again later",)

    def _truncate_log(self, connection: apsw.Connection) -> bool:
        """Write the log back and cut it to nothing; whether others have let it."""
        try:
            _retry(lambda: connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE), self.timeout)
        except (apsw.BusyError, apsw.LockedError):
            return False
        return True

    async def leave(self) -> None:
        await self.settle()

    async def close(self) -> None:
        await self.settle()
        workers = {id(worker): worker for worker in (self._writer, *self._readers) if worker}
        self._readers, self._writer = [], None
        for worker in workers.values():
            await worker.stop()

    def _worker(self) -> "Worker":
        if self._writer is None:
            raise StoreClosed("the SQLite store was closed")
        return self._writer

    def _connect(self) -> apsw.Connection:
        connection = connect(self.path, self.durability, self.timeout)
        # 16 MiB for each connection; the file's other pages are in the system's own cache, and read where they are there
        # (docs/decisions/032-context-in-time.md).
        connection.execute("PRAGMA cache_size = -16384")
        connection.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}").fetchall()
        # Else a statement is prepared anew for each value it is given, should the value make for a better plan.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        connection.wal_autocheckpoint(_PAGES)
        return connection


def connect(path: str, durability: str, timeout: float) -> apsw.Connection:
    """A connection to a file that others may use too; the file and its folder are made if missing."""
    if path != ":memory:":
        make_folder(Path(path).absolute().parent)
        if not Path(path).exists():
            # SQLite would make it by the umask; -wal and -shm get the mode of the database.
            os.close(open_file(path, os.O_RDWR))
    named, flags = path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    beside = (Path(f"{path}{end}") for end in ("-wal", "-journal"))
    at_rest = path != ":memory:" and Path(path).is_file() and not any(each.exists() for each in beside)
    if at_rest and write_obstacle(path):
        # SQLite would want to make files beside it, or leave some there that nobody may write to later.
        named = f"{Path(path).absolute().as_uri()}?immutable=1"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(named, flags)
    connection.set_busy_timeout(int(timeout * 1000))
    connection.execute("PRAGMA schema_version").fetchall()  # what is no database is refused now, not later
    connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[durability]}")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA secure_delete = ON").fetchall()  # what is removed is overwritten with zeros
    return connection


def go_over_to_wal(connection: apsw.Connection, timeout: float) -> None:
    """Have the file in WAL mode, where readers and the writer do not wait for each other; it stays so."""
    _retry(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchall(), timeout)


def _retry(work: Callable[[], object], timeout: float) -> None:
    """Try what SQLite does not wait for by itself, until others have let it."""
    until = time.monotonic() + timeout
    while True:
        try:
            work()
        except (apsw.BusyError, apsw.LockedError):
            if time.monotonic() > until:
                raise
            time.sleep(0.005)
        else:
            return


class _Call(Generic[T]):
    """Something to be done with a connection, and who waits for the answer: a thread for a moment, an event loop after that."""

    def __init__(self, work: Callable[[apsw.Connection], T]) -> None:
        self.work = work
        self._value: Any = None
        self._failure: BaseException | None = None
        self._undone = threading.Lock()
        self._undone.acquire()
        self._future: asyncio.Future[T] | None = None

    def wait(self, seconds: float) -> bool:
        """Hold this thread up until there is an answer, but no longer than that; whether there is one."""
        return self._undone.acquire(timeout=seconds)

    def result(self) -> T:
        """What it came to."""
        if self._failure is not None:
            raise self._failure
        value: T = self._value
        return value

    def later(self) -> "asyncio.Future[T]":
        """The answer, once there is one."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._future = future
        if not self._undone.locked():  # else whoever answers sees the future
            self._resolve(future)
        return future

    def answer(self, value: Any, failure: BaseException | None) -> None:
        """Say what it came to, in any thread."""
        self._value, self._failure = value, failure
        self._undone.release()
        if (future := self._future) is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and with it whoever waited
                future.get_loop().call_soon_threadsafe(self._resolve, future)

    def _resolve(self, future: "asyncio.Future[T]") -> None:
        if future.done():  # or cancelled: what was written stands all the same
            return
        if self._failure is None:
            future.set_result(self._value)
        else:
            future.set_exception(self._failure)


class Worker:
    """A thread with a connection of its own; each call is answered on the event loop it came from."""

    def __init__(self, connect: Callable[[], apsw.Connection], name: str, path: str = "") -> None:
        self._inbox: queue.SimpleQueue[_Call[Any] | None] = queue.SimpleQueue()
        self._begun = self._answered = 0  # calls
        self._held = 0.0  # seconds for which the loop was held up since others had their turn
        self._in_vain = 1  # calls for which it will not be, after the next one that takes longer
        self._spared = 0  # of these, calls to come
        self._connect = connect
        self._path = path  # for an error to name
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[apsw.Connection], T]) -> T:
        """Do some work with the connection, and answer what it answers.

        The event loop waits a moment for it, as most is done sooner than the loop could be woken again; the more calls in a row
        take longer, the fewer are waited for (docs/decisions/016-sqlite-in-threads.md).
        """
        call, busy = _Call(work), self.load() > 0
        self._begun += 1
        self._inbox.put(call)
        if busy or self._spared:
            self._spared = max(0, self._spared - 1)
            return await call.later()
        began = time.perf_counter()
        if not call.wait(_MOMENT_SECONDS):
            self._spared, self._in_vain = self._in_vain, min(2 * self._in_vain, _SPARED)
            return await call.later()
        self._in_vain = 1
        self._held += time.perf_counter() - began
        if self._held > _HELD_SECONDS:
            self._held = 0.0
            await asyncio.sleep(0)
        return call.result()

    def load(self) -> int:
        """How many calls it has not answered yet."""
        return self._begun - self._answered

    async def stop(self) -> None:
        """Finish what was handed in, and close the connection."""
        self._inbox.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def _run(self) -> None:
        connection: apsw.Connection | None = None
        while (call := self._inbox.get()) is not None:
            result: Any = None
            failure: BaseException | None = None
            try:
                with translate_errors(self._path):
                    connection = connection or self._connect()
                    result = call.work(connection)
            except BaseException as error:  # noqa: BLE001 - whoever waits for this is told, and the thread lives on
                failure = error
            if connection is not None and connection.readonly("main"):  # by the next call it may be another
                connection.close()
                connection = None
            self._answered += 1
            call.answer(result, failure)
        if connection is not None:
            connection.close()


def transact(
    connection: apsw.Connection, work: Callable[[apsw.Connection], T], begin: str = "BEGIN IMMEDIATE"
) -> T:
    """All of it or nothing, and of one moment."""
    # IMMEDIATE: a transaction that reads first and asks for the lock later fails at once when another has it.
    connection.execute(begin)
    try:
        result = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return result


def read(connection: apsw.Connection, script: Script[T]) -> T:
    """Run a script that only reads, as of one moment."""
    try:
        first = next(script)
    except StopIteration as done:  # there was nothing to ask
        nothing: T = done.value
        return nothing
    if first.whole:
        return run(connection, script, first)

    def read_schema_first(connection: apsw.Connection) -> T:
        # Fixes the moment before a virtual table is opened: SQLite gives up when the schema changes under the opening.
        connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
        return run(connection, script, first)

    return transact(connection, read_schema_first, "BEGIN")


def run(connection: apsw.Connection, script: Script[T], first: Statement | None = None) -> T:
    """Run a script to its end, from its first statement on."""
    answer: Any
    try:
        statement = first if first is not None else next(script)
        while True:
            if isinstance(statement, DoEach):
                answer = _do_each(connection, statement)
            elif isinstance(statement, Do):
                connection.execute(statement.sql, statement.values)
                answer = connection.changes()
            elif isinstance(statement, Pause):
                answer = None  # this thread is nobody else's
            else:
                answer = connection.execute(statement.sql, statement.values).fetchall()
            statement = script.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result


def _do_each(connection: apsw.Connection, statement: DoEach) -> list[int]:
    execute, changes, sql = connection.cursor().execute, connection.changes, statement.sql
    answer = []
    for row in statement.rows:
        execute(sql, row)
        answer.append(changes())
    return answer


@contextlib.contextmanager
def translate_errors(path: str = "") -> Iterator[None]:
    """What apsw raises inside comes out as Octavo's errors, which name the file."""
    named = f": {path}" if path and path != ":memory:" else ""
    try:
        yield
    except (apsw.BusyError, apsw.LockedError) as error:
        raise StoreUnavailable(f"SQLite: {error}{named}") from error
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.FullError, apsw.IOError) as error:
        why = write_obstacle(path) if named else ""
        raise StoreUnavailable(f"SQLite: {error}{named}{f' ({why})' if why else ''}") from error
    except apsw.Error as error:
        raise StoreError(f"SQLite: {error}{named if isinstance(error, apsw.NotADBError) else ''}") from error
    except OSError as error:
        raise StoreUnavailable(f"SQLite: {os.strerror(error.errno or 0)}: {error.filename}") from error
