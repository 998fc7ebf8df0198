"""Words that very many records hold: every store looks at the same ones, and at no more than it says."""

import importlib
import random
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from octavo import Add, Change, Query, Record, Scope, open_store
from octavo.kernel.shapes import SHAPES
from octavo.kernel.terms.matching import search_records
from octavo.stores.sql.dialects.postgresql import PostgreSQLTerms

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
#: The bounds as they are here, in proportion as they are elsewhere.
BOUNDS = {"MOST": 20, "COMMON": 100, "LOOKED": 120, "ENOUGH": 5}
ASKED = [
    ("fox",), ("elm",), ("red",), ("ash",), ("oak", "elm"), ("fox", "oak", "elm", "owl"), ("blue", "fox"),
    ("ash", "red"), ("red", "oak"), ("oak", "ash"), ("fox", "ash"), ("red", "fox", "ash", "oak", "elm"),
]  # fmt: skip


#: Who knows them; all are imported before any is changed.
MODULES = (
    "octavo.kernel.terms.matches",
    "octavo.kernel.terms.matching",
    "octavo.stores.memory",
    "octavo.stores.redis.store",
    "octavo.stores.sql.searching",
)


@pytest.fixture
def bounded(monkeypatch):
    """Small bounds in every module that knows them."""
    for module in [importlib.import_module(name) for name in MODULES]:
        for bound, value in BOUNDS.items():
            monkeypatch.setattr(module, bound, value, raising=False)
    small = {"_SMALL": 30, "_SURELY": 2}
    for name, value in small.items():
        monkeypatch.setattr(f"octavo.stores.sql.searching.{name}", value)
    monkeypatch.setattr("octavo.stores.sql.indexing._SPOT", 10)
    monkeypatch.setattr("octavo.stores.sql.indexing._IDLE_SECONDS", 3600)


def remembered(home, number, at, *, ends=False):
    words = [f"number{number}", "fox"]
    words += ["oak"] * (number % 3 > 0) + ["elm"] * (at < 250) + ["owl"] * (at >= 250)
    words += ["ash"] * (at < 100 or at % 16 == 0)
    words += ["red"] * (number % 9 == 0) + ["blue"] * (number == 77)
    return Record(
        collection="observations",
        id=f"n{number}",
        kind="message" if number % 4 else "other",
        scope=Scope(tenant=home.tenant, user=f"u{number % 10 // 9}", agent=f"a{number % 2}", session="s"),
        text=" ".join(words),
        created_at=NOON + timedelta(minutes=at),
        expires_at=NOON + timedelta(days=1) if ends else None,
        seq=number,
    )


async def test_the_same_of_common_words(store, home, bounded):
    """Beyond COMMON holders of the rarest word the newest LOOKED records are looked at; below, all that hold it."""
    order = list(range(500))
    random.Random(5).shuffle(order)  # records come in another order than that of their times
    records = [remembered(home, number, at, ends=at % 50 == 0) for number, at in enumerate(order)]
    await store.apply([Add(records)])
    stranger = Scope(tenant=f"{home.tenant}2")
    asked = [
        {}, {"alive_at": NOON + timedelta(days=2)}, {"until": NOON + timedelta(minutes=400)}, {"since": NOON}, {"kinds": ("message",)},
        {"text": "number1", "newest_first": True, "limit": 3},
    ]  # fmt: skip

    async def agree():
        for scope in (
            home,
            Scope(tenant=home.tenant, user="u0"),
            Scope(tenant=home.tenant, user="u0", agent="a1"),
        ):
            for clauses in asked:
                query = Query(collection="observations", scope=scope, **clauses)
                for terms in ASKED:
                    assert await store.search(query, terms) == search_records(query, terms, records), (
                        query,
                        terms,
                    )

    await agree()
    whole = Query(collection="observations", scope=home)
    assert len((await store.search(whole, ("fox",))).found) == BOUNDS["MOST"]
    assert (
        len((await store.search(whole, ("elm",))).found) == BOUNDS["MOST"]
    )  # of 250, none among the newest 120
    assert 5 <= len((await store.search(whole, ("ash",))).found) < 20  # of 107: those among the newest 120
    assert len((await store.search(whole, ("red",))).found) == BOUNDS["MOST"]  # of 56, wherever they are
    both = (
        await store.search(whole, ("red", "ash"))
    ).found  # in 56 and 107: those that hold both, wherever they are
    assert 5 <= len(both) < 20
    assert all(all(match.counts) for match in both)
    neither = (
        await store.search(whole, ("red", "oak"))
    ).found  # no record holds both: the first of them chooses
    assert [match.counts for match in neither] == [(0, 1)] * BOUNDS["MOST"]
    filtered = Query(collection="observations", scope=home, kinds=("message",))
    assert len((await store.search(filtered, ("elm",))).found) == BOUNDS["MOST"]
    # What waits to be indexed is looked at where it would be otherwise, and nowhere else.
    for number in (order.index(499), order.index(3), order.index(260)):
        at = records[number]
        await store.apply(
            [Change(query=Query(collection="observations", scope=home, ids=(at.id,)), text="ash elm fox red")]
        )
        [records[number]] = await store.find(Query(collection="observations", scope=home, ids=(at.id,)))
    await agree()
    await store.apply([Add([remembered(stranger, number, number) for number in range(150)])])
    assert await store.search(whole, ("ash",)) == search_records(whole, ("ash",), records)
    elsewhere = Query(collection="observations", scope=stranger)
    assert len((await store.search(elsewhere, ("oak",))).found) == BOUNDS["MOST"]


async def test_what_postgresql_knows_is_not_counted(fresh_postgres, bounded, monkeypatch):
    """A word of which its statistics say that very many records hold it is taken for that; all others are counted."""
    counted = []
    count = PostgreSQLTerms.count

    def noting(self, values, asked, words, but, most):
        counted.extend(words)
        return count(self, values, asked, words, but, most)

    monkeypatch.setattr(PostgreSQLTerms, "count", noting)
    home = Scope()
    records = [remembered(home, number, number) for number in range(500)]
    whole = Query(collection="observations")
    asked = ("fox", "red", "blue")
    async with open_store(fresh_postgres) as store:
        await store.apply([Add(records)])
        await store.reindex("observations")
        connection = await asyncpg.connect(fresh_postgres)
        await connection.execute("ANALYZE")
        await connection.close()
        answer = await store.search(whole, asked)
        assert answer == search_records(whole, asked, records)
        assert set(counted) == {"blue"}
        assert await store.search(whole, ("fox",)) == search_records(whole, ("fox",), records)
        assert set(counted) == {"blue"}
        one = Query(collection="observations", scope=Scope(user="u0"))
        assert await store.search(one, asked) == search_records(one, asked, records)
        assert {"fox", "red"} <= set(counted)


async def test_postgresql_reads_no_more_from_the_sixth_search_on(fresh_postgres, bounded):
    """A statement is planned for any value once it was sent five times: to see that all is one tenant's, no table is read."""
    whole = Query(collection="observations")

    async def searched(times):
        async with open_store(f"{fresh_postgres}?pool_size=1") as store:
            if not times:
                await store.apply([Add([remembered(Scope(), number, number) for number in range(500)])])
                await store.reindex("observations")
            for _ in range(times):
                assert [match.id for match in (await store.search(whole, ("blue",))).found] == ["n77"]
        connection = await asyncpg.connect(fresh_postgres)
        read = "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = $1"
        seen = await connection.fetchval(read, SHAPES["observations"].table)
        await connection.close()
        return seen

    before = await searched(0)
    assert await searched(10) - before < 500
