"""What the SQL store needs of a driver, and the group commit that all awaiting drivers share."""

import asyncio
import contextlib
import copy
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

from octavo.codec import Prepared
from octavo.errors import OctavoError, StoreError, StoreUnavailable
from octavo.ports import Finding
from octavo.stores.sql.dialects import Dialect
from octavo.stores.sql.statements import Contended, Do, Script, Statement

T = TypeVar("T")
Batch = list[Prepared]
ApplyAll = Callable[[Sequence[Batch]], Script[list[list[int]]]]
PATIENCE = 8  # how often a whole transaction is tried when others hold its locks


class Driver(Protocol):
    """Runs scripts. `commit` shares one transaction among concurrent callers and answers each after it is durable."""

    dialect: Dialect
    joins: bool

    async def open(self) -> None: ...

    async def commit(self, batch: Batch, apply_all: ApplyAll) -> list[int]: ...

    async def write(self, script: Callable[[], Script[T]]) -> T:
        """Run a script in a transaction of its own."""
        ...

    async def migrate(self, script: Callable[[], Script[T]]) -> T:
        """Run a script that changes the schema."""
        ...

    async def read(self, script: Callable[[], Script[T]]) -> T: ...

    async def describe(self) -> list[Finding]: ...

    async def close(self) -> None: ...


class ConnectionLost(StoreUnavailable):
    """A pooled connection turned out to be dead; nothing of the script has been committed."""


class Awaiting:
    """What drivers on the event loop share: group commit, patience with locks, one new try on a dead connection.

    While one transaction is under way, the callers of the next one gather.
    """

    MOST_CALLERS = 500
    joins = False  # whether every script runs inside a transaction of the caller's

    def __init__(self) -> None:
        self._waiting: list[tuple[Batch, asyncio.Future[list[int]]]] = []
        self._task: asyncio.Task[None] | None = None

    # What a driver fills in.

    def connection(self) -> AbstractAsyncContextManager[Any]:
        """A connection from the pool, for as long as the block lasts."""
        raise NotImplementedError

    async def send(self, connection: Any, statement: Statement) -> Any:
        """Run one statement; the driver's errors come out as Octavo's."""
        raise NotImplementedError

    async def begin(self, connection: Any) -> None:
        await self.send(connection, Do("BEGIN"))

    async def end(self, connection: Any, *, keep: bool) -> None:
        await self.send(connection, Do("COMMIT" if keep else "ROLLBACK"))

    # What all of them do alike.

    async def commit(self, batch: Batch, apply_all: ApplyAll) -> list[int]:
        """Apply a batch together with whoever else is waiting; cancelling one waiter stops nobody's write."""
        answer: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        self._waiting.append((batch, answer))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work(apply_all))
        return await answer

    async def read(self, script: Callable[[], Script[T]]) -> T:
        async def work(connection: Any) -> T:
            return await run(script(), lambda statement: self.send(connection, statement))

        return await self._with_connection(work)

    async def write(self, script: Callable[[], Script[T]]) -> T:
        """Write, and write again when the database gave way to another transaction."""
        for attempt in range(PATIENCE):
            try:
                return await self._with_connection(lambda connection: self._transact(connection, script))
            except Contended as error:
                if attempt == PATIENCE - 1:
                    raise StoreUnavailable(f"the database stayed busy: {error}") from error
                await asyncio.sleep(random.uniform(0, 0.01 * 2**attempt))  # noqa: S311 - jitter, not a secret
        raise AssertionError  # unreachable

    async def migrate(self, script: Callable[[], Script[T]]) -> T:
        return await self.write(script)

    async def settle(self) -> None:
        """Wait until no transaction is under way."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    async def _with_connection(self, work: Callable[[Any], Awaitable[T]]) -> T:
        try:
            async with self.connection() as connection:
                return await work(connection)
        except ConnectionLost:
            # After a restart of the server every pooled connection is dead, and the first use finds out.
            async with self.connection() as connection:
                return await work(connection)

    async def _transact(self, connection: Any, script: Callable[[], Script[T]]) -> T:
        await self.begin(connection)
        try:
            result = await run(script(), lambda statement: self.send(connection, statement))
        except BaseException:
            with contextlib.suppress(StoreError):
                await self.end(connection, keep=False)
            raise
        try:
            await self.end(connection, keep=True)
        except ConnectionLost as error:  # not to be tried again: it may have been kept
            raise StoreUnavailable(f"the connection was lost while committing: {error}") from error
        return result

    async def _work(self, apply_all: ApplyAll) -> None:
        while self._waiting:
            group = self._waiting[: self.MOST_CALLERS]
            del self._waiting[: self.MOST_CALLERS]
            await self._commit_group(group, apply_all)

    async def _commit_group(self, group: list[tuple[Batch, asyncio.Future[list[int]]]], apply_all: ApplyAll) -> None:
        try:
            counts = await self.write(lambda: apply_all([batch for batch, _ in group]))
        except StoreUnavailable as error:  # for all of them alike: trying each alone would only wait again
            _fail(group, error)
        except OctavoError as error:
            if len(group) == 1:
                _fail(group, error)
                return
            for one in group:  # one caller's bad batch must not fail its neighbours
                await self._commit_group([one], apply_all)
        except BaseException:
            _fail(group, StoreUnavailable("the event loop stopped before the write was done"))
            raise
        else:
            for (_, answer), count in zip(group, counts, strict=True):
                if not answer.done():  # else its waiter was cancelled; the write stands all the same
                    answer.set_result(count)


def _fail(group: list[tuple[Batch, asyncio.Future[list[int]]]], error: OctavoError) -> None:
    for _, answer in group:
        if not answer.done():
            answer.set_exception(copy.copy(error).with_traceback(error.__traceback__))


async def run(script: Script[T], send: Callable[[Statement], Awaitable[Any]]) -> T:
    """Drive a script with an awaiting driver; its errors are thrown into the script, which may know what to do."""
    try:
        statement = next(script)
        while True:
            try:
                answer = await send(statement)
            except StoreError as error:
                statement = script.throw(error)
            else:
                statement = script.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result
