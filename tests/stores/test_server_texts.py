"""Texts in PostgreSQL and MariaDB: whether or not an index nominates the records, the answers are those of `Query.over`."""

import asyncio
import logging
import random
from urllib.parse import urlsplit

import pytest
from sqlite_texts import NASTY, agrees, ask, do, event

from octavo import Add, Change, Query, Remove, Scope, open_store
from octavo.stores.sql import grams, pg_trgm, substrings
from octavo.stores.sql.gram_index import Grams


@pytest.fixture(params=["postgres", "mysql"])
def url(request):
    return request.getfixturevalue(f"fresh_{request.param}")


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch):
    """Few records suffice for an index here."""
    monkeypatch.setattr(substrings, "_SMALL", 0)


async def nominates(store, **clauses):
    """Whether an index says which records are looked at."""
    query, table = Query(collection="events", **clauses), await store._table("events")
    if table.dialect.name == "mysql":
        return (await store._driver.read(lambda: grams.way(table, "", query)))[0] is not None
    return (await store._driver.read(lambda: pg_trgm.way(table, query)))[0] is not None


async def settled(store):
    """Wait until the index is there and nothing waits for it; the test's own time limit ends a wait that is in vain."""
    while not await nominates(store, text="whatever") or await lag(store):
        await store.find(Query(collection="events", text="whatever"))
        await asyncio.sleep(0.02)


async def lag(store):
    table = await store._table("events")
    if table.dialect.name != "mysql":
        return 0
    return await store._driver.read(lambda: Grams(table, "").lag(1000))


async def test_nasty_texts(url):
    """Every piece of every nasty text finds what holds it, with the index, and nothing else does."""
    records = [event(n, text) for n, text in enumerate([*NASTY, *(f"filler {n}" for n in range(40))])]
    async with open_store(url) as store:
        await store.apply([Add(records)])
        await settled(store)
        places, sizes = (0, 2, 4998), (2, 3, 8, 6000)
        needles = {text[at : at + size] for text in NASTY for at in places for size in sizes}
        needles |= {
            "%", "_", "%%%", "50%", "_to", "''", '"""', "no\" 'y", "\0", "abc\0", "zzz", "x" * 9000, "🎊🎈 ", "AND", "\\sl", "k\\", "h%s",
        }  # fmt: skip
        used = 0
        for needle in sorted(needles):
            await agrees(store, records, text=needle)
            used += bool(needle) and "\0" not in needle and await nominates(store, text=needle)
        assert used > 20
        assert not await nominates(store, text="ab")  # no run of three characters


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_whatever_is_written(url, seed):
    """Added, changed and removed, before and after it is indexed: what is found is what is kept now."""
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
            if step % 20 == 10:
                await settled(store)
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
        assert await nominates(store, text="anchor")


async def test_no_acknowledged_record_is_missed(url):
    """While the index is made and kept up, many write, and each finds what it wrote at once."""
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
        await settled(one)
        assert (await two.tally(Query(collection="events", text="other"))).total == 150


async def test_nothing_is_made_for_few(url, monkeypatch):
    """A collection that is looked through in no time gets no index, and whoever appends to it pays for none."""
    monkeypatch.setattr(substrings, "_SMALL", 3000)
    async with open_store(url) as store:
        await store.apply([Add([event(n, f"filler {n}") for n in range(50)])])
        assert len(await store.find(Query(collection="events", text="filler"))) == 50
        assert store._upkeep is None


