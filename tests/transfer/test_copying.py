"""Copying: everything arrives, in order, once, however often it is interrupted."""

from datetime import timedelta

import pytest
from moving import BORN, KINDS, Plain, Watched, contents, sample

from octavo import Add, ConfigError, Query, Record, Remove, Scope, StoreUnavailable, open_store
from octavo.kernel.shapes import SHAPES
from octavo.transfer import copy, copying


@pytest.mark.parametrize("kind", KINDS)
async def test_copy_moves_everything_and_twice_adds_nothing(make, full, kind):
    """Ids, order, times, seq and marks of all tenants and collections arrive in any store and come back the same."""
    there, back = await make(kind), await make("memory")
    moved = await copy(full, there, batch=7)
    assert (moved.read, moved.added, moved.tenants) == (300, 300, 3)
    assert set(moved.collections) == set(SHAPES)
    assert await contents(there) == await contents(full)
    assert (await copy(full, there)).added == 0
    await copy(there, back)
    assert await contents(back) == await contents(full)


@pytest.mark.parametrize("kind", ["postgres", "mysql", "redis"])
async def test_copy_through_a_server_changes_nothing(make, full, kind):
    there, back = await make(kind), await make("sqlite")
    assert (await copy(full, there)).added == 300
    assert (await copy(there, back)).added == 300
    assert await contents(back) == await contents(full)


@pytest.mark.parametrize("kind", KINDS)
async def test_copy_interrupted_at_every_batch_is_taken_up(make, full, tmp_path, kind):
    """Wherever a copy stops, the next one moves the rest and no more, and the two stores end up equal."""
    size, state = 5, tmp_path / "deep" / "state"
    everything = await contents(full)
    whole = Watched(await make("memory"), writes=(most := 1000))
    await copy(full, whole, batch=size)
    for stop in range(0, most - whole.writes_left, 1 if kind == "memory" else 13):
        target = await make(kind)
        with pytest.raises(StoreUnavailable):
            await copy(full, Watched(target, writes=stop), batch=size, resume=state)
        moved = await copy(full, target, batch=size, resume=state)
        assert moved.read + moved.resumed == 300
        assert moved.added == moved.read
        assert (moved.resumed > 0) == (stop > 0)
        assert not state.exists()
        assert await contents(target) == everything


async def test_an_interrupted_copy_goes_on_fast(make, tmp_path):
    """What was moved before the interruption is not read again."""
    source = await make("memory")
    await source.apply([Add([Record(collection="messages", id=f"{n:05}", seq=n) for n in range(10_000)])])
    target, state = await make("memory"), tmp_path / "state"
    with pytest.raises(StoreUnavailable):
        await copy(source, Watched(target, writes=10), batch=1000, resume=state)
    watched = Watched(source)
    moved = await copy(watched, target, batch=1000, resume=state)
    assert moved.resumed == 9_100
    assert moved.read == 900
    assert watched.finds <= len(SHAPES) + 2


async def test_a_walk_is_paged(make):
    """Ten thousand records are read a page at a time, with no page above the batch size."""
    source = await make("memory")
    await source.apply([Add([Record(collection="log", id=f"{n:05}", seq=n) for n in range(10_000)])])
    watched = Watched(source)
    await copy(watched, await make("memory"), collections=["log"], batch=1000)
    assert watched.largest_page == 1000
    assert watched.finds == 11


async def test_pages_of_large_records_are_small(make, monkeypatch):
    """A page holds about as many bytes as fit, not as many records as were asked for."""
    monkeypatch.setattr(copying, "PAGE_BYTES", 50_000)
    source = await make("memory")
    big = [Record(collection="log", id=f"{n:05}", text="x" * 10_000, seq=n) for n in range(300)]
    await source.apply([Add(big)])
    watched = Watched(source)
    target = await make("memory")
    await copy(watched, target, collections=["log"])
    assert watched.largest_page == copying.FIRST_PAGE
    assert watched.finds > 40
    assert await contents(target) == await contents(source)


