"""The Redis store on servers of its own: restarted, flushed, full, read-only, clustered and locked."""

import asyncio
from contextlib import asynccontextmanager, closing, contextmanager

import pytest
import redis
import redis.asyncio as aio

from octavo import (
    Add,
    Change,
    ConfigError,
    Query,
    Record,
    Remove,
    Scope,
    StoreError,
    StoreUnavailable,
    open_store,
)
from octavo.stores.redis import RedisStore
from servers import running
from servers.redis import Redis
from servers.server import free_port

ALL = Query(collection="messages")


def note(name: str, tenant: str = "", **fields) -> Record:
    return Record(collection="messages", id=name, scope=Scope(tenant=tenant, session="s"), **fields)


async def ids(store, query: Query = ALL) -> list[str]:
    return [record.id for record in await store.find(query)]


@pytest.fixture(scope="module")
def server():
    with running("redis") as server:
        yield server


@pytest.fixture
def admin(server):
    """An administrator's connection to an empty server with its first settings."""
    with closing(redis.Redis.from_url(server.url)) as client:
        client.flushall()
        first = client.config_get("*")
        yield client
        names = ("maxmemory", "maxmemory-policy", "save", "appendonly")
        for name in names:
            client.config_set(name, first[name])
        client.flushall()


@contextmanager
def special(*settings: str):
    """A server with settings that cannot be changed while it runs."""

    class Special(Redis):
        def command(self):
            return [*super().command(), *settings]

        @staticmethod
        def ping(url):
            with closing(
                redis.Redis.from_url(url, password="opensesame" if "--requirepass" in settings else None)
            ) as client:
                client.ping()

    server = Special()
    try:
        server.start()
        yield server
    finally:
        server.close()


async def test_the_key_space_is_never_scanned(server, admin):
    async with open_store(server.url) as store:
        admin.config_resetstat()
        await store.apply([Add([note(f"n{n}", marks=("m",)) for n in range(50)])])
        await store.apply(
            [Change(query=Query(collection="messages", marks=("m",)), kind="x"), Add([note("z")])]
        )
        for query in (ALL, Query(collection="messages", ids=("n1",)), Query(collection="messages", text="x")):
            await store.find(query)
            await store.tally(query)
            await store.search(query, ["x"])
        await store.apply([Change(query=ALL, text="fox")])
        assert len((await store.search(ALL, ["fox"])).found) == 51
        assert await store.reindex("messages") == 51
        assert (await store.verify("messages")).records == 51
        await store.apply([Remove(ALL)])
        assert (await store.search(ALL, ["fox"])).found == []
        await store.tenants()
        await store.describe()
    used = {name.removeprefix("cmdstat_") for name in admin.info("commandstats")}
    assert "zadd" in used
    assert not {name for name in used if "scan" in name or name in {"keys", "randomkey"}}


async def test_adds_that_wait_together_share_a_call(server, admin):
    async with open_store(server.url) as store:
        await store.apply([Add([note("first")])])
        admin.config_resetstat()
        assert await asyncio.gather(*(store.apply([Add([note(f"n{n}")])]) for n in range(200))) == [[1]] * 200
        assert admin.info("commandstats")["cmdstat_evalsha"]["calls"] <= 3
        assert len(await ids(store)) == 201


async def test_a_restart_between_two_calls_is_not_noticed(server, admin):
    """Pooled connections are dead and the scripts are gone; the next call works all the same."""
    async with open_store(server.url) as store:
        assert await store.apply([Add([note("a")])]) == [1]
        await asyncio.gather(*(ids(store) for _ in range(5)))
        server.restart()
        assert await store.apply([Add([note("b")])]) == [1]
        server.restart()
        assert await store.apply([Change(query=ALL, kind="x")]) == [2]
        server.restart()
        assert await ids(store) == ["a", "b"]
        server.restart()
        assert (await store.tally(ALL)).by_kind == {"x": 2}
        for text in ("fox", "owl"):
            await store.apply([Change(query=ALL, text=text)])
            server.restart()
            assert len((await store.search(ALL, [text])).found) == 2


