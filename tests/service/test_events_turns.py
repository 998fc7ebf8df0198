"""Events and turns on every store: what goes in comes back, once, in order, and belongs to its session."""

import asyncio
import dataclasses
import threading
import types
from datetime import UTC, datetime, timedelta, timezone

import pytest

from octavo import InvalidQuery, InvalidRecord, NotFound
from octavo.service import (
    AlertPayload,
    ControlPayload,
    GateAction,
    GateResult,
    MessagePayload,
    Observation,
    ObservationType,
    SchedulePayload,
    SystemPayload,
    WorldDataPayload,
)
from serving import said, texts

NASTY = [
    "软件工程师",
    "👩‍👩‍👧 שלום",
    'it\'s 100%_ \\ "quoted"\n\ttabs',
    "e\u0301 vs é",
    "\ufeffbom",
    "a" * 5000,
]


def test_an_event_comes_back(store_url, serve):
    """Every field of an observation, of the gate's decision and of the caller's own is there, at once and later."""
    memory = serve(store_url)
    at = datetime(2024, 5, 17, 8, 30, 0, 123456, tzinfo=timezone(timedelta(hours=8)))
    obs = said(
        "你好 👋", obs_id="obs-1", timestamp=at, metadata={"lang": "zh", "n": [1, 2.5, None, {"a": True}]}
    )
    gate = GateResult(GateAction.DELIVER, ["direct message"], score=0.75, metadata={"rule": 7})
    event = memory.append_event(obs, "dm:alice", gate, meta={"trace": "t-1", "deep": {"x": [1]}})
    assert memory.get_event(event.event_id) == event
    assert memory.get_recent_events("dm:alice") == [event]
    assert (event.status, event.session_key, event.obs_id) == ("stored", "dm:alice", "obs-1")
    assert event.obs_type == ObservationType.MESSAGE
    assert event.payload == {"text": "你好 👋", "attachments": [], "extra": {}}
    assert (event.source_name, event.actor) == ("cli", "alice")
    assert event.gate_result == {
        "action": "deliver", "reasons": ["direct message"], "score": 0.75, "metadata": {"rule": 7},
    }  # fmt: skip
    assert event.metadata == {"lang": "zh", "n": [1, 2.5, None, {"a": True}]}
    assert event.meta == {"trace": "t-1", "deep": {"x": [1]}}
    assert event.timestamp == at
    assert event.timestamp.tzinfo is UTC
    assert event.created_at.tzinfo is UTC


PAYLOADS = [
    (ObservationType.MESSAGE, MessagePayload("hi", [{"url": "x"}], {"k": 1})),
    (ObservationType.WORLD_DATA, WorldDataPayload({"temp": 21.5}, "weather/1")),
    (ObservationType.ALERT, AlertPayload("disk full", "disk", "critical", {"free": 0})),
    (ObservationType.CONTROL, ControlPayload("reload", {"what": "gate"})),
    (ObservationType.SCHEDULE, SchedulePayload("daily", datetime(2024, 1, 1, tzinfo=UTC), {})),
    (ObservationType.SYSTEM, SystemPayload("started")),
    (ObservationType.MESSAGE, {"text": "a plain dict", "anything": [1, None]}),
]


def test_every_payload(store_url, serve):
    """Each kind of observation keeps its payload, as JSON says it."""
    memory = serve(store_url)
    for obs_type, payload in PAYLOADS:
        event = memory.append_event(Observation(obs_type, payload), "s")
        assert event.obs_type == obs_type.value
        kept = memory.get_event(event.event_id).payload
        assert kept == event.payload
        for name in getattr(payload, "__struct_fields__", payload):
            given = payload[name] if isinstance(payload, dict) else getattr(payload, name)
            assert kept[name] == (given if not isinstance(given, datetime) else "2024-01-01T00:00:00Z")


def test_recent_is_newest_first(store_url, serve):
    """The newest `limit` of a session, newest first; other sessions, case and spaces included, are others."""
    memory = serve(store_url)
    for n in range(7):
        for session in ("room", "Room", "room "):
            memory.append_event(said(f"{session}{n}"), session)
    for session in ("room", "Room", "room "):
        assert texts(memory.get_recent_events(session, 3)) == [f"{session}{n}" for n in (6, 5, 4)]
        assert len(memory.get_recent_events(session)) == 7
        assert len(memory.get_recent_events(session, limit=None)) == 7
        assert memory.get_recent_events(session, 0) == []
    assert memory.get_recent_events("rooms") == []
    assert memory.get_event("evt_nothing") is None
    with pytest.raises(InvalidQuery, match="-1"):
        memory.get_recent_events("room", -1)


