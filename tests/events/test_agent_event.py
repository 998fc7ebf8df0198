"""AgentEvent and EventType: what may be given, what is filled in, and the record an event becomes."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from octavo import Add, AgentEvent, Change, EventType, InvalidRecord, Query, Record, Scope, open_store
from octavo.events import to_event, to_record

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
NAMES = (
    "USER_MESSAGE MODEL_RESPONSE TOOL_CALL_START TOOL_CALL_SUCCESS TOOL_CALL_ERROR AGENT_INIT AGENT_ERROR "
    "MIDDLEWARE_PRE MIDDLEWARE_POST CUSTOM"
)


def test_types():
    """The documented ten; each is its value, its NAME finds it, and it prints as its value."""
    assert [member.name for member in EventType] == NAMES.split()
    for member in EventType:
        assert member.value == member.name.lower() == member == str(member) == f"{member}"
        assert EventType(member.name) is EventType(member.value) is member
        assert {member.value: 1}[member] == 1
    with pytest.raises(ValueError, match="nonsense"):
        EventType("nonsense")


def test_defaults():
    """An id of its own, now, and nothing else."""
    before = datetime.now(UTC)
    one, other = AgentEvent(agent_name="a"), AgentEvent(agent_name="a")
    assert one.event_id.startswith("evt_")
    assert one.event_id != other.event_id
    assert before <= one.timestamp <= datetime.now(UTC)
    assert (one.data, one.metadata, one.session_id, one.event_type) == ({}, {}, "", EventType.CUSTOM)
    one.data["x"] = 1
    assert other.data == {}
    assert AgentEvent(None, None, None, "custom", None, None, None).event_id.startswith("evt_")


def test_positions_are_the_documented_order():
    given = ("evt_1", "assistant", "s", EventType.USER_MESSAGE, NOON, {"message": "Hello"}, {"source": "web"})
    event = AgentEvent(*given)
    assert tuple(vars(event).values()) == (*given, "")
    assert AgentEvent(*given, "lin").user_id == "lin"


def test_times_are_aware_and_utc():
    """Naive is local, as Python takes it; another zone is the same moment; text is read."""
    naive = datetime(2024, 1, 1, 12, 0, 0)  # noqa: DTZ001
    assert AgentEvent(timestamp=naive).timestamp == naive.astimezone()
    zone = timezone(timedelta(hours=8))
    event = AgentEvent(timestamp=NOON.astimezone(zone))
    assert event.timestamp == NOON
    assert event.timestamp.tzinfo is UTC
    assert AgentEvent(timestamp="2024-01-01T12:00:00Z").timestamp == NOON
    for bad in ("yesterday", 5, datetime.min):  # noqa: DTZ901
        with pytest.raises(InvalidRecord, match="timestamp"):
            AgentEvent(timestamp=bad)


def test_an_unknown_type_is_refused():
    with pytest.raises(InvalidRecord, match=r"'user_mesage'; known: user_message, .*custom"):
        AgentEvent(event_id="evt_1", event_type="user_mesage")
    assert AgentEvent(event_type="AGENT_ERROR").event_type is EventType.AGENT_ERROR


def test_there_and_back():
    """By dictionary, by JSON, and through a record."""
    event = AgentEvent("evt_1", "助手", "s", "tool_call_start", NOON, {"a": [1, {"计": None}]}, {"m": True})
    assert AgentEvent.from_dict(event.to_dict()) == event
    assert AgentEvent.from_json(event.to_json()) == event
    assert [*event.to_dict(), "user_id"] == list(vars(event))
    assert event.to_dict()["timestamp"] == "2024-01-01T12:00:00+00:00"
    assert json.loads(event.to_json()) == json.loads(json.dumps(event.to_dict()))
    assert "助手" in event.to_json()
    assert to_event(to_record(event)) == event
    record = to_record(event, tenant="acme")
    assert (record.collection, record.kind, record.text) == ("events", "tool_call_start", "")
    assert record.scope == Scope(tenant="acme", agent="助手", session="s")
    assert to_event(to_record(AgentEvent("evt_2"))).agent_name == ""


def test_whose_it_is():
    """The user is told where there is one, and nowhere else; there and back it stays."""
    event = AgentEvent("evt_1", "a", "s", "custom", NOON, user_id="林")
    assert list(event.to_dict()) == list(vars(event))
    assert AgentEvent.from_dict(event.to_dict()) == AgentEvent.from_json(event.to_json()) == event
    assert to_record(event).scope == Scope(user="林", agent="a", session="s")
    assert to_event(to_record(event)) == event
    assert AgentEvent(user_id=None).user_id == ""


def test_a_line_of_a_file_is_an_event():
    """What a file says beside is its own; what is missing is filled in; no type is refused."""
    line = {
        "event_id": "e",
        "event_type": "custom",
        "timestamp": "2024-01-01T12:00:00Z",
        "seq": 7,
        "data": None,
    }
    assert AgentEvent.from_dict(line) == AgentEvent("e", timestamp=NOON)
    for bad in ("{}", '{"event_id": "e"}', "[]", "no json"):
        with pytest.raises(InvalidRecord):
            AgentEvent.from_json(bad)


def test_no_field_is_dropped_without_a_word():
    """A key that an event does not have was left out."""
    told = AgentEvent("e", data={"a": 1}).to_dict() | {"trace": "t-1"}
    with pytest.raises(InvalidRecord, match="an event has no 'trace'; put it into data or metadata"):
        AgentEvent.from_dict(told)
    with pytest.raises(InvalidRecord, match="'trace'"):
        AgentEvent.from_json(json.dumps(told))


def test_a_dictionary_shares_nothing_with_its_event():
    """What is inside of `data` was the event's own, either way."""
    event = AgentEvent(data={"list": [1]}, metadata={"list": [1]})
    told = event.to_dict()
    told["data"]["list"].append(2)
    told["metadata"]["list"].append(2)
    assert (event.data, event.metadata) == ({"list": [1]}, {"list": [1]})
    again = AgentEvent.from_dict(told)
    again.data["list"].append(3)
    assert told["data"] == {"list": [1, 2]}


async def test_a_line_of_every_kind_of_record_is_an_event(tmp_path):
    """Whatever else a file store writes into a line."""
    async with open_store(f"file://{tmp_path}/kept") as store:
        record = Record(
            collection="events",
            kind="custom",
            scope=Scope(tenant="t", user="u", agent="a", session="s"),
            text="t",
            marks=("m",),
            expires_at=NOON + timedelta(days=365_000),
        )
        await store.apply([Add([record])])
        await store.apply(
            [Change(query=Query(collection="events", scope=Scope(tenant="t")), text="x", updated_at=NOON)]
        )
    lines = (tmp_path / "kept" / "session_s.jsonl").read_text().splitlines()
    assert {key for line in lines for key in json.loads(line)} >= {
        "tenant",
        "marks",
        "text",
        "updated_at",
        "expires_at",
    }
    assert AgentEvent.from_json(lines[-1]).user_id == "u"


def test_a_kind_of_another_program_stays_its_word():
    """A store that somebody else also writes to can still be read."""
    assert to_event(Record(collection="events", id="e", kind="heartbeat")).event_type == "heartbeat"


def test_what_is_told_is_a_dict():
    with pytest.raises(InvalidRecord, match="an event is told as a dict; got 'x'"):
        AgentEvent.from_dict("x")
