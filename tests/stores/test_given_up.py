"""A read that nobody waits for any more stops, where it is done."""

import asyncio
import itertools

import pytest

from octavo import Query, open_store
from octavo.stores.sql.statements import Fetch

pytestmark = pytest.mark.every_store

ENDLESS = {
    "sqlite": "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 1e9) SELECT COUNT(*) FROM n",
    "postgres": "SELECT pg_sleep(600)",
    "mysql": "SELECT SLEEP(600)",
}
RUNNING = {
    "postgres": "SELECT COUNT(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT pg_sleep%'",
    "mysql": "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'",
}


@pytest.mark.parametrize("kind", ENDLESS)
async def test_a_read_that_was_given_up_stops(kind, tmp_path, request):
    """It would take minutes; others are answered, the store can be closed, and no server goes on with it."""
    url = f"sqlite:///{tmp_path}/o.db" if kind == "sqlite" else request.getfixturevalue("fresh_url")(kind)

    def asked(sql):
        return (yield Fetch(sql))

    async with asyncio.timeout(60), open_store(url) as store:
        await store.find(Query(collection="events", limit=1))
        read = store._driver.read
        reads = [asyncio.create_task(read(lambda: asked(ENDLESS[kind]))) for _ in range(4)]
        await asyncio.sleep(0.5)
        for task in reads:
            task.cancel()
        await asyncio.wait(reads)
        assert all(task.cancelled() for task in reads)
        for _ in range(4):  # each of the threads that read, or connections
            assert await store.find(Query(collection="events", limit=500)) == []
        if kind in RUNNING:
            for number in itertools.count():
                [[running]] = await read(lambda: asked(RUNNING[kind]))
                if not running:
                    break
                assert number < 50, f"{running} reads still run in the server"
                await asyncio.sleep(0.1)
