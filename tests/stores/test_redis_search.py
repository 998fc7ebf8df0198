"""Search by terms in Redis: what the shared contract cannot see of its index."""

import asyncio
import random
import time
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
import redis.asyncio as aio

from octavo import Add, Change, Query, Record, Remove, Scope, open_store
from octavo.kernel.terms.matching import matching

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
ALL = Query(collection="messages")
NOWHERE = Scope()
WORDS = ["fox", "owl", "oak", "elm", "whale", "软件", "狐狸", "c++", "42", "naïve", "getUserName"]
TERMS = ("fox", "owl", "软", "软件", "狐狸", "cplusplus", "42", "naiv", "getusernam", "user", "nobody")


def note(name: str, scope: Scope = NOWHERE, **fields) -> Record:
    return Record(collection="messages", id=name, scope=scope, **fields)


def some_scope(chance: random.Random) -> Scope:
    pick = lambda *names: chance.choice(names)  # noqa: E731
    return Scope(user=pick(None, "alice", "bob"), agent=pick(None, "x"), session=pick(None, "s1", "s2"))


def some_note(chance: random.Random, name: str) -> Record:
    text = " ".join(chance.choices(WORDS, k=chance.randrange(12)))
    return note(
        name,
        some_scope(chance),
        text=text,
        data={} if text else {"said": chance.choices(WORDS, k=2)},
        kind=chance.choice(["", "user", "tool"]),
        marks=tuple({*chance.choices("abc", k=chance.randrange(3))}),
        metadata={"n": chance.randrange(3)} if chance.random() < 0.5 else {},
        created_at=NOON + timedelta(seconds=chance.randrange(5)),
        expires_at=NOON + timedelta(hours=chance.randrange(1, 3)) if chance.random() < 0.3 else None,
        seq=chance.randrange(4),
    )


def some_query(chance: random.Random) -> Query:
    pick = lambda *names: chance.choice(names)  # noqa: E731
    scope = Scope(
        user=pick(None, "", "alice"), agent=pick(None, None, "", "x"), session=pick(None, None, "", "s1")
    )
    clauses = chance.sample(
        [
            {"kinds": ("user", "tool")},
            {"marks": ("a", "b")},
            {"without": ("a",)},
            {"where": {"n": 1}},
            {"alive_at": NOON + timedelta(hours=1)},
            {"since": NOON + timedelta(seconds=1)},
            {"until": NOON + timedelta(seconds=3)},
            {"ids": tuple(f"n{n}" for n in range(0, 60, 3))},
        ],
        k=chance.randrange(3),
    )
    return Query(
        collection="messages", scope=scope, **{name: value for one in clauses for name, value in one.items()}
    )


async def agrees(store, query: Query, terms=TERMS) -> None:
    records = await store.find(Query(collection=query.collection, scope=Scope(tenant=query.scope.tenant)))
    assert await store.search(query, terms) == matching(query, terms, records), query


@pytest.mark.parametrize("seed", range(6))
async def test_it_answers_as_matching_does(fresh_redis, seed, size):
    """Whatever is added, changed and removed, and whatever the scope and the filters."""
    chance = random.Random(seed)
    async with open_store(fresh_redis) as store, open_store(fresh_redis) as other:
        for turn in range(size(12, 60)):
            one = chance.choice([store, other])
            await one.apply(
                [Add([some_note(chance, f"n{chance.randrange(80)}") for _ in range(chance.randrange(30))])]
            )
            some = tuple(f"n{chance.randrange(80)}" for _ in range(5))
            await one.apply(
                chance.choice(
                    [
                        [Remove(Query(collection="messages", ids=some))],
                        [
                            Change(
                                query=Query(collection="messages", ids=some),
                                text=" ".join(chance.choices(WORDS, k=4)),
                            )
                        ],
                        [Change(query=Query(collection="messages", ids=some), kind="tool", mark=("a",))],
                        [Change(query=Query(collection="messages", ids=some), expires_at=NOON)],
                        [
                            Change(
                                query=Query(collection="messages", ids=some), text="", merge={"said": "owl"}
                            )
                        ],
                    ]
                )
            )
            if turn % 3 == 2:
                for _ in range(6):
                    await agrees(chance.choice([store, other]), some_query(chance))
        assert (await store.verify("messages")).missing == ()
        for _ in range(30):
            await agrees(store, some_query(chance))
        lexicon = await store.verify("messages")
        assert (lexicon.missing, lexicon.stray, lexicon.waiting) == ((), 0, 0)
        await store.apply([Remove(ALL)])
        assert (await store.search(ALL, TERMS)).found == []


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
    """Whatever happened, the index is that of the records."""
    lexicon = await store.verify("messages")
    assert (lexicon.missing, lexicon.stray, lexicon.waiting) == ((), 0, 0), lexicon
    assert lexicon.records == (await store.tally(ALL)).total


