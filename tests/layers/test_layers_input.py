"""What callers give: what cannot be kept is refused with a cure, and names and times of every sort are kept as they are."""

import math
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from layers_kit import LIN, START, happened, kept

from octavo import (
    ConfigError,
    InvalidQuery,
    InvalidRecord,
    NotFound,
    Query,
    Scope,
)
from octavo.layers import LayeredMemory

REFUSED = {
    "content is empty": {"content": ""},
    "content is blank": {"content": " \n\t"},
    "content must be a string": {"content": 5},
    "NUL": {"content": "a\0b"},
    "surrogate": {"content": "a\ud800"},
    "give user_id or agent_id$": {"user_id": None},
    "not both": {"agent_id": "bot"},
    "user_id must be a name": {"user_id": ""},
    "user_id must be a name; got '  '": {"user_id": "  "},
    "bytes long": {"user_id": "x" * 256},
    "unknown layer 'events'; known: profile, event": {"layer": "events"},
    "unknown layer None": {"layer": None},
    "unknown category 'career' of the event layer; known: conversation, ": {"category": "career"},
    "metadata must be a dict": {"metadata": []},
    "nan, which JSON cannot say": {"metadata": {"n": math.nan}},
    "cannot be written as JSON": {"metadata": {"n": object()}},
    "is_permanent must be True or False": {"is_permanent": "yes"},
    "leave out expiry_date or is_permanent": {"is_permanent": True, "expiry_date": START + timedelta(days=1)},
    "leave out ttl_seconds": {"is_permanent": True, "ttl_seconds": 5},
    "expiry_date or ttl_seconds, not both": {"expiry_date": START + timedelta(days=1), "ttl_seconds": 5},
    "is in the past": {"expiry_date": START},
    "expiry_date must be a datetime": {"expiry_date": "tomorrow"},
    "outside the years": {"expiry_date": datetime.max.replace(tzinfo=timezone(-timedelta(hours=3)))},
    "ttl_seconds must be more than 0": {"ttl_seconds": 0},
    "ttl_seconds must be a number of seconds": {"ttl_seconds": math.inf},
    "got True": {"ttl_seconds": True},
    "after the year 9999": {"ttl_seconds": 1e12},
    "reason must be a sentence": {"reason": 5},
    "sources must be a list": {"sources": "evt_1"},
    "nested deeper": {"metadata": {"n": eval("[" * 62 + "]" * 62)}},
    "more than the": {"content": "x" * (7 * 2**20)},
}


@pytest.mark.parametrize("store", ["memory"], indirect=True)
@pytest.mark.parametrize("why", REFUSED)
async def test_refused(memory, why):
    """What cannot be kept is refused before anything is written, and the error says what would do."""
    with pytest.raises(InvalidRecord, match=why):
        await memory.remember(**{"content": "x", "user_id": "lin", "category": "other", **REFUSED[why]})
    assert await memory.logs() == []


@pytest.mark.parametrize("store", ["memory"], indirect=True)
async def test_refused_changes_and_questions(memory):
    made = await kept(memory)
    for why, what in {
        "nothing to revise": {},
        "content is blank": {"content": " "},
        "metadata must be": {"metadata": 5},
        "known: preference": {"category": "meeting"},
        "in the past": {"expiry_date": START},
        "does not expire": {"is_permanent": True, "expiry_date": START + timedelta(days=9)},
        "nan": {"metadata": {"n": math.nan}},
    }.items():
        with pytest.raises(InvalidRecord, match=why):
            await memory.revise(made.id, **what)
    with pytest.raises(InvalidQuery, match="give user_id or agent_id"):
        await memory.profile()
    with pytest.raises(InvalidQuery, match="not both"):
        await memory.recall("x", user_id="a", agent_id="b")
    with pytest.raises(InvalidQuery, match="known: conversation"):
        await memory.events(**LIN, category="career")
    with pytest.raises(InvalidQuery, match="known: insert, update"):
        await memory.logs(action="change")
    with pytest.raises(InvalidQuery, match="unknown layer 'x'"):
        await memory.recall("x", **LIN, layer="x")
    for bad in (-1, True, "5"):
        with pytest.raises(InvalidQuery, match="limit must be"):
            await memory.events(**LIN, limit=bad)
        with pytest.raises(InvalidQuery, match="limit must be"):
            await memory.profile(**LIN, limit=bad)
    with pytest.raises(InvalidQuery, match="as_of must be a datetime"):
        await memory.profile(**LIN, as_of="yesterday")
    with pytest.raises(InvalidQuery, match="memory_id must be a string"):
        await memory.get(5)
    with pytest.raises(NotFound):
        await memory.get("a\0")
    assert len(await memory.logs()) == 1
    for wrong in (
        {"event_ttl": timedelta(0)},
        {"event_ttl": timedelta.max},
        {"sweep_seconds": -1.0},
        {"tenant": None},
    ):
        with pytest.raises(ConfigError):
            LayeredMemory("memory://", **wrong)


