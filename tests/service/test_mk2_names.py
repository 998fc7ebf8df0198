"""Records answer to the names that mk2's have."""

from octavo.kernel.ids import now
from octavo.kernel.model import Scope
from octavo.service import MessagePayload, Observation, ObservationType
from octavo.service.records import event_of, event_to_record, turn_end, turn_of, turn_to_record


def test_an_event():
    """`ts`, `gate`, and `obs` as an object that is the one observed."""
    at = now()
    obs = Observation(
        ObservationType.MESSAGE, MessagePayload("你好"), "cli", "dm:lin", "lin", metadata={"a": 1}
    )
    event = event_of(event_to_record(obs, Scope(session="dm:lin"), {"action": "deliver"}, {"m": 1}, at))
    assert event.ts == at.timestamp()
    assert event.gate == {"action": "deliver"}
    assert event.obs.payload == MessagePayload("你好")
    told = event.obs
    told.user_id = None  # it was told by the actor
    assert told == obs


def test_an_event_of_a_kind_of_the_callers():
    """What is no payload of Octavo's stays the plain value it is."""
    given = {"obs_type": "smell", "payload": {"what": "smoke"}, "obs_id": "o"}
    event = event_of(event_to_record(given, Scope(session="s"), None, None, now()))
    assert (event.obs.obs_type, event.obs.payload, event.gate) == ("smell", {"what": "smoke"}, None)
    odd = {"obs_type": "message", "payload": {"text": "hi", "mood": "good"}, "obs_id": "p"}
    event = event_of(event_to_record(odd, Scope(session="s"), None, None, now()))
    assert event.obs.payload == {"text": "hi", "mood": "good"}


def test_a_turn():
    """`started_ts` and `finished_ts`, and the calls that its meta tells of."""
    at = now()
    record = turn_to_record(
        Scope(session="s"), "e", None, {"tool_calls": [{"tool": "x"}], "tool_results": [1]}, at
    )
    turn = turn_of(record)
    assert (turn.started_ts, turn.finished_ts) == (at.timestamp(), None)
    assert (turn.tool_calls, turn.tool_results) == ([{"tool": "x"}], [1])
    ended = turn_of(turn_end(turn.turn_id, Scope(session="s"), "ok", None, None, at).applied_to(record))
    assert ended.finished_ts == at.timestamp()
    assert turn_of(turn_to_record(Scope(session="s"), "e", None, None, at)).tool_calls == []