async def test_flushed_scripts_are_loaded_again(server, admin):
    async with open_store(server.url) as store:
        for n in range(3):
            assert await store.apply([Add([note(f"n{n}")])]) == [1]
            admin.script_flush()
            assert await store.apply([Change(query=ALL, merge={str(n): n})]) == [n + 1]
            admin.script_flush()


async def test_a_server_that_is_away_is_unavailable_and_comes_back(server, admin):
    async with open_store(server.url) as store:
        await store.apply([Add([note("a")])])
        server.stop()
        for verb in (
            store.apply([Add([note("b")])]),
            store.apply([Remove(ALL)]),
            store.find(ALL),
            store.tally(ALL),
            store.search(ALL, ["fox"]),
            store.reindex("messages"),
            store.verify("messages"),
        ):
            with pytest.raises(StoreUnavailable) as failed:
                await verb
            assert isinstance(failed.value.__cause__, redis.ConnectionError)
        calls = [store.apply([Add([note(f"n{n}")])]) for n in range(5)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) for answer in answers] == [StoreUnavailable] * 5
        assert len({id(answer) for answer in answers}) == 5
        server.start()
        assert await store.apply([Add([note("b")])]) == [1]
        assert await ids(store) == ["a", "b"]


async def test_a_full_server_is_unavailable_and_keeps_nothing_of_a_call(server, admin):
    async with open_store(server.url) as store:
        await store.apply([Add([note("a")])])
        admin.config_set("maxmemory", "1mb")
        big = "x" * 500_000
        with pytest.raises(StoreUnavailable):
            for n in range(20):
                await store.apply([Add([note(f"n{n}", text=big), note(f"m{n}")])])
        admin.config_set("maxmemory", "0")
        names = set(await ids(store))
        assert len(names) % 2 == 1, "half a batch was kept"
        assert (await store.tally(ALL)).total == len(names)


async def test_a_replica_is_unavailable_for_writing(server, admin):
    async with open_store(server.url) as store:
        await store.apply([Add([note("a", text="fox")])])
        assert len((await store.search(ALL, ["fox"])).found) == 1
        admin.replicaof("127.0.0.1", 1)
        try:
            for ops in ([Add([note("b")])], [Remove(ALL)]):
                with pytest.raises(StoreUnavailable):
                    await store.apply(ops)
            assert await ids(store) == ["a"]
            assert (await store.tally(ALL)).total == 1
            assert [match.id for match in (await store.search(ALL, ["fox"])).found] == ["a"]
        finally:
            admin.replicaof("NO", "ONE")


async def test_describe_warns_of_a_server_that_forgets(server, admin):
    async with open_store(server.url) as store:

        async def said(name):
            return next(finding for finding in await store.describe() if finding.name == name)

        assert "keeps nothing on disk" in (await said("durability")).warning
        assert (await said("memory")).warning == ""
        admin.config_set("save", "900 1")
        assert "snapshot" in (await said("durability")).warning
        admin.config_set("appendonly", "yes")
        assert (await said("durability")).warning == ""
        admin.config_set("maxmemory-policy", "allkeys-lru")
        assert "noeviction" in (await said("memory")).warning
        assert admin.info("server")["redis_version"] in (await said("server")).value


async def test_a_password_and_a_socket(tmp_path_factory):
    with special(
        "--requirepass", "opensesame", "--unixsocket", "redis.sock", "--unixsocketperm", "777"
    ) as server:
        host = f"127.0.0.1:{server.port}/0"
        async with open_store(f"redis://:opensesame@{host}") as store:
            assert await store.apply([Add([note("a")])]) == [1]
            assert "opensesame" not in repr(await store.describe())
        async with open_store(f"redis+asyncio://:wrong@{host}") as store:
            with pytest.raises(StoreError, match="login") as failed:
                await store.apply([Add([note("b")])])
            assert type(failed.value) is StoreError
            assert "wrong@" not in str(failed.value)
        socket = server.folder / "redis.sock"
        async with open_store(f"unix://{socket}?password=opensesame&db=0&prefix=octavo") as store:
            assert await ids(store) == ["a"]


