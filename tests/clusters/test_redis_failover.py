"""A Redis Cluster: the primary of a tenant fails under load, and its replica takes over, but for what it had not heard of yet."""

import asyncio
import time

import pytest
from cluster_load import Outcome, compare_in, loaded, times, writing_to
from redis import asyncio as aio
from redis.crc import key_slot
from redis_cluster import RedisCluster

from octavo.stores.redis import RedisStore
from octavo.stores.redis.layout import KeyLayout
from sampled import only_torture


@pytest.fixture(scope="module")
def cluster():
    with RedisCluster() as cluster:
        yield cluster


@only_torture
@pytest.mark.timeout(2700)
async def test_the_primary_of_a_tenant_fails(cluster, size, capsys):
    """Killed or paused: writes go on at its replica, and what is lost is from the last moments before the fault."""
    faults, took = size(["kill"], ["kill", "pause"] * times()), {}
    slot = key_slot(KeyLayout("octavo").base("observations", ""))
    hosts = [aio.cluster.ClusterNode("127.0.0.1", node.port) for node in cluster.nodes]
    async with (
        aio.RedisCluster(startup_nodes=hosts, socket_timeout=2) as client,
        RedisStore(client) as store,
        loaded(writing_to(store)) as load,
    ):
        began, probe = time.monotonic(), writing_to(store, "messages")
        assert await probe("probe", "before")
        for number, fault in enumerate(faults):
            await asyncio.to_thread(cluster.wait_until_whole)
            breaking = cluster.broken(fault, slot)
            await asyncio.to_thread(breaking.__enter__)
            broke = time.monotonic()
            try:
                async with asyncio.timeout(120):
                    assert await probe("probe", f"after fault {number}")
            finally:
                took.setdefault(fault, []).append(time.monotonic() - broke)
                await asyncio.to_thread(breaking.__exit__, None, None, None)
        await asyncio.to_thread(cluster.wait_until_whole)
        lasted = time.monotonic() - began
    async with aio.RedisCluster(startup_nodes=hosts) as client, RedisStore(client) as store:
        lost, doubled = await compare_in(store, load)
    outcome = Outcome(took, load.count, load.refused, load.count / lasted, lost, doubled)
    with capsys.disabled():
        print(f"\n{outcome.rows(cluster.name)}")
    assert (outcome.doubled, outcome.refused) == ([], 0)
    assert len(outcome.lost) <= 100 * len(faults)  # half a second of each
    assert outcome.written > 500
