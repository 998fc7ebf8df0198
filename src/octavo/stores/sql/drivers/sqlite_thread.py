"""Work on a SQLite connection: scripts, transactions, and a thread that does them for any event loop."""

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import apsw

from octavo.errors import StoreError, StoreUnavailable
from octavo.stores.sql.statements import Do, DoEach, Pause, Script, TooLong
from octavo.util.file_modes import write_obstacle

T = TypeVar("T")


class Call(NamedTuple):
    """Something to be done with the connection, and whoever waits for the answer, if anybody does."""

    work: Callable[[apsw.Connection], Any]
    loop: asyncio.AbstractEventLoop | None = None
    answer: "asyncio.Future[Any] | None" = None


class Worker:
    """A thread with a connection of its own; each call is answered on the event loop it came from."""

    def __init__(self, connect: Callable[[], apsw.Connection], name: str, path: str = "") -> None:
        self._inbox: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._connect = connect
        self._path = path  # for an error to name
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[apsw.Connection], T]) -> T:
        """Do some work with the connection, and answer what it answers."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._inbox.put(Call(work, loop, answer))
        return await answer

    def take(self, work: Callable[[apsw.Connection], None]) -> None:
        """Do some work that nobody waits for, as soon as what came before is done."""
        self._inbox.put(Call(work))

    async def stop(self) -> None:
        """Finish what was handed in, and close the connection."""
        self._inbox.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def _live(self) -> None:
        connection: apsw.Connection | None = None
        while (call := self._inbox.get()) is not None:
            result: Any = None
            failure: BaseException | None = None
            try:
                with translated(self._path):
                    connection = connection or self._connect()
                    result = call.work(connection)
            except BaseException as error:  # noqa: BLE001 - whoever waits for this is told, and the thread lives on
                failure = error
            if call.loop is not None and call.answer is not None:
                with contextlib.suppress(RuntimeError):  # the loop has ended, and with it whoever waited
                    call.loop.call_soon_threadsafe(_resolve, call.answer, result, failure)
        if connection is not None:
            connection.close()


def _resolve(answer: "asyncio.Future[Any]", result: Any, failure: BaseException | None) -> None:
    """Tell whoever waits, unless it was cancelled; what was written stands all the same."""
    if answer.done():
        return
    if failure is None:
        answer.set_result(result)
    else:
        answer.set_exception(failure)


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


def transact_reading(connection: apsw.Connection, work: Callable[[apsw.Connection], T]) -> T:
    """Read as of one moment."""

    def settled(connection: apsw.Connection) -> T:
        # Fixes the moment before a virtual table is opened: SQLite gives up when the schema changes under the opening.
        connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
        return work(connection)

    return transact(connection, settled, "BEGIN")


def run(connection: apsw.Connection, script: Script[T]) -> T:
    """Run a script to its end."""
    answer: Any = None
    try:
        while True:
            statement = script.send(answer)
            if isinstance(statement, DoEach):
                connection.executemany(statement.sql, statement.rows)
                answer = None
            elif isinstance(statement, Do):
                connection.execute(statement.sql, statement.values)
                answer = connection.changes()
            elif isinstance(statement, Pause):
                answer = None  # this thread is nobody else's
            else:
                answer = connection.execute(statement.sql, statement.values).fetchall()
    except StopIteration as done:
        result: T = done.value
        return result


@contextlib.contextmanager
def translated(path: str = "") -> Iterator[None]:
    """What apsw raises inside comes out as Octavo's errors, which name the file."""
    named = f": {path}" if path and path != ":memory:" else ""
    try:
        yield
    except (apsw.BusyError, apsw.LockedError, apsw.FullError, apsw.IOError) as error:
        raise StoreUnavailable(f"SQLite: {error}{named}") from error
    except apsw.TooBigError as error:
        raise TooLong(f"SQLite: {error}") from error
    except (apsw.CantOpenError, apsw.ReadOnlyError) as error:
        why = write_obstacle(path) if named else ""
        raise StoreUnavailable(f"SQLite: {error}{named}{f' ({why})' if why else ''}") from error
    except apsw.Error as error:
        raise StoreError(f"SQLite: {error}") from error
    except OSError as error:
        raise StoreUnavailable(f"SQLite: {os.strerror(error.errno or 0)}: {error.filename}") from error
