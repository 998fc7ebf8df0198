"""What the server answers beside memories and log rows. Fields that a newer server adds are left alone."""

from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from octavo.layers.values import Layer, LogEntry, Memory, Status


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that was made; `queued` is safe on the server's disk until its store is back."""

    id: str
    status: Status
    created_at: datetime
    layer: Layer
    category: str


class MemoryWithHistory(Memory, frozen=True, kw_only=True):
    """A memory with its changes, oldest first: all of them, or the newest that fit."""

    history: list[LogEntry]
    next: str | UnsetType = UNSET  # older changes did not fit: what `after` is given for them


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One thing observed in a session, as it is remembered."""

    event_id: str
    session_key: str
    obs_id: str
    obs_type: str
    payload: Any
    source_name: str = ""
    actor: Any = None
    gate_result: Any = None
    metadata: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    meta: dict[str, Any] = {}
    timestamp: datetime
    created_at: datetime
    status: Literal["stored", "queued"] = "stored"


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One call of an agent: what set it off, and how it ended."""

    turn_id: str
    session_key: str
    input_event_id: str
    plan: Any = None
    status: str
    final_output_obs_id: str | None = None
    error: str | None = None
    meta: dict[str, Any] = {}
    created_at: datetime
    finished_at: datetime | None = None


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A session, as far as the newest events tell."""

    session: str
    events: int
    first_at: datetime
    last_at: datetime


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """How many there are, by category, action or type."""

    total: int
    by_kind: dict[str, int]
    first_at: datetime | None
    last_at: datetime | None


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """How much is remembered."""

    profile: Counted
    event: Counted
    logs: Counted
    events: Counted
    turns: Counted


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """How many queued writes reached the store just now, and how many still wait."""

    replayed: int
    waiting: int


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How the server is. `degraded`: its store is away; reads fail, and new memories wait on its disk. `down`: it takes none."""

    status: Literal["ok", "degraded", "down"]
    store: str
    waiting: int
    version: str
    warning: str = ""