def test_any_text(store_url, serve):
    """Text of any language comes back as it was, in payloads, session keys and ids."""
    memory = serve(store_url)
    for text in NASTY:
        key = text[:50]
        event = memory.append_event(said(text, obs_id=key), key, meta={key: text})
        [kept] = memory.get_recent_events(key)
        assert (kept.payload["text"], kept.session_key, kept.obs_id, kept.meta) == (
            text,
            key,
            key,
            {key: text},
        )
        turn = memory.append_turn(key, event.event_id, plan={key: [text]})
        assert memory.get_turn(turn.turn_id).plan == {key: [text]}


def test_the_same_observation_is_one_event(store_url, serve):
    """Appended again, in the same session, an observation is the event it already is; the first one's words stay."""
    memory = serve(store_url)
    first = memory.append_event(said("once", obs_id="o1"), "s")
    again = memory.append_event(said("twice", obs_id="o1"), "s")
    assert again == first
    other = memory.append_event(said("elsewhere", obs_id="o1"), "t")
    assert other.event_id != first.event_id
    assert texts(memory.get_recent_events("s")) == ["once"]
    # Where one session's name ends and the observation's begins matters.
    ids = {memory.append_event(said("x", obs_id=o), s).event_id for s, o in [("ab", "c"), ("a", "bc")]}
    assert len(ids) == 2


def test_the_first_event_is_found_by_another_process(tmp_path, serve):
    """A service that has never seen the observation learns from the store what was said first."""
    url = f"sqlite:///{tmp_path}/shared.db"
    first = serve(url).append_event(said("once", obs_id="o1"), "s")
    assert serve(url).append_event(said("twice", obs_id="o1"), "s") == first


def test_a_turn(store_url, serve):
    """A turn runs, ends once or again, and tells how."""
    memory = serve(store_url)
    event = memory.append_event(said("hi"), "s")
    plan = {"steps": ["think", "答"], "depth": 2, "none": None, "nested": {"a": [1.5, True]}}
    ok = memory.append_turn("s", event.event_id, plan, meta={"model": "m"})
    bad = memory.append_turn("s", event.event_id)
    assert (ok.status, ok.plan, ok.meta, ok.finished_at) == ("running", plan, {"model": "m"}, None)
    assert memory.get_turn(ok.turn_id) == ok
    assert bad.plan is None
    assert memory.get_turn(bad.turn_id).plan is None
    assert memory.finish_turn(ok.turn_id, final_output_obs_id="obs_out") == "stored"
    assert memory.finish_turn(bad.turn_id, status="error", error="boom") == "stored"
    newest, older = memory.get_recent_turns("s")
    assert (newest.turn_id, newest.status, newest.error, newest.plan) == (bad.turn_id, "error", "boom", None)
    assert (older.status, older.error, older.final_output_obs_id, older.plan) == ("ok", None, "obs_out", plan)
    assert older.finished_at >= older.created_at
    assert older.input_event_id == event.event_id
    assert memory.get_recent_turns("s", 1) == [newest]
    assert memory.get_recent_turns("other") == []
    assert memory.get_turn("turn_nothing") is None


def test_a_turn_that_cannot_end(store_url, serve):
    """There is no ending what never began, nor a third way to end."""
    memory = serve(store_url)
    with pytest.raises(NotFound, match="turn_nothing"):
        memory.finish_turn("turn_nothing")
    turn = memory.append_turn("s", "evt_x")
    with pytest.raises(InvalidRecord, match="'done'"):
        memory.finish_turn(turn.turn_id, status="done")
    # What went wrong may hold what no store keeps; the turn ends all the same.
    memory.finish_turn(turn.turn_id, status="error", error=ValueError("half \ud800 and \0"))
    assert memory.get_turn(turn.turn_id).error == "half ? and \ufffd"


def test_a_turn_ended_by_another_process(tmp_path, serve):
    """A turn may be ended by a service that did not begin it."""
    url = f"sqlite:///{tmp_path}/shared.db"
    begun, other = serve(url), serve(url)
    turn = begun.append_turn("s", "evt_x")
    assert other.finish_turn(turn.turn_id, "obs_out") == "stored"
    assert begun.get_turn(turn.turn_id).status == "ok"


