"""Records with a time to live: every key of a scope has it, and what expired is neither found nor counted."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest
import redis.asyncio as aio

from octavo import Add, Change, Query, Record, Remove, Scope, open_store
from octavo.kernel.model import NameCount

ALL = Query(collection="messages")
OF_ALICE = Query(collection="messages", scope=Scope(user="alice"))


def note(name: str, session: str, **fields) -> Record:
    return Record(collection="messages", id=name, scope=Scope(user="alice", session=session), **fields)


def exactly(session: str) -> Query:
    return Query(collection="messages", scope=Scope(user="alice", agent="", session=session))


@asynccontextmanager
async def raw(url: str):
    client = aio.Redis.from_url(url)
    try:
        yield client
    finally:
        await client.aclose()


async def lives(client: aio.Redis) -> dict[str, int]:
    """How long each key lives on, in seconds; -1 for good."""
    return {key.decode(): await client.ttl(key) for key in await client.keys()}


async def gone(client: aio.Redis, part: str) -> None:
    """Wait until no key's name holds this part."""
    deadline = time.monotonic() + 20
    while any(part.encode() in key for key in await client.keys()):
        assert time.monotonic() < deadline, f"{part} did not expire"
        await asyncio.sleep(0.02)


async def ids(store, query: Query = ALL) -> list[str]:
    return [record.id for record in await store.find(query)]


async def found(store, term: str = "fox") -> list[str]:
    return [match.id for match in (await store.search(ALL, [term])).found]


async def test_every_key_expires_from_the_first_write_on(fresh_redis):
    async with open_store(f"{fresh_redis}?ttl=100") as store, raw(fresh_redis) as client:
        await store.apply([Add([note("a", "s", marks=("m",))])])
        first = await lives(client)
        assert len(first) == 16
        assert all(0 < seconds <= 100 for seconds in first.values()), first
        for key in first:
            await client.expire(key, 50)
        await store.apply([Change(query=ALL, kind="x", mark=("n",))])
        assert all(50 < seconds <= 100 for seconds in (await lives(client)).values())
        await store.apply([Add([note("b", "s")])])
        await store.apply([Remove(Query(collection="messages", ids=("b",)))])
        assert all(50 < seconds <= 100 for seconds in (await lives(client)).values())


async def test_without_ttl_nothing_expires(fresh_redis):
    async with open_store(fresh_redis) as store, raw(fresh_redis) as client:
        await store.apply([Add([note("a", "s", marks=("m",))])])
        await store.apply([Change(query=ALL, kind="x")])
        assert set((await lives(client)).values()) == {-1}


async def test_what_expired_is_neither_found_nor_counted(fresh_redis):
    """One session expires beside another that stays: lanes both stand in forget the first."""
    async with (
        open_store(f"{fresh_redis}?ttl=1") as brief,
        open_store(f"{fresh_redis}?ttl=1000") as store,
        raw(fresh_redis) as client,
    ):
        await store.apply([Add([note("a", "long", kind="user")])])
        await brief.apply(
            [Add([note("b", "brief", kind="tool", marks=("m",)), note("c", "brief", kind="user")])]
        )
        assert (await store.tally(ALL)).by_kind in ({"user": 2, "tool": 1}, {"user": 1})
        await gone(client, f"body:{exactly('brief').scope.key}")
        assert not [key for key in await client.keys() if exactly("brief").scope.key.encode() in key]
        for query in (ALL, OF_ALICE):
            tally = await store.tally(query)
            assert (tally.total, tally.by_kind) == (1, {"user": 1})
            assert tally.first == tally.last
            assert await ids(store, query) == ["a"]
        by_id = Query(collection="messages", ids=("a", "b", "c"))
        assert await ids(store, by_id) == ["a"]
        assert await ids(store, exactly("brief")) == []
        assert (await store.tally(exactly("brief"))).total == 0
        assert await store.apply([Remove(ALL)]) == [1]


async def test_who_has_expired_is_not_listed(fresh_redis):
    """Names whose records have expired are left out, do not shorten a page, and come back with the next record."""
    async with (
        open_store(f"{fresh_redis}?ttl=1") as brief,
        open_store(f"{fresh_redis}?ttl=1000") as store,
        raw(fresh_redis) as client,
    ):
        long = [note(f"long{n}", f"{n}long") for n in range(4)]
        await store.apply([Add(long)])
        await brief.apply([Add([note(f"brief{n}", f"{n}brief") for n in range(4)])])
        await gone(client, "brief")
        assert await store.names("messages", "session", limit=3) == NameCount.of("session", long[:3])
        assert await store.names("messages", "session") == NameCount.of("session", long)
        assert await store.names("messages", "user") == NameCount.of("user", long)
        assert await store.names("messages", "session", Scope(user="alice")) == NameCount.of("session", long)
        [parts] = [key for key in await client.keys() if key.endswith(b":parts")]
        assert await client.zcard(parts) == 5  # the names of the dead went when they were met
        await brief.apply([Add([note("brief", "2brief")])])
        assert [one.name for one in await store.names("messages", "session", after="1long", limit=2)] == [
            "2brief",
            "2long",
        ]


@pytest.mark.parametrize("first", ["find", "tally", "offset"])
async def test_an_id_that_expired_may_come_back(fresh_redis, first):
    """The order an expired record stood at does not become a second sight of the one that took its id."""
    async with open_store(f"{fresh_redis}?ttl=1000") as store, open_store(f"{fresh_redis}?ttl=1") as brief:
        await store.apply([Add([note("a", "long")])])
        await brief.apply([Add([note("b", "brief", kind="old")])])
        async with raw(fresh_redis) as client:
            await gone(client, exactly("brief").scope.key)
        later = note("b", "brief", kind="new")
        assert await store.apply([Add([later])]) == [1]
        if first == "tally":
            assert (await store.tally(ALL)).by_kind == {"": 1, "new": 1}
        if first == "offset":
            page = Query(collection="messages", limit=5, offset=1)
            assert await ids(store, page) == ["a"]
        assert await ids(store) == ["a", "b"]
        tally = await store.tally(ALL)
        assert (tally.total, tally.last) == (2, later.created_at)


