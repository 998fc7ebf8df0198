"""Texts in PostgreSQL and MariaDB: whether or not an index nominates the records, the answers are those of `Query.over`."""

import asyncio
import random

import pytest
from sqlite_texts import NASTY, agrees, ask, do, event, nominates

from octavo import Add, Change, Query, Remove, Scope, open_store
from octavo.stores.sql import substrings


@pytest.fixture(params=["postgres", "postgres with pg_trgm", "mysql"])
async def url(request):
    """An empty database: one that has an index of its own for texts, and two that look at every record."""
    kind, _, extension = request.param.partition(" with ")
    url = request.getfixturevalue(f"fresh_{kind}")
    if extension:
        await install(url)
    return url


async def install(url):
    async with open_store(url) as store:
        await store.describe()  # opens it, and makes no table
        await do(store, "CREATE EXTENSION pg_trgm")


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch):
    """Few records suffice for an index to be asked here."""
    monkeypatch.setattr(substrings, "_SMALL", 0)


async def has_index(store):
    return store._driver.dialect.name == "postgresql" and bool(
        await ask(store, "SELECT 1 FROM pg_class WHERE relname = 'agent_events_by_trigram'")
    )


async def test_nasty_texts(url):
    """Every piece of every nasty text finds what holds it, with an index or without, and nothing else does."""
    records = [event(n, text) for n, text in enumerate([*NASTY, *(f"filler {n}" for n in range(40))])]
    async with open_store(url) as store:
        await store.apply([Add(records)])
        places, sizes = (0, 2, 4998), (2, 3, 8, 6000)
        needles = {text[at : at + size] for text in NASTY for at in places for size in sizes}
        needles |= {
            "%", "_", "%%%", "50%", "_to", "''", '"""', "no\" 'y", "\0", "abc\0", "zzz", "x" * 9000, "🎊🎈 ", "AND", "\\sl", "k\\", "h%s",
        }  # fmt: skip
        used = 0
        for needle in sorted(needles):
            await agrees(store, records, text=needle)
            used += bool(needle) and "\0" not in needle and await nominates(store, text=needle)
        assert used > 20 if await has_index(store) else used == 0
        assert not await nominates(store, text="ab")  # no run of three characters


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_whatever_is_written(url, seed):
    """Added, changed and removed: what is found is what is kept now."""
    chance = random.Random(seed)
    words = ["anchor", "ancient", "chorus", "人工智能", "平台很好", "50% off", "été", "nothing"]
    kept = {}

    def phrase():
        return " ".join(chance.choices(words, k=3))

    async with open_store(url) as store:
        for step in range(60):
            if not kept or chance.random() < 0.4:
                new = [event(1000 * step + n, phrase()) for n in range(chance.randrange(1, 6))]
                await store.apply([Add(new)])
                kept |= {record.id: record for record in new}
            one = Query(collection="events", ids=(chance.choice(sorted(kept)),))
            if chance.random() < 0.5:
                change = Change(query=one, text=phrase())
                await store.apply([change])
                kept |= {i: change.applied_to(r) for i, r in kept.items() if i in one.ids}
            elif chance.random() < 0.5:
                await store.apply([Remove(one)])
                kept = {i: r for i, r in kept.items() if i not in one.ids}
            needle = chance.choice([*words, "ncho", "chor", "智能 ", "f an", "é an"])
            clause = chance.choice(
                [
                    {},
                    {"limit": 2},
                    {"scope": Scope(agent="a1")},
                    {"newest_first": True, "limit": 1, "offset": 1},
                ]
            )
            await agrees(store, list(kept.values()), text=needle, **clause)
        assert await nominates(store, text="anchor") == await has_index(store)


async def test_no_acknowledged_record_is_missed(url):
    """Many write, and each finds what it wrote at once."""
    async with open_store(url) as one, open_store(url) as two:
        await one.apply([Add([event(n, f"filler {n}") for n in range(500)])])

        async def writes(store, who):
            for turn in range(25):
                number = 1000 + 100 * who + turn
                await store.apply([Add([event(number, f"word{number}word")])])
                found = await store.find(Query(collection="events", text=f"WORD{number}w"))
                assert [record.id for record in found] == [f"e{number}"]
                same = Query(collection="events", ids=(f"e{number}",))
                await store.apply([Change(query=same, text=f"other{number}other")])
                assert not await store.find(Query(collection="events", text=f"word{number}w"))
                assert await store.find(Query(collection="events", text=f"r{number}oth"))

        await asyncio.gather(*(writes(store, who) for who, store in enumerate([one, two] * 3)))
        assert (await two.tally(Query(collection="events", text="other"))).total == 150


async def test_few_are_looked_at(url, monkeypatch):
    """A collection that is looked through in no time is, whatever index there is."""
    monkeypatch.setattr(substrings, "_SMALL", 3000)
    async with open_store(url) as store:
        await store.apply([Add([event(n, f"filler {n}") for n in range(50)])])
        assert len(await store.find(Query(collection="events", text="filler"))) == 50
        assert not await nominates(store, text="filler")


async def test_reindex_makes_the_index_of_postgresql(fresh_postgres):
    """Where the extension came after the table, `reindex` makes the index; without the extension it makes none."""
    async with open_store(fresh_postgres) as store:
        records = [event(n, f"filler {n}") for n in range(30)]
        await store.apply([Add(records)])
        await store.reindex("events")
        assert not await has_index(store)
        await do(store, "CREATE EXTENSION pg_trgm")
        for _ in range(2):
            await store.reindex("events")
            assert await nominates(store, text="filler 2")
            await agrees(store, records, text="filler 2")
