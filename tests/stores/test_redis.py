"""What the Redis store promises beyond the contract: its keys, its clients, its transactions and its settings."""

import asyncio
import gc
import itertools
import subprocess
import sys
from contextlib import asynccontextmanager, closing, suppress
from datetime import UTC, datetime, timedelta

import pytest
import redis
import redis.asyncio as aio
from redis import exceptions as told

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
from octavo.stores.redis.connection import translate_error
from octavo.stores.redis.layout import member

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
HOME = Scope(user="alice", session="s1")
EXACT = Scope(user="alice", agent="", session="s1")
ALL = Query(collection="messages")


def note(name: str, scope: Scope = HOME, **fields) -> Record:
    return Record(collection="messages", id=name, scope=scope, kind=fields.pop("kind", "user"), **fields)


@asynccontextmanager
async def raw(url: str, **options):
    client = aio.Redis.from_url(url, **options)
    try:
        yield client
    finally:
        await client.aclose()


async def ids(store, query: Query = ALL) -> list[str]:
    return [record.id for record in await store.find(query)]


async def test_all_keys_have_the_prefix_and_one_hash_tag(fresh_redis):
    """Keys of one tenant share a hash tag; only the list of tenants stands outside of it."""
    async with open_store(f"{fresh_redis}?prefix=mine") as store, raw(fresh_redis) as client:
        await store.apply([Add([note("a", marks=("m",)), note("b", Scope(agent="{x}"))])])
        await store.apply([Change(query=ALL, mark=("n",))])
        keys = [key.decode() for key in await client.keys()]
    assert "mine:tenants" in keys
    tags = {key.partition("{")[2].partition("}")[0] for key in keys if key != "mine:tenants"}
    assert len(tags) == 1 and "" not in tags
    assert all(key.startswith("mine:") for key in keys)


async def test_prefixes_are_worlds_of_their_own(fresh_redis):
    async with (
        open_store(fresh_redis) as one,
        open_store(f"{fresh_redis}?prefix=other") as two,
        open_store(f"{fresh_redis}?prefix=") as bare,
    ):
        assert await one.apply([Add([note("a", text="one")])]) == [1]
        assert await two.apply([Add([note("a", text="two")])]) == [1]
        assert await bare.apply([Add([note("b")])]) == [1]
        assert await two.apply([Remove(ALL)]) == [1]
        assert (await one.find(ALL))[0].text == "one"
        assert (await one.tally(ALL)).total == 1
        assert await ids(bare) == ["b"]


async def test_nothing_is_left_when_everything_is_removed(fresh_redis):
    async with open_store(fresh_redis) as store, raw(fresh_redis) as client:
        await store.apply([Add([note("a", marks=("m",)), note("b", kind="tool")])])
        await store.apply([Change(query=ALL, kind="x", unmark=None)])
        assert await store.apply([Remove(ALL)]) == [2]
        assert await client.keys() == [b"octavo:tenants"]
        assert await store.tenants() == []
        assert await client.keys() == []


async def test_tenants_are_listed_even_after_a_flush(fresh_redis):
    async with open_store(fresh_redis) as store, raw(fresh_redis) as client:
        await store.apply([Add([note("a", Scope(tenant="t")), note("b", Scope(tenant="软件"))])])
        assert await store.tenants() == ["t", "软件"]
        await client.flushdb()
        await store.apply([Add([note("a", Scope(tenant="t"))])])
        assert await store.tenants() == ["t"]


async def test_whoever_lists_names_is_killed_at_any_moment(fresh_redis, monkeypatch):
    """A record that comes while its name is taken off a list, since it had none, leaves it there, whenever the reader dies."""
    scope = Scope(tenant="t", user="ann")
    mine = Query(collection="messages", scope=scope)
    calls = add_at = killed_at = 0
    async with (
        open_store(fresh_redis) as store,
        open_store(fresh_redis) as reader,
        raw(fresh_redis) as client,
    ):
        await reader.tenants()
        say = reader._connection._say

        async def stop_somewhere(*words):
            nonlocal calls
            calls += 1
            if calls == add_at:
                await store.apply([Add([note("a", scope)])])
            answer = await say(*words)
            if calls == killed_at:
                raise asyncio.CancelledError
            return answer

        monkeypatch.setattr(reader._connection, "_say", stop_somewhere)
        for name in ("tenants", "names"):
            for add_at, killed_at in itertools.combinations_with_replacement(range(1, 6), 2):
                await store.apply([Remove(mine)])
                await client.zadd(
                    store._layout.base("messages", "t") + b"parts", {"user:ann": 0}
                )  # as if expired
                await client.sadd(store._layout.tenants, "t")
                calls = 0
                with suppress(asyncio.CancelledError):
                    await (
                        reader.tenants()
                        if name == "tenants"
                        else reader.names("messages", "user", Scope(tenant="t"))
                    )
                if calls >= add_at:
                    listed = [one.name for one in await store.names("messages", "user", Scope(tenant="t"))]
                    assert (await store.tenants(), listed) == (["t"], ["ann"]), (name, add_at, killed_at)


