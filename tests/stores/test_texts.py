"""Pieces of text in SQL: with PostgreSQL's index of trigrams or by looking at every record, the answers are those of `Query.over`."""

import asyncio
import random
from datetime import UTC, datetime, timedelta

import pytest

from octavo import Add, Change, Query, Record, Remove, Scope, Tally, open_store
from octavo.stores.sql.statements import Ask, Do

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NASTY = [
    "50% off_today", 'say "no" \'yes\'', "back\\slash", "line\nbreak\ttab", "人工智能平台很好用", "か゛き゛ ガ", "e\u0301te\u0301 été",
    "🎉🎊🎈 party 👩‍👩‍👧‍👦", "\U0001f600\U0001f601\U0001f602\U0001f603", "ＡＢＣ ﬁne ß İstanbul", "\ufffe\uffff\ufffd odd", "   ", "ab",
    "a", "", "AND OR NOT NEAR(", "col:umn ^x*", "aaaaaaaaaa", "\u0300\u0301\u0302", "x" * 5000 + "needle" + "y" * 5000,
    "שלום עולם", "नमस्ते दुनिया", "สวัสดีชาวโลก", "\x01\x02\x03\x7f", "a" * 40 + "b",
]  # fmt: skip


@pytest.fixture(params=["sqlite", "postgres", "postgres with pg_trgm", "mysql"])
async def url(request, tmp_path):
    """An empty database: one that has an index of its own for texts, and three that look at every record."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/a.db"
    kind, _, extension = request.param.partition(" with ")
    url = request.getfixturevalue(f"fresh_{kind}")
    if extension:
        async with open_store(url) as store:
            await store.describe()  # opens it, and makes no table
            await do(store, "CREATE EXTENSION pg_trgm")
    return url


def event(number, text, **more):
    given = {
        "collection": "events",
        "id": f"e{number}",
        "text": text,
        "seq": number,
        "kind": "kt"[number % 2],
    }
    scope = Scope(agent=f"a{number % 3}", session=f"s{number % 5}")
    return Record(**given | {"scope": scope, "created_at": NOON + timedelta(seconds=number // 2)} | more)


async def ask(store, sql, values=()):
    def script():
        return (yield Ask(sql, values))

    return await store._driver.read(script)


async def do(store, sql):
    def script():
        yield Do(sql)

    await store._driver.write(script)


async def agrees(store, records, **clauses):
    """A find, its heads and a tally answer what `Query` itself says of the records."""
    query = Query(collection="events", **clauses)
    expected = [record.key for record in query.over(records)]
    assert [record.key for record in await store.find(query)] == expected
    assert [head.id for head in await store.heads(query)] == [key[0] for key in expected]
    assert await store.tally(query) == Tally.of(query, records)


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
        for needle in sorted(needles):
            await agrees(store, records, text=needle)


@pytest.mark.parametrize("seed", [1, 2])
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


async def test_data_is_searched_too(url):
    """A record without a text is found by the values of its data, as they were and as they are."""
    records = [event(n, "", data={"call": {"name": f"ＴＯＯＬ {n:03}"}}) for n in range(30)]
    async with open_store(url) as store:
        await store.apply([Add(records)])
        await agrees(store, records, text="tool 007")
        change = Change(query=Query(collection="events", ids=("e7",)), merge={"call": "other"})
        await store.apply([change])
        records[7] = change.applied_to(records[7])
        await agrees(store, records, text="tool 007")
        await agrees(store, records, text="other")


async def test_reindex_makes_the_index_of_postgresql(fresh_postgres):
    """Where the extension came after the table, `reindex` makes the index; the planner then finds a rare text by it."""
    has = "SELECT 1 FROM pg_class WHERE relname = 'agent_events_by_trigram'"
    async with open_store(fresh_postgres) as store:
        records = [event(n, f"filler {n:05}") for n in range(5000)]
        await store.apply([Add(records)])
        await store.reindex("events")
        assert not await ask(store, has)
        await do(store, "CREATE EXTENSION pg_trgm")
        for _ in range(2):
            await store.reindex("events")
            assert await ask(store, has)
        await do(store, "ANALYZE agent_events")
        plan = "EXPLAIN SELECT 1 FROM agent_events WHERE tenant = '' AND search LIKE '%er 04321%'"
        assert "agent_events_by_trigram" in str(await ask(store, plan))
        await agrees(store, records, text="er 04321")
