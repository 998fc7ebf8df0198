"""The connection that a call leaves to the next one: used again, never in anybody's way, and given up when it is of no use."""

import asyncio

import pytest

from octavo import Add, Query, Record, open_store
from octavo.stores.sql import drivers
from octavo.stores.sql.statements import Do, Fetch

pytestmark = pytest.mark.every_store

ALL = Query(collection="messages")
WHO = {"postgres": "SELECT pg_backend_pid()", "mysql": "SELECT CONNECTION_ID()"}
KILL = {"postgres": "SELECT pg_terminate_backend({})", "mysql": "KILL {}"}


@pytest.fixture(params=[*WHO])
def kind(request):
    return request.param


@pytest.fixture
def url(fresh_url, kind):
    return fresh_url(kind)


def note(name):
    return Add([Record(collection="messages", id=name)])


async def connection_of(store, kind):
    """The server's number of the connection that a call gets."""
    driver = store._driver
    async with driver.connection() as connection:
        return (await driver.send(connection, Fetch(WHO[kind])))[0][0]


async def test_a_lone_caller_keeps_its_connection(url, kind):
    async with open_store(url) as store:
        await store.apply([note("a")])
        first = await connection_of(store, kind)
        await store.apply([note("b")])
        assert await connection_of(store, kind) == first
        while store._driver.pool_use().busy:  # what indexes the records
            await asyncio.sleep(0.01)
        assert store._driver.pool_use().idle >= 1


async def test_nobody_waits_for_a_connection_that_is_kept(url):
    """With a single connection, all who want it get it, readers and writers, as often as they come."""
    async with open_store(f"{url}?pool_size=1") as store:
        await store.apply([note("first")])

        async def come(number):
            for turn in range(5):
                await store.apply([note(f"{number} {turn}")])
                assert len(await store.find(ALL)) > turn

        async with asyncio.timeout(120):
            await asyncio.gather(*map(come, range(8)))
        assert (await store.tally(ALL)).total == 41


async def test_one_that_was_long_unused_is_given_up(url, kind, monkeypatch):
    async with open_store(f"{url}?pool_size=1") as store:
        await store.apply([note("a")])
        first = await connection_of(store, kind)
        monkeypatch.setattr(drivers, "_SPARE_SECONDS", 0.0)
        assert await connection_of(store, kind) != first
        assert len(await store.find(ALL)) == 1


@pytest.mark.parametrize("verb", ["read", "write"])
async def test_one_that_was_cut_meanwhile_is_not_noticed(url, kind, verb):
    """The server ends the connection that is kept: the next call goes to another."""
    async with open_store(url) as store, open_store(url) as other:
        await store.apply([note("a")])
        number = await connection_of(store, kind)
        driver = other._driver
        async with driver.connection() as connection:
            await driver.send(connection, Do(KILL[kind].format(number)))
        await asyncio.sleep(0.2)  # longer than a connection counts as surely alive
        if verb == "write":
            assert await store.apply([note("b")]) == [1]
        else:
            assert len(await store.find(ALL)) == 1
        assert await connection_of(store, kind) != number
