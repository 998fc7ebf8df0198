"""Redis under Sentinel: the primary fails under load, and another takes over, but for what it had not heard of yet."""

import asyncio
import re

import pytest
import redis
from cluster_load import survive, times
from sentinel_cluster import SentinelCluster
from waiting import until

from octavo import Add, ConfigError, Query, Record, Scope, StoreUnavailable, open_store
from sampled import sampled
from servers.server import free_port

ALL = Query(collection="messages")
PASSING = (OSError, LookupError, redis.RedisError)


@pytest.fixture(scope="module")
def sentinels():
    with SentinelCluster() as cluster:
        yield cluster


@pytest.mark.torture
@pytest.mark.timeout(2700)
async def test_the_primary_fails(sentinels, tmp_path, size, capsys):
    """Redis acknowledges before its replica has heard of it: what is lost is from the last moments before the fault."""
    faults = size(["kill"], ["kill", "pause", "partition"] * times())
    outcome = await survive(sentinels, f"{sentinels.url}?timeout=2", tmp_path, faults)
    with capsys.disabled():
        print(f"\n{outcome.rows(sentinels.name)}")
    assert (outcome.doubled, outcome.problem) == ([], "")
    assert len(outcome.lost) <= 100 * len(faults)  # half a second of each
    assert outcome.written > 500


@sampled("fault", ["pause", "partition"], share=2)
async def test_an_old_primary_is_not_believed(sentinels, fault):
    """It comes back after another has taken over, and answers what it was asked before, and what it is asked now: none of it stays."""
    names = ["asked before", *(f"asked after {number}" for number in range(50))]

    def written(name):
        return store.apply([Add([Record(collection="messages", id=name)])])

    async with open_store(f"{sentinels.url}?prefix={fault}&timeout=120") as store:
        await asyncio.to_thread(sentinels.wait_until_whole, 120)
        await written("first")
        with sentinels.broken(fault):
            old = sentinels.sentinels[0].state()["port"]
            late = asyncio.create_task(written(names[0]))
            await asyncio.to_thread(until, lambda: sentinels.agree_on_another(old), 120, PASSING)
        assert await late == [1]
        for name in names[1:]:
            assert await written(name) == [1]
        await asyncio.to_thread(sentinels.wait_until_whole, 120)
        assert {record.id for record in await store.find(ALL)} == {"first", *names}


def test_of_several_event_loops_each_asks_anew(sentinels):
    """A store that is used by one loop after the other finds the primary in each."""
    store = open_store(f"{sentinels.url}?prefix=loops")
    assert asyncio.run(store.apply([Add([Record(collection="messages", id="a")])])) == [1]

    async def again():
        assert await store.apply([Add([Record(collection="messages", id="b")])]) == [1]
        found = [record.id for record in await store.find(ALL)]
        await store.close()
        return found

    assert asyncio.run(again()) == ["a", "b"]


async def test_sentinels_that_are_away(sentinels):
    """One that answers is enough; none, or a service that they do not know, is an outage."""
    one = sentinels.sentinels[0].port
    async with open_store(f"redis+sentinel://127.0.0.1:{free_port()},127.0.0.1:{one}/octavo") as store:
        assert await store.find(Query(collection="messages", scope=Scope(tenant="nobody"))) == []
    for url in (f"127.0.0.1:{free_port()}/octavo", f"127.0.0.1:{one}/other"):
        async with open_store(f"redis+sentinel://{url}") as store:
            with pytest.raises(StoreUnavailable, match="No master found"):
                await store.find(ALL)


async def test_sentinels_that_fall_silent(sentinels):
    """Nobody knows then whether a server that answers is still the primary: an outage, until one of them is back."""
    way = await asyncio.to_thread(sentinels.network.proxy, sentinels.sentinels[0].port)
    one = Add([Record(collection="messages", id="a")])
    async with open_store(f"redis+sentinel://127.0.0.1:{way.port}/octavo?prefix=silent") as store:
        assert await store.apply([one]) == [1]
        await asyncio.to_thread(way.cut)
        with pytest.raises(StoreUnavailable, match="No master found"):
            while True:  # the first may come within the moment for which a Sentinel is believed
                await store.apply([one])
        await asyncio.to_thread(way.mend)
        async with asyncio.timeout(60):
            assert [record.id for record in await store.find(ALL)] == ["a"]


@pytest.mark.parametrize(
    ("url", "cure"),
    [
        ("redis+sentinel://h:26379", "redis+sentinel://one:26379,two:26379/mymaster/0"),
        ("redis+sentinel://h,/m/0", "redis+sentinel://one:26379,two:26379/mymaster/0"),
        ("redis+sentinel://h:x/m", "Port"),
        ("redis+sentinel://h/m/zero", "a number"),
        ("redis+sentinel://:secret@h/m/0?prefx=a", "prefix"),
    ],
)
def test_a_url_that_is_not_understood(url, cure):
    with pytest.raises(ConfigError, match=re.escape(cure)) as refused:
        open_store(url)
    assert "secret" not in str(refused.value)


def test_logins_and_options():
    """Those of the servers, and those of the Sentinels."""
    url = "rediss+sentinel://u:p%40@one,two:1/m/3?sentinel_password=s&socket_timeout=0.5&ttl=9&max_connections=4"
    pool = open_store(url).client.connection_pool
    assert [pool.connection_kwargs[name] for name in ("username", "password", "db", "socket_timeout")] == [
        "u",
        "p@",
        3,
        0.5,
    ]
    assert (pool.service_name, pool.max_connections) == ("m", 4)
    asked = [one.connection_pool for one in pool.sentinel_manager.sentinels]
    assert [(one.connection_kwargs["host"], one.connection_kwargs["port"]) for one in asked] == [
        ("one", 26379), ("two", 1)
    ]  # fmt: skip
    assert {one.connection_kwargs["password"] for one in asked} == {"s"}
    assert {one.connection_class.__name__ for one in (*asked, pool)} == {
        "SSLConnection",
        "PrimarySSLConnection",
    }
