"""The memory subsystem's document, sentence by sentence: the failure queue (§4), and what it says is tested (§7).

The docstring of a test begins with the number of the line it holds us to; `test_seed_002_service.py` has the other lines.
"""

import pytest

from octavo import StoreError, StoreUnavailable
from octavo.service import Core
from serving import said, texts

SESSION = "dm:alice"


# §4 · the failure queue


def test_failed_writes_are_queued(store_url, serve, faulty):
    """§4.1 An event that the database did not take waits in the failure queue, and can be read meanwhile."""
    memory = serve(store_url)
    faulty[-1].mode = "down"
    event = memory.append_event(said("waits"), SESSION)
    assert event.status == "queued"
    assert memory.queue_status().waiting == 1
    assert texts(memory.get_recent_events(SESSION)) == ["waits"]
    faulty[-1].mode = "up"
    memory.replay_queue()
    assert memory.queue_status().waiting == 0
    assert texts(memory.get_recent_events(SESSION)) == ["waits"]


def test_memory_is_bounded(store_url, serve, faulty, tmp_path):
    """§4.2 What is more than the queue may hold in memory goes to disk in batches."""
    memory = serve(store_url, queue={"durability": "memory", "max_in_memory": 10, "spill_batch_size": 5})
    faulty[-1].mode = "down"
    for n in range(10):
        memory.append_event(said(f"n{n}"), SESSION)
    file = tmp_path / "queue" / "failed_events.jsonl"
    assert not file.exists() or "n0" not in file.read_text()
    for n in range(10, 32):
        memory.append_event(said(f"n{n}"), SESSION)
    on_disk = file.read_text()
    assert all(f'"n{n}"' in on_disk for n in range(20))
    assert memory.queue_status().waiting == 32
    faulty[-1].mode = "up"
    memory.replay_queue()
    assert texts(memory.get_recent_events(SESSION)) == [f"n{n}" for n in reversed(range(32))]


def test_rotation(store_url, serve, faulty, tmp_path):
    """§4.3 A queue file that is large enough is rotated, and nothing in it is lost by that."""
    memory = serve(store_url, queue={"max_dump_file_size_mb": 0.005})
    faulty[-1].mode = "down"
    said_ = [f"{n} " + "x" * 500 for n in range(40)]
    for text in said_:
        memory.append_event(said(text), SESSION)
    assert len(list((tmp_path / "queue").glob("failed_events*.jsonl*"))) > 1
    faulty[-1].mode = "up"
    memory.replay_queue()
    assert texts(memory.get_recent_events(SESSION)) == said_[::-1]


def poisoned(ops):
    """A database that takes everything but one event."""
    if "poison" in repr(ops):
        raise StoreUnavailable("the server closed the connection")


def refusing(ops):
    if "poison" in repr(ops):
        raise StoreError("value out of range")


def test_dead_letters(store_url, serve, faulty, tmp_path):
    """§4.4 What fails again and again is moved to the dead letters, with its error, and holds nothing else up."""
    memory = serve(store_url, queue={"max_retries": 3})
    faulty[-1].mode = "down"
    for text, session in (("poison", SESSION), ("behind it", SESSION), ("elsewhere", "other")):
        memory.append_event(said(text), session)
    faulty[-1].poison = poisoned
    faulty[-1].mode = "up"
    for _ in range(20):
        memory.replay_queue()
        if not memory.queue_status().waiting:
            break
    [letter] = memory.dead_letters()
    assert letter.attempts >= 3
    assert "closed the connection" in letter.error
    assert "poison" in (tmp_path / "queue" / "failed_events.dead.jsonl").read_text()
    assert texts(memory.get_recent_events(SESSION)) == ["behind it"]
    assert texts(memory.get_recent_events("other")) == ["elsewhere"]
    assert memory.dead_letter(letter.id) == letter
    faulty[-1].poison = None
    assert memory.replay_dead_letters([letter.id]) == 1
    memory.replay_queue()
    assert texts(memory.get_recent_events(SESSION)) == ["behind it", "poison"]
    assert memory.dead_letters() == []


def test_a_restart_recovers(store_url, serve, faulty, tmp_path):
    """§4.5 What an earlier life left in the queue is loaded and stored at the next start, without being asked."""
    memory = serve(store_url)
    faulty[-1].mode = "down"
    for text in ("one", "two"):
        memory.append_event(said(text), SESSION)
    memory.close()
    again = serve(store_url)
    assert texts(again.get_recent_events(SESSION)) == ["two", "one"]
    assert again.queue_status().waiting == 0


# §7 · what the document says is tested