def test_tenants_are_apart(store_url, serve):
    """Two tenants on one store with the same sessions and observations see nothing of each other."""
    one = serve(store_url, tenant="one")
    two = serve(store_url, tenant="two")
    event = one.append_event(said("one's", obs_id="o"), "s")
    turn = one.append_turn("s", event.event_id)
    assert two.get_event(event.event_id) is None
    assert two.get_recent_events("s") == []
    assert two.get_recent_turns("s") == []
    with pytest.raises(NotFound):
        two.finish_turn(turn.turn_id)
    assert texts([two.append_event(said("two's", obs_id="o"), "s")]) == ["two's"]
    assert texts(one.get_recent_events("s")) == ["one's"]


def test_answers_are_copies(store_url, serve):
    """Changing what was given or what came back changes nothing that is kept."""
    memory = serve(store_url)
    obs, meta, plan = said("hi", metadata={"a": [1]}), {"m": [1]}, {"p": [1]}
    event = memory.append_event(obs, "s", meta=meta)
    turn = memory.append_turn("s", event.event_id, plan)
    for changed in (
        obs.metadata["a"],
        meta["m"],
        plan["p"],
        event.metadata["a"],
        event.meta["m"],
        turn.plan["p"],
    ):
        changed.append("changed")
    event.payload["text"] = "changed"
    memory.get_event(event.event_id).payload["text"] = "changed"
    [kept] = memory.get_recent_events("s")
    assert (kept.payload["text"], kept.metadata, kept.meta) == ("hi", {"a": [1]}, {"m": [1]})
    assert memory.get_turn(turn.turn_id).plan == {"p": [1]}


def test_ids_are_unique(store_url, serve):
    """Fifty threads append side by side: every event and turn has an id of its own, and none is missing."""
    memory = serve(store_url)
    events, turns, wrong = [], [], []

    def write(thread):
        try:
            for n in range(4):
                event = memory.append_event(said(f"{thread}.{n}"), f"s{thread % 5}")
                events.append(event.event_id)
                turn = memory.append_turn(f"s{thread % 5}", event.event_id)
                turns.append(turn.turn_id)
                memory.finish_turn(turn.turn_id)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len({*events}) == len({*turns}) == 200
    kept = [memory.get_recent_events(f"s{n}", None) for n in range(5)]
    assert sorted(event.event_id for session in kept for event in session) == sorted(events)
    ended = [turn for n in range(5) for turn in memory.get_recent_turns(f"s{n}", None)]
    assert sorted(turn.turn_id for turn in ended) == sorted(turns)
    assert {turn.status for turn in ended} == {"ok"}
    for session in kept:  # in the order in which each thread said it
        for thread in range(50):
            own = [text for text in reversed(texts(session)) if text.startswith(f"{thread}.")]
            assert own == sorted(own)


def test_from_several_loops(store_url, serve):
    """The twins can be awaited on any event loop, several at a time, and see each other's events."""
    memory = serve(store_url)

    async def chat(name):
        events = await asyncio.gather(*[memory.aappend_event(said(f"{name}{n}"), name) for n in range(5)])
        turn = await memory.aappend_turn(name, events[0].event_id)
        await memory.afinish_turn(turn.turn_id)
        assert (await memory.aget_turn(turn.turn_id)).status == "ok"
        return await memory.aget_recent_events(name)

    found = {}
    loops = [
        threading.Thread(target=lambda name=name: found.update({name: asyncio.run(chat(name))}))
        for name in "abc"
    ]
    for loop in loops:
        loop.start()
    for loop in loops:
        loop.join()
    assert {name: sorted(texts(events)) for name, events in found.items()} == {
        name: [f"{name}{n}" for n in range(5)] for name in "abc"
    }
    assert len(memory.get_recent_events("a")) == 5


async def test_inside_a_running_loop(store_url, serve):
    """A service made inside a running loop serves it, blocking or awaited."""
    memory = serve(store_url)
    event = await memory.aappend_event(said("hi"), "s")
    assert memory.get_event(event.event_id) == event
    assert await memory.aget_recent_events("s") == [event]
    assert await memory.ahealth() == memory.health()
    await memory.aclose()


@dataclasses.dataclass
class OwnObservation:
    """Somebody else's class."""

    obs_type: str
    payload: object
    obs_id: str | None = None
    timestamp: object = None


