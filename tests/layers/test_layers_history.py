"""The memory as of a time is the memory that was there at that time."""

import random
from datetime import UTC, datetime, timedelta, timezone

import pytest
from layers_kit import agree, fact

LAST = datetime.max.replace(tzinfo=UTC)
EAST = timezone(timedelta(hours=8))
LIN, BOT = {"user_id": "lin"}, {"agent_id": "bot"}


async def test_as_of_every_moment(memory, clock, size):
    """After many changes of every kind, each moment that was seen is seen again, exactly."""
    chance = random.Random(8)
    moments, ids = [], []
    for n in range(size(60, 400)):
        await _change(memory, clock, chance, ids, n)
        moments.append((clock(), [await _seen(memory, owner) for owner in (LIN, BOT)]))
        clock.go(seconds=chance.randrange(100))
    assert {entry.action for entry in await memory.logs(limit=None)} == {
        "insert",
        "update",
        "delete",
        "expire",
    }
    for at, seen in chance.sample(moments, 40):
        assert [await _seen(memory, owner, as_of=at) for owner in (LIN, BOT)] == seen
    for at, [(profile, events), _] in chance.sample(moments, 10):
        for limit in (0, 1, 3):
            assert await memory.events(**LIN, as_of=at, limit=limit) == events[:limit]
            assert await memory.profile(**LIN, as_of=at, limit=limit) == profile[:limit]
        meetings = [one for one in events if one.category == "meeting"]
        assert await memory.events(**LIN, as_of=at, category="meeting", limit=None) == meetings
        middle = events[len(events) // 2].created_at if events else at
        later = [one for one in events if one.created_at >= middle]
        assert await memory.events(**LIN, as_of=at, since=middle, limit=None) == later
        earlier = [one for one in events if one.created_at < middle]
        assert await memory.events(**LIN, as_of=at, until=middle, limit=None) == earlier
    before = moments[0][0] - timedelta(days=1)
    assert await _seen(memory, LIN, as_of=before) == ([], [])
    await agree(memory.store, memory.tenant)


async def _change(memory, clock, chance, ids, n):
    live = [one for owner in (LIN, BOT) for layer in await _seen(memory, owner) for one in layer]
    what = chance.random()
    if what < 0.4 or not live:
        owner = chance.choice([LIN, LIN, BOT])
        kind = chance.choice(
            [
                {"layer": "profile", "category": chance.choice(["value", "career"])},
                {"layer": "event", "category": chance.choice(["meeting", "action"])},
            ]
        )
        ttl = chance.choice([None, None, 500])
        ids.append((await memory.remember(f"m{n}", **owner, **kind, ttl_seconds=ttl)).id)
    elif what < 0.6:
        one = chance.choice(live)
        category = {"profile": ["value", "career"], "event": ["meeting", "action"]}[one.layer]
        await memory.revise(one.id, content=f"r{n}", category=chance.choice(category), metadata={"n": n})
    elif what < 0.75:
        await memory.forget(chance.choice(live).id)
    elif what < 0.85:
        await memory.sweep()
    else:
        [last] = await memory.logs(chance.choice(ids), limit=1)
        await memory.undo(last.id)


async def _seen(memory, owner, **more):
    return await memory.profile(**owner, **more), await memory.events(**owner, limit=None, **more)


async def test_as_of_behind_many_changes(memory, clock):
    """A page of the past is whole though more than a page of it changed since."""
    made = [await memory.remember(f"e{n}", **LIN, category="action") for n in range(100)]
    at = clock()
    for one in made[:20:-1]:
        await memory.forget(one.id)
    assert await memory.events(**LIN, as_of=at, limit=10) == made[:-11:-1]
    assert await memory.events(**LIN, as_of=at, limit=90) == made[:9:-1]


async def test_history_is_whole(memory, clock):
    """The history of a memory has every state it was in, also when it is gone."""
    made = await memory.remember("a", **LIN, category="other")
    await memory.revise(made.id, content="b")
    await memory.revise(made.id, content="b")
    await memory.forget(made.id)
    told = await memory.history(made.id)
    assert [entry.action for entry in told] == ["insert", "update", "ignore", "delete"]
    assert [entry.version for entry in told] == [1, 2, None, 3]
    assert [entry.after and entry.after.content for entry in told] == ["a", "b", None, None]
    assert [entry.before and entry.before.content for entry in told] == [None, "a", None, "b"]


@pytest.mark.parametrize("store", ["memory"], indirect=True)
async def test_as_of_the_edges_of_time(memory, clock):
    """A moment counts as the end of what happened in it; the last one there is has an answer too."""
    made = await memory.remember("a", **LIN, layer="profile", category="value")
    new = await memory.revise(made.id, content="b")
    for at, content in ((made.created_at, ["a"]), (new.updated_at, ["b"]), (LAST, ["b"])):
        assert [one.content for one in await memory.profile(**LIN, as_of=at)] == content
    assert [one.content for one in await memory.profile(**LIN, as_of=made.created_at.astimezone(EAST))] == [
        "a"
    ]
    assert await memory.profile(**LIN, as_of=made.created_at - timedelta(microseconds=1)) == []
    leap = datetime(2024, 2, 29, 23, 59, 59, tzinfo=EAST)
    assert await memory.events(**LIN, as_of=LAST, since=leap, until=LAST) == []


async def test_a_clock_that_is_set_back(memory, clock, scripted):
    """A change is never dated before the one before it, nor is what was left as it is."""
    made = await memory.remember("a", **LIN, category="other")
    clock.go(hours=-1)
    scripted.script["x"] = [fact("a", "ignore", "event", "other", target=made.id)]
    await memory.extract("x", **LIN)
    assert [entry.action for entry in await memory.history(made.id)] == ["insert", "ignore"]
    new = await memory.revise(made.id, content="b")
    assert new.updated_at > made.updated_at
    await memory.forget(made.id)
    await memory.undo(f"log_{made.id}_3")
    assert [entry.version for entry in await memory.history(made.id)] == [1, None, 2, 3, 4]
    await agree(memory.store, memory.tenant)
