"""Work on a SQLite connection: scripts, transactions, and a thread that does them for any event loop."""

import asyncio
import contextlib
import itertools
import os
import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar

import apsw

from octavo.errors import OctavoError, StoreError, StoreUnavailable
from octavo.stores.sql.drivers.port import ApplyAll, Batch
from octavo.stores.sql.statements import Do, DoEach, Pause, Script, Statement, TooLong

T = TypeVar("T")


class Call(NamedTuple):
    """Something to be done: a function of the connection, or a batch together with what applies it."""

    work: Any
    apply_all: ApplyAll | None
    loop: asyncio.AbstractEventLoop | None
    answer: "asyncio.Future[Any] | None"


class Worker:
    """A thread with a connection of its own; each call is answered on the event loop it came from."""

    MOST_CALLERS = 500

    def __init__(self, connect: Callable[[], apsw.Connection], name: str) -> None:
        self._inbox: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._connect = connect
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[apsw.Connection], T]) -> T:
        """Do some work with the connection, and answer what it answers."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._inbox.put(Call(work, None, loop, answer))
        return await answer

    async def commit(self, batch: Batch, apply_all: ApplyAll) -> list[int]:
        """Apply a batch, in one transaction with those that wait at the same time."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[int]] = loop.create_future()
        self._inbox.put(Call(batch, apply_all, loop, answer))
        return await answer

    def take(self, work: Callable[[apsw.Connection], None]) -> None:
        """Do some work that nobody waits for, as soon as what came before is done."""
        self._inbox.put(Call(work, None, None, None))

    async def stop(self) -> None:
        self._inbox.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def _live(self) -> None:
        connection: apsw.Connection | None = None
        ending = False
        while not ending:
            taken = [self._inbox.get()]
            with contextlib.suppress(queue.Empty):
                while len(taken) < self.MOST_CALLERS:
                    taken.append(self._inbox.get_nowait())
            calls = [call for call in taken if call is not None]
            ending = len(calls) < len(taken)
            try:
                with translated():
                    connection = connection or self._connect()
            except OctavoError as error:
                answer_all([(call, None, error) for call in calls])
                continue
            for writes, group in itertools.groupby(calls, key=lambda call: call.apply_all is not None):
                (self._commit_all if writes else self._run_each)(connection, list(group))
        if connection is not None:
            connection.close()

    def _run_each(self, connection: apsw.Connection, calls: list[Call]) -> None:
        for call in calls:
            try:
                with translated():
                    outcome: Outcome = (call, call.work(connection), None)
            except BaseException as error:  # noqa: BLE001 - whoever waits for this is told, and the thread lives on
                outcome = (call, None, error)
            answer_all([outcome])

    def _commit_all(self, connection: apsw.Connection, calls: list[Call]) -> None:
        """One transaction for all; when it fails, each alone, so that a bad batch fails by itself."""
        try:
            answer_all(commit_calls(connection, calls))
        except BaseException as error:  # noqa: BLE001 - as above
            if len(calls) == 1 or isinstance(error, StoreUnavailable):
                answer_all([(call, None, error) for call in calls])
                return
            for call in calls:
                self._commit_all(connection, [call])


Outcome: TypeAlias = tuple[Call, Any, BaseException | None]


def answer_all(outcomes: list[Outcome]) -> None:
    """Hand results over to their event loops, waking each loop once."""
    for loop, group in itertools.groupby(outcomes, key=lambda outcome: outcome[0].loop):
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and with it whoever waited
                loop.call_soon_threadsafe(resolve, list(group))


def resolve(outcomes: list[Outcome]) -> None:
    """Tell those who wait, on the loop they wait on."""
    for call, result, error in outcomes:
        if (
            call.answer is None or call.answer.done()
        ):  # its waiter was cancelled; the write stands all the same
            continue
        if error is None:
            call.answer.set_result(result)
        else:
            call.answer.set_exception(error)


def commit_calls(connection: apsw.Connection, calls: list[Call]) -> list[Outcome]:
    """Apply the batches of all calls in one transaction."""
    apply_all = calls[0].apply_all  # of one store, so the same for all
    assert apply_all is not None  # noqa: S101
    counts = commit(connection, [call.work for call in calls], apply_all)
    return [(call, count, None) for call, count in zip(calls, counts, strict=True)]


def commit(connection: apsw.Connection, batches: list[Batch], apply_all: ApplyAll) -> list[list[int]]:
    """Apply the batches in one transaction; what came of each."""
    script = apply_all(batches)
    with translated():
        try:
            first = next(script)
        except StopIteration as done:  # there was nothing to write
            counts: list[list[int]] = done.value
            return counts
        if first.whole:  # SQLite makes it a transaction; saying so takes a tenth of the time
            return run(connection, script, first)
        return transact(connection, lambda c: run(c, script, first))


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


def run(connection: apsw.Connection, script: Script[T], first: Statement | None = None) -> T:
    """Run a script, from its first statement on if that has been taken from it already."""
    execute, changes = connection.execute, connection.changes
    answer: Any = None
    try:
        statement = first if first is not None else next(script)
        while True:
            if isinstance(statement, DoEach):
                connection.executemany(statement.sql, statement.rows)
                answer = None
            elif isinstance(statement, Do):
                execute(statement.sql, statement.values)
                answer = changes()
            elif isinstance(statement, Pause):
                answer = None  # this thread is nobody else's
            else:
                answer = execute(statement.sql, statement.values).fetchall()
            statement = script.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result


class _Translated:
    """What apsw raises inside comes out as Octavo's. A class, since a generator would be a third of a small write's overhead."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        if isinstance(
            error, apsw.BusyError | apsw.LockedError | apsw.FullError | apsw.IOError | apsw.ReadOnlyError
        ):
            raise StoreUnavailable(f"SQLite: {error}") from error
        if isinstance(error, apsw.TooBigError):
            raise TooLong(f"SQLite: {error}") from error
        if isinstance(error, apsw.CantOpenError):
            raise StoreUnavailable(f"SQLite cannot open the database file: {error}") from error
        if isinstance(error, apsw.Error):
            raise StoreError(f"SQLite: {error}") from error
        if isinstance(error, OSError):
            raise StoreUnavailable(f"SQLite: {os.strerror(error.errno or 0)}: {error.filename}") from error


_TRANSLATED = _Translated()


def translated() -> _Translated:
    """The errors of what is done inside, in Octavo's words."""
    return _TRANSLATED
