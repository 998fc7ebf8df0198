"""A server that goes away between two calls: the store finds it again by itself."""

import asyncio

import pytest

from octavo import Add, Query, Record, Scope, StoreUnavailable, open_store
from servers import KINDS, fresh, running

HERE = Scope(tenant="t", session="s")
ALL = Query(collection="messages", scope=HERE)


def note(name):
    return Add([Record(collection="messages", id=name, scope=HERE, text=name)])


@pytest.fixture(scope="module", params=KINDS)
def server(request):
    """A server that only these tests use."""
    with running(request.param) as server:
        yield server


@pytest.fixture
def own(server):
    """That server, and an empty database on it."""
    with fresh(server.kind, server.url) as url:
        yield server, url
        server.start()  # else a test that failed while it was away could not drop its database


async def test_restart_between_two_calls(own):
    """The call after a restart succeeds although every pooled connection is dead; records from before are there."""
    server, url = own
    async with open_store(url) as store:
        await asyncio.gather(*(store.apply([note(str(number))]) for number in range(10)))
        await asyncio.gather(*(store.find(ALL) for _ in range(10)))
        server.restart()
        assert (await store.tally(ALL)).total == 10
        server.restart()
        assert len(await store.find(ALL)) == 10
        server.restart()
        assert await store.apply([note("after"), note("1")]) == [1, 0]
        server.restart()
        answers = await asyncio.gather(*(store.apply([note(f"more-{number}")]) for number in range(10)))
        assert answers == [[1]] * 10
        assert (await store.tally(ALL)).total == 21


async def test_away_and_back(own):
    """While the server is away every verb says StoreUnavailable; when it is back the same store serves again."""
    server, url = own
    async with open_store(url) as store:
        assert await store.apply([note("before")]) == [1]
        server.stop()
        for verb in (lambda: store.apply([note("lost")]), lambda: store.find(ALL), lambda: store.tally(ALL)):
            with pytest.raises(StoreUnavailable) as refusal:
                await verb()
            assert refusal.value.__cause__ is not None
        server.start()
        assert await store.apply([note("after")]) == [1]
        assert [record.id for record in await store.find(ALL)] == ["before", "after"]


async def test_not_there_at_first_use(own):
    """A store whose server is not up yet says so, and opens once it is."""
    server, url = own
    server.stop()
    store = open_store(url)
    try:
        with pytest.raises(StoreUnavailable):
            await store.find(ALL)
        server.start()
        assert await store.apply([note("a")]) == [1]
    finally:
        await store.close()