def test_members_sort_as_ranks_do():
    names = ["a", "a ", "ab", "á", "b", "\U0001f600", "\uffff", "A"]
    times = [
        NOON,
        NOON + timedelta(microseconds=1),
        datetime(1000, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, tzinfo=UTC),
    ]
    ranks = [(at, seq, name, "p" * 20) for at in times for seq in (0, 9, 16, 2**53 - 1) for name in names]
    assert sorted(ranks) == sorted(ranks, key=member)


@pytest.mark.parametrize("decode", [True, False])
@pytest.mark.parametrize("kind", ["client", "pool", "single"])
async def test_a_client_that_is_handed_in_stays_open(fresh_redis, decode, kind):
    """Pools and clients of the caller work whether they decode or not, and are never closed."""
    pool = aio.ConnectionPool.from_url(fresh_redis, decode_responses=decode)
    client = aio.Redis(connection_pool=pool, single_connection_client=kind == "single")
    async with RedisStore(pool if kind == "pool" else client, prefix="p") as store:
        await store.apply([Add([note("a", text="é 软件"), note("b", marks=("m",))])])
        assert await store.apply(
            [Change(query=Query(collection="messages", ids=("a",)), merge={"n": 1})]
        ) == [1]
        assert [r.data for r in await store.find(ALL)] == [{"n": 1}, {}]
        assert (await store.tally(ALL)).by_kind == {"user": 2}
        assert await store.tenants() == [""]
        assert {finding.name for finding in await store.describe()} >= {"server", "durability", "memory"}
    held = client.connection or next(iter(pool._available_connections))
    assert held.is_connected
    assert await client.set("mine", "1") is True
    await client.aclose()
    await pool.aclose()


async def test_a_small_pool_is_not_used_up(fresh_redis):
    """Many questions at once wait for each other rather than exhaust the caller's pool."""
    async with aio.ConnectionPool.from_url(fresh_redis, max_connections=2) as pool, RedisStore(pool) as store:
        await store.apply([Add([note("a")])])
        assert await asyncio.gather(*(ids(store) for _ in range(50))) == [["a"]] * 50


def test_only_clients_of_asyncio_are_taken(fresh_redis):
    with (
        closing(redis.Redis.from_url(fresh_redis)) as client,
        pytest.raises(ConfigError, match=r"redis\.asyncio"),
    ):
        RedisStore(client)


async def test_a_foreign_value_is_an_error_not_a_record(fresh_redis):
    async with open_store(fresh_redis) as store, raw(fresh_redis) as client:
        await store.apply([Add([note("a")])])
        (body,) = [key for key in await client.keys() if b":body:" in key]
        for foreign in (b"hello", b'{"id": 1}', b"\xff\xfe"):
            await client.hset(body, "a", foreign)
            with pytest.raises(StoreError, match="no record") as failed:
                await store.find(ALL)
            assert failed.value.__cause__ is not None
            with pytest.raises(StoreError, match="no record"):
                await store.apply([Change(query=ALL, kind="x")])


async def test_a_foreign_key_refuses_the_write_whole(fresh_redis):
    """Redis does not undo: a key that is somebody else's must be found before the first write."""
    async with open_store(fresh_redis) as store, raw(fresh_redis) as client:
        await store.apply([Add([note("a", Scope(user="u"))])])
        (kinds,) = [key for key in await client.keys() if key.endswith(b"kinds:user:u")]
        await client.set(kinds.replace(b"user:u", b"user:v"), "mine")
        before = await client.dbsize()
        add = Add([note("b", Scope(user="v"))])
        for ops in ([add], [Remove(ALL), add]):
            with pytest.raises(StoreError, match="WRONGTYPE"):
                await store.apply(ops)
        assert await client.dbsize() == before
        assert (await ids(store), (await store.tally(ALL)).total) == (["a"], 1)