@pytest.mark.parametrize("store", ["memory"], indirect=True)
async def test_what_is_given_is_not_shared(memory):
    """Whoever changes what they gave or got changes nothing of what is kept."""
    facts = {"list": [1]}
    made = await kept(memory, metadata=facts)
    facts["list"].append(2)
    made.metadata["list"].append(3)
    assert (await memory.get(made.id)).metadata == {"list": [1]}


async def test_names_of_every_sort(memory):
    """Ids fit into a path, whatever owners are called; owners that differ by a letter are others."""
    names = ["张三", "a/b?c#d%e f", "x" * 255, "é", "e\u0301", "Lin", "lin ", "'; --", "😀" * 60]
    made = {name: await memory.remember(name, user_id=name, category="other") for name in names}
    for name, one in made.items():
        assert len(one.id.encode()) <= 200
        assert not set("/?#% \0") & set(one.id)
        assert await memory.events(user_id=name) == [one]
        assert (await memory.get(one.id)).entity_id == name
        assert len(await memory.logs(one.id)) == 1
    assert len({one.id for one in made.values()}) == len(names)
    source = (await memory.extract("hello", user_id="x" * 255)).source_id
    [event] = await memory.store.find(
        Query(collection="observations", ids=(source,), scope=Scope(tenant=memory.tenant))
    )
    assert len(event.scope.session.encode()) <= 255


async def test_naive_times_are_local(memory, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        made = await happened(memory, expiry_date=datetime(2027, 1, 1, 8))  # noqa: DTZ001 - that is the point
        assert made.expiry_date == datetime(2027, 1, 1, tzinfo=UTC)
        assert (await memory.get(made.id)).expiry_date == made.expiry_date
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("store", ["memory"], indirect=True)
@pytest.mark.parametrize("name", ["profile", "events", "logs"])
async def test_a_list_is_told_where_it_may_end(memory, name):
    for given, why in (
        ({"max_bytes": "1"}, "max_bytes must be a number, 0 or more; got '1'"),
        ({"max_bytes": -1}, "max_bytes must be a number, 0 or more; got -1"),
        ({"after": "user_lin_1"}, "after must be the Cursor of a record or a page; got 'user_lin_1'"),
    ):
        with pytest.raises(InvalidQuery, match=why):
            await getattr(memory, name)(user_id="lin", **given)


async def test_a_profile_goes_on_where_its_limit_ended_it(memory):
    for text in "abcde":
        await memory.remember(text, layer="profile", category="preference", **LIN)
    found, after = [], None
    while page := await memory.profile(limit=2, after=after, **LIN):
        found += [one.content for one in page]
        if (after := page.following) is None:
            break
    assert found == ["e", "d", "c", "b", "a"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"event_ttl": 5}, "event_ttl is a timedelta, such as .*; got 5"),
        ({"sweep_seconds": "x"}, "sweep_seconds must be 0 or more .*; got 'x'"),
        ({"known_memories": -1}, "known_memories must be a number, 0 or more; got -1"),
        ({"extractor": "gpt"}, "an extractor has a method `decide`; got 'gpt'"),
    ],
)
def test_what_a_memory_is_made_with_is_looked_at(given, why):
    with pytest.raises((ConfigError, TypeError), match=why):
        LayeredMemory("memory://", **given)