async def test_a_state_is_not_believed_when_the_target_was_emptied(make, full, tmp_path):
    """A target that lost what it had acknowledged gets it again."""
    state = tmp_path / "state"
    with pytest.raises(StoreUnavailable):
        await copy(full, Watched(await make("memory"), writes=5), batch=10, resume=state)
    target = await make("memory")
    moved = await copy(full, target, batch=10, resume=state)
    assert (moved.added, moved.resumed) == (300, 0)
    assert await contents(target) == await contents(full)


async def test_records_that_arrive_behind_the_cursor_are_not_missed(make, tmp_path):
    """An older record added to the source during the interruption is copied too."""
    source, target, state = await make("memory"), await make("memory"), tmp_path / "state"
    rows = [
        Record(collection="messages", id=f"{n:03}", created_at=BORN + timedelta(hours=n), seq=n)
        for n in range(100)
    ]
    await source.apply([Add(rows[10:])])
    with pytest.raises(StoreUnavailable):
        await copy(source, Watched(target, writes=3), batch=10, resume=state)
    await source.apply([Add(rows[:10])])
    await copy(source, target, batch=10, resume=state)
    assert await contents(target) == await contents(source)


async def test_a_torn_state_is_taken_up_to_its_last_whole_line(make, full, tmp_path):
    target, state = await make("memory"), tmp_path / "state"
    with pytest.raises(StoreUnavailable):
        await copy(full, Watched(target, writes=9), batch=10, resume=state)
    state.write_bytes(state.read_bytes()[:-9])
    with pytest.raises(StoreUnavailable):
        await copy(full, Watched(target, writes=12), batch=10, resume=state)
    moved = await copy(full, target, batch=10, resume=state)
    assert moved.resumed > 80
    assert await contents(target) == await contents(full)


async def test_the_state_of_another_move_is_refused(make, full, tmp_path):
    state = tmp_path / "state"
    with pytest.raises(StoreUnavailable):
        await copy(full, Watched(await make("memory"), writes=2), batch=10, resume=state)
    with pytest.raises(ConfigError, match="state of another move"):
        await copy(full, await make("memory"), collections=["log"], resume=state)
    state.write_text("hello\n")
    with pytest.raises(ConfigError, match="not the state of a move"):
        await copy(full, await make("memory"), resume=state)
    assert state.read_text() == "hello\n"


async def test_a_copy_can_be_narrowed(make, full):
    """By collections and by scope; a scope names one tenant, as everywhere."""
    target = await make("memory")
    moved = await copy(
        full, target, collections=["messages", "log", "log"], scope=Scope(tenant="acme", user="u1")
    )
    assert moved.read == len([r for r in sample(300) if _inside(r)]) > 0
    assert await target.tenants() == ["acme"]
    with pytest.raises(ConfigError, match=r"unknown collection 'logs'; known: events"):
        await copy(full, target, collections=["logs"])
    with pytest.raises(ConfigError, match="1 record or more; got 0"):
        await copy(full, target, batch=0)


def _inside(record):
    return record.collection in {"messages", "log"} and Scope(tenant="acme", user="u1").covers(record.scope)


async def test_a_store_that_cannot_list_tenants_gives_the_empty_one(make, full):
    target = await make("memory")
    moved = await copy(Plain(full), target)
    assert moved.tenants == 1
    assert await target.tenants() == [""]


async def test_tenants_follow_what_is_kept(full):
    assert await full.tenants() == ["", "acme", "东方"]
    await full.apply([Remove(Query(collection=name, scope=Scope(tenant="acme"))) for name in SHAPES])
    assert await full.tenants() == ["", "东方"]


async def test_progress_ends_at_the_total(make, full):
    told = []
    await copy(full, await make("memory"), batch=10, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (300, 300)
    assert [done for done, _ in told] == sorted({done for done, _ in told})


@pytest.mark.parametrize("kind", KINDS)
async def test_a_store_is_not_copied_into_itself(make, kind):
    store = await make(kind)
    with pytest.raises(ConfigError, match="the source and the target are one store"):
        await copy(store, store)
    if kind != "memory":
        opened = open_store(f"sqlite:///{store.path}" if kind == "sqlite" else f"file://{store.path}")
        with pytest.raises(ConfigError, match="the source and the target are one store"):
            await copy(store, opened)
