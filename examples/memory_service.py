"""An agent whose memory goes on when its database does not: what cannot be stored waits on disk, and nothing is lost."""

import tempfile
from contextlib import closing
from pathlib import Path

import apsw

from octavo.service import MemoryService, MessagePayload, Observation, ObservationType


def said(text: str) -> Observation:
    """What somebody said to the agent."""
    return Observation(ObservationType.MESSAGE, MessagePayload(text), source_name="chat", actor="lin")


def live(memory: MemoryService, folder: Path) -> None:
    """A turn of the agent, an outage, a recovery."""
    memory.upsert_system_prompt("You are a patient assistant.")
    event = memory.append_event(said("I am allergic to peanuts."), "monday")
    turn = memory.append_turn("monday", event.event_id)
    memory.finish_turn(turn.turn_id)
    print(f"database up:   event {event.status}")

    with closing(apsw.Connection(str(folder / "octavo.db"))) as somebody:
        somebody.execute("BEGIN IMMEDIATE")  # and nobody else can write
        for text in ("下周去北京，带上软件合同。", "The spare key is in the blue box."):
            print(f"database held: event {memory.append_event(said(text), 'monday').status}")
        print(f"               on disk: {'软件合同' in (folder / 'queue/failed_events.jsonl').read_text()}")
        print(f"               events to read: {len(memory.get_recent_events('monday'))}")
        print(f"               prompt to read: {memory.get_system_prompt()}")

    memory.replay_queue()  # or wait: it recovers by itself
    queue = memory.queue_status()
    print(f"database free: {queue.replayed} of {queue.queued} replayed, {queue.waiting} waiting")
    for event in reversed(memory.get_recent_events("monday")):
        print(f"               {event.payload['text']}")


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    with MemoryService(
        f"sqlite:///{folder / 'octavo.db'}",
        vault_path=folder / "vault",
        queue_path=folder / "queue",
        timeout_seconds=2,
    ) as memory:
        live(memory, folder)
