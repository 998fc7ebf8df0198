"""Vectors in PostgreSQL: the extension, the schema, the two ways to search, and a server that goes away."""

import asyncio
import random
from urllib.parse import urlsplit

import asyncpg
import pytest

from octavo import ConfigError, open_store
from octavo.errors import StoreUnavailable
from octavo.testing.vectors import Home, assert_agree, direction, keys, nearest_exactly, plane
from octavo.vectors import ExactIndex, PgVectorIndex
from servers import running

HOME = Home("model", "t")


async def run(url, *statements):
    connection = await asyncpg.connect(url)
    try:
        return [await connection.fetch(statement) for statement in statements][-1]
    finally:
        await connection.close()


async def test_a_server_without_pgvector(fresh_postgres):
    """Where pgvector is not installed, the error says what to install and what works without; and that works."""
    available = await run(fresh_postgres, "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'")
    if available:
        await run(fresh_postgres, "CREATE ROLE nobody_much LOGIN PASSWORD 'x'")
        pytest.fail("this test needs a PostgreSQL without pgvector: unset OCTAVO_TEST_POSTGRES")
    with pytest.raises(ConfigError, match=r"CREATE EXTENSION vector.*exact\+postgresql://"):
        await PgVectorIndex(fresh_postgres).spaces()
    async with open_store(fresh_postgres) as store, ExactIndex(store) as index:
        await index.put(HOME.space, [HOME.entry("a", plane(1, 0))])
        assert len(await index.nearest(HOME.space, plane(1, 0), HOME.scope(), ["messages"], 5)) == 1


