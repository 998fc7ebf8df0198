"""What a database has not indexed yet is told, record by record and by how much."""

import asyncio

import pytest

from octavo import Add, Change, Query, Record, Scope, open_store

pytestmark = pytest.mark.every_store


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mysql"])
async def test_what_waits(kind, tmp_path, request):
    """All that was written, until somebody asks or searches; then nothing, until a text is another."""
    url = (
        f"sqlite:///{tmp_path}/octavo.db" if kind == "sqlite" else request.getfixturevalue("fresh_url")(kind)
    )
    query = Query(collection="messages", scope=Scope(user="lin"))
    async with open_store(url) as store:
        assert await store.unindexed(query) == set()
        assert await store.lag("messages", 10) == 0
    async with open_store(url) as store:
        made = [Record(collection="messages", id=f"{n}", scope=query.scope, text="tea") for n in range(5)]
        await store.apply([Add(made)])
        assert await store.unindexed(query) == {"0", "1", "2", "3", "4"}
        assert await store.unindexed(Query(collection="messages", scope=Scope(user="bo"))) == set()
        assert await store.lag("messages", 10) == 5
        async with asyncio.timeout(20):
            while await store.lag("messages", 2):
                await asyncio.sleep(0.05)
        assert await store.unindexed(query) == set()
    async with open_store(url) as store:
        await store.apply([Change(query=Query(collection="messages", ids=("3",)), text="coffee")])
        assert await store.unindexed(query) == {"3"}
