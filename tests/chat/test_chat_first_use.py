"""An empty database that many memories use for the first time at the same moment, through callers' engines."""

import asyncio

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from octavo import Add, Change, InvalidRecord, Query, Record, Scope
from octavo.chat import AsyncSQLAlchemyMemory, Msg
from octavo.stores.sql import SQLAlchemyStore
from sampled import sampled, some_of
from warm import programs

LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "AUTOCOMMIT")
ON = {
    "mysql+aiomysql": ("REPEATABLE READ",),
    "mysql+asyncmy": ("READ UNCOMMITTED", *LEVELS),
    "postgresql+asyncpg": LEVELS,
}

CHILD = """
import asyncio, sys
from sqlalchemy.ext.asyncio import create_async_engine
from octavo.chat import AsyncSQLAlchemyMemory, Msg

async def main(url, name):
    print("ready", flush=True)
    while level := await asyncio.to_thread(sys.stdin.readline):
        engine = create_async_engine(url, isolation_level=level.strip())
        memory = AsyncSQLAlchemyMemory(engine)
        await memory.add(Msg(name, name, "user"))
        await memory.close()
        await engine.dispose()
        print("kept", flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture(
    params=some_of(((driver, level) for driver in ON for level in ON[driver]), share=4), ids="-".join
)
def emptied(request, fresh_url):
    """The address of a database for SQLAlchemy, an isolation level, and what makes the database empty again."""
    driver, level = request.param
    url, empty = emptied_on(driver, fresh_url)
    return url, level, empty


def emptied_on(driver, fresh_url):
    """The address of a database through that driver, and what makes it empty again."""
    kind = "mysql" if driver.startswith("mysql") else "postgres"
    url = f"{driver}://{fresh_url(kind).partition('://')[2]}"
    quote = "`" if kind == "mysql" else '"'
    schema = "DATABASE()" if kind == "mysql" else "'public'"

    async def empty():
        engine = create_async_engine(url)
        async with engine.begin() as connection:
            sql = f"SELECT table_name FROM information_schema.tables WHERE table_schema = {schema}"
            for (name,) in (await connection.execute(text(sql))).all():
                await connection.execute(text(f"DROP TABLE {quote}{name}{quote}"))
        await engine.dispose()

    return url, empty


async def test_eight_memories_make_the_tables_once(emptied, size):
    """Eight memories on one empty database all keep their first message, at every isolation level, in every round."""
    url, level, empty = emptied
    for _ in range(size(3, 50)):
        await empty()
        engine = create_async_engine(url, isolation_level=level, pool_size=8)
        memories = [AsyncSQLAlchemyMemory(engine) for _ in range(8)]
        try:
            calls = [memory.add(Msg(str(n), str(n), "user")) for n, memory in enumerate(memories)]
            failed = [each for each in await asyncio.gather(*calls, return_exceptions=True) if each]
            assert not failed
            assert await memories[0].size() == 8
        finally:
            for memory in memories:
                await memory.close()
            await engine.dispose()


@sampled("driver", ON, share=2)
async def test_four_processes_make_the_tables_once(driver, fresh_url, size):
    """Four processes that use one empty database at the same moment all keep their first message, at every isolation level."""
    url, empty = emptied_on(driver, fresh_url)
    pipe = asyncio.subprocess.PIPE
    children = [
        await asyncio.create_subprocess_exec(
            f"{programs()}/python", "-c", CHILD, url, f"p{n}", stdin=pipe, stdout=pipe, stderr=pipe
        )
        for n in range(4)
    ]
    try:
        for child in children:
            assert await child.stdout.readline() == b"ready\n"
        for level in ON[driver] * size(1, 50):
            await empty()
            for child in children:
                child.stdin.write(f"{level}\n".encode())
            for child in children:
                assert await child.stdout.readline() == b"kept\n", (await child.stderr.read()).decode()[
                    -2000:
                ]
            engine = create_async_engine(url)
            memory = AsyncSQLAlchemyMemory(engine)
            assert await memory.size() == 4
            await memory.close()
            await engine.dispose()
    finally:
        await asyncio.gather(*(child.communicate(b"") for child in children))


async def test_one_apply_is_one_transaction(emptied):
    """Whatever the engine's isolation level, AUTOCOMMIT included: what fails half-way has not happened."""
    url, level, _ = emptied
    engine = create_async_engine(url, isolation_level=level)
    store = SQLAlchemyStore(engine)
    here = Scope(tenant="t")
    half = "x" * (9 << 20)
    first = Query(collection="messages", scope=here, ids=("a",))
    try:
        with pytest.raises(InvalidRecord):
            await store.apply(
                [
                    Add([Record(collection="messages", id="a", scope=here, text="a", data={"half": half})]),
                    Change(query=first, merge={"more": half}),
                ]
            )
        assert await store.find(first) == []
    finally:
        await store.close()
        await engine.dispose()
