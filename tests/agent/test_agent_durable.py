"""What led to a call is durable before the call is made: a model or a tool may end the process."""

import asyncio

import pytest
from agents import ListStore, agent, call

from octavo import EventStore, EventType
from octavo.wraps.journal import inspect
from warm import programs

ENDING = """
import asyncio, json, os, sys
from octavo import Agent, AgentEvent, BaseMemoryStore, EventStore, MockAdapter


class OwnStore(BaseMemoryStore):  # the seven documented methods, over a file
    async def initialize(self): ...
    async def store(self, event):
        if sys.argv[1] == "own-down":
            raise RuntimeError("the file is gone")
        with open("own.jsonl", "a") as file:
            file.write(event.to_json() + "\\n")
        return True
    async def retrieve(self, **kwargs): return []
    async def clear(self, **kwargs): ...
    async def get_stats(self, **kwargs): return {}
    async def search(self, query, **kwargs): return []
    async def close(self): ...


def end_process():
    os._exit(3)


async def main(where, ends):
    store = OwnStore() if where.startswith("own") else EventStore(where)
    model = MockAdapter(script=[(lambda messages: os._exit(3)) if ends == "model" else MockAdapter.call("end_process")])
    agent = Agent.create(
        name="a", model_adapter=model, tools=[end_process], memory_store=store, journal_path="queue"
    )
    await agent.run("remember me")

asyncio.run(main(*sys.argv[1:]))
"""
BEFORE = {
    "model": ["agent_init", "user_message"],
    "tool": ["agent_init", "user_message", "tool_call_start"],
}
ends = pytest.mark.parametrize("ends", BEFORE)


async def ended(where, ends, folder):
    """Let an agent's process be ended by its model or its tool."""
    child = await asyncio.create_subprocess_exec(
        f"{programs()}/python", "-c", ENDING, where, ends, cwd=folder, stdout=-1, stderr=-1
    )
    _, errors = await child.communicate()
    assert child.returncode == 3, errors.decode()


@ends
@pytest.mark.parametrize("kind", ["file", "sqlite", "postgres", "mysql", "redis"])
async def test_what_led_to_a_call_is_stored_before_it(kind, ends, tmp_path, fresh_url):
    """USER_MESSAGE is in the store before the model is asked, TOOL_CALL_START before the tool runs, all in order."""
    own = {"file": f"file://{tmp_path}/events", "sqlite": f"sqlite:///{tmp_path}/events.db"}
    url = own.get(kind) or fresh_url(kind)
    await ended(url, ends, tmp_path)
    async with EventStore(url) as store:
        events = await store.retrieve(agent_name="a")
    assert [str(event.event_type) for event in events] == BEFORE[ends]
    assert events[1].data["message"] == "remember me"


@ends
@pytest.mark.parametrize(
    "url", ["postgresql://127.0.0.1:9/d", "mysql://127.0.0.1:9/d", "redis://127.0.0.1:9/0"]
)
async def test_what_led_to_a_call_is_queued_before_it(url, ends, tmp_path):
    """While the database is down the same events are on disk, and reach the store that comes back."""
    await ended(url, ends, tmp_path)
    made = agent(
        memory_store=EventStore(f"sqlite:///{tmp_path}/events.db"), journal_path=tmp_path / "queue", name="a"
    )
    await made.record_event(EventType.CUSTOM)
    assert [str(event.event_type) for event in await made.get_memory()] == [*BEFORE[ends], "custom"]
    await made.aclose()
    await made.memory_store.close()


@ends
async def test_what_led_to_a_call_with_a_store_of_a_users_own(ends, tmp_path):
    """A class with the seven documented methods has been called, or else the events are on disk."""
    await ended("own", ends, tmp_path)
    lines = (tmp_path / "own.jsonl").read_text().splitlines()
    assert len(lines) == len(BEFORE[ends])
    await ended("own-down", ends, tmp_path)
    queued = (tmp_path / "queue" / "failed_events.jsonl").read_text()
    assert [queued.count(f'"{kind}"') for kind in BEFORE[ends]] == [1] * len(BEFORE[ends])


class Deaf(ListStore):
    """A store whose write neither ends nor lets itself be cancelled, at least not at first."""

    async def store(self, event):
        try:
            await self.hanging.wait()
        except asyncio.CancelledError:
            await self.hanging.wait()
        return True


async def test_a_store_that_does_not_let_go(tmp_path):
    """The run does not wait for it for ever: its events are queued, and the tool runs."""
    store = Deaf()
    store.hanging = asyncio.Event()
    called = []

    def touch():
        called.append(1)

    made = agent(call("touch"), "done", memory_store=store, journal_path=tmp_path / "queue", tools=[touch])
    made.recorder._timeout = 0.2
    async with asyncio.timeout(30):
        assert (await made.run("go"))["success"] is True
    assert called
    assert inspect(tmp_path / "queue").waiting > 0
    store.hanging.set()
    await made.aclose()


async def test_a_run_cancelled_while_its_call_is_written_down(tmp_path):
    """The tool is not called, and its TOOL_CALL_START is followed by an error."""
    store = ListStore()
    called = []

    def touch():
        called.append(1)

    made = agent(call("touch"), "done", memory_store=store, journal_path=tmp_path / "queue", tools=[touch])
    await made.initialize()
    kept = store.store

    async def store_and_stop(event):
        await kept(event)
        if event.event_type is EventType.TOOL_CALL_START:
            running.cancel()
            await asyncio.sleep(0)
        return True

    store.store = store_and_stop
    running = asyncio.create_task(made.run("go"))
    with pytest.raises(asyncio.CancelledError):
        await running
    await made.aclose()
    assert not called
    assert [event.event_type.name for event in store.events] == [
        "AGENT_INIT", "USER_MESSAGE", "TOOL_CALL_START", "TOOL_CALL_ERROR", "AGENT_ERROR",
    ]  # fmt: skip
