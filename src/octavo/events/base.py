"""The extension point: seven methods make a memory store, and the rest follows from them."""

import asyncio
import functools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import Any, ClassVar, Self

from octavo.events.records import AgentEvent, EventType

#: What a memory store is asked, beside being opened and closed.
VERBS = ("store", "store_many", "retrieve", "clear", "get_stats", "search")


class BaseMemoryStore(ABC):
    """Where an agent's events are kept.

    A subclass writes the seven abstract methods and nothing else. `initialize` then runs once, before the first use
    (again after a failure, or after `close`), however many tasks come first; `store_many` and `async with` are here.
    `super().__init__` need not be called. A `store` that returns nothing is taken to have kept the event: only False
    says that it was not.
    """

    #: Set by stores that open themselves on first use and need none of the above.
    opens_itself: ClassVar[bool] = False
    #: Whose events these are, in a database that several deployments share.
    tenant: str = ""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.config: dict[str, Any] = dict(config or {})

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if cls.opens_itself:
            return
        around: dict[str, Callable[[Callable[..., Awaitable[Any]]], Callable[..., Awaitable[Any]]]] = {
            **dict.fromkeys(VERBS, _after_opening),
            "initialize": _once,
            "close": _and_forgotten,
        }
        for name, wrapped in around.items():
            # Looked up rather than taken from the class's own: a method may come from a mixin beside this class.
            method = getattr(cls, name)
            if method is not getattr(BaseMemoryStore, name) and not hasattr(method, "_wrapped"):
                made = wrapped(method)
                made._wrapped = True  # type: ignore[attr-defined] # noqa: SLF001
                setattr(cls, name, made)

    @abstractmethod
    async def initialize(self) -> None:
        """Connect and prepare; called again, it does nothing."""

    @abstractmethod
    async def store(self, event: AgentEvent) -> bool:
        """Keep an event; False when it was not kept."""

    @abstractmethod
    async def retrieve(
        self,
        agent_name: str | None = None,
        session_id: str | None = None,
        event_type: EventType | str | None = None,
        limit: int | None = 100,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
    ) -> list[AgentEvent]:
        """The newest `limit` events that all filters name, oldest first; times are `[start_time, end_time)`."""

    @abstractmethod
    async def clear(
        self,
        agent_name: str | None = None,
        session_id: str | None = None,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
    ) -> int:
        """Remove exactly what all filters name, everything when there are none; answer how many that were."""

    @abstractmethod
    async def get_stats(self, agent_name: str | None = None, session_id: str | None = None) -> dict[str, Any]:
        """`total_events`, `by_type`, `first_event` and `last_event`."""

    @abstractmethod
    async def search(
        self, query: str, agent_name: str | None = None, session_id: str | None = None, limit: int | None = 10
    ) -> list[AgentEvent]:
        """Events whose data hold the query, caselessly, newest first."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of the backend; called again, it does nothing."""

    async def store_many(self, events: Sequence[AgentEvent]) -> int:
        """Keep events in order; answer how many were kept."""
        kept = 0
        for event in events:
            kept += await self.store(event) is not False
        return kept

    async def __aenter__(self) -> Self:
        await self.initialize()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


class _Life:
    """Whether a store is open; one task opens it, and others wait."""

    def __init__(self) -> None:
        self.opened = False
        self.gate = asyncio.Lock()


# Whose `initialize` the code now running was called from: tasks it starts inherit that, and must not wait for it.
_opening: ContextVar[tuple[_Life, ...]] = ContextVar("_opening", default=())


def _life(store: BaseMemoryStore) -> _Life:
    # Made here and not in __init__, which a subclass may not call.
    life = store.__dict__.get("_life")
    if not isinstance(life, _Life):
        life = store.__dict__["_life"] = _Life()
    return life


def _once(initialize: Callable[[Any], Awaitable[None]]) -> Callable[[Any], Awaitable[None]]:
    @functools.wraps(initialize)
    async def once(self: BaseMemoryStore) -> None:
        life = _life(self)
        if life in _opening.get():  # super().initialize()
            await initialize(self)
            return
        async with life.gate:
            if not life.opened:
                token = _opening.set((*_opening.get(), life))
                try:
                    await initialize(self)
                finally:
                    _opening.reset(token)
                life.opened = True

    return once


def _after_opening(verb: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(verb)
    async def after_opening(self: BaseMemoryStore, *args: Any, **named: Any) -> Any:
        life = _life(self)
        if not life.opened and life not in _opening.get():
            await self.initialize()
        return await verb(self, *args, **named)

    return after_opening


def _and_forgotten(close: Callable[[Any], Awaitable[None]]) -> Callable[[Any], Awaitable[None]]:
    @functools.wraps(close)
    async def and_forgotten(self: BaseMemoryStore) -> None:
        await close(self)
        _life(self).opened = False

    return and_forgotten
