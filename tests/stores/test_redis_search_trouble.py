"""Search by terms in Redis when something is wrong: damage, foreign values, lost answers, loops that end."""

import asyncio
import struct
from contextlib import asynccontextmanager

import pytest
import redis.asyncio as aio
from redis import exceptions as told

from octavo import Add, Change, Query, Record, Scope, StoreError, open_store
from octavo.stores.redis import RedisStore

ALL = Query(collection="messages")
NOWHERE = Scope()


def note(name: str, scope: Scope = NOWHERE, **fields) -> Record:
    return Record(collection="messages", id=name, scope=scope, **fields)


@asynccontextmanager
async def raw(url: str):
    client = aio.Redis.from_url(url)
    try:
        yield client
    finally:
        await client.aclose()


async def index_keys(client) -> list[bytes]:
    return [key for key in await client.keys() if b":terms" in key]


async def names(store, *terms: str, query: Query = ALL) -> list[str]:
    return [match.id for match in (await store.search(query, terms)).found]


async def sound(store) -> None:
    lexicon = await store.verify("messages")
    assert (lexicon.missing, lexicon.stray, lexicon.waiting) == ((), 0, 0), lexicon


async def test_damage_is_named_and_mended(fresh_redis):
    async with open_store(fresh_redis) as store, raw(fresh_redis) as client:
        home = Scope(user="alice")
        await store.apply([Add([note(f"n{n}", home, text=f"fox word{n}", kind="k") for n in range(10)])])
        assert len(await names(store, "fox")) == 10
        keys = await index_keys(client)
        (block,) = [key for key in keys if b":block:" in key]
        (place,) = [key for key in keys if b":terms:place:" in key]
        (body,) = [key for key in await client.keys() if b":body:" in key]
        await client.hdel(block, "word1")
        await client.hset(block, "word2", struct.pack("<I", (2 << 20) + 7))
        await client.hdel(place, "n3")
        await client.hset(block, "\0f4", '["other",[],{}]')
        await client.hdel(body, "n5")
        lexicon = await store.verify("messages")
        assert sorted(lexicon.missing) == ["n1", "n2", "n3", "n4"]
        assert lexicon.stray == 2  # n5, which is gone, and the entry nobody knows to be n3's
        told: list[tuple[int, int]] = []
        assert await store.reindex("messages", lambda *step: told.append(step)) == 9
        assert told[-1] == (9, 9)
        await sound(store)
        assert await names(store, "fox", "word1") == [f"n{n}" for n in range(10) if n != 5]
        assert len([key for key in await index_keys(client) if b":block:" in key]) == 1
        await client.delete(*await index_keys(client))
        assert await names(store, "word1", "word3") == ["n1", "n3"]


async def test_a_foreign_value_is_an_error_that_says_so(fresh_redis):
    async with open_store(fresh_redis) as store, raw(fresh_redis) as client:
        await store.apply([Add([note("a", text="fox")])])
        (body,) = [key for key in await client.keys() if b":body:" in key]
        kept = await client.hget(body, "a")
        for foreign in (b"hello", b"", b"\xff\xfe"):
            await client.hset(body, "a", foreign)
            with pytest.raises(StoreError, match="no record"):
                await names(store, "fox")
        await client.hset(body, "a", kept)
        assert await names(store, "fox") == ["a"]


async def test_a_foreign_key_refuses_the_write_whole(fresh_redis):
    async with open_store(fresh_redis) as store, raw(fresh_redis) as client:
        await store.apply([Add([note("a", text="fox")])])
        assert await names(store, "fox") == ["a"]
        (terms,) = [key for key in await client.keys() if key.endswith(b":terms")]
        await client.set(terms + b":waiting", "mine")
        with pytest.raises(StoreError, match="WRONGTYPE"):
            await store.apply([Add([note("b", text="fox")])])
        assert (await store.tally(ALL)).total == 1


@pytest.mark.parametrize("lost", ["before", "after"])
async def test_lost_answers_do_no_harm(fresh_redis, lost):
    """Each script may have run or not when the connection broke; it is asked again and nothing is doubled."""

    class Flaky(aio.Redis):
        calls = 0

        async def execute_command(self, *args, **options):
            self.calls += args[0] == "EVALSHA"
            broken = args[0] == "EVALSHA" and self.calls % 2 == 1
            if broken and lost == "before":
                raise told.ConnectionError("gone")
            answer = await super().execute_command(*args, **options)
            if broken:
                raise told.ConnectionError("gone")
            return answer

    async with RedisStore(Flaky.from_url(fresh_redis), owned=True) as store:
        for turn in range(4):
            await store.apply([Add([note(f"n{turn}", text=f"fox {turn}")])])
            await store.apply([Change(query=ALL, mark=(f"m{turn}",))])
            assert len(await names(store, "fox")) == turn + 1
        assert await store.reindex("messages") == 4
        assert len(await names(store, "fox")) == 4
        await sound(store)


async def test_one_store_serves_one_loop_after_another(fresh_redis):
    def run() -> None:
        store = open_store(fresh_redis)
        asyncio.run(store.apply([Add([note("a", text="fox")])]))
        assert asyncio.run(names(store, "fox")) == ["a"]
        asyncio.run(store.apply([Add([note("b", text="fox")])]))
        assert asyncio.run(names(store, "fox")) == ["a", "b"]
        asyncio.run(store.close())

    await asyncio.to_thread(run)


@pytest.mark.parametrize("decode", [True, False])
async def test_clients_that_decode_are_searched_through(fresh_redis, decode):
    async with (
        aio.Redis.from_url(fresh_redis, decode_responses=decode) as client,
        RedisStore(client) as store,
    ):
        await store.apply([Add([note("软", text="é 软件", metadata={"k": "é"})])])
        assert await names(store, "软件", query=Query(collection="messages", where={"k": "é"})) == ["软"]
        assert await store.reindex("messages") == 1
        await sound(store)
