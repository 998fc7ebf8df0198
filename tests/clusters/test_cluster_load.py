"""The runner and its network: what is lost or doubled is seen, and what is cut off hears nothing until it is mended."""

import asyncio
import contextlib
import time

import pytest
from cluster_load import PER_SECOND, Load, compare, loaded, survive, through_a_store
from tcp_proxy import Network

from octavo import Add, Record, Scope, StoreUnavailable, open_store
from octavo.stores.sql import SQLStore


async def test_what_is_lost_or_doubled_is_seen(tmp_path):
    url = f"sqlite:///{tmp_path}/a.db"
    async with open_store(url) as store:
        for name, text in (("1", "a"), ("2", "b"), ("3", "b"), ("4", "nobody was told")):
            record = Record(collection="observations", id=name, scope=Scope(session="s"), text=text)
            await store.apply([Add([record])])
    load = Load(acknowledged={"s": {"a", "b", "c"}})
    assert await compare(url, load) == (["c"], ["b"])


class Calm:
    """A cluster that is made of one store, and goes on after 0.2 s whatever is done to it."""

    name = "calm"

    def __init__(self) -> None:
        self.until, self.faults = 0.0, []

    @contextlib.contextmanager
    def broken(self, fault):
        self.faults.append(fault)
        self.until = time.monotonic() + 0.2
        yield

    def wait_until_whole(self, seconds=60):
        pass


async def test_faults_are_timed(tmp_path, monkeypatch):
    """Each is injected, the time until writes go on is measured, and nothing is lost by a store that loses nothing."""
    cluster, real = Calm(), SQLStore.apply

    async def apply(store, ops):
        if time.monotonic() < cluster.until:
            raise StoreUnavailable("it is away")
        return await real(store, ops)

    monkeypatch.setattr(SQLStore, "apply", apply)
    monkeypatch.setattr("cluster_load.FULL", False)
    url = f"sqlite:///{tmp_path}/a.db?durability=fast"
    outcome = await survive(cluster, url, tmp_path, ["kill", "pause"])
    assert cluster.faults == ["kill", "pause"]
    assert [0.15 < took < 5 for (took,) in outcome.seconds.values()] == [True, True]
    assert (outcome.lost, outcome.doubled) == ([], [])
    assert "| calm | kill × 1 | 0 of " in outcome.rows("calm")
    lines = (tmp_path / "faults").read_text().splitlines()
    assert [line.split()[1:3] for line in lines] == [["0", "kill"], ["1", "pause"]]


async def test_faults_end_when_the_time_is_over(tmp_path, monkeypatch):
    cluster = Calm()
    monkeypatch.setattr("cluster_load.FULL", False)
    monkeypatch.setenv("OCTAVO_MINUTES", "0.01")
    url = f"sqlite:///{tmp_path}/a.db?durability=fast"
    outcome = await survive(cluster, url, tmp_path, ["kill"] * 1000)
    assert len(cluster.faults) == len(outcome.seconds["kill"]) < 1000
    assert (outcome.lost, outcome.doubled, outcome.problem) == ([], [], "")


async def test_a_node_that_never_comes_back(tmp_path, monkeypatch):
    """No fault comes after it, and what was acknowledged is counted all the same, with what is lost of it."""

    class Crippled(Calm):
        def wait_until_whole(self, seconds=60):
            if self.faults:
                raise AssertionError("node 2 is away")

    cluster, real = Crippled(), SQLStore.apply

    async def apply(store, ops):
        # A store that forgets every tenth record that it has acknowledged.
        return [1] if ops[0].records[0].text.endswith("7") else await real(store, ops)

    monkeypatch.setattr(SQLStore, "apply", apply)
    monkeypatch.setattr("cluster_load.FULL", False)
    url = f"sqlite:///{tmp_path}/a.db?durability=fast"
    outcome = await survive(cluster, url, tmp_path, ["kill", "pause"])
    assert cluster.faults == ["kill"]
    assert outcome.problem == "after 1 faults: AssertionError('node 2 is away')"
    assert outcome.lost
    assert {text[-1] for text in outcome.lost} == {"7"}
    told = outcome.rows("crippled").splitlines()
    assert told[0] == f"crippled: it ended before its time, {outcome.problem}"
    assert told[1].startswith(f"| crippled | kill × 1 | {len(outcome.lost)} of {outcome.written:,} ")


async def test_a_cluster_that_never_answers_again(tmp_path, monkeypatch):
    """Its callers give up, and are not counted as acknowledged."""
    cluster = Calm()
    real = SQLStore.apply

    async def apply(store, ops):
        if cluster.faults:
            raise StoreUnavailable("it is away")
        return await real(store, ops)

    monkeypatch.setattr(SQLStore, "apply", apply)
    monkeypatch.setattr("cluster_load.FULL", False)
    monkeypatch.setattr("cluster_load.PATIENCE_SECONDS", 2)
    url = f"sqlite:///{tmp_path}/a.db?durability=fast"
    outcome = await survive(cluster, url, tmp_path, ["kill", "pause"], seconds=1)
    assert cluster.faults == ["kill"]
    assert (outcome.lost, outcome.doubled, outcome.problem) == ([], [], "after 1 faults: TimeoutError()")
    assert outcome.refused > 0


async def test_the_pace(tmp_path):
    async with through_a_store("memory://") as write, loaded(write) as load:
        await asyncio.sleep(1)
        count = load.count
    assert PER_SECOND / 2 < count <= PER_SECOND * 1.1


async def test_a_cut_network_delivers_later():
    async def echo(reader, writer):
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    network = Network()
    try:
        proxy = await asyncio.to_thread(network.proxy, server.sockets[0].getsockname()[1])
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"one")
        assert await reader.read(100) == b"one"
        await asyncio.to_thread(proxy.cut)
        writer.write(b"two")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(100), 0.3)
        await asyncio.to_thread(proxy.mend)
        assert await reader.read(100) == b"two"
        writer.close()
        await writer.wait_closed()
    finally:
        await asyncio.to_thread(network.close)
        server.close()
