"""Search by terms in Redis: what the shared contract cannot see of the terms that are kept, and of what goes wrong."""

import asyncio
import random
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
import redis.asyncio as aio
from redis import exceptions as told

from octavo import Add, Change, Query, Record, Remove, Scope, StoreError, open_store
from octavo.kernel.terms.matching import search_records
from octavo.stores.redis import RedisStore

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
    assert await store.search(query, terms) == search_records(query, terms, records), query


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


async def test_a_scope_nobody_searches_costs_nothing(fresh_redis):
    """Terms are made by the first search of a scope, for that scope; until then their records wait."""
    async with open_store(fresh_redis) as store, raw(fresh_redis) as client:
        await store.apply([Add([note("a", Scope(user="alice"), text="fox"), note("b", text="fox")])])
        await store.apply([Change(query=ALL, text="owl")])
        assert await index_keys(client) == []
        lexicon = await store.verify("messages")
        assert (lexicon.records, lexicon.waiting, lexicon.missing) == (2, 2, ())
        assert await names(store, "owl", query=Query(collection="turns")) == []
        assert await index_keys(client) == []
        assert await names(store, "owl", query=Query(collection="messages", scope=Scope(user="alice"))) == [
            "a"
        ]
        assert len(await index_keys(client)) == 1
        assert (await store.verify("messages")).waiting == 1
        assert await names(store, "owl") == ["a", "b"]
        await sound(store)


async def test_what_has_changed_waits_for_the_next_search(fresh_redis):
    """A change takes away what was known of its record and no other; the next search makes it anew."""
    marked = Query(collection="messages", marks=("m",), kinds=("k",), where={"a": 1})
    async with open_store(fresh_redis) as store:
        await store.apply([Add([note(f"n{n}", text="fox") for n in range(5)])])
        assert len(await names(store, "fox")) == 5
        some = Query(collection="messages", ids=("n1", "n2"))
        await store.apply([Change(query=some, mark=("m",), kind="k", metadata={"a": 1})])
        assert (await store.verify("messages")).waiting == 2
        for _ in range(2):
            assert await names(store, "fox", query=marked) == ["n1", "n2"]
        await sound(store)


async def test_damage_is_named_and_mended(fresh_redis):
    async with open_store(fresh_redis) as store, raw(fresh_redis) as client:
        home = Scope(user="alice")
        await store.apply([Add([note(f"n{n}", home, text=f"fox word{n}", kind="k") for n in range(10)])])
        assert len(await names(store, "fox")) == 10
        (terms,) = await index_keys(client)
        (body,) = [key for key in await client.keys() if b":body:" in key]
        number = {n: (await client.hget(terms, f"\0in{n}")).decode() for n in range(10)}
        await client.hdel(terms, "word1")
        await client.hset(terms, "word2", f"{number[2]}:7 ")
        await client.hdel(terms, "\0in3")
        known = await client.hget(terms, f"\0r{number[4]}")
        await client.hset(terms, f"\0r{number[4]}", known.replace(b'"kind":"k"', b'"kind":"other"'))
        await client.hdel(body, "n5")
        lexicon = await store.verify("messages")
        assert sorted(lexicon.missing) == ["n1", "n2", "n3", "n4"]
        assert lexicon.stray == 2  # n5, which is gone, and what nobody knows to be n3's
        told: list[tuple[int, int]] = []
        assert await store.reindex("messages", lambda *step: told.append(step)) == 9
        assert told[-1] == (9, 9)
        lexicon = await store.verify("messages")
        assert (lexicon.records, lexicon.missing, lexicon.stray, lexicon.waiting) == (9, (), 0, 0)
        assert await names(store, "fox", "word1") == [f"n{n}" for n in range(10) if n != 5]
        await client.delete(*await index_keys(client))
        assert await names(store, "word1", "word3") == ["n1", "n3"]
        await client.hset(terms, "\0l", 99)
        assert await names(store, "word1", "word3") == ["n1", "n3"]


async def test_more_unknown_records_than_are_read_in_one_step(fresh_redis, monkeypatch):
    """By their number or by their size; the answer is the same."""
    monkeypatch.setattr("octavo.stores.redis.searching._UNKNOWN", 30)
    async with open_store(fresh_redis) as store:
        for turn in range(3):
            await store.apply([Add([note(f"n{turn}-{n}", text=f"fox {turn}") for n in range(80)])])
            assert len(await names(store, "fox")) == 80 * (turn + 1)
            await sound(store)
        monkeypatch.setattr("octavo.stores.redis.searching._PAGE_BYTES", 20_000)
        await store.apply([Add([note(f"long{n}", text="owl " * 2000) for n in range(20)])])
        assert len(await names(store, "owl")) == 20
        await sound(store)


async def test_nothing_is_left_when_everything_is_removed(fresh_redis):
    async with open_store(fresh_redis) as store, raw(fresh_redis) as client:
        for _ in range(2):
            await store.apply([Add([note(f"n{n}", Scope(user=f"u{n % 3}"), text="fox") for n in range(9)])])
            assert len(await names(store, "fox")) == 9
            await store.apply([Remove(ALL)])
            assert await client.keys() == [b"octavo:tenants"]
            assert await names(store, "fox") == []


async def test_all_keys_have_the_prefix_and_one_hash_tag(fresh_redis):
    async with open_store(f"{fresh_redis}?prefix=mine") as store, raw(fresh_redis) as client:
        await store.apply([Add([note("a", Scope(user="{x}", session="s"), text="fox", marks=("m",))])])
        assert await names(store, "fox") == ["a"]
        await store.apply([Change(query=ALL, text="owl")])
        keys = [key.decode() for key in await client.keys() if key != b"mine:tenants"]
    assert all(key.startswith("mine:") for key in keys)
    assert len({key.partition("{")[2].partition("}")[0] for key in keys}) == 1
    assert sum(":terms:" in key for key in keys) == 1


async def test_a_first_search_that_is_given_up_is_finished_by_the_next(fresh_redis, monkeypatch):
    """However far it came, nothing is left out or entered twice."""
    monkeypatch.setattr("octavo.stores.redis.searching._BATCH", 5)
    async with open_store(fresh_redis) as store, open_store(fresh_redis) as other:
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
    async with open_store(fresh_redis) as store, raw(fresh_redis) as client:
        await store.apply([Add([note(f"n{n}", text=f"fox{n}") for n in range(20)])])
        assert len(await names(store, "fox1")) == 1
        sizes = []
        for turn in range(60):
            await store.apply([Change(query=ALL, text=f"owl{turn} tree")])
            assert len(await names(store, f"owl{turn}")) == 20
            (terms,) = await index_keys(client)
            sizes.append(await client.memory_usage(terms))
        assert max(sizes) < 60_000
        await sound(store)


async def test_more_than_a_page(fresh_redis, monkeypatch):
    """A scope of several exact ones, each read by a call of its own, and more matches than are looked at."""
    monkeypatch.setattr("octavo.stores.redis.searching._SCOPES", 1)
    async with open_store(fresh_redis) as store:
        notes = [
            note(
                f"n{n:04}",
                Scope(session="ab"[n % 2]) if n % 3 else NOWHERE,
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
                await agrees(store, query, terms)


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
        (terms,) = await index_keys(client)
        await client.set(terms, "mine")
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
        for _ in range(2):
            query = Query(collection="messages", where={"k": "é"})
            assert await names(store, "软件", query=query) == ["软"]
            assert await names(store, "软件") == ["软"]
        assert await store.reindex("messages") == 1
        await sound(store)