async def test_a_collection_nobody_searches_has_no_index(fresh_redis):
    async with open_store(fresh_redis) as store, raw(fresh_redis) as client:
        await store.apply([Add([note("a", text="fox")])])
        await store.apply([Change(query=ALL, text="owl")])
        assert await index_keys(client) == []
        lexicon = await store.verify("messages")
        assert (lexicon.records, lexicon.waiting, lexicon.missing) == (1, 1, ())
        assert await names(store, "owl", query=Query(collection="turns")) == []
        assert await index_keys(client) == []
        assert await names(store, "owl") == ["a"]
        await sound(store)


async def test_nothing_is_left_when_everything_is_removed(fresh_redis):
    async with open_store(fresh_redis) as store, raw(fresh_redis) as client:
        for _ in range(2):
            await store.apply([Add([note(f"n{n}", Scope(user=f"u{n % 3}"), text="fox") for n in range(9)])])
            assert len(await names(store, "fox")) == 9
            await store.apply([Remove(ALL)])
            assert await names(store, "fox") == []
            assert await client.keys() == [b"octavo:tenants"]


async def test_all_keys_have_the_prefix_and_one_hash_tag(fresh_redis):
    async with open_store(f"{fresh_redis}?prefix=mine") as store, raw(fresh_redis) as client:
        await store.apply([Add([note("a", Scope(user="{x}", session="s"), text="fox", marks=("m",))])])
        assert await names(store, "fox") == ["a"]
        await store.apply([Change(query=ALL, text="owl")])
        keys = [key.decode() for key in await client.keys() if key != b"mine:tenants"]
    assert all(key.startswith("mine:") for key in keys)
    assert len({key.partition("{")[2].partition("}")[0] for key in keys}) == 1
    assert sum(":terms" in key for key in keys) > 4


async def test_idle_time_brings_the_index_up_to_date(fresh_redis):
    """Some time after a write nothing is in line any more, though nobody searches."""
    async with open_store(fresh_redis) as store, open_store(fresh_redis) as other, raw(fresh_redis) as client:
        await store.apply([Add([note("a", text="fox")])])
        assert await names(store, "fox") == ["a"]
        await other.apply(
            [
                Add([note(f"n{n}", text="owl") for n in range(300)]),
                Remove(Query(collection="messages", ids=("a",))),
            ]
        )
        (terms,) = [key for key in await client.keys() if key.endswith(b":terms")]
        deadline = time.monotonic() + 20
        while await client.zcard(terms + b":waiting"):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
        await sound(store)


async def test_what_waits_at_the_end_is_left_in_line(fresh_redis, monkeypatch):
    """Closing does not wait for the index, and leaves no task behind."""
    for name in ("_QUIET_SECONDS", "_PATIENT_SECONDS"):
        monkeypatch.setattr(f"octavo.stores.redis.idle.{name}", 1000)
    async with open_store(fresh_redis) as store:
        await store.apply([Add([note("a", text="fox")])])
        assert await names(store, "fox") == ["a"]
        await store.apply([Add([note("b", text="fox")])])
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
    async with open_store(fresh_redis) as store:
        assert (await store.verify("messages")).waiting == 1
        assert await names(store, "fox") == ["a", "b"]


async def test_a_first_search_that_is_given_up_is_finished_by_the_next(fresh_redis, monkeypatch):
    """However far the building of the index came, nothing is left out or entered twice."""
    monkeypatch.setattr("octavo.stores.redis.indexing._RECORDS", 5)
    async with open_store(fresh_redis) as store, open_store(fresh_redis) as other, raw(fresh_redis) as client:
        await store.apply(
            [Add([note(f"n{n}", Scope(user=f"u{n % 3}"), text=f"fox {n}") for n in range(700)])]
        )
        for turns in (1, 10, 40, 80):
            task = asyncio.create_task(names(store, "fox"))
            for _ in range(turns):
                await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await store.apply(
            [Add([note("late", text="fox")]), Remove(Query(collection="messages", ids=("n3",)))]
        )
        found = await asyncio.gather(*(names(one, "fox", "7") for one in (store, other) * 3))
        assert [sorted(one) for one in found] == [sorted(found[0])] * 6
        assert len(found[0]) == 700
        await sound(store)
        assert await client.exists(*await index_keys(client)) == len(await index_keys(client))