class TestPostgres:
    async def test_who_may_not_create_the_extension(self, fresh_postgres, caplog):
        """Without the right to it, texts are found by looking, and one line in the log says why."""
        parts = urlsplit(fresh_postgres)
        role = f"r{parts.path.strip('/')}"
        async with open_store(fresh_postgres) as owner:
            await owner.describe()  # opens it, and makes no table
            await do(owner, f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
            await do(owner, f"CREATE SCHEMA {role} AUTHORIZATION {role}")
        try:
            mine = parts._replace(netloc=f"{role}:x@{parts.hostname}:{parts.port}").geturl()
            async with open_store(mine) as store:
                records = [event(n, f"filler {n}") for n in range(30)]
                await store.apply([Add(records)])
                with caplog.at_level(logging.WARNING):
                    for _ in range(3):
                        await agrees(store, records, text="filler 2")
                        while store._indexes()._filling:
                            await asyncio.sleep(0.01)
                assert len([line for line in caplog.messages if "without an index" in line]) == 1
                assert not await nominates(store, text="filler")
        finally:
            async with open_store(fresh_postgres) as owner:
                await owner.describe()
                await do(owner, f"DROP OWNED BY {role} CASCADE")
                await do(owner, f"DROP ROLE {role}")

    async def test_an_index_somebody_died_over(self, fresh_postgres):
        """One that was not finished is not read, and is made anew."""
        async with open_store(fresh_postgres) as store:
            records = [event(n, f"filler {n}") for n in range(30)]
            await store.apply([Add(records)])
            await settled(store)
            await do(
                store,
                "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'agent_events_by_trigram'::regclass",
            )
            assert not await nominates(store, text="filler")
            await agrees(store, records, text="filler 1")
            await settled(store)
            await agrees(store, records, text="filler 1")

    async def test_whoever_leaves_early_leaves_nothing_behind(self, fresh_postgres):
        """A store that is closed while the index is made does not wait for it, and no half of it stays."""
        async with open_store(fresh_postgres) as beside:
            await beside.apply([Add([event(n, f"filler {n}") for n in range(30)])])
            async with beside._driver.connection() as other:
                await other.execute("BEGIN")
                await other.execute(
                    "UPDATE agent_events SET event_type = event_type"
                )  # which the index waits for
                async with open_store(fresh_postgres) as store:
                    await store.find(Query(collection="events", text="filler"))
                    made = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' AND state = 'active'"
                    while not await ask(store, made):
                        await asyncio.sleep(0.01)
                await other.execute("ROLLBACK")
            there = await ask(beside, "SELECT 1 FROM pg_class WHERE relname = 'agent_events_by_trigram'")
            assert not there or not await nominates(beside, text="filler")
            await settled(beside)


class TestMySQL:
    async def test_what_was_lost_is_told_and_mended(self, fresh_mysql):
        """`verify` names the records that are not found by what they say, and `reindex` enters them again."""
        async with open_store(fresh_mysql) as store:
            records = [event(n, f"filler {n} {'needle' if n == 7 else ''}") for n in range(30)]
            await store.apply([Add(records)])
            await settled(store)
            assert (await store.verify("events")).missing == ()
            await do(store, f"DELETE FROM agent_events_substrings WHERE gram = {grams.gram('eed')}")
            assert (await store.verify("events")).missing == ("e7",)
            assert await store.find(Query(collection="events", text="needle")) == []
            await store.reindex("events")
            assert (await store.verify("events")).missing == ()
            await agrees(store, records, text="needle")

    async def test_what_is_changed_all_day_does_not_fill_the_index(self, fresh_mysql):
        """A number is entered once for a run, however often its record is changed."""
        async with open_store(fresh_mysql) as store:
            await store.apply([Add([event(n, f"filler {n}") for n in range(30)])])
            await settled(store)
            for turn in range(20):
                await store.apply(
                    [Change(query=Query(collection="events", ids=("e3",)), text=f"always {turn:03}")]
                )
                await settled(store)
            held = "SELECT held, LENGTH(numbers) FROM agent_events_substrings WHERE gram = %s"
            assert [tuple(row) for row in await ask(store, held, (grams.gram("alw"),))] == [(1, 2)]

    async def test_half_made(self, fresh_mysql):
        """What somebody died over while making it is made anew by the next."""
        async with open_store(fresh_mysql) as store:
            records = [event(n, f"filler {n}") for n in range(30)]
            await store.apply([Add(records)])
            await settled(store)
            await do(store, "UPDATE octavo_tables SET version = 0 WHERE name = 'agent_events_substrings'")
        async with open_store(fresh_mysql) as store:
            await settled(store)
            await agrees(store, records, text="filler 2")

    async def test_what_is_indexed_while_it_is_read(self, fresh_mysql, monkeypatch):
        """An answer that others' indexing came into is given up, in the end for one without the index."""
        turns = []

        def moving(table, prefix):
            turns.append(prefix)
            yield from ()
            return -len(turns)

        async with open_store(fresh_mysql) as store:
            records = [event(n, f"filler {n}") for n in range(30)]
            await store.apply([Add(records)])
            await settled(store)
            monkeypatch.setattr(grams, "_turn", moving)
            await agrees(store, records, text="filler 2")
            assert len(turns) == 6, "three times for the find, three times for the tally"

    def test_packed_places(self):
        """Places come back as they were, on machines of either byte order."""
        places = [0, 1, 255, 256, 4095]
        assert list(grams.unpacked(grams.packed(places))) == places
        assert grams.grams("abcd") == {grams.gram("abc"), grams.gram("bcd")}
        assert grams.gram("\U0010ffff" * 3) < 2**63
