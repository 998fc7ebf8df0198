"""What the server answers: structs that are written to JSON as they are.

Those that the client reads as they are written here are in `octavo.client.answers`: one spelling of both.
"""

from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType
from starlette.responses import Response

from octavo.client.answers import Session, User
from octavo.layers.values import Fact, Layer, LogEntry, Outcome, Status
from octavo.service.records import EventRecord, TurnRecord

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
