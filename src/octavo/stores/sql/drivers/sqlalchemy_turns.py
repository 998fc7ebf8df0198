"""Taking turns on a connection that SQLAlchemy gives to several at once: a rollback of one would end the other's transaction."""

import asyncio
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.pool import AssertionPool, NullPool, Pool, QueuePool

from octavo.errors import StoreUnavailable
from octavo.stores.sql.drivers.port import PATIENCE_SECONDS


class Turns:
    """Whose turn it is, for all who share a pool, a connection or a session in one event loop.

    A session that leaves its transaction open keeps its turn until that has ended.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.lock = asyncio.Lock()
        self._holder: weakref.ref[Any] | None = None  # a session whose transaction is open
        self._listened: weakref.WeakSet[Any] = weakref.WeakSet()

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Wait for the turn, and have it for as long as the block lasts."""
        await self._acquire()
        try:
            yield
        finally:
            self.lock.release()

    @asynccontextmanager
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
            event.listen(owner, "after_transaction_end", self._ended)

    def _ended(self, owner: Any, transaction: Any) -> None:
        if transaction.parent is None and not self.loop.is_closed():
            self._let_go(owner)

    def _let_go(self, owner: Any) -> None:
        if self._holder is not None and self._holder() is owner:
            self._holder = None
            self.lock.release()


_turns: weakref.WeakKeyDictionary[Any, Turns] = weakref.WeakKeyDictionary()


def turns_of(shared: Any) -> Turns:
    """The turns of all who share this, in the running event loop."""
    loop = asyncio.get_running_loop()
    known = _turns.get(shared)
    if known is None or known.loop is not loop:
        known = _turns[shared] = Turns(loop)
    return known


def shared_by(bind: Engine | Connection) -> Pool | Connection | None:
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
    except SQLAlchemyError:  # it is broken, and its caller's to roll back
        return True
    return bool(getattr(raw, "in_transaction", True))  # sqlite3 knows whether anything was written