async def test_an_account_that_may_not(fresh_pgvector):
    """An account that may not create the extension says whom to ask, without its password; once it is there, all is well."""
    parts = urlsplit(fresh_pgvector)
    role = f"plain_{parts.path.strip('/')}"
    await run(
        fresh_pgvector,
        f"CREATE ROLE {role} LOGIN PASSWORD 'wordless'",
        f"GRANT CREATE, USAGE ON SCHEMA public TO {role}",
    )
    try:
        url = parts._replace(netloc=f"{role}:wordless@{parts.hostname}:{parts.port}").geturl()
        with pytest.raises(ConfigError, match="let an administrator run CREATE EXTENSION vector") as refusal:
            await PgVectorIndex(url).spaces()
        assert "wordless" not in str(refusal.value)
        await run(fresh_pgvector, "CREATE EXTENSION vector")
        async with PgVectorIndex(url) as index:
            await index.put(HOME.space, [HOME.entry("a", plane(1, 0))])
            assert [space.entries for space in await index.spaces()] == [1]
    finally:
        await run(fresh_pgvector, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


async def test_the_extension_in_a_schema_of_its_own(fresh_pgvector):
    """The extension is used wherever it was put, also off the search path."""
    await run(fresh_pgvector, 'CREATE SCHEMA "Some Where"', 'CREATE EXTENSION vector SCHEMA "Some Where"')
    async with PgVectorIndex(fresh_pgvector) as index, PgVectorIndex(fresh_pgvector, exact_below=0) as hasty:
        await index.put(HOME.space, [HOME.entry("a", plane(1, 0)), HOME.entry("b", plane(0, 1))])
        await index.complete(HOME.space)
        for one in (index, hasty):
            found = await one.nearest(HOME.space, plane(0, 1), HOME.scope(), ["messages"], 5)
            assert [near.key.id for near in found] == ["b", "a"]


async def test_prefixes_and_parallel_first_use(fresh_pgvector):
    """Ten indexes that meet an empty database at the same moment make each table once; prefixes keep them apart."""
    indexes = [PgVectorIndex(fresh_pgvector, prefix) for prefix in ("", "mem_") for _ in range(5)]
    try:
        await asyncio.gather(
            *(index.put(HOME.space, [HOME.entry(str(n), plane(1, n))]) for n, index in enumerate(indexes))
        )
        for index in (indexes[0], indexes[-1]):
            assert [(space.name, space.entries) for space in await index.spaces()] == [(HOME.space, 5)]
    finally:
        await asyncio.gather(*(index.close() for index in indexes))


async def test_both_ways_agree(fresh_pgvector):
    """A small scope is compared exactly, a large one is searched by HNSW, and a filter never leaves an answer short."""
    source = random.Random(1)
    entries = [
        HOME.entry(f"{n:04}", direction(source), scope=HOME.scope(user=f"u{min(n, 20)}")) for n in range(2000)
    ]
    rare = HOME.entry("rare", direction(source), scope=HOME.scope(user="u20"), collection="events")
    # Such a small table the planner would rather sort.
    async with PgVectorIndex(f"{fresh_pgvector}?options=-c%20enable_sort%3Doff", exact_below=100) as index:
        await index.put(HOME.space, [*entries, rare])
        asked = direction(source)
        for done in (False, True):  # before and after its HNSW index is built
            small = await index.nearest(HOME.space, asked, HOME.scope(user="u3"), ["messages"], 5)
            assert_agree(small, nearest_exactly(entries, asked, HOME.scope(user="u3"), ["messages"], 5))
            large = await index.nearest(HOME.space, asked, HOME.scope(user="u20"), ["messages"], 10)
            right = nearest_exactly(entries, asked, HOME.scope(user="u20"), ["messages"], 10)
            assert len(large) == 10
            assert len({near.key for near in large} & {near.key for near in right}) >= 9
            few = await index.nearest(HOME.space, asked, HOME.scope(user="u20"), ["events"], 5)
            assert [near.key.id for near in few] == ["rare"]
            if not done:
                await index.complete(HOME.space)
                await index.complete(HOME.space)
    methods = (
        "SELECT amname FROM pg_class JOIN pg_am ON pg_am.oid = relam WHERE relname = 'octavo_space_1_nearest'"
    )
    assert [row[0] for row in await run(fresh_pgvector, methods)] == ["hnsw"]
    used = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'octavo_space_1_nearest'"
    assert (await run(fresh_pgvector, used))[0][0] > 0


async def test_long_vectors(fresh_pgvector):
    """Vectors too long for HNSW are compared exactly."""
    source = random.Random(2)
    entries = [HOME.entry(str(n), direction(source, 3072)) for n in range(30)]
    async with PgVectorIndex(fresh_pgvector, exact_below=0) as index:
        await index.put(HOME.space, entries)
        await index.complete(HOME.space)
        asked = direction(source, 3072)
        found = await index.nearest(HOME.space, asked, HOME.scope(), ["messages"], 10)
        assert_agree(found, nearest_exactly(entries, asked, HOME.scope(), ["messages"], 10))


async def test_forgotten_by_another(fresh_pgvector):
    """A space that another process forgets, or makes anew, is noticed by one that had used it."""
    async with PgVectorIndex(fresh_pgvector) as index, PgVectorIndex(fresh_pgvector) as other:
        for number in range(3):
            await index.put(HOME.space, [HOME.entry(f"a{number}", plane(1, 0))])
            for one in (index, other):
                found = await one.nearest(HOME.space, plane(1, 0), HOME.scope(), ["messages"], 5)
                assert [near.key.id for near in found] == [f"a{number}"]
            await other.forget(HOME.space)
            assert await keys(index, HOME.space) == []
    tables = "SELECT tablename FROM pg_tables WHERE tablename LIKE 'octavo%'"
    assert [row[0] for row in await run(fresh_pgvector, tables)] == ["octavo_spaces"]


async def test_a_server_that_goes_away():
    """What cannot be reached is StoreUnavailable, and the same index goes on when the server is back."""
    with running("pgvector") as server:
        index = PgVectorIndex(server.url)
        await index.put(HOME.space, [HOME.entry("a", plane(1, 0))])
        server.stop()
        for verb in (
            index.put(HOME.space, [HOME.entry("b", plane(1, 0))]),
            index.nearest(HOME.space, plane(1, 0), HOME.scope(), ["messages"], 5),
            index.spaces(),
            PgVectorIndex(server.url).spaces(),
        ):
            with pytest.raises(StoreUnavailable) as refusal:
                await verb
            assert refusal.value.__cause__ is not None
        server.start()
        await index.put(HOME.space, [HOME.entry("b", plane(0, 1))])
        assert [key.id for key, _ in await keys(index, HOME.space)] == ["a", "b"]
        await index.close()