def in_cluster() -> tuple[str, ...]:
    """The settings of a node. Its port for other nodes would be one that outgoing connections borrow, were it not named."""
    return ("--cluster-enabled", "yes", "--databases", "1", "--cluster-port", str(free_port()))


@asynccontextmanager
async def clustered(server, *, aware: bool):
    if aware:
        async with (
            aio.RedisCluster(host="127.0.0.1", port=server.port) as client,
            RedisStore(client, ttl=100) as store,
        ):
            yield store
    else:
        async with open_store(server.url) as store:
            yield store


@pytest.mark.parametrize("aware", [True, False])
async def test_a_tenant_lives_on_one_node_of_a_cluster(aware):
    """The server refuses every script that touches keys of different slots; only tenants together are refused."""
    with special(*in_cluster()) as server:
        with closing(redis.Redis.from_url(server.url)) as admin:
            admin.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            await _until_up(admin)
        async with clustered(server, aware=aware) as store:
            for tenant in ("", "t", "u"):
                query = Query(collection="messages", scope=Scope(tenant=tenant))
                home = [note(f"n{n}", tenant, marks=("m",), text="fox") for n in range(20)]
                assert await asyncio.gather(*(store.apply([Add([one])]) for one in home)) == [[1]] * 20
                assert await store.apply([Change(query=query, kind="x"), Add([note("z", tenant)])]) == [20, 1]
                assert (await store.tally(query)).by_kind == {"x": 20, "": 1}
                assert len((await store.search(query, ["fox"])).found) == 20
                named = Query(collection="messages", scope=Scope(tenant=tenant), ids=("z", "n1"))
                assert set(await ids(store, named)) == {"z", "n1"}
                assert await store.apply([Remove(named)]) == [2]
            answers = await asyncio.gather(
                *(store.apply([Add([note(f"x{n}", "tu"[n % 2])])]) for n in range(20)), return_exceptions=True
            )
            assert answers == [[1]] * 20
            with pytest.raises(StoreError, match="several tenants"):
                await store.apply([Add([note("both", "t"), note("both", "u")])])
            assert await store.tenants() == ["", "t", "u"]
            assert await store.reindex("messages") == 3 * 19 + 20
            assert (await store.verify("messages")).missing == ()
            assert [finding for finding in await store.describe() if "nothing on disk" in finding.warning]


async def test_a_url_does_not_open_a_cluster_of_several_nodes():
    """Each call would succeed or not by who is asked for: it is said how such a cluster is opened."""
    with special(*in_cluster()) as one, special(*in_cluster()) as other:
        admins = [redis.Redis.from_url(server.url) for server in (one, other)]
        for admin, slots in zip(admins, ((0, 8191), (8192, 16383)), strict=True):
            admin.execute_command("CLUSTER", "ADDSLOTSRANGE", *slots)
        bus = admins[1].config_get("cluster-port")["cluster-port"]
        admins[0].execute_command("CLUSTER", "MEET", "127.0.0.1", other.port, bus)
        for admin in admins:
            await _until_up(admin)
            admin.close()
        async with open_store(one.url) as store:
            with pytest.raises(ConfigError, match="RedisCluster"):
                for number in range(20):
                    await store.apply([Add([note("a", f"tenant {number}")])])
        async with aio.RedisCluster(host="127.0.0.1", port=one.port) as client, RedisStore(client) as store:
            for number in range(20):
                assert await store.apply([Add([note("b", f"tenant {number}")])]) == [1]
    with pytest.raises(ConfigError, match="RedisCluster"):
        open_store("redis+cluster://127.0.0.1:7000")


async def _until_up(admin) -> None:
    for _ in range(1000):
        if admin.cluster("INFO")["cluster_state"] == "ok":
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the cluster did not come up")
