"""What layered memory answers: memories, the log of their changes, and what was made of a text."""

from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from octavo.layers.deciding import Layer, OwnerType, Verdict

#: What a log row says happened; an undone change is logged as the change that undid it.
Action: TypeAlias = Literal["insert", "update", "ignore", "delete", "expire"]

#: Where a write is when its call returns: in the store, or on disk behind it.
Status: TypeAlias = Literal["success", "queued"]

LAYERS: tuple[Layer, ...] = ("profile", "event")
ACTIONS: tuple[Action, ...] = ("insert", "update", "ignore", "delete", "expire")


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """One thing remembered about a user or an agent, as it is at this version."""

    id: str
    memory_type: OwnerType
    entity_id: str
    layer: Layer
    category: str
    content: str
    metadata: dict[str, Any] = {}
    is_permanent: bool = False
    expiry_date: datetime | None = None
    created_at: datetime
    updated_at: datetime
    version: int = 1
    sources: tuple[str, ...] = ()  # ids of the events it was made from
    happened_at: datetime | None = None  # when, for an event that says so
    status: Status = "success"  # whether the store has it already


class State(msgspec.Struct, frozen=True, kw_only=True):
    """All that a memory was at one version, as a log row keeps it; `data` has what is not the caller's."""

    category: str
    content: str
    metadata: dict[str, Any] = {}
    data: dict[str, Any] = {}
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None


class LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one memory, and why; `before` is None for what came to be, `after` for what went."""

    id: str
    memory_id: str
    memory_layer: Layer
    action: Action
    reason: str
    metadata: dict[str, Any] = {}
    created_at: datetime
    version: int | None = None  # that the change made; None for what changed nothing
    before: State | None = None
    after: State | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one fact of a text."""

    id: str  # of the memory made, changed or repeated; "" when a fact was ignored for no memory
    action: Verdict
    layer: Layer
    category: str
    content: str
    reason: str
    happened_at: datetime | None = None
    supersedes: str | None = None  # what the memory said before, for an update


class Extracted(msgspec.Struct, frozen=True, kw_only=True):
    """What was made of a text, in its order; `source_id` is the event that keeps the text itself."""

    source_id: str
    memories: list[Outcome] = []
    status: Status = "success"
    note: str = ""  # what was left out: a text that is longer than what is read of it

    @property
    def total_extracted(self) -> int:
        return len(self.memories)

    @property
    def inserted(self) -> int:
        return self._count("insert")

    @property
    def updated(self) -> int:
        return self._count("update")

    @property
    def ignored(self) -> int:
        return self._count("ignore")

    @property
    def profile_count(self) -> int:
        """How many of the facts belong to the profile."""
        return sum(outcome.layer == "profile" for outcome in self.memories)

    @property
    def event_count(self) -> int:
        """How many of the facts are events."""
        return sum(outcome.layer == "event" for outcome in self.memories)

    def _count(self, action: Verdict) -> int:
        return sum(outcome.action == action for outcome in self.memories)


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A memory found again; the score, from 0 to 1, is how likely it is to answer."""

    memory: Memory
    score: float
