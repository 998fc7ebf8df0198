"""AsyncSQLAlchemyMemory: the caller's engine and session stay the caller's."""

import asyncio
import contextlib
from urllib.parse import urlsplit, urlunsplit

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from octavo import ConfigError, InvalidRecord, StoreClosed
from octavo.chat import AsyncSQLAlchemyMemory, ChatMemory, Msg

_DRIVERS = {"postgres": ["postgresql+asyncpg"], "mysql": ["mysql+asyncmy", "mysql+aiomysql"]}
ENGINES = ["sqlite+aiosqlite", *(driver for drivers in _DRIVERS.values() for driver in drivers)]


@pytest.fixture(params=ENGINES)
def address(request, tmp_path, fresh_url):
    """The address of an empty database, as SQLAlchemy spells it."""
    if request.param.startswith("sqlite"):
        return f"{request.param}:///{tmp_path}/chat.db"
    [kind] = [kind for kind, drivers in _DRIVERS.items() if request.param in drivers]
    return urlunsplit(urlsplit(fresh_url(kind))._replace(scheme=request.param))


@pytest.fixture
async def engine(address):
    made = create_async_engine(address)
    yield made
    await made.dispose()


def said(content):
    return Msg("Alice", content, "user")


async def contents(engine):
    """What somebody else sees, over a connection of their own."""
    async with AsyncSQLAlchemyMemory(engine, "u", "s") as memory:
        return [message.content for message in await memory.get_memory()]


async def test_everything_goes_with_a_rollback(engine):
    """Messages, marks, summary and deletions belong to the caller's transaction."""
    async with AsyncSQLAlchemyMemory(engine, "u", "s") as memory:
        await memory.add([said("before"), said("marked")], marks="m")
        await memory.update_compressed_summary("old")
    async with AsyncSession(engine) as session:
        memory = AsyncSQLAlchemyMemory(session, "u", "s")
        await memory.add(said("new"), marks="m")
        await memory.update_messages_mark("n", "m")
        await memory.update_compressed_summary("new")
        assert len(await memory.get_memory(mark="n", prepend_summary=False)) == 3
        assert await memory.delete_by_mark("n") == 3
        assert await memory.size() == 0
        await session.rollback()
        assert [message.content for message in await memory.get_memory()] == ["old", "before", "marked"]
        assert await memory.size() == 2
    assert await contents(engine) == ["old", "before", "marked"]
    async with AsyncSQLAlchemyMemory(engine, "u", "s") as memory:
        assert len(await memory.get_memory(mark="m", prepend_summary=False)) == 2


async def test_the_first_use_may_be_rolled_back(engine):
    """The tables are made on first use; taken back with the transaction, they are made again."""
    async with AsyncSession(engine) as session:
        memory = AsyncSQLAlchemyMemory(session, "u", "s")
        await memory.add(said("lost"))
        await memory.update_compressed_summary("lost")
        await session.rollback()
        assert await memory.get_memory() == []
        await memory.add(said("kept"))
        await session.commit()
        await memory.add(said("kept too"))
        await session.commit()
    assert await contents(engine) == ["kept", "kept too"]


async def test_only_the_caller_commits(engine):
    """Until then nobody else sees anything; neither close() nor `async with` commits, closes or disposes."""
    assert await contents(engine) == []
    async with AsyncSession(engine) as session:
        async with AsyncSQLAlchemyMemory(session, "u", "s") as memory:
            await memory.add(said("hello"))
        with pytest.raises(StoreClosed):
            await memory.add(said("late"))
        assert session.in_transaction()
        if engine.dialect.name != "sqlite":  # there, everybody else waits for the writer
            assert await contents(engine) == []
        assert (await session.execute(text("SELECT 1"))).scalar() == 1
        await session.commit()
    assert await contents(engine) == ["hello"]
    assert engine.pool.checkedout() == 0


async def test_the_callers_own_rows(engine):
    """They are in the same transaction, before and after a call that was refused."""
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE own (n INTEGER)"))
    assert await contents(engine) == []
    make = async_sessionmaker(engine, expire_on_commit=False)
    with contextlib.suppress(ZeroDivisionError):
        async with make.begin() as session:
            await session.execute(text("INSERT INTO own VALUES (1)"))
            await AsyncSQLAlchemyMemory(session, "u", "s").add(said("lost"))
            raise ZeroDivisionError
    async with make.begin() as session:
        await session.execute(text("INSERT INTO own VALUES (2)"))
        memory = AsyncSQLAlchemyMemory(session, "u", "s")
        with pytest.raises(InvalidRecord):
            await memory.add([said("fine"), said("\0")])
        await memory.add(said("kept"))
        await session.execute(text("INSERT INTO own VALUES (3)"))
    async with engine.connect() as connection:
        rows = await connection.execute(text("SELECT n FROM own ORDER BY n"))
        assert [row[0] for row in rows] == [2, 3]
    assert await contents(engine) == ["kept"]


async def test_two_memories_in_one_session(engine):
    """An agent and its helper may share a transaction, at once."""
    async with AsyncSession(engine) as session:
        one, two = (AsyncSQLAlchemyMemory(session, "u", name) for name in ("s", "t"))
        await one.add(said("first"))
        await asyncio.gather(*(memory.add(said(str(n))) for n in range(10) for memory in (one, two)))
        assert (await one.size(), await two.size()) == (11, 10)
        await session.commit()


async def test_connections_go_back(engine):
    """With an engine every connection is returned, when a call fails and when it is cancelled too."""
    memory = AsyncSQLAlchemyMemory(engine, "u", "s")
    await memory.add(said("x"))
    with pytest.raises(InvalidRecord):
        await memory.add(said("\0"))
    task = asyncio.create_task(memory.add([said(str(n)) for n in range(50)]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await memory.close()
    assert engine.pool.checkedout() == 0
    assert await contents(engine) in (["x"], ["x", *map(str, range(50))])


async def test_the_documented_defaults(engine):
    """Who names neither user nor session has the default ones, the same as on any other store."""
    async with AsyncSQLAlchemyMemory(engine_or_session=engine) as memory:
        await memory.add(said("x"))
        assert (memory.user_id, memory.session_id) == ("default_user", "default_session")
    async with AsyncSQLAlchemyMemory(engine, "default_user", "default_session") as memory:
        assert await memory.size() == 1


async def test_the_same_tables_as_the_url(engine, address):
    """A memory opened by URL reads what one on an engine wrote."""
    async with AsyncSQLAlchemyMemory(engine, "u", "s") as memory:
        await memory.add(said("x"), marks="m")
    async with ChatMemory.open(address, "u", "s") as memory:
        assert [message.content for message in await memory.get_memory(mark="m")] == ["x"]
    async with engine.connect() as connection:
        [row] = await connection.execute(text("SELECT role, content, user_id, session_id FROM messages"))
        assert tuple(row) == ("user", "x", "u", "s")
        [mark] = await connection.execute(text("SELECT mark FROM message_marks"))
        assert tuple(mark) == ("m",)


def test_something_else():
    """What is no engine or session is refused, and the error says what is."""
    with pytest.raises(ConfigError, match="AsyncEngine"):
        AsyncSQLAlchemyMemory("sqlite+aiosqlite:///x.db")
