"""The agent: it answers messages with a model and tools, and records its own life as events."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Self

from octavo.agent.adapters import ModelAdapter
from octavo.agent.recording import Recorder, queue_directory
from octavo.agent.tools import AgentContext, Tool, check_name, tools_by_name
from octavo.agent.turn import Layer, Result, Turn
from octavo.errors import ConfigError, InvalidRecord
from octavo.events import AgentEvent, BaseMemoryStore, EventType, InMemoryMemoryStore, TypeCounts
from octavo.kernel.model import check_count
from octavo.util.user_code import Attempt, Checked, Fixed, attempt

_log = logging.getLogger("octavo.agent")
_MOST_SESSIONS = 1000  # conversations held in memory; others are read back when they go on
_RESUMED = 200  # events of a session that are read to go on with it
_RESUME_SECONDS = 5.0
_OPEN_SECONDS = 10.0  # that `initialize` waits for the store; it goes on opening after that

# The conversation that the code running now belongs to: a tool's own events go where the tool was called.
_running: ContextVar[tuple["Agent", AgentContext] | None] = ContextVar("octavo_agent_running", default=None)


def _adapter(given: Any) -> ModelAdapter:
    if not callable(getattr(given, "complete", None)):
        raise ConfigError(f"model_adapter must have a method `complete`, as MockAdapter has; got {given!r}")
    adapter: ModelAdapter = given
    return adapter


class Agent:
    """A model with tools and middlewares that remembers what happened to it. Make one with `Agent.create`.

    `context` is the current conversation; `run` takes another one by `session_id` or `user_id`. The agent's own `user_id`
    is that of every conversation that names no other; each event carries the user of its conversation. A memory store or
    adapter handed in is used, and stays open; `async with` (or `aclose`) sees that all events are stored or queued.
    """

    model_adapter = Checked(_adapter)
    tools = Checked(tools_by_name)
    max_iterations = Checked(
        lambda most: check_count(most, "max_iterations must be 1 or more", ConfigError, 1)
    )
    memory_store: Fixed[BaseMemoryStore | None] = Fixed("make another agent for another store")
    enable_memory: Fixed[bool] = Fixed("make another agent")

    def __init__(
        self,
        name: str,
        model_adapter: ModelAdapter,
        system_prompt: str | None = None,
        tools: Iterable[Callable[..., Any] | Tool] | None = None,
        middlewares: Iterable[Any] | None = None,
        memory_store: BaseMemoryStore | None = None,
        max_iterations: int = 10,
        enable_memory: bool = True,
        *,
        journal_path: str | Path | None = None,
        user_id: str | None = None,
    ) -> None:
        try:
            self.name = check_name("name", name)
            self.user_id = None if user_id is None else check_name("user_id", user_id)
        except InvalidRecord as error:
            raise ConfigError(f"an agent needs a usable name: {error}") from None
        if memory_store is not None and not isinstance(memory_store, BaseMemoryStore):
            raise ConfigError(f"memory_store must be a BaseMemoryStore; got {memory_store!r}")
        if not isinstance(system_prompt, str | None):
            raise ConfigError(f"system_prompt is a text; got {system_prompt!r}")
        self.model_adapter = model_adapter
        self.system_prompt = system_prompt
        self.max_iterations = max_iterations
        self.enable_memory = enable_memory
        self.tools = tools
        self.middlewares = middlewares
        self._own_store = memory_store is None and enable_memory
        self.memory_store = InMemoryMemoryStore() if self._own_store else memory_store
        self.recorder: Recorder | None = None
        if enable_memory and self.memory_store is not None:
            given = Path(journal_path) if journal_path is not None else None
            self.recorder = Recorder(
                self.memory_store, given or queue_directory(self.memory_store, self.name)
            )
        self.context = AgentContext(user_id=self.user_id)
        self._sessions: OrderedDict[str, AgentContext] = OrderedDict({self.context.session_id: self.context})
        self._unread: set[str] = set()  # sessions whose earlier words are still only in the store
        self._initialized = False
        self._opening: asyncio.Task[Attempt[None]] | None = None

    @classmethod
    def create(
        cls,
        name: str,
        model_adapter: ModelAdapter,
        system_prompt: str | None = None,
        tools: Iterable[Callable[..., Any] | Tool] | None = None,
        middlewares: Iterable[Any] | None = None,
        memory_store: BaseMemoryStore | None = None,
        max_iterations: int = 10,
        enable_memory: bool = True,
        *,
        journal_path: str | Path | None = None,
        user_id: str | None = None,
    ) -> Self:
        """An agent. Its events go to `memory_store` (in memory, when there is none); `enable_memory=False` records nothing.

        While the store cannot be reached, events wait in the folder `journal_path`; by default that is beside the store.
        An agent that works for one person has that person's `user_id`.
        """
        return cls(
            name, model_adapter, system_prompt, tools, middlewares, memory_store, max_iterations, enable_memory,
            journal_path=journal_path, user_id=user_id,
        )  # fmt: skip

    @property
    def middlewares(self) -> Iterable[Any]:
        """What sees messages before the model does, and responses after; assigning others counts from the next run on."""
        return [layer.middleware for layer in self._layers]

    @middlewares.setter
    def middlewares(self, middlewares: Iterable[Any] | None) -> None:
        if not isinstance(middlewares, Iterable | None):
            raise ConfigError(f"middlewares are a list of them; got {middlewares!r}")
        self._layers = [Layer(middleware) for middleware in middlewares or ()]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, session_id={self.context.session_id!r})"

    async def initialize(self) -> None:
        """Open the memory and record AGENT_INIT. A store that is down does not matter; one that cannot work is ConfigError."""
        self._initialized = True
        if self.recorder is None or self.memory_store is None:
            return
        opening = self._open(self.memory_store)
        await asyncio.wait([opening], timeout=_OPEN_SECONDS)
        error = opening.result().error if opening.done() else None
        if isinstance(error, ConfigError):
            raise error
        self._note_init(self.context)
        await self.recorder.flush()

    async def run(self, message: str, *, session_id: str | None = None, user_id: str | None = None) -> Result:
        """Answer a message: `{"response", "tool_calls", "iterations", "success"}`, and "error" when it did not succeed.

        In the current conversation, unless one is named: `session_id` names it, `user_id` alone means that user's own.
        """
        if not isinstance(message, str):
            raise TypeError(f"run takes a text; got {type(message).__name__}")
        # Chosen before anything is awaited: reset_context() in another task must not move this run.
        context = self._conversation(session_id, user_id)
        if not self._initialized:
            self._initialized = True
            if self.recorder is not None and self.memory_store is not None:
                self._open(self.memory_store)
                self._note_init(context)
        if context.session_id in self._unread:
            await self._resume(context)
        # The same for every event of the run, also if the conversation changes hands while it lasts.
        user_id = context.user_id
        about = {} if user_id is None else {"user_id": user_id}

        def note(kind: EventType, data: dict[str, Any], more: dict[str, Any] | None = None) -> None:
            self._note(context.session_id, kind, data, {**about, **(more or {})}, user_id)

        token = _running.set((self, context))
        try:
            result = await Turn(
                adapter=self.model_adapter,
                context=context,
                system_prompt=self.system_prompt,
                tools=self.tools,
                layers=self._layers,
                max_iterations=self.max_iterations,
                note=note,
                flush=self._flush,
            ).run(message)
        finally:
            _running.reset(token)
        await self._flush()  # whoever is answered may rely on the record
        return result

    def reset_context(self, session_id: str | None = None) -> AgentContext:
        """Begin a new conversation, or go on with the one named; runs that are under way stay where they are."""
        self.context = (
            self._session(session_id, None)
            if session_id is not None
            else self._hold(AgentContext(user_id=self.user_id))
        )
        return self.context

    async def record_event(
        self,
        event_type: EventType | str,
        data: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        *,
        session_id: str | None = None,
        **more: Any,
    ) -> AgentEvent | None:
        """Record an event of your own; further keywords are further data. Inside a tool it belongs to the tool's session.

        Answers the event once it is stored or queued, or None when memory is off.
        """
        for name, given in (("data", data), ("metadata", metadata)):
            if not isinstance(given, Mapping | None):
                raise TypeError(f"the {name} of an event is a dict; got {given!r:.80}")
        if self.recorder is None:
            return None
        running = _running.get()
        context = running[1] if running is not None and running[0] is self else self.context
        user_id = context.user_id
        if session_id is not None and session_id != context.session_id:
            other = self._sessions.get(check_name("session_id", session_id))
            user_id = self.user_id if other is None else other.user_id
        session = context.session_id if session_id is None else session_id
        event = self._note(session, event_type, {**(data or {}), **more}, dict(metadata or {}), user_id)
        await self.recorder.flush()
        return event

    _record_event = record_event  # the name that was documented first

    async def get_memory(
        self,
        event_type: EventType | str | None = None,
        limit: int = 100,
        session_id: str | None = None,
    ) -> list[AgentEvent]:
        """The newest `limit` events of this agent, oldest first, of all sessions unless one is named."""
        filters = {"event_type": event_type, "session_id": session_id}
        return await self._ask("retrieve", filters, limit=limit) or []

    async def search_memory(
        self, query: str, limit: int = 10, session_id: str | None = None
    ) -> list[AgentEvent]:
        """Events of this agent whose data hold the words, caselessly, newest first."""
        return await self._ask("search", {"session_id": session_id}, query, limit=limit) or []

    async def get_memory_stats(self, session_id: str | None = None) -> dict[str, Any]:
        """How many events of this agent there are, by type, and the times of the first and the last."""
        none = {"total_events": 0, "by_type": TypeCounts(), "first_event": None, "last_event": None}
        return none if self.memory_store is None else await self._ask("get_stats", {"session_id": session_id})

    async def clear_memory(self, session_id: str | None = None) -> int:
        """Forget this agent's events, all of them unless a session is named; answer how many that were."""
        return await self._ask("clear", {"session_id": session_id}) or 0

    async def aclose(self) -> None:
        """Store or queue every event that was recorded; what was handed in stays open. A second call does nothing."""
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
        if self.recorder is not None:
            await self.recorder.close()
        if self._own_store and self.memory_store is not None:
            await self.memory_store.close()

    async def __aenter__(self) -> Self:
        await self.initialize()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def _open(self, store: BaseMemoryStore) -> "asyncio.Task[Attempt[None]]":
        """Open the store in a task of its own: a write that gives up waiting must not end the opening it waits for."""
        self._opening = asyncio.get_running_loop().create_task(attempt(store.initialize()))
        return self._opening

    async def _ask(self, verb: str, filters: dict[str, Any], *args: Any, **named: Any) -> Any:
        """What the store answers about this agent, once it holds all that was recorded; None when there is no store.

        Only filters that were given are handed on: a store written by a user may not take the others.
        """
        if self.recorder is not None:
            await self.recorder.wait_until_stored()
        if self.memory_store is None:
            return None
        given = {name: value for name, value in filters.items() if value is not None}
        return await getattr(self.memory_store, verb)(*args, agent_name=self.name, **named, **given)

    def _conversation(self, session_id: str | None, user_id: str | None) -> AgentContext:
        if session_id is None and user_id is None:
            return self.context
        if user_id is not None:
            check_name("user_id", user_id)
        return self._session(f"user-{user_id}" if session_id is None else session_id, user_id)

    def _session(self, session_id: str, user_id: str | None) -> AgentContext:
        context = self._sessions.get(session_id)
        if context is None:
            context = self._hold(AgentContext(session_id=session_id, user_id=user_id or self.user_id))
            if self.memory_store is not None:
                self._unread.add(session_id)
        self._sessions.move_to_end(session_id)
        if user_id is not None and context.user_id not in (None, user_id):
            raise InvalidRecord(
                f"session {session_id!r} belongs to user {context.user_id!r}, not to {user_id!r}"
            )
        context.user_id = context.user_id if user_id is None else user_id
        return context

    def _hold(self, context: AgentContext) -> AgentContext:
        self._sessions[context.session_id] = context
        while len(self._sessions) > _MOST_SESSIONS:
            oldest = next(iter(self._sessions))
            if oldest == self.context.session_id:
                self._sessions.move_to_end(oldest)
                continue
            del self._sessions[oldest]
            self._unread.discard(oldest)
        return context

    async def _resume(self, context: AgentContext) -> None:
        """Put what was said in this session before, by this or an earlier process, in front of what is said now.

        While the store is away the session goes on without; the next message asks again.
        """
        if self.recorder is not None and self.recorder.away:
            return

        async def read() -> list[AgentEvent]:
            async with asyncio.timeout(_RESUME_SECONDS):
                return await self.get_memory(limit=_RESUMED, session_id=context.session_id)

        events, error = await attempt(read())
        if error is not None:
            _log.warning("session %r goes on without its past: %s", context.session_id, error)
        elif context.session_id in self._unread:  # or another run of the session was quicker
            self._unread.discard(context.session_id)
            # What was said since is in the conversation already.
            before = [event for event in events or () if event.timestamp < context.created_at]
            context.messages[:0] = _dialogue(before, context.user_id)

    def _note_init(self, context: AgentContext) -> None:
        data = {
            "model": getattr(getattr(self.model_adapter, "config", None), "model_name", ""),
            "tools": list(self.tools),
            "middlewares": [layer.name for layer in self._layers],
            "max_iterations": self.max_iterations,
        }
        self._note(context.session_id, EventType.AGENT_INIT, data, {}, context.user_id)

    async def _flush(self) -> None:
        """Wait until all that was noted is stored or queued on disk, or has been tried."""
        if self.recorder is not None:
            await self.recorder.flush()

    def _note(
        self,
        session_id: str,
        event_type: EventType | str,
        data: dict[str, Any],
        metadata: dict[str, Any],
        user_id: str | None,
    ) -> AgentEvent:
        """Have an event of this agent written soon, if memory is on."""
        event = AgentEvent(
            agent_name=self.name,
            session_id=session_id,
            event_type=event_type,
            data=data,
            metadata=metadata,
            user_id=user_id or "",
        )
        if self.recorder is not None:
            self.recorder.note(event)
        return event


def _dialogue(events: Sequence[AgentEvent], user_id: str | None) -> list[dict[str, Any]]:
    """What was said and answered, from the events that recorded it; a question that got no answer is left out."""
    said: list[dict[str, Any]] = []
    question: str | None = None
    for event in events:
        if event.metadata.get("user_id") != user_id:
            continue
        if event.event_type == EventType.USER_MESSAGE:
            question = event.data.get("message")
        elif (
            event.event_type == EventType.MODEL_RESPONSE
            and question is not None
            and event.data.get("success")
        ):
            said.append({"role": "user", "content": question})
            said.append({"role": "assistant", "content": event.data.get("response") or ""})
            question = None
    return said
