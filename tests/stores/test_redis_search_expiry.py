"""The index of terms where records have a time to live: it lives as long as they do, and finds nothing that expired."""

import asyncio
import time
from contextlib import asynccontextmanager

import redis.asyncio as aio

from octavo import Add, Change, Query, Record, Remove, Scope, open_store

ALL = Query(collection="messages")
OF_ALICE = Query(collection="messages", scope=Scope(user="alice"))


def note(name: str, session: str, text: str = "fox", **fields) -> Record:
    scope = Scope(user="alice", session=session)
    return Record(collection="messages", id=name, scope=scope, text=text, **fields)


def place(session: str) -> str:
    return Scope(user="alice", session=session).place


async def names(store, query: Query = ALL, term: str = "fox") -> list[str]:
    return [match.id for match in (await store.search(query, [term])).found]


@asynccontextmanager
async def raw(url: str):
    client = aio.Redis.from_url(url)
    try:
        yield client
    finally:
        await client.aclose()


async def lives(client: aio.Redis) -> dict[str, int]:
    """How long each key lives on, in milliseconds; -1 for good."""
    return {key.decode(): await client.pttl(key) for key in await client.keys()}


async def gone(client: aio.Redis, part: str) -> None:
    """Wait until no key's name holds this part."""
    deadline = time.monotonic() + 20
    while any(part.encode() in key for key in await client.keys()):
        assert time.monotonic() < deadline, f"{part} did not expire"
        await asyncio.sleep(0.02)


async def test_the_index_lives_as_long_as_the_records(fresh_redis):
    """Each write makes it live on, before anything is indexed again; so does one that keeps for good."""
    async with open_store(f"{fresh_redis}?ttl=100") as store, raw(fresh_redis) as client:
        await store.apply([Add([note("a", "s", marks=("m",))])])
        assert await names(store) == ["a"]
        assert all(0 < left <= 100_000 for left in (await lives(client)).values())
        for op in (
            Change(query=ALL, text="owl"),
            Add([note("b", "s")]),
            Remove(Query(collection="messages", ids=("b",))),
        ):
            for key in await client.keys():
                await client.expire(key, 50)
            await store.apply([op])
            left = {key: left for key, left in (await lives(client)).items() if ":messages:" in key}
            assert all(50_000 < left <= 100_000 for left in left.values()), left
            assert [key for key in left if ":terms:block:" in key]
        assert await names(store, term="owl") == ["a"]
        await store.apply([Remove(ALL)])
        assert all(0 < left <= 100_000 for left in (await lives(client)).values())
        await store.apply([Add([note("c", "s")])])
        async with open_store(fresh_redis) as lasting:
            await lasting.apply([Add([note("d", "s")])])
            assert await names(lasting) == ["c", "d"]
        assert set((await lives(client)).values()) == {-1}


async def test_what_expired_is_not_found(fresh_redis):
    """One session expires beside another that stays; where the two stood together, nothing is left of the first."""
    async with (
        open_store(f"{fresh_redis}?ttl=1") as brief,
        open_store(f"{fresh_redis}?ttl=1000") as store,
        raw(fresh_redis) as client,
    ):
        await store.apply([Add([note("a", "long")])])
        await brief.apply([Add([note("b", "brief"), note("c", "brief")])])
        assert (await names(store))[:1] == ["a"]
        await gone(client, place("brief"))
        for query in (ALL, OF_ALICE, Query(collection="messages", scope=Scope(session="brief"))):
            answer = await store.search(query, ["fox"])
            assert [match.id for match in answer.found] == ["a"] * (query.scope.session is None)
            assert answer.held == (len(answer.found),)
        for key in await client.keys():
            if b":terms:at:" in key:
                assert place("brief").encode() not in await client.zrange(key, 0, -1)
        lexicon = await store.verify("messages")
        assert (lexicon.records, lexicon.missing, lexicon.stray) == (1, (), 0)
        again = note("b", "brief", "owl")
        await store.apply([Add([again])])
        assert (await names(store), await names(store, term="owl")) == (["a"], ["b"])


async def test_an_index_that_outlives_its_records_finds_nothing(fresh_redis):
    """The keys of a place may go a moment before its part of the index does."""
    async with open_store(f"{fresh_redis}?ttl=1000") as store, raw(fresh_redis) as client:
        await store.apply([Add([note("a", "long"), note("b", "brief")])])
        assert await names(store) == ["a", "b"]
        own = [key for key in await client.keys() if key.endswith(place("brief").encode())]
        await client.delete(*(key for key in own if b":terms:" not in key))
        for scope in (Scope(), Scope(user="alice"), Scope(user="alice", agent="", session="brief")):
            assert "b" not in await names(store, Query(collection="messages", scope=scope))


async def test_what_waits_in_line_may_expire(fresh_redis):
    async with (
        open_store(f"{fresh_redis}?ttl=1") as brief,
        open_store(f"{fresh_redis}?ttl=1000") as store,
        raw(fresh_redis) as client,
    ):
        await store.apply([Add([note("a", "long")])])
        assert await names(store) == ["a"]
        await brief.apply([Add([note("b", "brief")])])
        await brief.close()
        await gone(client, place("brief"))
        assert await names(store) == ["a"]
        lexicon = await store.verify("messages")
        assert (lexicon.records, lexicon.waiting, lexicon.missing, lexicon.stray) == (1, 0, (), 0)


async def test_all_of_a_tenant_expires(fresh_redis):
    async with open_store(f"{fresh_redis}?ttl=1") as store, raw(fresh_redis) as client:
        await store.apply([Add([note("a", "s")])])
        await names(store)
        await store.apply([Add([note("b", "s")])])
        await gone(client, "octavo")
        assert await names(store) == []
        await store.apply([Add([note("a", "s", "owl")])])
        assert await names(store, term="owl") == ["a"]