async def test_many_stores_write_and_index_at_once(fresh_redis, size):
    """No posting is lost or doubled, and a search sees all that was acknowledged before it."""
    chance = random.Random(5)
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(open_store(fresh_redis)) for _ in range(4)]
        await stores[0].apply([Add([some_note(chance, f"old{n}") for n in range(50)])])
        acknowledged: dict[str, str] = {}

        async def write(number: int) -> None:
            for turn in range(size(25, 200)):
                store, name = chance.choice(stores), f"w{number}-{chance.randrange(8)}"
                word = f"word{number}x{turn}"
                acknowledged.pop(name, None)
                only = Query(collection="messages", ids=(name,))
                added = await store.apply(
                    [Remove(only), Add([note(name, Scope(user=f"u{number}"), text=word)])]
                )
                assert added[1] == 1
                if turn % 3 == 0:
                    word += "changed"
                    await store.apply([Change(query=only, text=word)])
                acknowledged[name] = word

        async def search() -> None:
            while not all(writer.done() for writer in writers):
                before = dict(acknowledged)
                if not before:
                    await asyncio.sleep(0)
                    continue
                name, word = chance.choice([*before.items()])
                found = await names(chance.choice(stores), word)
                if acknowledged.get(name) == word:
                    assert found == [name]

        writers = [asyncio.create_task(write(number)) for number in range(6)]
        await asyncio.gather(*writers, *(search() for _ in range(4)))
        for store in stores:
            for name, word in acknowledged.items():
                assert await names(store, word) == [name]
        await sound(stores[0])
        for _ in range(20):
            await agrees(stores[1], some_query(chance))


async def test_a_record_others_change_all_the_time_keeps_no_search_waiting(fresh_redis):
    """A search sees it as it was when the search began, or later."""
    async with open_store(fresh_redis) as store, open_store(fresh_redis) as busy:
        await store.apply([Add([note("hot", text="turn0 fox"), note("cold", text="fox")])])
        turns = 0

        async def change() -> None:
            nonlocal turns
            while turns < 120:
                await busy.apply(
                    [Change(query=Query(collection="messages", ids=("hot",)), text=f"turn{turns + 1} fox")]
                )
                turns += 1

        changing = asyncio.create_task(change())
        searches = 0
        while not changing.done():
            before = turns
            answer = await store.search(ALL, [f"turn{n}" for n in range(122)] + ["fox"])
            assert [match.id for match in answer.found] == ["hot", "cold"]
            assert next(n for n, count in enumerate(answer.found[0].counts[:-1]) if count) >= before
            searches += 1
        await changing
        assert searches
        assert await names(store, "turn120") == ["hot"]
        await sound(store)


async def test_what_is_changed_over_and_over_leaves_little_behind(fresh_redis):
    """Blocks that are mostly dead are emptied into others."""
    async with open_store(fresh_redis) as store, raw(fresh_redis) as client:
        await store.apply([Add([note(f"n{n}", text=f"fox{n}") for n in range(20)])])
        for turn in range(60):
            await store.apply([Change(query=ALL, text=f"owl{turn} tree")])
            assert len(await names(store, f"owl{turn}")) == 20
        blocks = [key for key in await client.keys() if b":terms:block:" in key]
        assert 1 <= len(blocks) <= 2
        assert sum([len(await client.hget(key, "\0x") or b"") // 2 for key in blocks]) < 600
        await sound(store)


async def test_a_place_larger_than_a_block(fresh_redis, monkeypatch):
    """Several blocks, more matches than are looked at, and the newest of very many found from the newest back."""
    async with open_store(fresh_redis) as store:
        notes = [
            note(
                f"n{n:04}",
                text="common " + "half " * (n % 2) + f"word{n % 900}",
                created_at=NOON,
                seq=5000 - n,
            )
            for n in range(4300)
        ]
        for start in range(0, 4300, 1000):
            await store.apply([Add(notes[start : start + 1000])])
        await store.apply([Remove(Query(collection="messages", ids=("n0000", "n4299")))])
        for terms in (
            ("common",),
            ("common", "half"),
            ("half", "word7"),
            ("word7", "word8", "common"),
            ("word7",),
        ):
            for query in (
                ALL,
                Query(collection="messages", until=NOON + timedelta(seconds=1)),
                Query(collection="messages", scope=Scope(user="", agent="", session="")),
            ):
                with monkeypatch.context() as patch:
                    await agrees(store, query, terms)
                    patch.setattr("octavo.stores.redis.searching._MANY", 100)
                    patch.setattr("octavo.stores.redis.searching._RECORDS", 300)
                    await agrees(store, query, terms)
