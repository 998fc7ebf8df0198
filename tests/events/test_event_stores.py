"""What every store of events promises, on every store alike."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from octavo import AgentEvent, EventType, InvalidQuery, InvalidRecord, StoreClosed

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def event(n=0, **more) -> AgentEvent:
    given = {
        "event_id": f"evt_{n}",
        "agent_name": "assistant",
        "session_id": "s1",
        "event_type": EventType.USER_MESSAGE,
        "timestamp": NOON + n * MICROSECOND,
        "data": {"message": f"number {n}", "message_length": 8},
    }
    return AgentEvent(**{**given, **more})


def ids(events) -> list[str]:
    return [each.event_id for each in events]


async def test_what_comes_back_is_what_was_stored(store):
    """Every field, nested values, Chinese, emoji and right-to-left text, nothing at all; and it is a copy."""
    full = event(
        1,
        agent_name="助手",
        session_id="会话/..\\ A:b",
        event_type=EventType.TOOL_CALL_START,
        data={"tool_name": "计算器", "arguments": {"a": [1, 2.5, None, True, "👩‍👩‍👧 שלום"], "空": {}}},
        metadata={"source": "web", "多": [1]},
    )
    bare = AgentEvent()
    assert await store.store(full) is True
    assert await store.store(bare) is True
    back = await store.retrieve()
    assert back == [full, bare]
    assert type(back[0].event_type) is EventType
    assert back[0].timestamp.tzinfo is UTC
    back[0].data["arguments"]["a"].append("changed")
    full.data["tool_name"] = "changed"
    again = await store.retrieve(limit=2)
    assert again[0].data["tool_name"] == "计算器"
    assert again[0].data["arguments"]["a"][-1] == "👩‍👩‍👧 שלום"


async def test_naive_times_are_local(store, monkeypatch):
    """In events and in filters; other zones are the same moment."""
    local = datetime(2024, 7, 1, 12, 0, 0, 123456)  # noqa: DTZ001 - that is the point
    assert await store.store(event(1, timestamp=local))
    [back] = await store.retrieve()
    assert back.timestamp == local.astimezone(UTC)
    assert ids(await store.retrieve(start_time=local, end_time=local + MICROSECOND)) == ["evt_1"]
    beijing = local.astimezone(timezone(timedelta(hours=8)))
    assert ids(await store.retrieve(start_time=beijing)) == ["evt_1"]
    assert await store.retrieve(end_time=beijing) == []
    assert await store.store(event(2, timestamp=datetime.now()))  # noqa: DTZ005
    hour = timedelta(hours=1)
    assert ids(await store.retrieve(start_time=datetime.now() - hour)) == ["evt_2"]  # noqa: DTZ005


async def test_newest_in_order(store):
    """`limit` keeps the newest and the order is that of time, then of arrival; None is all, 0 none, less an error."""
    await store.store_many([event(n) for n in (3, 1, 2, 0)])
    assert ids(await store.retrieve()) == ["evt_0", "evt_1", "evt_2", "evt_3"]
    assert ids(await store.retrieve(limit=2)) == ["evt_2", "evt_3"]
    assert len(await store.retrieve(limit=None)) == 4
    assert await store.retrieve(limit=0) == []
    with pytest.raises(InvalidQuery):
        await store.retrieve(limit=-1)
    for name in "cab":
        assert await store.store(event(9, event_id=name))
    assert ids(await store.retrieve(limit=3)) == ["c", "a", "b"]


async def test_a_hundred_unless_told(store):
    await store.store_many([event(n) for n in range(105)])
    assert ids(await store.retrieve()) == [f"evt_{n}" for n in range(5, 105)]


async def test_ranges_to_the_microsecond(store):
    """`[start_time, end_time)`: the first is in, the last is not, one microsecond decides."""
    await store.store_many([event(n) for n in range(5)])
    for first in range(5):
        for last in range(first, 6):
            found = await store.retrieve(
                start_time=NOON + first * MICROSECOND, end_time=NOON + last * MICROSECOND
            )
            assert ids(found) == [f"evt_{n}" for n in range(first, min(last, 5))]
    assert await store.clear(start_time=NOON + MICROSECOND, end_time=NOON + 3 * MICROSECOND) == 2
    assert ids(await store.retrieve()) == ["evt_0", "evt_3", "evt_4"]


async def test_filters_combine(store):
    """AND, byte for byte; an event type is named by member, value or NAME; a misspelt one is refused."""
    n = 0
    for agent in ("a", "A", "á"):
        for session in ("s", "s "):
            for kind in (EventType.USER_MESSAGE, EventType.TOOL_CALL_SUCCESS):
                n += 1
                assert await store.store(event(n, agent_name=agent, session_id=session, event_type=kind))
    assert len(await store.retrieve(agent_name="a")) == 4
    assert len(await store.retrieve(session_id="s")) == 6
    for named in (EventType.TOOL_CALL_SUCCESS, "tool_call_success", "TOOL_CALL_SUCCESS"):
        assert len(await store.retrieve(event_type=named)) == 6
        assert ids(await store.retrieve(agent_name="á", session_id="s ", event_type=named)) == ["evt_12"]
    assert await store.retrieve(agent_name="") == []
    with pytest.raises(InvalidQuery, match="user_mesage"):
        await store.retrieve(event_type="user_mesage")


async def test_an_id_is_kept_once_in_its_session(store):
    """The second is left alone, and is kept; another session or agent has ids of its own."""
    assert await store.store(event(1))
    assert await store.store(event(1, data={"message": "other"}))
    assert await store.store_many([event(1), event(2), event(2)]) == 1
    assert await store.store(event(1, session_id="s2"))
    assert await store.store(event(1, agent_name="other"))
    assert [
        each.data["message"] for each in await store.retrieve(session_id="s1", agent_name="assistant")
    ] == [
        "number 1",
        "number 2",
    ]
    assert (await store.get_stats())["total_events"] == 4


async def test_clear(store):
    """Exactly what all filters name, and how many that were; no filter is everything."""
    await store.store_many([event(n, agent_name=f"a{n % 2}", session_id=f"s{n % 3}") for n in range(12)])
    assert await store.clear(agent_name="a0", session_id="s0") == 2
    assert await store.clear(agent_name="a0", session_id="s0") == 0
    assert await store.clear(session_id="s1", end_time=NOON + 5 * MICROSECOND) == 2
    assert ids(await store.retrieve()) == [f"evt_{n}" for n in (2, 3, 5, 7, 8, 9, 10, 11)]
    assert await store.clear() == 8
    assert await store.retrieve() == []
    assert (await store.get_stats())["total_events"] == 0


async def test_stats(store):
    """Counts by type under every name of it, first and last time; all of it can be written as JSON."""
    empty = await store.get_stats()
    assert (empty["total_events"], empty["by_type"]) == (0, {})
    assert (empty["first_event"], empty["last_event"]) == (None, None)
    kinds = [EventType.AGENT_ERROR, *[EventType.USER_MESSAGE] * 3]
    await store.store_many([event(n, event_type=kind, session_id=f"s{n}") for n, kind in enumerate(kinds)])
    stats = await store.get_stats()
    by_type = stats["by_type"]
    assert stats["total_events"] == 4
    assert by_type == {"agent_error": 1, "user_message": 3}
    for named in (EventType.USER_MESSAGE, "user_message", "USER_MESSAGE"):
        assert by_type[named] == by_type.get(named) == by_type.get(named, 0) == 3
        assert named in by_type
    for named in (EventType.CUSTOM, "custom", "CUSTOM"):
        assert by_type.get(named) is None
        assert (by_type.get(named, 0), by_type[named], named in by_type) == (0, 0, False)
    with pytest.raises(KeyError):
        by_type["no such type"]
    assert datetime.fromisoformat(stats["first_event"]) == NOON
    assert datetime.fromisoformat(stats["last_event"]) == NOON + 3 * MICROSECOND
    assert json.loads(json.dumps(stats)) == stats
    one = await store.get_stats(agent_name="assistant", session_id="s0")
    assert (one["total_events"], one["by_type"]) == (1, {"agent_error": 1})
    assert ("total_size_bytes" in stats) == (type(store).__name__ == "FileMemoryStore")


TEXTS = {
    "calculator": "The Calculator failed",
    "计算器": "请打开计算器",
    "percent": "50% off",
    "number": "500 off",
    "snake": "call a_b now",
    "other": "call aXb now",
    "wide": "ＡＢＣ１２３",
    "sharp": "STRASSE",
    "inside": "recalculators",
    "quote": 'it\'s "quoted" \\ back',
    "nested": "",
}
NEEDLES = {
    "calculator": ["inside", "calculator"],
    "CALC": ["inside", "calculator"],
    "计算器": ["计算器"],
    "算": ["计算器"],
    "开计算": ["计算器"],
    "50%": ["percent"],
    "%": ["percent"],
    "a_b": ["snake"],
    "_": ["snake"],
    "abc": ["wide"],
    "ａｂｃ": ["wide"],
    "123": ["wide"],
    "straße": ["sharp"],
    '"quoted" \\': ["quote"],
    "深处": ["nested"],
    "42.5": ["nested"],
    "the calculator failed": ["calculator"],
    "tool_name": [],  # a key is a name, not content
    "web": [],  # metadata are not searched
    "no such thing": [],
}


@pytest.mark.parametrize("crowd", [0, 1100])
async def test_search(store, crowd):
    """Anywhere in the values of data, caselessly and folded, newest first; `%` and `_` are characters like others.

    Once among a few events, and once among many.
    """
    said = [
        event(n, event_id=name, data={"tool_name": text}, metadata={"source": "web"})
        for n, (name, text) in enumerate(TEXTS.items())
    ]
    said[-1].data = {"tool_name": {"a": [{"b": "在很深处"}], "n": 42.5}}
    await store.store_many(said)
    await store.store_many(
        [event(100 + n, event_id=f"x{n}", data={"m": "filler", "n": None}) for n in range(crowd)]
    )
    for needle, expected in NEEDLES.items():
        assert ids(await store.search(needle, everyone=True)) == expected, needle
    assert len(await store.search("l", limit=3, everyone=True)) == 3
    assert await store.search("calculator", limit=0, everyone=True) == []
    assert await store.search("calculator", agent_name="other") == []
    assert ids(await store.search("calculator", agent_name="assistant", session_id="s1", limit=1)) == [
        "inside"
    ]
    assert ids(await store.search("calculator", limit=None, everyone=True)) == ["inside", "calculator"]


async def test_a_search_is_of_its_scope(store):
    """And over all events of it, not the newest few."""
    await store.store(event(0, event_id="old", session_id="other", data={"m": "needle 大海捞针"}))
    await store.store_many([event(n, data={"m": "hay 草"}) for n in range(1, 1200)])
    for needle in ("needle", "捞针", "eedl"):
        assert ids(await store.search(needle, everyone=True)) == ["old"]
        assert await store.search(needle, session_id="s1") == []


async def test_a_search_belongs_to_somebody(store):
    """An agent, a session or a user is named, or that everyone is meant; the agents of others are not searched by an oversight."""
    await store.store_many(
        [event(1, data={"m": "needle"}), event(2, agent_name="other", data={"m": "needle"})]
    )
    for nobody in ({}, {"agent_name": None, "session_id": None}, {"everyone": False}, {"whole_words": True}):
        with pytest.raises(InvalidQuery, match="give agent_name, session_id or user_id, or everyone=True"):
            await store.search("needle", **nobody)
    assert len(await store.search("needle", agent_name="other")) == 1
    assert len(await store.search("needle", session_id="s1")) == 2
    assert len(await store.search("needle", everyone=True)) == 2


async def test_whose_events(store):
    """A user's events are found, counted and cleared by that user alone, whoever the agent and whatever the session was."""
    mine = [
        event(n, agent_name=f"a{n}", session_id=f"s{n}", user_id="lin", data={"m": "needle"}) for n in (1, 2)
    ]
    others = [event(3, agent_name="a1", session_id="s1", user_id="ann", data={"m": "needle"})]
    nobodys = [event(4, agent_name="a1", session_id="s1", data={"m": "needle"})]
    await store.store_many([*mine, *others, *nobodys])
    assert await store.retrieve(user_id="lin") == mine
    assert await store.retrieve(user_id="lin", session_id="s1") == mine[:1]
    assert await store.retrieve(user_id="") == nobodys
    assert len(await store.retrieve(session_id="s1")) == 3
    assert await store.search("needle", user_id="lin") == mine[::-1]
    assert await store.search("needle", user_id="lin", whole_words=True) == mine[::-1]
    assert (await store.get_stats(user_id="ann"))["total_events"] == 1
    assert await store.clear(user_id="lin") == 2
    assert await store.retrieve() == [*others, *nobodys]


@pytest.mark.parametrize(
    "bad",
    [
        {"data": {"x": float("nan")}},
        {"data": {"x": "\ud800"}},
        {"data": {"x": object()}},
        {"metadata": {"x": "\0"}},
        {"event_id": "x" * 300},
        {"session_id": "\0"},
        {"data": "no dict"},
    ],
)
async def test_what_cannot_be_kept(store, bad, caplog):
    """`store` answers False, logs why and counts it; `store_many` raises and keeps none of the batch."""
    assert await store.store(event(1, **bad)) is False
    assert "was not kept" in caplog.text
    assert store.failures == 1
    assert store.last_error.startswith("InvalidRecord")
    with pytest.raises(InvalidRecord):
        await store.store_many([event(2), event(3, **bad)])
    assert await store.retrieve() == []
    assert await store.store(event(4))


async def test_closed_is_closed(store):
    await store.store(event(1))
    await store.close()
    await store.close()
    for use in (
        store.retrieve(),
        store.store(event(2)),
        store.search("x", everyone=True),
        store.clear(),
        store.get_stats(),
    ):
        with pytest.raises(StoreClosed):
            await use
