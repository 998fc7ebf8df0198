"""A server that takes connections and says nothing: `timeout` means the same on every store."""

import asyncio
import time

import pytest

from octavo import Add, Change, Query, Record, Scope, StoreUnavailable, open_store
from octavo.stores.sql.statements import Do, Fetch
from servers import KINDS, fresh, running

SERVERS = [kind for kind in KINDS if kind != "pgvector"]  # that is a PostgreSQL too
SECONDS = 2
ABOUT = 8 * SECONDS  # less than any store waits by default, and enough for a busy machine
HERE = Scope(tenant="t", session="s")
ALL = Query(collection="messages", scope=HERE)


def note(name, text=""):
    return Add([Record(collection="messages", id=name, scope=HERE, text=text or name)])


def impatient(url):
    return f"{url}?timeout={SECONDS}"


@pytest.fixture(scope="module", params=SERVERS)
def own(request):
    """A server that only these tests use."""
    with running(request.param) as server:
        yield server


@pytest.fixture
def place(own):
    """That server, and the address of an empty database on it."""
    with fresh(own.kind, own.url) as url:
        yield own, url


async def unavailable(call):
    """How long the call took to say StoreUnavailable."""
    begun = time.monotonic()
    with pytest.raises(StoreUnavailable):
        async with asyncio.timeout(30):
            await call
    return time.monotonic() - begun


async def test_every_verb_ends_after_the_timeout(place):
    """Stuck, each call says StoreUnavailable after about `timeout`; afterwards the same store serves again."""
    server, url = place
    async with open_store(impatient(url)) as store:
        await asyncio.gather(*(store.apply([note(str(number))]) for number in range(8)))
        await asyncio.gather(*(store.find(ALL) for _ in range(8)))
        with server.paused():
            verbs = [
                *(store.apply([note(f"stuck-{number}")]) for number in range(4)),
                store.apply([note("large", "x" * (4 << 20))]),
                store.apply([Change(query=ALL, mark=("stuck",))]),
                *(store.find(ALL) for _ in range(200)),  # more than there are connections
                store.tally(ALL),
            ]
            assert max(await asyncio.gather(*map(unavailable, verbs))) < ABOUT
        assert await store.apply([note("after")]) == [1]
        assert (await store.tally(ALL)).total >= 9
        assert "after" in [record.id for record in await store.find(ALL)]


async def test_connecting_ends_after_the_timeout(place):
    """A store that is opened while its server is stuck says so in time, and opens when it is not."""
    server, url = place
    store = open_store(impatient(url))
    try:
        with server.paused():
            calls = [*(store.find(ALL) for _ in range(8)), store.apply([note("a")])]
            assert max(await asyncio.gather(*map(unavailable, calls))) < ABOUT
        assert await store.apply([note("a")]) == [1]
    finally:
        await store.close()


async def test_closing_ends_although_the_server_is_stuck(place):
    """Nobody waits for an answer that does not come: neither while a call is stuck nor after it was."""
    server, url = place
    stores = [open_store(impatient(url)) for _ in range(2)]
    for store in stores:
        await asyncio.gather(*(store.apply([note(str(number))]) for number in range(8)))
        await asyncio.gather(*(store.find(ALL) for _ in range(8)))
    with server.paused():
        stuck = [
            asyncio.create_task(unavailable(call))
            for call in (stores[0].apply([note("a")]), stores[0].find(ALL))
        ]
        await asyncio.sleep(0)
        begun = time.monotonic()
        async with asyncio.timeout(30):
            for store in stores:
                await store.close()
        assert time.monotonic() - begun < 2 * ABOUT
        await asyncio.gather(*stuck, return_exceptions=True)


async def test_a_swallowed_cancellation_does_not_outlast_the_timeout(place, monkeypatch):
    """Before Python 3.12 `asyncio.wait_for` loses a cancellation that comes as its result does: the call ends all the same."""
    server, url = place
    waits = asyncio.wait_for

    async def deaf(awaitable, timeout):
        task = asyncio.ensure_future(awaitable)
        try:
            await asyncio.sleep(timeout)
        except asyncio.CancelledError:
            return await waits(task, timeout)

    monkeypatch.setattr(asyncio, "wait_for", deaf)
    store = open_store(impatient(url))
    try:
        with server.paused():
            assert await unavailable(store.find(ALL)) < ABOUT
    finally:
        monkeypatch.undo()
        await store.close()


@pytest.mark.parametrize("kind", ["mysql", "postgres"])
async def test_a_stuck_call_does_not_stop_the_others(fresh_url, kind):
    """A write that waits for somebody's lock ends after `timeout`, as often as it is tried; others go on meanwhile."""
    url = fresh_url(kind)
    async with open_store(url) as other, open_store(f"{impatient(url)}&pool_size=3") as store:
        await store.apply([note("held"), note("free")])
        driver = other._driver
        async with driver.connection() as holder:
            await driver.send(holder, Do("BEGIN"))
            rows = await driver.send(holder, Fetch("SELECT rowno FROM messages FOR UPDATE"))
            assert len(rows) == 2
            held = Query(collection="messages", scope=HERE, ids=("held",))
            for _ in range(4):  # more often than there are connections
                stuck = asyncio.create_task(unavailable(store.apply([Change(query=held, mark=("m",))])))
                while not stuck.done():
                    assert len(await store.find(ALL)) == 2
                    assert (await store.tally(ALL)).total == 2
                    await asyncio.sleep(0.05)
                assert await stuck < ABOUT
            await driver.send(holder, Do("ROLLBACK"))
        assert await store.apply([Change(query=held, mark=("m",))]) == [1]