async def test_a_refused_neighbour_fails_alone(fresh_redis):
    """Adds that share a script call do not share its failure."""
    async with open_store(fresh_redis) as store, raw(fresh_redis) as client:
        await store.apply([Add([note("a", Scope(user="u"))])])
        (order,) = [key for key in await client.keys() if key.endswith(b"order:user:u")]
        await client.set(order.replace(b"user:u", b"user:bad"), "mine")
        users = ["u", "bad", "v", "w"]
        calls = [store.apply([Add([note(f"n{n}", Scope(user=user))])]) for n, user in enumerate(users)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) for answer in answers] == [list, StoreError, list, list]
        assert await ids(store) == ["a", "n0", "n2", "n3"]


async def test_whoever_stops_waiting_takes_nothing_of_the_others(fresh_redis):
    async with open_store(fresh_redis) as store:
        tasks = [asyncio.create_task(store.apply([Add([note(f"n{n}")])])) for n in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert answers[1::2] == [[1]] * 10
        assert {f"n{n}" for n in range(1, 20, 2)} <= set(await ids(store))


async def test_empty_batches(fresh_redis):
    async with open_store(fresh_redis) as store:
        assert await store.apply([]) == []
        assert await store.apply([Add([])]) == [0]
        assert await store.apply([Add([]), Add([note("a")]), Add([note("a")])]) == [0, 1, 0]
        assert await store.apply([Add([]), Remove(Query(collection="messages", ids=()))]) == [0, 0]


async def test_changes_of_one_record_lose_nothing(fresh_redis):
    """Two stores that merge into one record at the same time both get through, again and again."""
    async with open_store(fresh_redis) as one, open_store(fresh_redis) as two:
        await one.apply([Add([note("a")])])

        async def merge(store, names):
            for name in names:
                assert await store.apply([Change(query=ALL, merge={name: name})]) == [1]

        parts = [[f"{worker}-{n}" for n in range(10)] for worker in range(6)]
        await asyncio.gather(*(merge((one, two)[worker % 2], part) for worker, part in enumerate(parts)))
        (record,) = await one.find(ALL)
        assert sorted(record.data) == sorted(name for part in parts for name in part)


async def test_one_of_several_removers_counts_it(fresh_redis):
    async with open_store(fresh_redis) as one, open_store(fresh_redis) as two:
        for _ in range(10):
            await one.apply([Add([note("a")])])
            counts = await asyncio.gather(*(store.apply([Remove(ALL)]) for store in (one, two) * 3))
            assert sorted(counts) == [[0]] * 5 + [[1]]


@pytest.mark.parametrize("lost", ["before", "after"])
async def test_a_lost_answer_is_asked_for_again(fresh_redis, lost):
    """Whether the connection broke before or after Redis did the work, it is done once and counted once."""

    class Flaky(aio.Redis):
        breaks = False

        async def execute_command(self, *args, **options):
            broken, self.breaks = self.breaks, False
            if broken and lost == "before":
                raise told.ConnectionError("gone")
            answer = await super().execute_command(*args, **options)
            if broken:
                raise told.ConnectionError("gone")
            return answer

    client = Flaky.from_url(fresh_redis)
    async with RedisStore(client, owned=True) as store:
        await store.apply([Add([note("a", kind="old")])])
        client.breaks = True
        assert await store.apply([Add([note("a"), note("b"), note("b"), note("c")])]) == [2]
        store._reader.find = _then_break(store._reader.find, client)
        assert await store.apply(
            [Change(query=Query(collection="messages", ids=("a", "b")), kind="new")]
        ) == [2]
        assert await store.apply([Remove(Query(collection="messages", kinds=("new",)))]) == [2]
        assert (await store.tally(ALL)).total == 1


def _then_break(find, client):
    async def breaking(query):
        answer = await find(query)
        client.breaks = True  # at the swap that follows
        return answer

    return breaking


async def test_offsets_and_marks_across_many_pages(fresh_redis, monkeypatch):
    """Pages of a few members give the same answers as one large page."""
    monkeypatch.setattr("octavo.stores.redis.reading._PAGE", 7)
    monkeypatch.setattr("octavo.stores.redis.reading._FEW", 2)
    notes = [
        note(
            f"n{n:03}",
            created_at=NOON,
            seq=n,
            kind="ab"[n % 2],
            marks=tuple(m for m, d in (("x", 2), ("y", 3)) if n % d == 0),
        )
        for n in range(100)
    ]
    async with open_store(fresh_redis) as store, open_store("memory://") as right:
        for each in (store, right):
            await each.apply([Add(notes)])
        for scope in (EXACT, Scope(), Scope(user="alice")):
            for clauses in (
                {},
                {"marks": ("x", "y")},
                {"marks": ("y",)},
                {"kinds": ("a",)},
                {"without": ("x",)},
            ):
                for paging in (
                    {},
                    {"limit": 20},
                    {"limit": 9, "offset": 30},
                    {"limit": 9, "after": notes[50].cursor},
                    {"offset": 95},
                ):
                    for newest_first in (True, False):
                        query = Query(
                            collection="messages", scope=scope, newest_first=newest_first, **clauses, **paging
                        )
                        assert await store.find(query) == await right.find(query)
                assert await store.tally(query) == await right.tally(query)


def test_one_store_serves_one_loop_after_another(fresh_redis):
    """A loop that ends takes its connections with it, and the next one gets new ones; nothing is left open."""
    store = open_store(fresh_redis)
    assert asyncio.run(store.apply([Add([note("a")])])) == [1]
    assert asyncio.run(store.apply([Add([note("b")]), Remove(Query(collection="messages", ids=("a",)))])) == [
        1,
        1,
    ]
    assert asyncio.run(ids(store)) == ["b"]
    asyncio.run(store.close())
    gc.collect()


async def test_two_loops_at_once_are_refused(fresh_redis):
    async with open_store(fresh_redis) as store:
        await store.find(ALL)
        with pytest.raises(StoreError, match="another event loop"):
            await asyncio.to_thread(asyncio.run, store.find(ALL))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://localhost?ttl=0", "ttl=0"),
        ("redis://localhost?ttl=soon", "ttl=soon"),
        ("redis://localhost/main", "'main'"),
        ("redis://localhost?socket_timeout=long", "socket_timeout"),
        ("redis://localhost?colour=red", "colour"),
        ("redis://localhost?prefix=a{}b", "hash tag"),
    ],
)
def test_settings_that_mean_nothing_are_refused(url, said):
    with pytest.raises(ConfigError, match=said):
        open_store(url)


