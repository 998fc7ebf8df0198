"""Retention: what is older than is kept goes, in the background, for as long as the store is open."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta

import pytest
from own_stores import ListMemoryStore

from octavo import (
    Add,
    Agent,
    AgentEvent,
    ConfigError,
    InMemoryMemoryStore,
    MockAdapter,
    Retention,
    SQLiteMemoryStore,
    StoreClosed,
    StoreUnavailable,
)
from octavo.events import as_store, to_record
from octavo.util.ages import parse_age

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


class Clock:
    """A clock that moves on only while somebody sleeps by it; it counts how often that was."""

    def __init__(self):
        self.at = NOON
        self.sleeps: list[float] = []
        self.turn = asyncio.Event()

    def now(self):
        return self.at

    async def sleep(self, seconds):
        self.sleeps.append(seconds)
        self.at += timedelta(seconds=seconds)
        self.turn.set()
        await asyncio.sleep(0)

    async def turns(self, count):
        while len(self.sleeps) < count:
            self.turn.clear()
            await self.turn.wait()


def aged(*days) -> list[AgentEvent]:
    return [AgentEvent(event_id=f"{day}d", timestamp=NOON - day * DAY) for day in days]


@pytest.mark.parametrize("store", [InMemoryMemoryStore(), ListMemoryStore()], ids=["built-in", "own"])
async def test_it_goes_on(store):
    """At once, and again as time passes; exactly what is older, from any memory store."""
    clock = Clock()
    await store.store_many(aged(9, 8, 7, 6.9999, 6.5, 1, 0))
    left = {}

    async def sleep(seconds):
        left[clock.at] = [event.event_id for event in await store.retrieve(limit=99)]
        await clock.sleep(seconds)

    async with Retention(store, 7 * DAY, clock=clock.now, sleep=sleep) as retention:
        await clock.turns(8 * 24)
    assert left[NOON] == ["7d", "6.9999d", "6.5d", "1d", "0d"]
    assert left[NOON + timedelta(hours=1)] == ["6.5d", "1d", "0d"]
    assert left[NOON + DAY] == ["1d", "0d"]
    assert await store.retrieve(limit=99) == []
    assert retention.cleared == 7
    assert set(clock.sleeps) == {3600.0}
    turns = len(clock.sleeps)
    await asyncio.sleep(0)
    assert len(clock.sleeps) == turns  # it has stopped


async def test_the_edge():
    """What is exactly as old as is kept stays; a microsecond more goes."""
    store = InMemoryMemoryStore()
    await store.store_many([
        AgentEvent(event_id="on", timestamp=NOON - DAY),
        AgentEvent(event_id="over", timestamp=NOON - DAY - timedelta(microseconds=1)),
    ])  # fmt: skip
    assert await Retention(store, "1d", clock=lambda: NOON).prune() == 1
    assert [event.event_id for event in await store.retrieve()] == ["on"]


@pytest.mark.parametrize("given", [{"config": {"retention": timedelta(days=7)}}, {"config": {"retention": "7d"}}, {"retention": 7 * DAY}])  # fmt: skip
async def test_a_setting_of_the_store(given, tmp_path):
    """By config or argument, from first use on, whichever use that is; closing ends it."""
    config = {"db_path": str(tmp_path / "m.db")}
    async with SQLiteMemoryStore(config) as store:
        now = datetime.now(UTC)
        await store.store_many([AgentEvent("old", timestamp=now - 8 * DAY), AgentEvent("new", timestamp=now)])
    store = SQLiteMemoryStore({**config, **given.pop("config", {})}, **given)
    assert store.retention.keep == 7 * DAY
    cleared, clear = asyncio.Event(), store.clear

    async def noticed(**named):
        removed = await clear(**named)
        cleared.set()
        return removed

    store.clear = noticed
    await store.retrieve()
    await asyncio.wait_for(cleared.wait(), 30)
    assert [event.event_id for event in await store.retrieve()] == ["new"]
    await store.close()
    with pytest.raises(StoreClosed):
        await store.retrieve()
    assert len(asyncio.all_tasks()) == 1


async def test_an_agent_starts_it():
    """An agent writes past the store, to the kernel store under it; the store it was given is opened all the same."""
    store = InMemoryMemoryStore(retention=DAY)
    await as_store(store).apply([Add([to_record(AgentEvent("old", timestamp=NOON))])])
    async with Agent.create("a", MockAdapter(), memory_store=store):
        while store.retention.cleared == 0:
            await asyncio.sleep(0)
    assert await store.retrieve(end_time=NOON + DAY) == []
    await store.close()
    assert len(asyncio.all_tasks()) == 1


async def test_a_store_that_is_down_is_tried_again(caplog):
    """Each failure is logged, and the next turn does it."""
    store, clock = ListMemoryStore(), Clock()
    await store.store_many(aged(9))
    clear, failures = store.clear, iter([StoreUnavailable("down"), OSError("no disk")])

    async def failing(**named):
        if (error := next(failures, None)) is not None:
            raise error
        return await clear(**named)

    store.clear = failing
    with caplog.at_level(logging.INFO, "octavo.events"):
        async with Retention(store, DAY, every=timedelta(minutes=1), clock=clock.now, sleep=clock.sleep):
            await clock.turns(3)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "INFO"]
    assert store.events == []


@pytest.mark.parametrize(
    ("spelled", "length"),
    [("90s", timedelta(seconds=90)), ("30m", timedelta(minutes=30)), ("1.5h", timedelta(minutes=90)), (" 7d ", 7 * DAY), ("2w", 14 * DAY), (DAY, DAY)],
)  # fmt: skip
def test_ages(spelled, length):
    assert parse_age(spelled) == length


@pytest.mark.parametrize(
    "bad", ["", "7", "d", "7 days", "-7d", "0d", "９d", "1e9w", "9" * 30 + "w", 7, timedelta(0), None]
)
def test_no_ages(bad):
    with pytest.raises(ConfigError):
        parse_age(bad)
