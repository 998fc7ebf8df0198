"""What an agent lived through, one event at a time; the record each is kept as; and the class to inherit a store from."""

import asyncio
import copy
import functools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Self

import msgspec

from octavo.errors import InvalidQuery, InvalidRecord
from octavo.kernel.ids import new_id, now
from octavo.kernel.model import Record, Scope, to_utc
from octavo.kernel.text import spell

COLLECTION = "events"
#: What a memory store is asked, beside being opened and closed.
VERBS = ("store", "store_many", "retrieve", "clear", "get_stats", "search")


class EventType(StrEnum):
    """What kind of thing happened; a member is its value, a lower-case word, and is found by its NAME too."""

    USER_MESSAGE = "user_message"
    MODEL_RESPONSE = "model_response"
    TOOL_CALL_START = "tool_call_start"
    TOOL_CALL_SUCCESS = "tool_call_success"
    TOOL_CALL_ERROR = "tool_call_error"
    AGENT_INIT = "agent_init"
    AGENT_ERROR = "agent_error"
    MIDDLEWARE_PRE = "middleware_pre"
    MIDDLEWARE_POST = "middleware_post"
    CUSTOM = "custom"

    @classmethod
    def _missing_(cls, value: object) -> "EventType | None":
        return cls.__members__.get(value.upper()) if isinstance(value, str) else None


def event_type_of(value: "EventType | str") -> EventType:
    """The member that a member, a value or a NAME stands for, or InvalidQuery naming those there are."""
    try:
        return EventType(value)
    except ValueError:
        known = ", ".join(EventType)
        raise InvalidQuery(f"unknown event type {value!r}; known: {known}") from None


class EventTime(datetime):
    """A time in UTC that may be compared with a naive one, and that be taken from it: a naive time is local time.

    Programs that ask whether `event.timestamp > datetime.now() - timedelta(hours=1)` have no zones. Equality is Python's:
    an aware time never equals a naive one.
    """

    @classmethod
    def of(cls, at: datetime) -> "EventTime":
        """The same time."""
        return cls.combine(at, at.timetz())

    def __lt__(self, other: Any) -> bool:
        return super().__lt__(_make_aware(other))

    def __le__(self, other: Any) -> bool:
        return super().__le__(_make_aware(other))

    def __gt__(self, other: Any) -> bool:
        return super().__gt__(_make_aware(other))

    def __ge__(self, other: Any) -> bool:
        return super().__ge__(_make_aware(other))

    def __sub__(self, other: Any) -> Any:
        return super().__sub__(_make_aware(other))

    def __rsub__(self, other: Any) -> Any:
        return _make_aware(other) - datetime.combine(self, self.timetz())


def _make_aware(at: Any) -> Any:
    return at.astimezone() if isinstance(at, datetime) and at.tzinfo is None else at


@dataclass
class AgentEvent:
    """One event of an agent's life.

    `timestamp` is always aware and in UTC, so that an event read back equals the one stored: a naive time given here is
    local time, as Python itself takes it, and none is now; it is compared with naive times alike. `event_type` is a member, its value or its NAME; on an event
    read from a store that another program filled it may be a plain string. `user_id` is the user it was recorded for,
    and empty for none.
    """

    event_id: str = field(default_factory=lambda: new_id("evt_"))
    agent_name: str = ""
    session_id: str = ""
    event_type: EventType | str = EventType.CUSTOM
    timestamp: datetime = field(default_factory=now)
    data: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    user_id: str = ""

    def __post_init__(self) -> None:
        try:
            if type(self.event_type) is not EventType:
                self.event_type = event_type_of(self.event_type)
            self.timestamp = EventTime.of(_moment(self.timestamp))
        except ValueError as error:
            raise InvalidRecord(f"event {self.event_id!r}: {error}") from None
        # None is how callers in a hurry say "nothing in particular".
        self.event_id = self.event_id or new_id("evt_")
        self.agent_name = self.agent_name or ""
        self.session_id = self.session_id or ""
        self.user_id = self.user_id or ""
        self.data = {} if self.data is None else self.data
        self.metadata = {} if self.metadata is None else self.metadata

    def to_dict(self) -> dict[str, Any]:
        """The event as a dictionary of JSON values that shares nothing with it, in the documented order; with `user_id` if it has one."""
        fields = {
            "event_id": self.event_id,
            "agent_name": self.agent_name,
            "session_id": self.session_id,
            "event_type": str(self.event_type),
            "timestamp": self.timestamp.isoformat(),
            "data": copy.deepcopy(self.data),
            "metadata": copy.deepcopy(self.metadata),
        }
        return {**fields, "user_id": self.user_id} if self.user_id else fields

    def to_json(self) -> str:
        """The event as one line of JSON, unescaped."""
        return spell(self.to_dict())

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """The event that `to_dict` made this of, which shares nothing with it; a line of a file store is one too."""
        if not isinstance(fields, Mapping):
            raise InvalidRecord(f"an event is told as a dict; got {fields!r}"[:300])
        if "event_type" not in fields:
            raise InvalidRecord(f"no event_type in the event {fields.get('event_id')!r}")
        _refuse_unknown([name for name in fields if name not in _OF_A_LINE])
        given = {name: copy.deepcopy(fields[name]) for name in _NAMES if fields.get(name) is not None}
        return cls(**{**given, "event_type": fields["event_type"]})

    @classmethod
    def from_json(cls, line: str | bytes) -> Self:
        """The event that `to_json` made this line of."""
        try:
            return cls.from_dict(msgspec.json.decode(line, type=dict[str, Any]))
        except msgspec.DecodeError as error:
            raise InvalidRecord(f"not an event as JSON: {error}") from None


