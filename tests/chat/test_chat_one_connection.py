"""AsyncSQLAlchemyMemory on an engine that has one connection for all: one transaction at a time, and nothing is lost."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.pool import AssertionPool, SingletonThreadPool, StaticPool

from octavo import Query, StoreUnavailable
from octavo.chat import AsyncSQLAlchemyMemory, Msg
from octavo.stores.sql import SQLAlchemyStore, indexing
from octavo.stores.sql.drivers import sqlalchemy
from sampled import some_of


class PerThread(SingletonThreadPool):
    """One connection for each thread, so one for all tasks of a loop; some versions of SQLAlchemy take it as it is."""

    _is_asyncio = True


POOLS = {
    "static": (":memory:", {}),
    "static, a file": ("chat.db", {"poolclass": StaticPool}),
    "one for each thread": (":memory:", {"poolclass": PerThread}),
    "a pool of one": ("chat.db", {"pool_size": 1, "max_overflow": 0}),
    "refuses a second": (":memory:", {"poolclass": AssertionPool}),
}


@pytest.fixture(params=some_of(POOLS, share=3))
def opened(request, tmp_path):
    """Makes engines with one connection, each on an empty database."""
    place, options = POOLS[request.param]
    numbers = iter(range(1000))

    @asynccontextmanager
    async def open_engine():
        name = place if place == ":memory:" else f"{tmp_path}/{next(numbers)}.db"
        engine = create_async_engine(f"sqlite+aiosqlite:///{name}", **options)
        try:
            yield engine
        finally:
            await engine.dispose()

    return open_engine


def eight(name="m"):
    return [Msg("Alice", f"{name} {number}", "user") for number in range(8)]


async def kept(memory):
    """How many messages are there, and how many the counters say there are."""
    return len(await memory.get_memory()), await memory.size()


@pytest.mark.torture
async def test_nobody_ends_the_transaction_of_a_writer(opened, size):
    """Reads beside a write: no run loses a message (at full length 0 of 500), and the counters are right."""
    for engines in range(size(2, 20)):
        async with opened() as engine:
            for run in range(25):
                async with AsyncSQLAlchemyMemory(engine, "u", f"{engines}-{run}") as memory:
                    await asyncio.gather(memory.add(eight()), memory.size(), memory.size(), memory.size())
                    assert await kept(memory) == (8, 8)


async def test_the_store_itself_does_not_end_it_either(opened, monkeypatch):
    """One caller who awaits each call, while the store indexes in the background."""
    monkeypatch.setattr(indexing, "_IDLE_SECONDS", 0.0)
    async with opened() as engine:
        async with SQLAlchemyStore(engine) as searched:  # makes the index that is then kept up to date
            await searched.search(Query(collection="messages"), ["alice"])
        for run in range(20):
            async with AsyncSQLAlchemyMemory(engine, "u", str(run)) as memory:
                for batch in range(5):
                    await memory.add(eight(str(batch)))
                    assert await memory.size() == 8 * (batch + 1)
                assert await kept(memory) == (40, 40)


async def test_two_memories_over_one_engine(opened):
    """The connection has one turn for all who use it, whoever made them."""
    async with opened() as engine:
        for run in range(25):
            async with (
                AsyncSQLAlchemyMemory(engine, "a", str(run)) as one,
                AsyncSQLAlchemyMemory(engine, "b", str(run)) as other,
            ):
                await asyncio.gather(
                    one.add(eight()),
                    other.size(),
                    other.add(eight()),
                    one.size(),
                    other.get_memory(),
                    one.size(),
                )
                assert await kept(one) == await kept(other) == (8, 8)


async def test_sessions_on_one_connection(opened):
    """What a session has not committed yet is not ended by those who read and write beside it."""
    async with opened() as engine, AsyncSQLAlchemyMemory(engine, "engine", "s") as memory:
        await memory.add(eight())
        for run in range(25):
            async with AsyncSession(engine) as session:
                joined = AsyncSQLAlchemyMemory(session, "session", str(run))

                async def write(session=session, joined=joined):
                    await joined.add(eight())
                    await joined.size()
                    await session.commit()

                await asyncio.gather(write(), memory.size(), memory.add(eight(str(run))), memory.size())
                assert await kept(joined) == (8, 8)
        assert await kept(memory) == (8 * 26, 8 * 26)


async def test_a_session_that_never_commits_does_not_hang_the_others(opened, monkeypatch):
    """Whoever waits for its transaction to end is told so, and the transaction stays whole."""
    monkeypatch.setattr(sqlalchemy, "PATIENCE_SECONDS", 0.2)
    async with opened() as engine, AsyncSQLAlchemyMemory(engine, "engine", "s") as memory:
        await memory.add(eight())
        async with AsyncSession(engine) as session:
            joined = AsyncSQLAlchemyMemory(session, "session", "s")
            await joined.add(eight())
            with pytest.raises(StoreUnavailable, match="commit or close that session"):
                await memory.size()
            await session.commit()
        assert await memory.size() == 8
        async with AsyncSQLAlchemyMemory(engine, "session", "s") as again:
            assert await kept(again) == (8, 8)


async def test_a_session_on_a_connection(opened):
    """Two sessions bound to one connection take turns on it, too."""
    async with opened() as engine:
        async with engine.begin() as connection:
            one, other = (AsyncSession(connection, join_transaction_mode="create_savepoint") for _ in "ab")
            first, second = (AsyncSQLAlchemyMemory(session, "u", "s") for session in (one, other))
            await asyncio.gather(first.add(eight("a")), second.size(), second.add(eight("b")), first.size())
            assert await kept(first) == (16, 16)
            await connection.execute(text("SELECT 1"))
        async with AsyncSQLAlchemyMemory(engine, "u", "s") as again:
            assert await kept(again) == (16, 16)
