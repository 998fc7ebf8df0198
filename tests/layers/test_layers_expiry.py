"""What has expired is seen by nobody from that moment on; later it is swept, and logged once."""

import asyncio
import logging
from datetime import timedelta

import pytest
from layers_kit import Clock, Scripted, agree

from octavo import NotFound, open_store
from octavo.layers import LayeredMemory
from serving import Faulty
from virtual_time import clock as virtual_clock
from virtual_time import virtually

LIN = {"user_id": "lin"}


async def test_invisible_at_once(memory, clock, scripted):
    """No read shows what has expired: not lists, not an id, not search, not what an extractor is shown."""
    tea = await memory.remember(
        "Lin likes tea", **LIN, layer="profile", category="preference", ttl_seconds=3600
    )
    met = await memory.remember(
        "Lin met tea farmers", **LIN, category="meeting", expiry_date=clock.at + timedelta(hours=1)
    )
    assert (tea.is_permanent, met.is_permanent) == (False, False)
    assert len(await memory.recall("tea", **LIN)) == 2
    await memory.extract("tea", **LIN)
    assert set(scripted.shown[-1]) == {"Lin likes tea", "Lin met tea farmers"}
    clock.go(hours=1)
    assert (
        await memory.profile(**LIN) == await memory.events(**LIN) == await memory.recall("tea", **LIN) == []
    )
    assert await memory.profile(**LIN, as_of=clock.at) == await memory.events(**LIN, as_of=clock.at) == []
    await memory.extract("tea", **LIN)
    assert scripted.shown[-1] == []
    for gone in (tea, met):
        with pytest.raises(NotFound):
            await memory.get(gone.id)
        with pytest.raises(NotFound):
            await memory.revise(gone.id, content="x")
        with pytest.raises(NotFound):
            await memory.forget(gone.id)
        assert len(await memory.logs(gone.id)) == 1  # nothing has been swept yet
    assert len(await memory.profile(**LIN, as_of=tea.created_at)) == 1


async def test_how_long(store, tenant, clock):
    """The profile is for ever and events as long as configured, unless told otherwise; a revision can change it."""
    memory = LayeredMemory(store, tenant=tenant, clock=clock, event_ttl=timedelta(days=1))

    async def ends(**told):
        made = await memory.remember("x", **{**LIN, "category": "other", **told})
        kept = await memory.get(made.id)
        assert kept == made
        left = None if kept.expiry_date is None else (kept.expiry_date - kept.created_at).total_seconds()
        return (kept.is_permanent, left)

    profile = {"layer": "profile", "category": "value"}
    assert await ends() == (False, 86400)
    assert await ends(is_permanent=False) == (False, 86400)
    assert await ends(is_permanent=True) == (True, None)
    assert await ends(ttl_seconds=0.5) == (False, 0.5)
    assert await ends(**profile) == (True, None)
    assert await ends(**profile, is_permanent=False) == (False, None)
    assert await ends(**profile, ttl_seconds=60) == (False, 60)

    made = await memory.remember("x", **LIN, category="other")
    later = clock.at + timedelta(days=9)
    new = await memory.revise(made.id, expiry_date=later)
    assert (new.is_permanent, new.expiry_date) == (False, later)
    assert (await memory.logs(made.id))[
        0
    ].reason == f"It now expires at {later.isoformat(sep=' ', timespec='seconds')}."
    assert (await memory.revise(made.id, content="y")).expiry_date == later
    assert (await memory.revise(made.id, is_permanent=False)).expiry_date == later
    new = await memory.revise(made.id, expiry_date=None)
    assert (new.is_permanent, new.expiry_date) == (False, None)
    new = await memory.revise(made.id, is_permanent=True)
    assert (new.is_permanent, new.expiry_date) == (True, None)
    new = await memory.revise(made.id, is_permanent=False)
    assert (new.is_permanent, new.expiry_date - new.updated_at) == (False, timedelta(days=1))
    assert await memory.get(made.id) == new
    await agree(store, tenant)


