"""What the SQL store needs of a driver, and what all drivers do alike."""

import asyncio
import contextlib
import math
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, TypeVar, cast

from octavo.errors import StoreClosed, StoreError, StoreUnavailable
from octavo.kernel.codec import CheckedAdd, Prepared
from octavo.kernel.ports import Finding
from octavo.stores.gather import Gathering
from octavo.stores.sql.dialects import Dialect
from octavo.stores.sql.statements import (
    ConnectionLost,
    Contended,
    Do,
    DoEach,
    NoAnswer,
    Pause,
    Script,
    Statement,
)
from octavo.stores.sql.urls import Address

T = TypeVar("T")
Batch = list[Prepared]
ApplyAll = Callable[[Sequence[Batch]], Script[list[list[int]]]]
_LATELY_SECONDS = 0.1  # no server goes and comes back in less
CONNECT_SECONDS = 10.0  # for a new connection, and to close all of them, unless `timeout` is less
BUILD_SECONDS = 24 * 3600.0  # for an index of a large table
PATIENCE_SECONDS = 30  # how long a whole transaction is tried when others hold its locks


class Driver:
    """Runs scripts: group commit, patience with locks, one new try on a dead connection.

    A driver fills in `open`, `close`, `connection`, `send` and `describe`; one whose connections block also `read` and `write`.
    """

    dialect: Dialect
    joins = False  # whether every script runs inside a transaction of the caller's
    autocommits = False  # whether a statement sent outside of a transaction is one, so that BEGIN and COMMIT can be saved

    def __init__(self, lanes: int = 1) -> None:
        self._lanes = lanes
        self._wrote_at = -math.inf
        self.abandon()

    async def open(self) -> None:
        """Reach the database, or say why that cannot be."""
        raise NotImplementedError

    async def close(self) -> None:
        """Finish what was begun and let go of the connections."""
        raise NotImplementedError

    def connection(self) -> AbstractAsyncContextManager[Any]:
        """A connection from the pool, for as long as the block lasts."""
        raise NotImplementedError

    async def send(self, connection: Any, statement: Statement) -> Any:
        """Run one statement; the driver's errors come out as Octavo's."""
        raise NotImplementedError

    async def send_each(self, connection: Any, statement: DoEach) -> None:
        """Send a statement once for each row, where the client library cannot do it quicker."""
        for row in statement.rows:
            await self.send(connection, Do(statement.sql, row))

    async def describe(self) -> list[Finding]:
        """What this database is, how durable it is and what is dangerous about it."""
        raise NotImplementedError

    async def leave(self) -> None:
        """Let go of what belongs to the event loop, which is ending; `open` then begins anew in the next."""
        await self.close()

    def abandon(self) -> None:
        """Forget what belonged to an event loop that has ended."""
        self._gathering = Gathering(self._commit_all, most=500, lanes=self._lanes, beside=_only_adds)
        self._pool: Any = None
        self._running: set[asyncio.Future[Any]] = set()  # work that goes on if whoever asked for it gives up

    async def begin(self, connection: Any) -> None:
        """Begin a transaction."""
        await self.send(connection, Do("BEGIN"))

    async def end(self, connection: Any, *, keep: bool) -> None:
        """Commit a transaction, or roll it back."""
        await self.send(connection, Do("COMMIT" if keep else "ROLLBACK"))

    async def commit(self, batch: Batch, apply_all: ApplyAll) -> list[int]:
        """Apply a batch in one transaction with those of concurrent callers; answer each after it is durable."""
        return await self._gathering.submit((batch, apply_all))

    async def _commit_all(self, group: list[tuple[Batch, ApplyAll]]) -> list[list[int]]:
        apply_all = group[0][1]  # of one store, so the same for all
        return await self.write(lambda: apply_all([batch for batch, _ in group]))

    async def read(self, script: Callable[[], Script[T]]) -> T:
        """Run a script that only reads."""

        async def work(connection: Any) -> T:
            return await run(script(), lambda statement: self.send(connection, statement))

        return await self._with_connection(work)

    async def write(self, script: Callable[[], Script[T]]) -> T:
        """Run a script in a transaction of its own, and again when the database gave way to another transaction."""
        until = time.monotonic() + PATIENCE_SECONDS
        most_seconds = 0.01
        while True:
            try:
                return await self._with_connection(lambda connection: self._transact(connection, script))
            except Contended as error:
                if time.monotonic() > until:
                    raise StoreUnavailable(f"the database stayed busy: {error}") from error
            await asyncio.sleep(random.uniform(0, most_seconds))  # noqa: S311 - jitter, not a secret
            most_seconds = min(2 * most_seconds, 0.5)

    async def make(self, name: str, script: Callable[[], Script[bool]]) -> bool:
        """Bring the table of this name to its current version; answer whether a rollback could take that back."""
        del name  # a store makes each once
        made = await self.write(script)
        return made and self.joins

    async def settle(self) -> None:
        """Wait until no transaction is under way."""
        await self._gathering.settle()
        while self._running:
            await asyncio.wait(self._running)

    async def to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Do this to its end even if the caller is cancelled; only what joins a caller's transaction is its to give up."""
        if self.joins:
            return await work
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    def _over(self, task: "asyncio.Future[Any]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # whoever still waits is told; if nobody does, it is no news

    async def _with_connection(self, work: Callable[[Any], Awaitable[T]]) -> T:
        try:
            async with self.connection() as connection:
                return await work(connection)
        except ConnectionLost:
            # After a restart of the server every pooled connection is dead, and the first use finds out.
            async with self.connection() as connection:
                return await work(connection)

    async def _transact(self, connection: Any, script: Callable[[], Script[T]]) -> T:
        running = script()
        try:
            first = next(running)
        except StopIteration as done:  # there was nothing to do
            return cast("T", done.value)
        if first.whole and self._autocommits_now():
            with _committing():
                return await run(running, lambda statement: self.send(connection, statement), first)
        await self.begin(connection)
        try:
            result = await run(running, lambda statement: self.send(connection, statement), first)
        except (ConnectionLost, NoAnswer):
            raise  # there is nobody to say ROLLBACK to
        except BaseException:
            with contextlib.suppress(StoreError):
                await self.end(connection, keep=False)
            raise
        with _committing():
            await self.end(connection, keep=True)
        return result

    def _autocommits_now(self) -> bool:
        """Whether the connection is surely alive: if it died, nobody could tell whether the statement was kept, and try again."""
        now = time.monotonic()
        lately, self._wrote_at = now - self._wrote_at < _LATELY_SECONDS, now
        return self.autocommits and lately


class PoolDriver(Driver):
    """A driver of a server, with a pool of connections that `_connect` makes and `_disconnect` closes."""

    server: ClassVar[str]  # its name, as errors tell it

    def __init__(self, address: Address, dialect: Dialect) -> None:
        self._pool_size = address.option("pool_size", 10, int)
        super().__init__(lanes=min(2, self._pool_size))
        self.dialect = dialect
        self._timeout = address.option("timeout", 60.0, float)
        self._connect_seconds = min(CONNECT_SECONDS, self._timeout)

    async def close(self) -> None:
        await self.settle()
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                await asyncio.wait_for(self._close_pool(pool), self._connect_seconds)
            except TimeoutError:
                pool.terminate()

    async def _close_pool(self, pool: Any) -> None:
        """Close the pool when all of its connections are back."""
        raise NotImplementedError

    def _open_pool(self) -> Any:
        """The pool. Its connections go back to it also while the store is being closed."""
        if self._pool is None:
            raise StoreClosed(f"the {self.server} store was closed")
        return self._pool

    def _no_answer(self) -> NoAnswer:
        return NoAnswer(f"{self.server} did not answer within {self._timeout:g} s")


@contextlib.contextmanager
def _committing() -> Iterator[None]:
    """A connection that is lost here is no reason to try again: it may have been kept."""
    try:
        yield
    except ConnectionLost as error:
        raise StoreUnavailable(f"the connection was lost while committing: {error}") from error


def _only_adds(work: tuple[Batch, ApplyAll]) -> bool:
    """Whether it does not matter in which order this and other such work is done."""
    return all(isinstance(op, CheckedAdd) for op in work[0])


async def run(
    script: Script[T], send: Callable[[Statement], Awaitable[Any]], first: Statement | None = None
) -> T:
    """Drive a script with an awaiting driver; its errors are thrown into the script, which may know what to do."""
    try:
        statement = first if first is not None else next(script)
        while True:
            try:
                answer = await (asyncio.sleep(0) if isinstance(statement, Pause) else send(statement))
            except StoreError as error:
                statement = script.throw(error)
            else:
                statement = script.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result