def test_timeouts_are_bounded_unless_given():
    given = open_store("redis://localhost?socket_timeout=7").client.connection_pool.connection_kwargs
    assert (given["socket_connect_timeout"], given["socket_timeout"]) == (5, 7)


def test_a_missing_package_is_one_sentence_with_the_cure(monkeypatch):
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ConfigError, match=r"pip install 'octavo\[redis\]'"):
        open_store("redis://localhost")


def test_octavo_is_imported_without_redis():
    program = "import sys, octavo, octavo.stores.redis; assert 'redis' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (told.ConnectionError("refused"), StoreUnavailable),
        (told.TimeoutError("slow"), StoreUnavailable),
        (told.BusyLoadingError("LOADING"), StoreUnavailable),
        (told.OutOfMemoryError("command not allowed"), StoreUnavailable),
        (told.ReadOnlyError("a replica"), StoreUnavailable),
        (told.ResponseError("BUSY Redis is busy running a script"), StoreUnavailable),
        (told.ResponseError("MISCONF cannot persist"), StoreUnavailable),
        (told.ClusterDownError("CLUSTERDOWN The cluster is down"), StoreUnavailable),
        (
            told.ResponseError("Error running script: @user_script: 3: -OOM command not allowed"),
            StoreUnavailable,
        ),
        (told.AuthenticationError("invalid password"), StoreError),
        (told.NoPermissionError("no permissions"), StoreError),
        (told.ResponseError("WRONGTYPE Operation against a key"), StoreError),
        (RuntimeError("Event loop is closed"), StoreError),
    ],
)
def test_errors_say_whether_waiting_helps(error, kind):
    assert type(translate_error(error)) is kind