_NAMES = tuple(AgentEvent.__dataclass_fields__)
#: What a line of a file store says beside: its place in the order, and what other faces write into records.
_OF_A_LINE = frozenset(("seq", "tenant", "text", "marks", "updated_at", "expires_at"))


def _refuse_unknown(names: Iterable[str]) -> None:
    if unknown := [name for name in names if name not in _NAMES]:
        raise InvalidRecord(f"an event has no {unknown[0]!r}; put it into data or metadata")


def _moment(at: datetime | str | None) -> datetime:
    if at is None:
        return now()
    try:
        return to_utc(datetime.fromisoformat(at) if isinstance(at, str) else at)
    except (AttributeError, OverflowError, ValueError) as error:
        raise ValueError(f"timestamp is no usable time: {at!r} ({error})") from None


def as_event(event: Any) -> AgentEvent:
    """An event of another program's class, such as LightAgent's, as one of Octavo's; a field it has beside is refused."""
    if isinstance(event, AgentEvent):
        return event
    fields = getattr(event, "__dict__", {})
    if "event_type" not in fields:
        raise InvalidRecord(f"an event is an AgentEvent, or has its fields; got {event!r}"[:300])
    _refuse_unknown(name for name in fields if not name.startswith("_"))
    return AgentEvent(**{name: fields[name] for name in _NAMES if name in fields})


def to_record(event: AgentEvent, tenant: str = "") -> Record:
    """The record an event is kept as. It has no text of its own: a search looks through the values of `data`."""
    event = as_event(event)
    at = event.timestamp
    return Record(
        collection=COLLECTION,
        id=event.event_id,
        kind=str(event.event_type),
        scope=Scope(
            tenant=tenant,
            user=event.user_id or None,
            agent=event.agent_name or None,
            session=event.session_id or None,
        ),
        data=event.data,
        metadata=event.metadata,
        created_at=datetime.combine(at, at.timetz()) if isinstance(at, EventTime) else to_utc(at),
    )


_members: dict[str, EventType] = {member.value: member for member in EventType}


def to_event(record: Record) -> AgentEvent:
    """The event a record keeps; a kind that is no event type stays the word it is."""
    event = AgentEvent.__new__(AgentEvent)  # what was stored has been checked, and every read comes here
    event.event_id = record.id
    event.agent_name = record.scope.agent or ""
    event.session_id = record.scope.session or ""
    event.user_id = record.scope.user or ""
    event.event_type = _members.get(record.kind, record.kind)
    event.timestamp = EventTime.of(record.created_at)
    event.data = record.data
    event.metadata = record.metadata
    return event


class TypeCounts(dict[str, int]):
    """How many events there are of each type: a plain dictionary that also answers to members and NAMES.

    A type with no events counts 0; a word that is no type is a KeyError.
    """

    def __missing__(self, key: object) -> int:
        if not (value := _value(key)):
            raise KeyError(key)
        return super().get(value, 0)

    def get(self, key: Any, default: Any = None) -> Any:
        """The count of a type that has events, by member, value or NAME."""
        return super().get(key, super().get(_value(key), default))

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or super().__contains__(_value(key))


def _value(key: Any) -> str:
    """The value a member, a value or a NAME stands for; nothing for any other word."""
    try:
        return EventType(key).value
    except ValueError:
        return ""


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
        for name in ("initialize", "close", *VERBS):
            # Looked up rather than taken from the class's own: a method may come from a mixin beside this class.
            method = getattr(cls, name)
            if method is not getattr(BaseMemoryStore, name) and not hasattr(method, "_opens"):
                setattr(cls, name, _open_first(name, method))

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


def _open_first(name: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A method of a store as callers have it: `initialize` runs once, before the first use, and anew after `close`."""

    @functools.wraps(method)
    async def call(self: BaseMemoryStore, *args: Any, **named: Any) -> Any:
        # Made here and not in __init__, which a subclass may not call.
        life: _Life = self.__dict__.setdefault("_life", _Life())
        if life in _opening.get():  # from within `initialize`, its own super() among others
            return await method(self, *args, **named)
        if name == "initialize":
            async with life.gate:
                if not life.opened:
                    token = _opening.set((*_opening.get(), life))
                    try:
                        await method(self, *args, **named)
                    finally:
                        _opening.reset(token)
                    life.opened = True
            return None
        if name != "close" and not life.opened:
            await self.initialize()
        answer = await method(self, *args, **named)
        life.opened = life.opened and name != "close"
        return answer

    call._opens = True  # type: ignore[attr-defined] # noqa: SLF001 - so that it is wrapped once
    return call