async def test_all_of_a_tenant_expires(fresh_redis):
    async with open_store(f"{fresh_redis}?ttl=1") as store, raw(fresh_redis) as client:
        await store.apply([Add([note("a", "s", marks=("m",))])])
        await gone(client, "octavo")
        assert await ids(store) == []
        assert (await store.tally(ALL)).total == 0
        assert await store.tenants() == []
        assert await store.apply([Add([note("a", "s")])]) == [1]


async def test_who_keeps_for_good_is_not_cut_short(fresh_redis):
    """A store with a ttl beside one without: neither's records go before their time."""
    async with (
        open_store(fresh_redis) as store,
        open_store(f"{fresh_redis}?ttl=100") as brief,
        raw(fresh_redis) as client,
    ):
        await brief.apply([Add([note("a", "one")])])
        await store.apply([Add([note("b", "two")])])
        await brief.apply([Add([note("c", "three")])])
        scope_keys = {session: exactly(session).scope.key for session in ("one", "two", "three")}
        for key, seconds in (await lives(client)).items():
            expiring = (
                scope_keys["one"] in key
                or scope_keys["three"] in key
                or ":session:one" in key
                or ":session:three" in key
            )
            assert (seconds > 0) == expiring, (key, seconds)
        await store.apply([Add([note("d", "one")])])  # now this session is to stay
        assert not [
            key for key, seconds in (await lives(client)).items() if scope_keys["one"] in key and seconds > 0
        ]


async def test_counters_are_not_trusted_where_some_may_have_expired(fresh_redis):
    """Sessions with a time to live may go one by one, so what they share is counted; a session's own counter is right."""
    async with open_store(f"{fresh_redis}?ttl=1000") as store, raw(fresh_redis) as client:
        await store.apply([Add([note(f"n{n}", f"s{n}") for n in range(20)])])
        for key in await client.keys():
            if b":kinds:" in key:
                await client.hset(key, "", 7)
        assert (await store.tally(ALL)).total == 20
        assert (await store.tally(exactly("s1"))).total == 7


async def keys_of_the_dead(client: aio.Redis) -> list[bytes]:
    return [key for key in await client.keys() if exactly("brief").scope.key.encode() in key]


async def test_searches_find_nothing_that_expired(fresh_redis):
    """One session expires beside another that stays; nothing of it is found, and its ids may come back."""
    async with (
        open_store(f"{fresh_redis}?ttl=1") as brief,
        open_store(f"{fresh_redis}?ttl=1000") as store,
        raw(fresh_redis) as client,
    ):
        await store.apply([Add([note("a", "long", text="fox")])])
        await brief.apply([Add([note("b", "brief", text="fox"), note("c", "brief", text="fox")])])
        assert (await found(store))[:1] == ["a"]
        await gone(client, f"body:{exactly('brief').scope.key}")
        for query in (ALL, OF_ALICE, Query(collection="messages", scope=Scope(session="brief"))):
            answer = await store.search(query, ["fox"])
            assert [match.id for match in answer.found] == ["a"] * (query.scope.session is None)
            assert answer.held == (len(answer.found),)
        assert await keys_of_the_dead(client) == []
        lexicon = await store.verify("messages")
        assert (lexicon.records, lexicon.missing, lexicon.stray) == (1, (), 0)
        await store.apply([Add([note("b", "brief", text="owl")])])
        assert (await found(store), await found(store, "owl")) == (["a"], ["b"])


async def test_terms_live_as_long_as_their_records(fresh_redis):
    """Each write makes the terms live on with the records; so does one that keeps for good."""
    async with open_store(f"{fresh_redis}?ttl=100") as store, raw(fresh_redis) as client:
        await store.apply([Add([note("a", "s", text="fox", marks=("m",))])])
        assert await found(store) == ["a"]
        assert [key for key in await lives(client) if ":terms:" in key]
        assert all(0 < seconds <= 100 for seconds in (await lives(client)).values())
        for op in (
            Change(query=ALL, kind="k"),
            Add([note("b", "s", text="fox")]),
            Remove(Query(collection="messages", ids=("b",))),
        ):
            for key in await client.keys():
                await client.expire(key, 50)
            await store.apply([op])
            left = await lives(client)
            assert all(50 < seconds <= 100 for seconds in left.values()), left
            assert [key for key in left if ":terms:" in key]
        async with open_store(fresh_redis) as lasting:
            await lasting.apply([Add([note("d", "s", text="fox")])])
            assert await found(lasting) == ["a", "d"]
        assert set((await lives(client)).values()) == {-1}


async def test_terms_that_outlive_their_records_find_nothing(fresh_redis):
    """The keys of a session may go a moment before its terms do."""
    async with open_store(f"{fresh_redis}?ttl=1000") as store, raw(fresh_redis) as client:
        await store.apply([Add([note("a", "long", text="fox"), note("b", "brief", text="fox")])])
        assert await found(store) == ["a", "b"]
        await client.delete(*(key for key in await keys_of_the_dead(client) if b":terms:" not in key))
        for scope in (Scope(), Scope(user="alice"), exactly("brief").scope):
            answer = await store.search(Query(collection="messages", scope=scope), ["fox"])
            assert "b" not in [match.id for match in answer.found]
