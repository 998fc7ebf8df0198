"""When records end, in Redis: kept for those that end and no others."""

from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
import redis.asyncio as aio

from octavo import Add, Change, Query, Record, Remove, Scope, StoreError, open_store
from octavo.stores.redis.connection import LoopClient

NOON = datetime(2024, 6, 1, 12, tzinfo=UTC)
ENDED = Query(collection="episodes", expired_at=NOON)


def note(name: str, ends: datetime | None = None, user: str = "u") -> Record:
    return Record(collection="episodes", id=name, scope=Scope(user=user), expires_at=ends)


@asynccontextmanager
async def raw(url: str):
    client = aio.Redis.from_url(url)
    try:
        yield client
    finally:
        await client.aclose()


async def ends(client) -> list[bytes]:
    return [key for key in await client.keys() if key.endswith(b":ends")]


async def ids(store, query: Query = ENDED) -> list[str]:
    return [record.id for record in await store.find(query)]


async def test_nothing_is_kept_of_what_never_ends(fresh_redis):
    """Records without an end leave no key of ends, and a removed or changed end leaves no entry."""
    async with open_store(fresh_redis) as store, raw(fresh_redis) as client:
        await store.apply([Add([note(str(n)) for n in range(10)])])
        assert await ends(client) == []
        await store.apply([Add([note("a", NOON), note("b", NOON), note("c", NOON + timedelta(days=1))])])
        (key,) = await ends(client)
        assert await client.zcard(key) == 3
        await store.apply([Change(query=Query(collection="episodes", ids=("c",)), expires_at=None)])
        await store.apply([Remove(Query(collection="episodes", ids=("b",)))])
        assert await client.zcard(key) == 1
        assert await ids(store) == ["a"]
        await store.apply([Remove(Query(collection="episodes"))])
        assert await ends(client) == []
        assert await ids(store) == []


async def test_only_what_has_ended_is_read(fresh_redis, monkeypatch):
    """Once it is known, a question costs one call and as many bodies as have ended."""
    calls = []
    real = LoopClient.run

    async def counted(self, script, keys, *words):
        answer = await real(self, script, keys, *words)
        calls.append(sum(map(len, answer)))
        return answer

    async with open_store(fresh_redis) as store:
        await store.apply([Add([note(str(n)) for n in range(3000)])])
        await store.apply([Add([note("x", NOON), note("y", NOON - timedelta(days=1))])])
        assert await ids(store) == ["x", "y"]
        monkeypatch.setattr(LoopClient, "run", counted)
        assert await ids(store) == ["x", "y"]
        assert len(calls) == 1
        assert calls[0] < 2000
        calls.clear()
        assert await ids(store, Query(collection="episodes", scope=Scope(user="none"), expired_at=NOON)) == []
        assert len(calls) == 1


async def test_more_than_a_page_has_ended(fresh_redis):
    """Thousands that have ended are found in order, counted and removed."""
    async with open_store(fresh_redis) as store:
        await store.apply([Add([note(f"{n:04}", NOON - timedelta(seconds=n)) for n in range(2500)])])
        for _ in range(2):
            assert await ids(store) == [f"{n:04}" for n in range(2500)]
        some = Query(collection="episodes", expired_at=NOON - timedelta(seconds=1000), limit=5)
        assert await ids(store, some) == [f"{n:04}" for n in range(2495, 2500)]
        assert await store.apply([Remove(ENDED)]) == [2500]
        assert await ids(store, Query(collection="episodes")) == []


async def test_ends_live_as_long_as_their_places(fresh_redis):
    """With a ttl the ends expire with the records; a writer without one keeps them; what expired is dropped when met."""
    async with (
        open_store(f"{fresh_redis}?ttl=100") as brief,
        open_store(fresh_redis) as lasting,
        raw(fresh_redis) as client,
    ):
        await brief.apply([Add([note("a", NOON, "brief")])])
        (key,) = await ends(client)
        assert 0 < await client.ttl(key) <= 100
        await client.expire(key, 50)
        await brief.apply([Add([note("b", None, "brief")])])
        assert 50 < await client.ttl(key) <= 100
        assert await ids(brief) == ["a"]
        assert 0 < await client.ttl(key) <= 100
        await lasting.apply([Add([note("c", NOON, "lasting")])])
        assert await client.ttl(key) == -1
        await brief.apply([Add([note("d", NOON, "brief")])])
        assert await client.ttl(key) == -1
        scope_key = Scope(user="brief").key
        for part in ("body", "order:scope", "kinds:scope"):
            (gone,) = await client.keys(f"*:{part}:{scope_key}")
            await client.delete(gone)
        assert await ids(lasting) == ["c"]
        assert await client.zcard(key) == 1


async def test_a_strangers_key_stops_a_write_whole(fresh_redis):
    """Somebody else's value under the name of the ends refuses what ends, and nothing of the batch is written."""
    async with open_store(fresh_redis) as store, raw(fresh_redis) as client:
        await store.apply([Add([note("a", NOON)])])
        (key,) = await ends(client)
        await client.delete(key)
        await client.set(key, "mine")
        with pytest.raises(StoreError):
            await store.apply([Add([note("b"), note("c", NOON)])])
        with pytest.raises(StoreError):
            await store.apply([Remove(Query(collection="episodes", ids=("a",)))])
        assert await ids(store, Query(collection="episodes")) == ["a"]
        assert await client.get(key) == b"mine"