def test_observations_of_other_programs(serve):
    """Anything with an observation's attributes is one; what it leaves out is filled in."""
    memory = serve("memory://")
    own = OwnObservation("message", types.SimpleNamespace(text="hi", _hidden=1))
    event = memory.append_event(own, "s")
    assert event.payload == {"text": "hi"}
    assert event.obs_id.startswith("obs_")
    assert event.timestamp == event.created_at
    seconds = memory.append_event(OwnObservation("tick", None, "o2", 1700000000), "s")
    assert seconds.timestamp == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    spelled = memory.append_event(OwnObservation("tick", 5, "o3", "2024-01-01T00:00:00+02:00"), "s")
    assert spelled.timestamp == datetime(2023, 12, 31, 22, tzinfo=UTC)


REFUSED = [
    (lambda m: m.append_event(said("x\0y"), "s"), "NUL"),
    (lambda m: m.append_event(said("x"), ""), "session_key"),
    (lambda m: m.append_event(said("x"), None), "session_key"),
    (lambda m: m.append_event(said("x"), "s" * 300), "300 bytes"),
    (lambda m: m.append_event(said("x"), "s", meta={"n": float("nan")}), "nan"),
    (lambda m: m.append_event(said("x", metadata={"f": object()}), "s"), "metadata"),
    # Each of these two was kept, and no event or turn of its session could be read again.
    (lambda m: m.append_event(said("x", metadata=["f"]), "s"), r"metadata .* must be a dict; got \['f'\]"),
    (lambda m: m.finish_turn("turn_x", final_output_obs_id=5), "final_output_obs_id .*; got 5"),
    (lambda m: m.upsert_user_profile(None, "likes tea"), "user_id must be a name; got None"),
    (lambda m: m.get_user_profile(None), "user_id must be a name; got None"),
    (lambda m: m.append_event(OwnObservation("", {}), "s"), "obs_type"),
    (lambda m: m.append_event(OwnObservation("tick", {}, "o", "noon"), "s"), "noon"),
    (lambda m: m.append_turn("s", ""), "input_event_id"),
    (lambda m: m.append_turn("", "evt"), "session_key"),
    (lambda m: m.append_turn("s", "evt", plan={"f": object()}), "plan"),
    (lambda m: m.get_recent_events(""), "session_key"),
    (lambda m: m.get_recent_events(None), "session_key"),
]


@pytest.mark.parametrize("mode", ["up", "down"])
def test_what_is_refused(mode, faulty, serve):
    """A bad value is a ValueError that names it, also while the database is down; nothing of it is kept or queued."""
    memory = serve("memory://")
    faulty[-1].mode = mode
    for attempt, named in REFUSED:
        with pytest.raises(ValueError, match=named):
            attempt(memory)
    status = memory.queue_status()
    assert (status.waiting, status.dead) == (0, 0)


def test_what_was_said_and_written_is_found_again(store_url, serve):
    """By its words, in Chinese and English, over events and documents or in one session, and fenced for a prompt."""
    memory = serve(store_url)
    memory.append_event(said("I bought a violin in Lyon", "dm:alice"), "dm:alice")
    memory.append_event(said("我对花生过敏", "dm:bob"), "dm:bob")
    memory.upsert_config("facts/strings", "Gut strings sound warmer on a violin.\n")
    everywhere = memory.recall("violin", everyone=True)
    assert {hit.collection for hit in everywhere} == {"observations", "knowledge"}
    assert "Gut strings" in memory.context("violin", everyone=True).text
    [hit] = memory.recall("花生", "dm:bob")
    assert hit.record.data["payload"]["text"] == "我对花生过敏"
    assert memory.recall("花生", "dm:alice") == []
    assert "violin in Lyon" in memory.context("violin", "dm:alice", max_tokens=200).text


async def test_a_search_belongs_to_somebody(store_url, serve):
    """Without a session it is refused, blocking and awaited: what Bob said is no answer to Alice."""
    memory = serve(store_url)
    await memory.aappend_event(said("I am allergic to peanuts", "dm:bob"), "dm:bob")
    for search in (memory.arecall, memory.acontext):
        for nobody in ({}, {"session_key": None}, {"everyone": False}):
            with pytest.raises(ValueError, match="give a session_key or a user_id, or everyone=True"):
                await search("peanuts", **nobody)
        with pytest.raises(ValueError, match="not both"):
            await search("peanuts", "dm:bob", everyone=True)
    with pytest.raises(ValueError, match="session_key"):
        await asyncio.to_thread(memory.recall, "peanuts")
    assert await memory.arecall("peanuts", "dm:alice") == []
    assert len(await memory.arecall("peanuts", everyone=True)) == 1
