"""The loop around an agent: an observation comes in, the gate decides, memory notes it, the agent answers.

Memory is fail-open here, and nowhere else in the service: whatever goes wrong with it is logged and counted, and the
agent goes on.
"""

import asyncio
import inspect
import logging
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self, TypeAlias

import msgspec

from octavo.errors import ConfigError, OctavoError
from octavo.service.records import (
    GateAction,
    GateResult,
    MessagePayload,
    Observation,
    ObservationType,
    user_of,
)
from octavo.service.service import MemoryService
from octavo.util.user_code import Fixed, call_function, catch_error

log = logging.getLogger("octavo.core")

EVENT_ID = "memory_event_id"


class AgentResult(msgspec.Struct, frozen=True):
    """What an agent answered, for agents that report an error instead of raising it."""

    output: Observation | str | None = None
    error: str | None = None


#: An agent is any function of an observation, sync or async.
Answer: TypeAlias = AgentResult | Observation | str | None
Agent: TypeAlias = Callable[[Observation], Answer | Awaitable[Answer]]
#: A gate is any function from an observation to a decision, sync or async.
Gate: TypeAlias = Callable[[Observation], GateResult | Awaitable[GateResult]]


class Handled(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one observation."""

    gate_result: GateResult
    event_id: str | None = None
    turn_id: str | None = None
    output: Observation | None = None
    error: str | None = None


def deliver_all(_: Observation) -> GateResult:
    """The gate of a core that was given none."""
    return GateResult(GateAction.DELIVER)


class Core:
    """Runs an agent function over observations: in order within a session, side by side between sessions.

    Closing the core closes its memory, the one handed in too, so that what it buffers is flushed; `close_memory=False`
    keeps a memory open that others still use.
    """

    enable_memory: Fixed[bool] = Fixed("assign memory_service another memory, or None")

    def __init__(
        self,
        agent: Agent | None = None,
        *,
        gate: Gate | None = None,
        enable_memory: bool = True,
        memory_config_path: str | Path = "config/memory.yaml",
        memory_service: Any = None,
        memory_timeout_seconds: float = 10.0,
        close_memory: bool = True,
        system_session_key: str = "system",
    ) -> None:
        self.agent = agent
        self.gate = gate or deliver_all
        self.enable_memory = enable_memory
        self.memory_error: Exception | None = None  # why there is no memory, or what last went wrong with it
        self.memory_failures = 0
        self._memory_timeout_seconds = memory_timeout_seconds
        self._close_memory = close_memory
        self._system_session_key = system_session_key
        self._sessions: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._under_way: set[asyncio.Future[Handled]] = set()
        self._closed = False
        self.memory_service = memory_service if enable_memory else None
        if enable_memory and memory_service is None:
            self.memory_service = self._open_service(memory_config_path)

    def _open_service(self, path: str | Path) -> MemoryService | None:
        try:
            return MemoryService.from_config(path)
        except (OctavoError, OSError) as error:
            self.memory_error = error
            cure = "" if isinstance(error, ConfigError) else f"; check {path}"
            log.error("running without memory: %s%s", error, cure)  # noqa: TRY400 - the sentence is the cure, not the trace
            return None

    def submit(self, obs: Observation) -> "asyncio.Task[Handled]":
        """Begin to handle an observation; what came first in a session is handled first."""
        if self._closed:
            raise RuntimeError("this Core was closed; make another")
        task = asyncio.create_task(self._handle(obs))
        self._under_way.add(task)  # the event loop alone would let a task be collected before it is done
        task.add_done_callback(self._under_way.discard)
        return task

    async def handle(self, obs: Observation) -> Handled:
        """Handle one observation from the gate to the end of its turn; an agent that fails is an answer, not an error."""
        return await self.submit(obs)

    async def _handle(self, obs: Observation) -> Handled:
        lock = self._sessions.setdefault(obs.session_key, asyncio.Lock())
        async with lock:
            decision = await self._decide(obs)
            event_id = await self._append_event(obs, decision)
            if decision.action is not GateAction.DELIVER:
                return Handled(gate_result=decision, event_id=event_id)
            turn_id = await self._begin_turn(obs, event_id)
            try:
                answer = await self._answer(obs)
            except asyncio.CancelledError:
                await self._finish_turn(turn_id, AgentResult(error="cancelled"))
                raise
            output = _as_observation(answer.output, obs)
            await self._finish_turn(turn_id, AgentResult(output, answer.error))
            return Handled(
                gate_result=decision, event_id=event_id, turn_id=turn_id, output=output, error=answer.error
            )

    async def close(self) -> None:
        """Let what is under way finish, then close the memory; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        while self._under_way:
            await asyncio.wait(self._under_way)
        if self.memory_service is not None and self._close_memory:
            await self._remember("close", bounded=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _decide(self, obs: Observation) -> GateResult:
        with catch_error() as outcome:
            answer = self.gate(obs)
            decision = await answer if inspect.isawaitable(answer) else answer
            if hasattr(decision, "action"):
                return decision
            raise TypeError(f"a gate answers such as GateResult(GateAction.DELIVER); got {decision!r}")
        log.error("the gate failed on %s", obs.obs_id, exc_info=outcome.error)
        # Noted, so that nothing is lost; not delivered, since nobody said that it may be.
        return GateResult(GateAction.SINK, [f"the gate failed: {outcome.error!r}"])

    async def _answer(self, obs: Observation) -> AgentResult:
        if self.agent is None:
            return AgentResult()
        with catch_error() as outcome:
            answer = await call_function(self.agent, obs)
            return answer if isinstance(answer, AgentResult) else AgentResult(answer)
        log.error("the agent failed on %s", obs.obs_id, exc_info=outcome.error)
        return AgentResult(error=f"{type(outcome.error).__name__}: {outcome.error}")

    async def _append_event(self, obs: Observation, decision: GateResult) -> str | None:
        """Append the observation's event and write its id back, unless this is the system talking to itself."""
        if getattr(obs, "metadata", None) is None:
            obs.metadata = {}
        obs.metadata.pop(EVENT_ID, None)  # an id this memory did not confirm must not begin a turn
        if self.memory_service is None or obs.session_key == self._system_session_key:
            return None
        event = await self._remember("append_event", obs, obs.session_key, gate_result=decision)
        if event is None:
            return None
        obs.metadata[EVENT_ID] = event.event_id
        return str(event.event_id)

    async def _begin_turn(self, obs: Observation, event_id: str | None) -> str | None:
        """Begin a turn, for a message that was remembered."""
        if event_id is None or obs.obs_type != ObservationType.MESSAGE:
            return None
        turn = await self._remember("append_turn", obs.session_key, event_id)
        return None if turn is None else str(turn.turn_id)

    async def _finish_turn(self, turn_id: str | None, answer: AgentResult) -> None:
        if turn_id is None:
            return
        output = answer.output.obs_id if isinstance(answer.output, Observation) else None
        await self._remember(
            "finish_turn",
            turn_id,
            final_output_obs_id=output,
            status="ok" if answer.error is None else "error",
            error=answer.error,
        )

    async def _remember(self, verb: str, *args: Any, bounded: bool = True, **named: Any) -> Any:
        """Call the memory; whatever goes wrong is logged and counted, and the answer is None."""
        with catch_error() as outcome:
            # close() is bounded by itself, and cutting it short could leave something unflushed.
            async with asyncio.timeout(self._memory_timeout_seconds if bounded else None):
                twin = getattr(self.memory_service, f"a{verb}", None)
                if twin is not None:
                    return await twin(*args, **named)
                return await call_function(getattr(self.memory_service, verb), *args, **named)
        self.memory_failures += 1
        self.memory_error = outcome.error
        log.error("memory failed at %s; going on without", verb, exc_info=outcome.error)
        return None


def _as_observation(output: Observation | str | None, asked: Observation) -> Observation | None:
    """The agent's answer, which is of the user who is answered unless it says whose it is."""
    if isinstance(output, Observation) and output.user_id is None and output.session_key == asked.session_key:
        output.user_id = user_of(asked) or ""  # whoever acts in it is the agent, and no user
    if output is None or isinstance(output, Observation):
        return output
    return Observation(
        ObservationType.MESSAGE,
        MessagePayload(text=str(output)),
        source_name="agent",
        session_key=asked.session_key,
        user_id=user_of(asked),
    )
