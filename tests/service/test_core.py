"""The wiring of an agent to its memory, branch by branch, and that no failure of memory stops the agent."""

import asyncio
import logging
import threading
import types

import pytest

from octavo import ConfigError, StoreUnavailable
from octavo.service import (
    AgentResult,
    AlertPayload,
    Core,
    GateAction,
    GateResult,
    MemoryService,
    Observation,
    ObservationType,
)
from serving import SETTLED, said


class Notebook:
    """A memory that blocks, as the seed's own does: it writes down every call, and fails where it is told to."""

    def __init__(self, failing=()):
        self.failing = set(failing)
        self.calls = []
        self.closed = 0

    def _note(self, verb, *args):
        self.calls.append((verb, *args))
        if verb in self.failing:
            raise StoreUnavailable(f"{verb} failed")

    def append_event(self, obs, session_key, gate_result=None, meta=None):
        self._note("append_event", obs.obs_id, session_key, gate_result)
        return types.SimpleNamespace(event_id=f"evt of {obs.obs_id}")

    def append_turn(self, session_key, input_event_id, plan=None, meta=None):
        self._note("append_turn", session_key, input_event_id)
        return types.SimpleNamespace(turn_id=f"turn of {input_event_id}")

    def finish_turn(self, turn_id, final_output_obs_id=None, status="ok", error=None):
        self._note("finish_turn", turn_id, final_output_obs_id, status, error)

    def close(self):
        self.closed += 1
        self._note("close")

    def verbs(self):
        return [verb for verb, *_ in self.calls]


def decides(action):
    return lambda _: GateResult(action, ["a test says so"])


async def test_a_message_end_to_end():
    """Gate, event, turn, agent, end of turn: in this order, and the ids hang together."""
    notebook, order = Notebook(), []

    async def agent(obs):
        order.append(list(notebook.verbs()))
        assert obs.metadata["memory_event_id"] == f"evt of {obs.obs_id}"
        return f"you said {obs.payload.text}"

    gate = decides(GateAction.DELIVER)
    async with Core(agent, gate=gate, memory_service=notebook) as core:
        obs = said("hello")
        handled = await core.handle(obs)
    assert order == [["append_event", "append_turn"]]
    assert handled.output.payload.text == "you said hello"
    assert handled.output.session_key == obs.session_key
    event, turn = f"evt of {obs.obs_id}", f"turn of evt of {obs.obs_id}"
    assert (handled.event_id, handled.turn_id, handled.error) == (event, turn, None)
    assert notebook.calls == [
        ("append_event", obs.obs_id, obs.session_key, gate(obs)),
        ("append_turn", obs.session_key, event),
        ("finish_turn", turn, handled.output.obs_id, "ok", None),
        ("close",),
    ]


@pytest.mark.parametrize("action", GateAction)
@pytest.mark.parametrize("obs_type", ObservationType)
async def test_only_delivered_messages_are_turns(action, obs_type):
    """Every observation is an event, whatever the gate says; the agent gets what is delivered; messages are turns."""
    notebook, heard = Notebook(), []
    obs = Observation(obs_type, AlertPayload(message="x"), session_key="room")
    async with Core(heard.append, gate=decides(action), memory_service=notebook) as core:
        handled = await core.handle(obs)
    delivered = action is GateAction.DELIVER
    is_turn = delivered and obs_type is ObservationType.MESSAGE
    assert heard == ([obs] if delivered else [])
    assert notebook.verbs() == ["append_event", *["append_turn", "finish_turn"] * is_turn, "close"]
    assert obs.metadata == {"memory_event_id": f"evt of {obs.obs_id}"}
    assert (handled.turn_id is not None) is is_turn


async def test_the_system_session_is_not_remembered():
    """What the system says to itself is handled, and leaves no event and no turn."""
    notebook, heard = Notebook(), []
    async with Core(heard.append, memory_service=notebook) as core:
        handled = await core.handle(said("tick", session="system"))
    assert len(heard) == 1
    assert handled.event_id is None
    assert notebook.verbs() == ["close"]


