"""A Journal stands in front of any memory store: what that does not keep waits on disk, and comes once."""

from datetime import timedelta

import pytest
from own_stores import ListMemoryStore

from octavo import Add, AgentEvent, InMemoryMemoryStore, Query, as_store
from octavo.events import to_event, to_record
from octavo.wraps.journal import Journal

EVENTS = Query(collection="events")


def said(first, last) -> list[AgentEvent]:
    return [AgentEvent(f"evt_{n}", "a", "s", "custom", data={"n": n}) for n in range(first, last)]


@pytest.mark.parametrize("failing", [False, RuntimeError("boom")])
async def test_a_store_of_ones_own_that_is_down(tmp_path, failing):
    """Queued while it refuses, in order and once each when it takes them again."""
    own = ListMemoryStore()
    events = said(0, 6)
    async with Journal(as_store(own), tmp_path / "queue", backoff=(1e6, 1e6)) as journal:
        assert (await journal.write([Add([to_record(events[0])])])).status == "stored"
        assert not (tmp_path / "queue").exists() or not [*(tmp_path / "queue").glob("*.jsonl")]
        own.failing = failing
        for event in events[1:4]:
            assert (await journal.write([Add([to_record(event)])])).status == "queued"
        assert (await journal.write([Add([to_record(event) for event in events[4:]])])).status == "queued"
        own.failing = None
        assert await journal.replay_now() == 4
        assert own.events == events
        assert [to_event(record) for record in await journal.find(EVENTS)] == events
    assert own.calls[-1] == "close"


async def test_what_waited_outlives_the_process(tmp_path):
    """A second Journal on the same directory delivers what the first could not."""
    down = ListMemoryStore()
    down.failing = False
    async with Journal(as_store(down), tmp_path, backoff=(1e6, 1e6), timeout=2) as journal:
        assert (await journal.write([Add([to_record(event) for event in said(0, 3)])])).status == "queued"
    store = InMemoryMemoryStore(retention=timedelta(days=1))
    async with Journal(as_store(store), tmp_path) as journal:
        await journal.replay_now()
        assert [event.event_id for event in await store.retrieve()] == ["evt_0", "evt_1", "evt_2"]
