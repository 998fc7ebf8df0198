"""Whose an event or a turn is, on every store: said by the caller, by the observation, or by who acted; and still one event."""

import time

import pytest

from octavo import InvalidRecord, Scope
from octavo.service import Core, MessagePayload, Observation, ObservationType
from serving import LASTING, SETTLED, said, texts, url_of

OBSERVATIONS = [  # an observation, the user that is named with it, and whose event it is
    ({"user_id": "lin", "actor": "browser"}, None, "lin"),
    ({"actor": "lin"}, None, "lin"),
    ({"actor": "lin"}, "ann", "ann"),
    ({"user_id": "lin"}, "ann", "ann"),
    ({"user_id": "", "actor": "lin"}, None, None),
    ({"user_id": "lin"}, "", None),
    ({}, None, None),
    ({"actor": ""}, None, None),
    ({"actor": {"name": "lin"}}, None, None),
    ({"actor": "a" * 300}, None, None),  # no name, and kept all the same
    ({"actor": "a\ud800"[:1]}, None, "a"),
]


def message(text, **more):
    return Observation(ObservationType.MESSAGE, MessagePayload(text=text), **more)


def events_of(memory, user, **more):
    """What is found by the user alone, in whatever session."""
    found, _ = memory.portal.call(memory.behind.page("observations", None, None, user_id=user, **more))
    return [record.text for record in found]


def test_whose_an_event_is(store_url, serve):
    memory = serve(store_url)
    for n, (given, named, whose) in enumerate(OBSERVATIONS):
        event = memory.append_event(message(f"m{n}", **given), "s", user_id=named)
        assert (event.user_id, event.actor) == (whose, given.get("actor"))
        assert memory.get_event(event.event_id) == event
    mine = [f"m{n}" for n, (_, _, whose) in enumerate(OBSERVATIONS) if whose == "lin"]
    assert events_of(memory, "lin") == mine[::-1]
    assert events_of(memory, "nobody") == []
    assert len(memory.get_recent_events("s")) == len(OBSERVATIONS)
    assert len(memory.recall("m1", user_id="lin")) == 1
    assert memory.recall("m1", user_id="ann") == []
    assert memory.recall("m1", "other", user_id="lin") == []
    assert "m1" in memory.context("m1", user_id="lin").text


def test_what_is_no_user(serve):
    """Named by the caller it is refused; what an observation holds under that name is kept as anything else it holds."""
    memory = serve("memory://")
    for bad in (5, "x" * 300, "a\0b"):
        with pytest.raises(InvalidRecord):
            memory.append_event(message("hi"), "s", user_id=bad)
        with pytest.raises(InvalidRecord):
            memory.append_turn("s", "evt_1", user_id=bad)
    odd = memory.append_event({"obs_type": "message", "payload": {"text": "x"}, "user_id": 42}, "s")
    assert (odd.user_id, odd.extra) == (None, {"user_id": 42})
    mapped = memory.append_event({"obs_type": "message", "payload": {"text": "x"}, "user_id": "42"}, "s")
    assert (mapped.user_id, mapped.extra) == ("42", {})


def test_whose_a_turn_is(store_url, serve):
    """The user's who is answered, also in a process that has never seen the event."""
    memory = serve(store_url)
    event = memory.append_event(message("hi", actor="lin"), "s")
    turn = memory.append_turn("s", event.event_id)
    assert (turn.user_id, memory.get_turn(turn.turn_id)) == ("lin", turn)
    memory.finish_turn(turn.turn_id)
    assert memory.get_turn(turn.turn_id).user_id == "lin"
    assert memory.append_turn("s", event.event_id, user_id="ann").user_id == "ann"
    assert memory.append_turn("s", "evt_of_nobody").user_id is None
    if not store_url.startswith("memory"):
        assert serve(store_url).append_turn("s", event.event_id).user_id == "lin"


@pytest.mark.parametrize("names", [("lin", None), (None, "lin"), ("lin", "ann"), ("lin", ""), ("", "lin")])
def test_one_event_whoever_is_named(names, store_url, serve):
    """An observation that comes again under another user, or under none, is the event it already is; the first user stays."""
    memory = serve(store_url)
    first = memory.append_event(message("once", obs_id="o1"), "s", user_id=names[0])
    elsewhere = [memory] if store_url.startswith("memory") else [memory, serve(store_url), serve(store_url)]
    for service in elsewhere:
        again = service.append_event(message("twice", obs_id="o1"), "s", user_id=names[1])
        assert again == first
        assert service.get_event(first.event_id) == first
    assert texts(memory.get_recent_events("s")) == ["once"]
    assert [events_of(memory, name) for name in (*names, "") if name and name != names[0]] in ([], [[]])


@pytest.mark.parametrize("kind", LASTING)
def test_one_event_though_it_waited(kind, tmp_path, fresh_url, faulty, serve):
    """Stored for one user, then queued for another while the store is down: replayed, it is still the first one."""
    url = url_of(kind, tmp_path, fresh_url)
    first = serve(url).append_event(message("once", obs_id="o1"), "s", user_id="lin")
    other = serve(url)  # which has never seen it
    faulty[-1].mode = "down"
    again = other.append_event(message("twice", obs_id="o1"), "s", user_id="ann")
    new = other.append_event(message("new", obs_id="o2"), "s", user_id="ann")
    same = other.append_event(message("new again", obs_id="o2"), "s")
    assert (again.status, new.status, same.user_id) == ("queued", "queued", "ann")
    assert other.queue_status().waiting == 3
    faulty[-1].mode = "up"
    until = time.monotonic() + SETTLED
    while other.queue_status().waiting and time.monotonic() < until:
        other.replay_queue()
    assert other.queue_status().dead == 0
    assert texts(other.get_recent_events("s")) == ["new", "once"]
    assert other.get_event(first.event_id) == first
    assert (events_of(other, "lin"), events_of(other, "ann")) == (["once"], ["new"])


async def test_the_answer_is_the_users(serve):
    """An agent that answers in a session is no user of it: its answer is of whom it answers, and so is the turn."""
    memory = serve("memory://")
    answers = iter(["a text", message("an observation", actor="robot"), message("to others", user_id="ann")])
    async with Core(lambda _: next(answers), memory_service=memory, close_memory=False) as core:
        for whose in ("lin", "lin", "ann"):
            handled = await core.handle(said("hi", "default", user_id="lin"))
            event = await memory.aappend_event(handled.output, "default")
            assert (handled.output.user_id, event.user_id) == (whose, whose)
            assert (await memory.aget_turn(handled.turn_id)).user_id == "lin"
        answers = iter([message("an observation", actor="robot")])
        handled = await core.handle(message("of nobody"))
        assert (await memory.aappend_event(handled.output, "default")).user_id is None
    assert Scope(user="robot") not in {Scope(user=e.user_id) for e in memory.get_recent_events("default")}


def test_a_turn_waits_for_no_store(tmp_path, faulty, serve):
    """While the store is down, a turn of an event that this process has not seen is queued at once, and is nobody's."""
    url = f"sqlite:///{tmp_path}/a.db"
    event = serve(url).append_event(message("hi", actor="lin"), "s")
    other = serve(url, timeout_seconds=5)
    faulty[-1].mode = "down"
    other.append_event(message("down already"), "s")
    begun = time.monotonic()
    turn = other.append_turn("s", event.event_id)
    assert (turn.written, turn.user_id) == ("queued", None)
    assert time.monotonic() - begun < 3