async def test_sweep(empty, clock):
    """All tenants of the store are swept, what has not expired stays, and each removal is logged with what it was."""
    memory = LayeredMemory(empty, tenant="a", clock=clock)
    for tenant in ("a", "b"):
        other = LayeredMemory(empty, tenant=tenant, clock=clock)
        for n in range(3):
            await other.remember(f"事件{n}", **LIN, category="event", ttl_seconds=60 * (n + 1))
        await other.remember("keeps bees", agent_id="bot", layer="profile", category="value", ttl_seconds=60)
        await other.remember("stays", **LIN, layer="profile", category="value")
    assert await memory.sweep() == 0
    clock.go(seconds=125)
    assert await memory.sweep() == 6
    assert await memory.sweep() == 0
    for tenant in ("a", "b"):
        rows = await memory.of(tenant).logs(action="expire")
        assert sorted(row.before.content for row in rows) == ["keeps bees", "事件0", "事件1"]
        assert all(row.after is None and row.version == 2 for row in rows)
        assert {row.reason[:8] for row in rows} == {"已于2026-0", "Expired "}
        assert len(await agree(empty, tenant)) == 2
    clock.go(days=1)
    assert await memory.sweep() == 2


async def test_many_sweepers(empty, clock):
    """Several sweep at once while somebody prolongs: each memory is removed once or lives on, and never both."""
    memory = LayeredMemory(empty, clock=clock)
    made = await asyncio.gather(
        *(memory.remember(f"m{n}", **LIN, category="other", ttl_seconds=60) for n in range(250))
    )
    late = Clock(clock.at + timedelta(seconds=61))
    sweepers = [LayeredMemory(empty, clock=late) for _ in range(3)]

    async def prolong(one):
        try:
            await memory.revise(one.id, is_permanent=True)
        except NotFound:
            return 0
        return 1

    swept = asyncio.gather(*(sweeper.sweep() for sweeper in sweepers))
    prolonged = sum(await asyncio.gather(*(prolong(one) for one in made[::5])))
    assert sum(await swept) + prolonged == 250 - await sweepers[0].sweep()
    kept = await agree(empty, "")
    assert len(kept) == prolonged
    assert len(await memory.logs(action="expire", limit=None)) == 250 - prolonged


@virtually
async def test_in_the_background():
    """Sweeping begins with the first use, goes on after the store was down, and ends with close."""
    store = Faulty(open_store("memory://"))
    memory = LayeredMemory(store, sweep_seconds=60, clock=virtual_clock, extractor=Scripted())
    await memory.remember("a", **LIN, category="other", ttl_seconds=90)
    await asyncio.sleep(115)
    assert await memory.logs(action="expire") == []
    await asyncio.sleep(10)
    assert len(await memory.logs(action="expire")) == 1
    await memory.remember("b", **LIN, category="other", ttl_seconds=10)
    store.mode = "down"
    await asyncio.sleep(200)
    store.mode = "up"
    assert len(await memory.logs(action="expire")) == 1
    await asyncio.sleep(61)
    assert len(await memory.logs(action="expire")) == 2
    await memory.close()
    assert len(asyncio.all_tasks()) == 1


@virtually
async def test_with_the_context():
    """`async with` and `start` begin it; without sweep_seconds nothing runs."""
    for seconds, tasks in ((5.0, 2), (None, 1), (0, 1)):
        async with LayeredMemory("memory://", sweep_seconds=seconds, clock=virtual_clock):
            assert len(asyncio.all_tasks()) == tasks
    memory = LayeredMemory("memory://", sweep_seconds=5.0, clock=virtual_clock)
    await memory.of("b").start()
    assert len(asyncio.all_tasks()) == 2
    await memory.close()
    assert len(asyncio.all_tasks()) == 1


@virtually
async def test_a_failing_sweep_is_told():
    """What cannot be swept is said in the log of the program, and the task lives on."""
    heard = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())
    logger = logging.getLogger("octavo.layers")
    logger.addHandler(handler)
    try:
        store = Faulty(open_store("memory://"))
        memory = LayeredMemory(store, sweep_seconds=60, clock=virtual_clock)
        await memory.remember("a", **LIN, category="other")
        store.mode = "down"
        await asyncio.sleep(125)
        assert [line for line in heard if "connection refused" in line] == heard
        assert len(heard) == 2
        await memory.close()
    finally:
        logger.removeHandler(handler)