def test_events_and_turns(store_url, serve):
    """§7.1 Events and turns are written and read."""
    memory = serve(store_url)
    event = memory.append_event(said("hi"), SESSION)
    turn = memory.append_turn(SESSION, event.event_id, {"steps": []})
    memory.finish_turn(turn.turn_id, "obs_1")
    assert memory.get_event(event.event_id) == event
    [kept] = memory.get_recent_turns(SESSION)
    assert (kept.turn_id, kept.status, kept.final_output_obs_id) == (turn.turn_id, "ok", "obs_1")


@pytest.mark.parametrize(
    "plan", [None, {}, [], "", 0, {"a": None, "计划": [1, 2.5, {"b": True}]}, ["x", None]]
)
def test_plans(plan, store_url, serve):
    """§7.2 `plan=None` stays None, and JSON comes back as it was given."""
    memory = serve(store_url)
    turn = memory.append_turn(SESSION, "evt_1", plan=plan)
    kept = memory.get_turn(turn.turn_id).plan
    assert kept == plan
    assert type(kept) is type(plan)


def test_ids(store_url, serve):
    """§7.3 No two events and no two turns have the same id."""
    memory = serve(store_url)
    events = [memory.append_event(said("same words"), SESSION).event_id for _ in range(20)]
    turns = [memory.append_turn(SESSION, events[0]).turn_id for _ in range(20)]
    assert len({*events}) == len({*turns}) == 20


def test_duplicates(store_url, serve, faulty, tmp_path):
    """§7.4 The same observation is one event: L1 does not send it again, and L2, after a restart, does not keep it twice."""
    memory = serve(store_url)
    for _ in range(3):
        memory.append_event(said("once", obs_id="o1"), SESSION)
    assert len(memory.get_recent_events(SESSION)) == 1
    faulty[-1].mode = "late"  # committed, but the answer was lost
    memory.append_event(said("lost answer", obs_id="o2"), SESSION)
    faulty[-1].mode = "up"
    memory.replay_queue()
    assert texts(memory.get_recent_events(SESSION)) == ["lost answer", "once"]
    if store_url != "memory://":
        again = serve(store_url)
        again.append_event(said("once", obs_id="o1"), SESSION)
        assert texts(again.get_recent_events(SESSION)) == ["lost answer", "once"]


def test_retries_limits_rotation(store_url, serve, faulty, tmp_path):
    """§7.5 With a small memory, small files and an outage that comes and goes, every event arrives once and in order."""
    queue = {"max_in_memory": 4, "spill_batch_size": 2, "max_dump_file_size_mb": 0.002}
    memory = serve(store_url, queue=queue)
    for n in range(30):
        faulty[-1].mode = ["up", "down", "late"][n % 3]
        memory.append_event(said(f"n{n}"), SESSION)
    faulty[-1].mode = "up"
    memory.replay_queue()
    assert texts(memory.get_recent_events(SESSION)) == [f"n{n}" for n in reversed(range(30))]
    assert memory.queue_status().waiting == 0


def test_a_refused_write_is_a_dead_letter(store_url, serve, faulty):
    """§7.6 What the database refuses for good while it was queued is a dead letter at once; discarded, it is gone."""
    memory = serve(store_url)
    faulty[-1].mode = "down"
    memory.append_event(said("poison"), SESSION)
    faulty[-1].poison = refusing
    faulty[-1].mode = "up"
    memory.replay_queue()
    [letter] = memory.dead_letters()
    assert "value out of range" in letter.error
    assert memory.discard_dead_letters([letter.id]) == 1
    assert memory.dead_letters() == []


def test_what_was_dumped_is_loaded(store_url, serve, faulty, tmp_path):
    """§7.7 What was spilled and rotated before the process ended is loaded by the next one, whole and in order."""
    queue = {"max_in_memory": 4, "spill_batch_size": 2, "max_dump_file_size_mb": 0.002}
    memory = serve(store_url, queue=queue)
    faulty[-1].mode = "down"
    for n in range(25):
        memory.append_event(said(f"n{n}"), SESSION)
    memory.close()
    again = serve(store_url, queue=queue)
    assert texts(again.get_recent_events(SESSION)) == [f"n{n}" for n in reversed(range(25))]
    assert not list((tmp_path / "queue").glob("failed_events*.jsonl")) or again.queue_status().waiting == 0


async def test_append_event_failing(store_url, serve, faulty, monkeypatch):
    """§7.8 A core whose memory fails at append_event, in whatever way, still answers; it makes no turn of it."""
    memory = serve(store_url)

    async def broken(*_, **__):
        raise RuntimeError("a bug in memory")

    monkeypatch.setattr(memory, "aappend_event", broken)
    async with Core(lambda obs: "answer", memory_service=memory) as core:
        handled = await core.handle(said("hello"))
    assert handled.output.payload.text == "answer"
    assert (handled.event_id, handled.turn_id) == (None, None)
    assert core.memory_failures == 1