@pytest.mark.parametrize("failing", ["append_event", "append_turn", "finish_turn", "close"])
async def test_memory_that_fails(failing, caplog):
    """Each verb of memory may fail: the agent is called and answers all the same, and the failure is told and counted."""
    notebook = Notebook({failing})
    async with Core(lambda obs: "answer", memory_service=notebook) as core:
        obs = said("hello")
        handled = await core.handle(obs)
    assert handled.output.payload.text == "answer"
    assert handled.error is None
    assert core.memory_failures == 1
    assert str(core.memory_error) == f"{failing} failed"
    assert failing in caplog.text
    if failing == "append_event":  # no event, so no turn, and no id to be mistaken for one
        assert notebook.verbs() == ["append_event", "close"]
        assert "memory_event_id" not in obs.metadata
    if failing == "append_turn":
        assert notebook.verbs() == ["append_event", "append_turn", "close"]


async def test_an_id_of_another_life():
    """An event id that came with the observation is not trusted when its event could not be written."""
    notebook = Notebook({"append_event"})
    obs = said("again", metadata={"memory_event_id": "evt_of_yesterday", "mine": 1})
    async with Core(lambda obs: "answer", memory_service=notebook) as core:
        handled = await core.handle(obs)
    assert handled.turn_id is None
    assert obs.metadata == {"mine": 1}


async def test_agents_that_fail():
    """An agent that raises, and one that reports an error, end their turns with it; the next message is handled."""
    notebook = Notebook()

    async def agent(obs):
        if obs.payload.text == "raise":
            raise ZeroDivisionError("by zero")
        if obs.payload.text == "report":
            return AgentResult("half an answer", error="ran out of tokens")
        return "fine"

    async with Core(agent, memory_service=notebook) as core:
        raised, reported, fine = [await core.handle(said(text)) for text in ("raise", "report", "go on")]
    assert (raised.output, raised.error) == (None, "ZeroDivisionError: by zero")
    assert (reported.output.payload.text, reported.error) == ("half an answer", "ran out of tokens")
    assert (fine.output.payload.text, fine.error) == ("fine", None)
    ends = [call[2:] for call in notebook.calls if call[0] == "finish_turn"]
    assert ends == [
        (None, "error", "ZeroDivisionError: by zero"),
        (reported.output.obs_id, "error", "ran out of tokens"),
        (fine.output.obs_id, "ok", None),
    ]


async def test_a_gate_that_fails():
    """What the gate fails on is noted with the reason, and not delivered."""
    notebook, heard = Notebook(), []

    def gate(obs):
        raise KeyError("no rule")

    async with Core(heard.append, gate=gate, memory_service=notebook) as core:
        handled = await core.handle(said("hello"))
    assert heard == []
    assert handled.gate_result.action is GateAction.SINK
    assert "no rule" in handled.gate_result.reasons[0]
    assert notebook.verbs() == ["append_event", "close"]


@pytest.mark.parametrize("answer", [None, "deliver"])
async def test_a_gate_that_answers_no_decision(answer):
    """It is a gate that fails, not an error of whoever handed over the observation; no gate at all lets all through."""
    notebook, heard = Notebook(), []
    async with Core(heard.append, gate=lambda _: answer, memory_service=notebook, close_memory=False) as core:
        handled = await core.handle(said("hello"))
    assert (heard, handled.gate_result.action) == ([], GateAction.SINK)
    assert f"got {answer!r}" in handled.gate_result.reasons[0]
    async with Core(heard.append, gate=None, memory_service=notebook) as core:
        assert (await core.handle(said("hello"))).gate_result.action is GateAction.DELIVER
    assert len(heard) == 1


