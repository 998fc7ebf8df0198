"""What has ended is found by an index on every SQL database."""

from datetime import UTC, datetime, timedelta

import pytest

from octavo import Add, Query, Record, Scope, open_store
from octavo.kernel.shapes import SHAPES
from octavo.stores.sql.compile import READ, count, select
from octavo.stores.sql.schema import Table
from octavo.stores.sql.statements import Fetch

pytestmark = pytest.mark.every_store

NOON = datetime(2024, 6, 1, 12, tzinfo=UTC)
ENDED = Query(collection="episodes", expired_at=NOON, limit=100)


@pytest.fixture(params=["sqlite", "postgres", "mysql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/a.db"
    return request.getfixturevalue(f"fresh_{request.param}")


def note(number: int, ends: datetime | None, collection: str = "episodes") -> Record:
    at = NOON - timedelta(days=9) + timedelta(seconds=number)
    return Record(
        collection=collection, id=f"m{number}", scope=Scope(user="u"), created_at=at, expires_at=ends
    )


async def add_many(store, collection: str = "episodes") -> None:
    """Thousands that never end or end later, and three that have ended: the oldest, one between, and the newest."""
    ends = {0: NOON, 1500: NOON - timedelta(hours=1), 2999: NOON}
    later = NOON + timedelta(days=1)
    records = [note(n, ends.get(n, later if n % 50 == 0 else None), collection) for n in range(3000)]
    assert await store.apply([Add(records)]) == [3000]


def ask(store, sql, values=()):
    def script():
        return (yield Fetch(sql, values))

    return store._driver.read(script)


async def plan(store, asked: Fetch) -> str:
    """How the database goes about it."""
    dialect = store._driver.dialect.name
    how = "EXPLAIN QUERY PLAN " if dialect == "sqlite" else "EXPLAIN "
    return " ".join(str(tuple(row)) for row in await ask(store, how + asked.sql, asked.values))


async def test_found_by_its_own_index(url):
    """A page, all of them and their number are read off the index of what ends, though another index has the order."""
    async with open_store(url) as store:
        await add_many(store)
        assert [record.id for record in await store.find(ENDED)] == ["m0", "m1500", "m2999"]
        table = Table(SHAPES["episodes"], store._driver.dialect, "")
        for asked in (
            select(table, ENDED, table.select_list(READ)),
            select(table, ENDED.unpaged, table.select_list(READ)),
            count(table, ENDED.unpaged),
        ):
            assert "idx_event_expiry" in await plan(store, asked), asked.sql


async def test_only_what_ends_is_indexed(tmp_path):
    """What never ends is not in the index: appending it costs nothing."""
    async with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        await add_many(store, "events")
        entries = await ask(
            store,
            "SELECT COUNT(*) FROM agent_events INDEXED BY agent_events_by_expiry WHERE expires_at IS NOT NULL",
        )
        assert entries[0][0] == 61
        sql = await ask(store, "SELECT sql FROM sqlite_master WHERE name = 'agent_events_by_expiry'")
        assert sql[0][0].endswith("IS NOT NULL")
