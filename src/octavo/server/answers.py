"""What the server answers: structs that are written to JSON as they are, and examples of them for the OpenAPI document.

Those that the client reads as they are written here are in `octavo.client.answers`: one spelling of both.
"""

from datetime import UTC, datetime
from typing import Any, Literal, TypeVar, get_args

import msgspec
from msgspec import UNSET, UnsetType, inspect
from msgspec.structs import fields
from starlette.responses import Response

from octavo.client.answers import Session, User
from octavo.layers.values import Fact, Layer, LogEntry, Outcome, Status
from octavo.service.records import EventRecord, TurnRecord

S = TypeVar("S", bound=msgspec.Struct)
_encode = msgspec.json.Encoder().encode


def answer(value: Any) -> Response:
    """The value as JSON; times are ISO 8601 in UTC."""
    return Response(_encode(value), media_type="application/json")


class MemoryList(msgspec.Struct, frozen=True, kw_only=True):
    """Memories of one layer of one user or agent."""

    user_id: str | UnsetType = UNSET
    agent_id: str | UnsetType = UNSET
    layer: Layer
    count: int
    memories: list[Fact]
    next: str | UnsetType = UNSET  # what `after` is given for more


class ExportedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One line of an export: a record, without what is empty."""

    collection: str
    id: str
    created_at: datetime
    seq: int
    kind: str | UnsetType = UNSET
    scope: dict[str, str] | UnsetType = UNSET  # tenant, user, agent and session
    text: str | UnsetType = UNSET
    data: dict[str, Any] | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    marks: list[str] | UnsetType = UNSET
    updated_at: datetime | UnsetType = UNSET
    expires_at: datetime | UnsetType = UNSET


class Allowed(msgspec.Struct, frozen=True, kw_only=True):
    """The memory whose fact may be learnt again."""

    allowed: str


class LogList(msgspec.Struct, frozen=True, kw_only=True):
    """Log rows of one memory, or of one user or agent; newest first."""

    memory_id: str | UnsetType = UNSET
    user_id: str | UnsetType = UNSET
    agent_id: str | UnsetType = UNSET
    count: int
    logs: list[LogEntry]
    next: str | UnsetType = UNSET  # what `after` is given for more


class EventList(msgspec.Struct, frozen=True, kw_only=True):
    """Events, newest first."""

    session: str | None
    count: int
    events: list[EventRecord]
    next: str | UnsetType = UNSET  # what `after` is given for more


class TurnList(msgspec.Struct, frozen=True, kw_only=True):
    """Turns of a session, newest first."""

    session: str
    count: int
    turns: list[TurnRecord]
    next: str | UnsetType = UNSET  # what `after` is given for more


class SessionList(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions, the latest first."""

    count: int
    sessions: list[Session]
    next: str | UnsetType = UNSET  # what `after` is given for more


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What a supervisor or a load balancer is told, by the status alone."""

    status: Literal["alive", "ready"]


class UserList(msgspec.Struct, frozen=True, kw_only=True):
    """Users, by name."""

    count: int
    users: list[User]
    next: str | UnsetType = UNSET  # what `after` is given for more


class AutoExtracted(msgspec.Struct, frozen=True, kw_only=True):
    """What was made of a text, fact by fact; `source_id` is the event that keeps the text."""

    mode: Literal["auto_extract"] = "auto_extract"
    status: Status
    source_id: str
    total_extracted: int
    inserted: int
    updated: int
    ignored: int
    profile_count: int
    event_count: int
    memories: list[Outcome]
    note: str | UnsetType = UNSET  # what was left out of a text that is longer than what is read of it


_AT = datetime(2026, 11, 15, 8, 30, tzinfo=UTC)
_ID = "user_user123_1794731400.123456"
_EVENT = "evt_4f2d0c3d9a0b4b5a8c7d6e5f40312233"
#: A field's value in an example, by the field's name.
_SAMPLES: dict[str, Any] = {
    "id": _ID,
    "memory_id": _ID,
    "memory_type": "user",
    "entity_id": "user123",
    "category": "career",
    "content": "用户是一名软件工程师，毕业于北京大学",
    "is_permanent": True,
    "action": "insert",
    "reason": "用户直接写入",
    "score": 0.82,
    "query": "他在哪里上的大学？",
    "event_id": _EVENT,
    "input_event_id": _EVENT,
    "session": "dm:lin",
    "session_key": "dm:lin",
    "obs_id": "obs_0655f5e8a1b2c3",
    "obs_type": "message",
    "payload": {"text": "我对花生过敏"},
    "source_name": "cli",
    "actor": "lin",
    "turn_id": "turn_0655f5e8a1b2c3",
    "plan": {"steps": ["answer"]},
    "final_output_obs_id": "obs_answer",
    "timestamp": _AT,
    "finished_at": _AT,
    "by_kind": {"career": 1, "preference": 1},
    "total": 2,
    "events": 12,
    "count": 1,
    "directory": "octavo_queue",
    "sections": {"database": {"dsn": "postgresql://octavo:…@db/octavo"}},
}


def example(kind: type[S], **given: Any) -> S:
    """A value of this kind to show: what is given, and for every other field a sample of its name or of its type."""
    for field in fields(kind):
        if field.name not in given and (field.required or field.name in _SAMPLES):
            given[field.name] = _sample(field.name, field.type)
    return kind(**given)


def _sample(name: str, type_: Any) -> Any:
    match inspect.type_info(type_):
        case inspect.StructType(cls=kind):
            return example(kind)
        case inspect.ListType(item_type=inspect.StructType(cls=kind)):
            return [example(kind)]
    if name in _SAMPLES:
        return _SAMPLES[name]
    if name.endswith("_at"):
        return _AT
    return next(iter(get_args(type_)), 0)  # the first of several words, or a number
