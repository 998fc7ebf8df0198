"""What the server answers, as this client reads it and as the server writes it.

Memories and log rows are those of `octavo.layers`. Fields that a newer server adds to an answer are left alone.
"""

from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from octavo.layers.values import Fact, Layer, LogEntry, Status
from octavo.search.hits import MemoryHit


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that was made as it stood; `queued` is safe on the server's disk until its store is back."""

    id: str
    status: Status
    created_at: datetime
    mode: Literal["direct"] = "direct"
    layer: Layer
    category: str


class MemoryWithHistory(Fact, frozen=True, kw_only=True):
    """A memory with its changes, oldest first: all of them, or the newest that fit."""

    history: list[LogEntry]
    next: str | UnsetType = UNSET  # older changes did not fit: what `after` is given for them


class FoundMemory(Fact, frozen=True, kw_only=True):
    """A memory that answers a question; the higher the score, the better."""

    score: float


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """What answers a question, best first."""

    query: str
    count: int
    memories: list[FoundMemory]
    left_out: int | UnsetType = UNSET  # how many of them did not fit; left out when all did
    probably_absent: bool = False  # memory holds no answer, as far as can be told


class SearchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What answers a question, best first, of everything that is kept for somebody."""

    query: str
    count: int
    hits: list[MemoryHit]
    probably_absent: bool = False  # memory holds no answer, as far as can be told
    notes: tuple[str, ...] = ()  # what did not work, such as a model that could not be reached
    left_out: int = 0  # how many of them did not fit


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
    user_id: str | None = None


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
    user_id: str | None = None


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A session: how many events it has, and when the first and the last one happened."""

    session: str
    events: int
    first_at: datetime
    last_at: datetime


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A user who has memories: how many of each kind, and when the first and the last one were made."""

    user_id: str
    total: int
    counts: dict[str, int]
    first_at: datetime
    last_at: datetime


class BatchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What one request of a batch was answered."""

    status: int
    body: Any


class Batched(msgspec.Struct, frozen=True, kw_only=True):
    """The answers to a batch, in the order of its requests."""

    count: int
    answers: list[BatchAnswer]


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
    store: Literal["up", "down", "recovering", "closed"]
    waiting: int  # writes that the process which answers has queued
    version: str
    warning: str = ""  # what is not as it should be, though writes are accepted


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """The settings, section by section; passwords and keys are replaced by …"""

    sections: dict[str, dict[str, Any]]
