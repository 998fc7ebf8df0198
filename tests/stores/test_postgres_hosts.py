"""A PostgreSQL URL that names several hosts: the one that takes writes is found, whatever the others do."""

import asyncio
import socket
import time
from contextlib import contextmanager

import asyncpg
import pytest

from octavo import Add, Query, Record, StoreError, StoreUnavailable, open_store
from octavo.errors import ConfigError
from octavo.stores.sql.urls import parse
from servers import fresh, running
from servers.server import free_port

ALL = Query(collection="messages")


@pytest.fixture(scope="module")
def servers():
    """Two that know nothing of each other: enough to go from one to the other."""
    with running("postgres") as first, running("postgres") as second:
        yield first, second


@pytest.fixture
def database(servers):
    """The name of an empty database on each."""
    with fresh("postgres", servers[0].url) as url:
        name = url.rpartition("/")[2]
        asyncio.run(run_sql(servers[1].url, f"CREATE DATABASE {name} TEMPLATE template0"))
        yield name
        asyncio.run(run_sql(servers[1].url, f"DROP DATABASE {name} WITH (FORCE)"))


async def run_sql(url, *statements):
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


@contextmanager
def silent():
    """The port of a host that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as host:
        yield host.getsockname()[1]


def url_of(ports, database, login="octavo:octavo", options="timeout=5"):
    return f"postgresql://{login}@{','.join(f'127.0.0.1:{port}' for port in ports)}/{database}?{options}"


async def ids(store):
    return {record.id for record in await store.find(ALL)}


async def set_read_only(server, database, *, on):
    """As a standby: what is connected stays so, and may write no more."""
    await run_sql(
        server.url.replace("/postgres", f"/{database}"),
        f"ALTER DATABASE {database} SET default_transaction_read_only = {on}",
        "SELECT pg_reload_conf()",
    )


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://u:p@a:1,b:2,c:3/d", (("a", 1), ("b", 2), ("c", 3))),
        ("postgresql://u:p@a,b/d", (("a", None), ("b", None))),
        ("postgresql://u:p%40,@[::1]:1,b/d", (("::1", 1), ("b", None))),
        ("postgresql://a/d", (("a", None),)),
        ("postgresql:///d", (("", None),)),
    ],
)
def test_hosts_are_read(url, hosts):
    assert parse(url).hosts == hosts
    open_store(url)


@pytest.mark.parametrize("url", ["postgresql://a,/d", "postgresql://a:x,b/d", "qdrant://a,b"])
def test_what_cannot_be_several_hosts_is_refused(url):
    from octavo.vectors import open_vectors

    with pytest.raises(ConfigError):
        open_vectors(url)


async def test_the_one_that_takes_writes_is_found(servers, database):
    """Behind a host that is down, one that stands still and a standby; after the first, the next is asked within a second."""
    first, second = servers
    await set_read_only(first, database, on="on")
    with silent() as stuck:
        hosts = [free_port(), stuck, first.port, second.port]
        began = time.monotonic()
        async with open_store(url_of(hosts, database)) as store:
            await store.apply([Add([Record(collection="messages", id="a")])])
            assert time.monotonic() - began < 4
            assert await ids(store) == {"a"}
    async with open_store(url_of([second.port], database)) as store:
        assert await ids(store) == {"a"}


async def test_the_next_takes_over(servers, database):
    """One goes, the other is asked: with new connections, new prepared statements and the tables that are there."""
    first, second = servers
    async with open_store(url_of([first.port, second.port], database)) as store:
        for _ in range(3):
            await store.apply([Add([Record(collection="messages", id="a", text="fox")])])
        await asyncio.gather(*(ids(store) for _ in range(5)))
        async with open_store(
            url_of([second.port], database)
        ) as other:  # what replication would have brought
            await other.apply([Add([Record(collection="messages", id="a", text="fox")])])
        await asyncio.to_thread(first.stop)
        try:
            assert await store.apply([Add([Record(collection="messages", id="b", text="owl")])]) == [1]
            assert await ids(store) == {"a", "b"}
            assert len((await store.search(ALL, ["owl"])).found) == 1
        finally:
            await asyncio.to_thread(first.start)


async def test_one_that_takes_no_more_writes_is_left(servers, database):
    """A primary that has become a standby, though its connections stayed: the write is done by the other."""
    first, second = servers
    async with open_store(url_of([second.port], database)) as other:
        await other.apply([Add([Record(collection="messages", id="a")])])
    async with open_store(url_of([first.port, second.port], database)) as store:
        await store.apply([Add([Record(collection="messages", id="a")])])
        async with store._driver.connection() as connection:
            await connection.execute("SET default_transaction_read_only = on")
        await set_read_only(first, database, on="on")
        await asyncio.sleep(0.2)  # a lone statement is sent without BEGIN right after another
        assert await store.apply([Add([Record(collection="messages", id="b")])]) == [1]
        assert await ids(store) == {"a", "b"}
        await set_read_only(second, database, on="on")
    store = open_store(url_of([first.port, second.port], database))
    told = rf"no host takes writes.*{first.port}: a standby, or read-only; .*{second.port}"
    with pytest.raises(StoreUnavailable, match=told):
        await store.find(ALL)
    await store.close()


async def test_one_host_that_takes_no_writes_is_unavailable(servers, database):
    """Without another, and connected before: what can be read is read."""
    first, _ = servers
    async with open_store(url_of([first.port], database)) as store:
        await store.apply([Add([Record(collection="messages", id="a")])])
        await set_read_only(first, database, on="on")
        async with store._driver.connection() as connection:
            await connection.execute("SET default_transaction_read_only = on")
        with pytest.raises(StoreUnavailable, match="read-only transaction"):
            await store.apply([Add([Record(collection="messages", id="b")])])
        assert await ids(store) == {"a"}


async def test_why_none_takes_it_is_told(servers, database):
    first, second = servers
    gone = free_port()
    with pytest.raises(StoreUnavailable, match=f"no host takes writes now .*{gone}"):
        await open_store(url_of([gone, free_port()], database)).find(ALL)
    with pytest.raises(StoreError, match="password") as refused:
        await open_store(url_of([first.port, second.port], database, "octavo:secret")).find(ALL)
    assert not isinstance(refused.value, StoreUnavailable)
    assert "secret" not in str(refused.value)
