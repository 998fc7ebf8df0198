"""`migrate`: everything, in order, in batches, resumable, between any two memory stores."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from own_stores import ListMemoryStore

from octavo import AgentEvent, ConfigError, EventStore, EventType, Migrated, StoreUnavailable, migrate

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
TYPES = itertools.cycle(EventType)


def life(count) -> list[AgentEvent]:
    """Events of several agents and sessions, five of each moment, in an order that their ids do not show."""
    return [
        AgentEvent(
            event_id=f"evt_{(n * 7919) % 100_003:06}",
            agent_name=f"a{n % 2}",
            session_id=f"s{n % 3}",
            event_type=next(TYPES),
            timestamp=NOON + timedelta(microseconds=n // 5),
            data={"n": n, "text": "计算器"},
            metadata={"m": n},
        )
        for n in range(count)
    ]


async def everything(store):
    return await store.retrieve(limit=10**9)


@pytest.mark.parametrize("target", ["memory", "file", "sqlite", "mysql", "postgres", "redis", "own"])
@pytest.mark.parametrize("source", ["memory", "own"])
async def test_all_of_it_in_order(named, source, target):
    """Ids, times, order among equal times; more than one batch; twice adds nothing; the source keeps its events."""
    old = ListMemoryStore() if source == "own" else named(source)
    new = ListMemoryStore() if target == "own" else named(target)
    said = life(123)
    await old.store_many(said)
    told = []
    moved = await migrate(old, new, batch=50, progress=lambda done, total: told.append((done, total)))
    assert moved == Migrated(read=123, added=123)
    assert told[-1] == (123, 123)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert await everything(new) == said
    assert await everything(old) == said
    assert await migrate(old, new) == Migrated(read=123, added=0)
    assert await everything(new) == said
    await old.close()
    await new.close()


async def test_between_servers(named):
    """What a database gives back is what another gets: there and back again it is the same."""
    said = life(60)
    async with named("mysql") as mysql, named("postgres") as postgres, named("redis") as redis:
        await mysql.store_many(said)
        await migrate(mysql, postgres, batch=7)
        await migrate(postgres, redis, batch=11)
        assert await everything(redis) == said


async def test_out_of_a_store_that_takes_no_filters(named):
    """One that answers everything to every question is still moved whole, and once."""

    class Deaf(ListMemoryStore):
        async def retrieve(self, limit=100, **kwargs):
            return self.events[-limit:]

    old, said = Deaf(), life(30)
    await old.store_many(said)
    async with named("memory") as new:
        assert await migrate(old, new, batch=7) == Migrated(read=30, added=30)
        assert await everything(new) == said


async def test_nothing_to_move(named):
    assert await migrate(named("memory"), ListMemoryStore()) == Migrated()
    assert await migrate(ListMemoryStore(), named("memory")) == Migrated()


@pytest.mark.parametrize("own", [False, True])
async def test_an_interrupted_one_goes_on(named, tmp_path, own):
    """From where it stopped: what was moved is neither read nor kept again, and at the end the file is gone."""
    old = ListMemoryStore() if own else named("memory")
    new = ListMemoryStore()
    said, trail = life(100), tmp_path / "trail"
    await old.store_many(said)

    def after_half(done, total):
        if done >= 50:
            new.failing = False  # the third batch is refused

    with pytest.raises(StoreUnavailable):
        await migrate(old, new, batch=25, resume=trail, progress=after_half)
    assert new.events == said[:50]
    assert trail.exists()
    new.failing = None
    assert await migrate(old, new, batch=25, resume=trail) == Migrated(read=50, added=50, resumed=50)
    assert new.events == said
    assert not trail.exists()


async def test_what_changed_meanwhile(named, tmp_path):
    """Older events that came behind the cursor are moved too; another, empty target gets everything."""
    old, new, trail = named("memory"), ListMemoryStore(), tmp_path / "trail"
    said = life(40)
    await old.store_many(said[10:])

    def stop(done, total):
        new.failing = RuntimeError("boom")

    with pytest.raises(StoreUnavailable, match="boom"):
        await migrate(old, new, batch=20, resume=trail, progress=stop)
    kept = trail.read_bytes()
    await old.store_many(said[:10])
    new.failing = None
    assert (await migrate(old, new, batch=20, resume=trail)).added == 20
    assert sorted(new.events, key=lambda e: e.data["n"]) == said
    assert await old.clear(end_time=said[10].timestamp) == 10
    trail.write_bytes(kept)
    other = ListMemoryStore()
    assert await migrate(old, other, batch=20, resume=trail) == Migrated(read=30, added=30)
    assert other.events == said[10:]


async def test_mistakes(named, tmp_path):
    trail = tmp_path / "trail"
    trail.write_text("nonsense")
    with pytest.raises(ConfigError, match="not the state of a move"):
        await migrate(named("memory"), named("memory"), resume=trail)
    assert trail.read_text() == "nonsense"
    with pytest.raises(ConfigError, match="1 record or more"):
        await migrate(named("memory"), named("memory"), batch=0)


async def test_tenants_of_one_database(tmp_path):
    """Each sees, moves and gets its own."""
    url = f"sqlite:///{tmp_path}/one.db"
    async with EventStore(url, tenant="a") as a, EventStore(url, tenant="b") as b, EventStore(url) as none:
        await a.store_many(life(3))
        assert await everything(b) == await everything(none) == []
        assert (await migrate(a, b)).added == 3
        assert await everything(b) == await everything(a)
        assert await everything(none) == []
