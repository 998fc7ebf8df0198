"""Thin adapters: each runs scripts on one driver and translates its errors once. Here is what all of them do alike."""

import asyncio
import contextlib
import itertools
import math
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar, cast

from octavo.errors import StoreError, StoreUnavailable
from octavo.kernel.codec import CheckedAdd, Prepared
from octavo.kernel.ports import Finding, PoolUse, Scrubbed
from octavo.stores.base import Progress
from octavo.stores.gather import Gathering
from octavo.stores.sql.dialects import Dialect
from octavo.stores.sql.statements import (
    Build,
    ConnectionLost,
    Contended,
    Do,
    Pause,
    Script,
    Statement,
    StatementTimeout,
)

T = TypeVar("T")
Batch = list[Prepared]
ApplyAll = Callable[[Sequence[Batch]], Script[list[list[int]]]]
_LATELY_SECONDS = 0.1  # no server goes and comes back in less
CONNECT_SECONDS = 10.0  # for a new connection, and to close all of them, unless `timeout` is less
BUILD_SECONDS = 24 * 3600.0  # for an index of a large table
PATIENCE_SECONDS = 30  # how long a whole transaction is tried when others hold its locks
_SPARE_SECONDS = 300.0  # a connection that was not used for longer may lead nowhere, and nobody would say so


class Spare:
    """The connection of the last call, kept for the next one: to give it to the pool and take it again costs as much as a statement.

    Where somebody waits for a connection, none is kept.
    """

    def __init__(self, is_open: Callable[[Any], bool], drop: Callable[[Any, Any], None]) -> None:
        self._is_open = is_open
        self._drop = drop  # gives up a connection of a pool
        self._kept: tuple[Any, Any, float] | None = None
        self._waiting = 0

    def __len__(self) -> int:
        return int(self._kept is not None)

    async def take(self, pool: Any, acquire: Callable[[], Awaitable[Any]]) -> Any:
        """The one that is kept, if it is of this pool, open and was used lately; otherwise another."""
        if self._kept is not None:
            of, connection, at = self._kept
            if of is pool and time.monotonic() - at < _SPARE_SECONDS and self._is_open(connection):
                return self.pop()
            self.drop()
        self._waiting += 1
        try:
            return await acquire()
        finally:
            self._waiting -= 1

    def keep(self, pool: Any, connection: Any) -> bool:
        """Whether it was kept; if not, it goes to its pool."""
        if self._waiting or self._kept is not None:
            return False
        self._kept = pool, connection, time.monotonic()
        return True

    def pop(self) -> Any:
        """The one that is kept, to be kept no longer; None if there is none."""
        kept, self._kept = self._kept, None
        return kept[1] if kept is not None else None

    def drop(self) -> None:
        """Give up the one that is kept, which may be dead."""
        kept, self._kept = self._kept, None
        if kept is not None:
            self._drop(*kept[:2])


class Driver:
    """Runs scripts: group commit, patience with locks, one new try on a dead connection.

    A driver fills in `open`, `close`, `connection`, `send` and `describe`; one whose connections block also `read` and `write`.
    """

    dialect: Dialect
    apply_all: ApplyAll  # the script that applies batches, as the store has it
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

    async def describe(self) -> list[Finding]:
        """What this database is, how durable it is and what is dangerous about it."""
        raise NotImplementedError

    def pool_use(self) -> PoolUse | None:
        """How its connections are used now; None where there is no pool."""
        return None

    async def scrub(self, tables: Sequence[str], progress: Progress) -> Scrubbed:
        """Have these tables, as they are quoted, written anew without the rows that were removed."""
        word = self.dialect.scrubs
        for done, table in enumerate(tables):
            progress(done, len(tables))
            statement = Build(f"{word} {table}")
            await self._with_connection(lambda connection, one=statement: self.send(connection, one))  # type: ignore[misc]
        progress(len(tables), len(tables))
        return Scrubbed(done=(word,) if tables else (), unreached=self.dialect.unreached)

    async def leave(self) -> None:
        """Let go of what belongs to the event loop, which is ending; `open` then begins anew in the next."""
        await self.close()

    def abandon(self) -> None:
        """Forget what belonged to an event loop that has ended."""
        self._gathering = Gathering(self._commit_all, most=500, lanes=self._lanes, beside=_adds_only)
        self._pool: Any = None

    async def begin(self, connection: Any) -> None:
        """Begin a transaction."""
        await self.send(connection, Do("BEGIN"))

    async def end(self, connection: Any, *, keep: bool) -> None:
        """Commit a transaction, or roll it back."""
        await self.send(connection, Do("COMMIT" if keep else "ROLLBACK"))

    async def commit(self, batch: Batch) -> list[int]:
        """Apply a batch in one transaction with those of concurrent callers; answer each after it is durable."""
        return await self._gathering.submit(batch)

    async def _commit_all(self, batches: list[Batch]) -> list[list[int]]:
        return await self.write(lambda: self.apply_all(batches))

    async def read(self, script: Callable[[], Script[T]]) -> T:
        """Run a script that only reads."""

        async def work(connection: Any) -> T:
            return await run(script(), lambda statement: self.send(connection, statement))

        return await self._with_connection(work)

    async def write(self, script: Callable[[], Script[T]]) -> T:
        """Run a script in a transaction of its own, and again when the database gave way to another transaction."""
        until = time.monotonic() + PATIENCE_SECONDS
        for attempt in itertools.count():
            try:
                return await self._with_connection(lambda connection: self._transact(connection, script))
            except Contended as error:
                if time.monotonic() > until:
                    raise StoreUnavailable(f"the database stayed busy: {error}") from error
                await asyncio.sleep(random.uniform(0, min(0.01 * 2**attempt, 0.5)))  # noqa: S311 - jitter, not a secret
        raise AssertionError  # unreachable

    async def make(self, name: str, script: Callable[[], Script[bool]]) -> bool:
        """Bring the table of this name to its current version; answer whether a rollback could take that back."""
        del name  # a store makes each once
        made = await self.write(script)
        return made and self.joins

    async def settle(self) -> None:
        """Wait until no transaction is under way."""
        await self._gathering.settle()

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
        committing = first.whole and self._can_autocommit()
        try:
            if committing:
                return await run(running, lambda statement: self.send(connection, statement), first)
            await self.begin(connection)
            result = await self._run_or_undo(connection, running, first)
            committing = True
            await self.end(connection, keep=True)
        except ConnectionLost as error:
            if committing:  # not to be tried again: it may have been kept
                raise StoreUnavailable(f"the connection was lost while committing: {error}") from error
            raise
        return result

    async def _run_or_undo(self, connection: Any, script: Script[T], first: Statement) -> T:
        try:
            return await run(script, lambda statement: self.send(connection, statement), first)
        except (ConnectionLost, StatementTimeout):
            raise  # there is nobody to say ROLLBACK to
        except BaseException:
            with contextlib.suppress(StoreError):
                await self.end(connection, keep=False)
            raise

    def _can_autocommit(self) -> bool:
        """Whether the connection is surely alive: if it died, nobody could tell whether the statement was kept, and try again."""
        now = time.monotonic()
        lately, self._wrote_at = now - self._wrote_at < _LATELY_SECONDS, now
        return self.autocommits and lately


def _adds_only(batch: Batch) -> bool:
    """Whether it does not matter in which order this and other such batches are applied."""
    return all(isinstance(op, CheckedAdd) for op in batch)


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