async def test_a_cancelled_agent():
    """A turn whose handling is cancelled ends as an error, and the cancelling goes through."""
    notebook, begun = Notebook(), asyncio.Event()

    async def agent(obs):
        begun.set()
        await asyncio.Event().wait()

    async with Core(agent, memory_service=notebook) as core, asyncio.timeout(SETTLED):
        task = core.submit(said("hello"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [call[3:] for call in notebook.calls if call[0] == "finish_turn"] == [("error", "cancelled")]


async def test_memory_that_hangs():
    """A memory that never answers costs its time-out, not the agent."""
    stuck = threading.Event()

    class Stuck(Notebook):
        def append_event(self, obs, session_key, gate_result=None, meta=None):
            stuck.wait(SETTLED)

    try:
        core = Core(lambda obs: "answer", memory_service=Stuck(), memory_timeout_seconds=0.01)
        async with asyncio.timeout(SETTLED):
            handled = await core.handle(said("hello"))
        assert handled.output.payload.text == "answer"
        assert isinstance(core.memory_error, TimeoutError)
    finally:
        stuck.set()


async def test_sessions():
    """Within a session one after the other, in the order they came; between sessions side by side."""
    under_way, done = [], []
    release = {"slow": asyncio.Event()}

    async def agent(obs):
        under_way.append((obs.session_key, obs.payload.text))
        if obs.session_key in release:
            await release[obs.session_key].wait()
        done.append((obs.session_key, obs.payload.text))

    async with asyncio.timeout(SETTLED):
        core = Core(agent, enable_memory=False)
        slow = [core.submit(said(str(n), session="slow")) for n in range(3)]
        quick = [core.submit(said(str(n), session="quick")) for n in range(3)]
        await asyncio.gather(*quick)
        assert under_way.count(("slow", "0")) == 1
        assert ("slow", "1") not in under_way
        assert done == [("quick", "0"), ("quick", "1"), ("quick", "2")]
        release["slow"].set()
        await core.close()
        assert all(task.done() for task in slow)
    assert done[3:] == [("slow", "0"), ("slow", "1"), ("slow", "2")]
    with pytest.raises(RuntimeError, match="closed"):
        await core.handle(said("late"))


async def test_memory_off():
    """`enable_memory=False` opens nothing, whatever else is given."""
    core = Core(lambda obs: "answer", enable_memory=False, memory_config_path="nowhere.yaml")
    handled = await core.handle(said("hello"))
    assert (handled.event_id, handled.turn_id) == (None, None)
    assert handled.output.payload.text == "answer"
    assert core.memory_service is None
    assert core.memory_error is None
    await core.close()
    await core.close()


@pytest.mark.parametrize("text", [None, "database: [", "database:\n  dns: sqlite:///x.db\n"])
async def test_a_configuration_that_cannot_be_read(text, tmp_path, caplog):
    """Without a configuration the core says so, with the cure, and runs without memory: nothing is kept in secret."""
    path = tmp_path / "memory.yaml"
    if text is not None:
        path.write_text(text)
    with caplog.at_level(logging.ERROR, "octavo.core"):
        core = Core(lambda obs: "answer", memory_config_path=path)
    assert isinstance(core.memory_error, ConfigError)
    assert str(path) in str(core.memory_error)
    assert str(path) in caplog.text
    assert core.memory_service is None
    handled = await core.handle(said("hello"))
    assert handled.output.payload.text == "answer"
    assert "memory_event_id" not in handled.output.metadata
    await core.close()


async def test_a_memory_that_stays_open():
    """The core closes its memory, unless it is told that others still use it."""
    closed, kept = Notebook(), Notebook()
    await Core(memory_service=closed).close()
    await Core(memory_service=kept, close_memory=False).close()
    assert (closed.closed, kept.closed) == (1, 0)


async def test_the_default_memory(tmp_path, monkeypatch):
    """A core with nothing but an agent opens the memory of config/memory.yaml, and what was said is there afterwards."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "memory.yaml").write_text("service:\n  tenant: acme\n")
    async with Core(lambda obs: "answer") as core:
        handled = await core.handle(said("hello"))
    assert core.memory_failures == 0, core.memory_error
    with MemoryService.from_config() as memory:
        [event] = memory.get_recent_events("dm:alice")
        [turn] = memory.get_recent_turns("dm:alice")
    assert (event.event_id, turn.turn_id) == (handled.event_id, handled.turn_id)
    assert (turn.status, turn.final_output_obs_id) == ("ok", handled.output.obs_id)
    assert (tmp_path / "octavo.db").exists()
