"""What the server answers: structs that are written to JSON as they are, and that OpenAPI is made from.

Those that the client reads as they are written here are in `octavo.client.answers`: one spelling of both.
"""

from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType
from starlette.responses import Response

from octavo.client.answers import Session
from octavo.layers.values import Layer, LogEntry, Memory, Outcome, Status
from octavo.service.records import EventRecord, TurnRecord

_encode = msgspec.json.Encoder().encode


def answer(value: Any) -> Response:
    """The value as JSON; times are ISO 8601 in UTC."""
    return Response(_encode(value), media_type="application/json")


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that was made as it stood; `queued` is on disk until the store is back."""

    id: str
    status: Status
    created_at: datetime
    mode: Literal["direct"] = "direct"
    layer: Layer
    category: str


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


class MemoryList(msgspec.Struct, frozen=True, kw_only=True):
    """Memories of one layer of one user or agent."""

    user_id: str | UnsetType = UNSET
    agent_id: str | UnsetType = UNSET
    layer: Layer
    count: int
    memories: list[Memory]
    next: str | UnsetType = UNSET  # what `after` is given for more


class LogList(msgspec.Struct, frozen=True, kw_only=True):
    """Log rows of one memory, or of one user or agent; newest first."""

    memory_id: str | UnsetType = UNSET
    user_id: str | UnsetType = UNSET
    agent_id: str | UnsetType = UNSET
    count: int
    logs: list[LogEntry]
    next: str | UnsetType = UNSET  # what `after` is given for more


class FoundMemory(Memory, frozen=True, kw_only=True):
    """A memory that answers a question; the higher the score, the better."""

    score: float


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """What answers a question, best first."""

    query: str
    count: int
    memories: list[FoundMemory]
    left_out: int | UnsetType = UNSET  # how many of them did not fit; left out when all did


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
    """The sessions of the newest 1,000 events, the latest first."""

    count: int
    sessions: list[Session]
    next: str | UnsetType = UNSET  # what `after` is given for more


class HealthReport(msgspec.Struct, frozen=True, kw_only=True):
    """How the server is. `degraded`: the store is away; reads fail, and writes wait on disk. `down`: no write is accepted."""

    status: Literal["ok", "degraded", "down"]
    store: Literal["up", "down", "recovering", "closed"]
    waiting: int  # writes that this process has queued
    version: str
    warning: str = ""  # what is not as it should be, though writes are accepted


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """The settings, section by section; passwords and keys are replaced by …"""

    sections: dict[str, dict[str, Any]]
