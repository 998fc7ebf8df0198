"""MariaDB Galera: the node that is written to fails under load, and nothing that was acknowledged is lost or doubled."""

import asyncio

import pytest
from cluster_load import FULL, survive, times
from galera_cluster import GaleraCluster

from octavo import Add, Change, Query, Record, Scope, StoreError, StoreUnavailable, open_store
from sampled import only_torture
from servers import fresh
from servers.server import free_port

OPTIONS = "timeout=3&pool_size=5"
PATIENT = "timeout=60&pool_size=5"  # where nothing fails: three servers on one busy machine may take seconds for a table
ALL = Query(collection="messages")


@pytest.fixture(scope="module")
def galera():
    with GaleraCluster(durable=FULL) as cluster:
        yield cluster


@pytest.fixture
async def hosts(galera):
    """The URLs of an empty database: one for each node, and one that names them all."""
    with fresh("mysql", galera.nodes[0].url) as url:
        name = url.rpartition("/")[2]
        own = [f"mysql://octavo:octavo@127.0.0.1:{node.port}/{name}?{PATIENT}" for node in galera.nodes]
        for each in own:
            await _is_there(each)
        yield [*own, f"{galera.url}{name}?{OPTIONS}"]


async def _is_there(url):
    """A node learns a moment later that there is a database."""
    async with asyncio.timeout(60):
        while True:
            try:
                async with open_store(url) as store:
                    await store.find(ALL)
            except StoreError:
                await asyncio.sleep(0.1)
            else:
                return


@only_torture
@pytest.mark.timeout(2700)
async def test_a_node_fails(galera, hosts, tmp_path, size, capsys):
    """Killed, paused or cut off: writes go on at another node, which has all that was acknowledged."""
    faults = size(["kill"], ["kill", "pause", "partition"] * times())
    outcome = await survive(galera, hosts[-1], tmp_path, faults)
    with capsys.disabled():
        print("", *galera.helped, outcome.rows(galera.name), sep="\n")
    assert (outcome.lost, outcome.doubled, outcome.problem) == ([], [], "")
    assert outcome.written > 500


async def test_writers_on_all_nodes(hosts):
    """Certification conflicts are retried: changes of the same records by three nodes are all made, and all is counted."""
    stores = [open_store(url) for url in hosts[:3]]
    try:
        for number, store in enumerate(stores):
            await store.apply([Add([Record(collection="messages", id=f"first {number}")])])

        async def write(store, number):
            for turn in range(10):
                await store.apply([Add([Record(collection="messages", id=f"{number} {turn}", text="fox")])])
                await store.apply(
                    [
                        Change(
                            query=Query(collection="messages", ids=("first 0",)),
                            merge={f"{number} {turn}": 1},
                        )
                    ]
                )

        await asyncio.gather(*(write(store, number) for number, store in enumerate(stores)))
        async with open_store(hosts[-1]) as seen:  # it waits for what the others have committed
            found = await seen.find(ALL)
            assert len(found) == 33
            assert len(next(one for one in found if one.id == "first 0").data) == 30
            assert (await seen.tally(ALL)).total == 33
            assert len((await seen.search(ALL, ["fox"])).found) == 30
    finally:
        for store in stores:
            await store.close()


async def test_tables_are_made_under_load(hosts):
    """The first writes of many stores on all nodes: each makes the tables it needs, in the middle of the others' writes."""
    stores = [open_store(url) for url in hosts[:3] for _ in range(2)]
    collections = ("messages", "episodes", "profile", "log")
    try:
        await asyncio.gather(
            *(
                store.apply([Add([Record(collection=collection, id=f"{number}", scope=Scope(user="u"))])])
                for number, store in enumerate(stores)
                for collection in collections
            )
        )
        async with open_store(hosts[-1]) as seen:
            for collection in collections:
                assert (await seen.tally(Query(collection=collection))).total == len(stores)
    finally:
        for store in stores:
            await store.close()


async def test_hosts_that_are_away(hosts):
    """The first that answers is used, and when none does, each is named."""
    name = hosts[0].rpartition("/")[2]
    there = hosts[0].partition("@")[2].partition("/")[0]
    async with open_store(f"mysql://octavo:octavo@127.0.0.1:{free_port()},{there}/{name}") as store:
        assert await store.find(ALL) == []
    gone = [free_port(), free_port()]
    url = f"mysql://octavo:octavo@127.0.0.1:{gone[0]},127.0.0.1:{gone[1]}/{name}"
    with pytest.raises(StoreUnavailable, match=rf"no host takes writes now .*{gone[0]}.*{gone[1]}"):
        await open_store(url).find(ALL)
