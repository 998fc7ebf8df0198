"""What layered memory speaks of: layers and categories, memories and their log, and what an extractor decides."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from octavo.kernel.model import Cursor

Layer: TypeAlias = Literal["profile", "event"]
OwnerType: TypeAlias = Literal["user", "agent"]
Verdict: TypeAlias = Literal["insert", "update", "ignore"]
#: What a log row says happened; an undone change is logged as the change that undid it.
Action: TypeAlias = Literal["insert", "update", "ignore", "delete", "expire"]

#: Where a write is when its call returns: in the store, or on disk behind it.
Status: TypeAlias = Literal["success", "queued"]

LAYERS: tuple[Layer, ...] = ("profile", "event")
ACTIONS: tuple[Action, ...] = ("insert", "update", "ignore", "delete", "expire")

#: Whose a memory is when nobody is named, in Python and on the command line.
DEFAULT_USER = "default_user"

#: The categories of each layer, as documented.
CATEGORIES: dict[Layer, tuple[str, ...]] = {
    "profile": ("preference", "ability", "career", "education", "personality", "value"),
    "event": ("conversation", "meeting", "action", "decision", "event", "other"),
}

#: What a memory is when nobody can tell.
DEFAULTS: dict[Layer, str] = {"profile": "preference", "event": "other"}


class Fact(msgspec.Struct, frozen=True, kw_only=True):
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
    topic: str = ""  # what it is about, finer than its category: name, home, family, health, work …; "" if nobody can tell

    @property
    def text(self) -> str:
        """The content, under the name it has in the hits of a search."""
        return self.content

    @property
    def owner(self) -> dict[str, Any]:
        """Whose it is, as every method is told it: a `user_id` or an `agent_id`."""
        return {f"{self.memory_type}_id": self.entity_id}


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
    topic: str = ""

    @property
    def text(self) -> str:
        """The content, under the name it has in the hits of a search."""
        return self.content


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


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """What was taken back at once, or would be: the newest change of each memory, and the messages."""

    id: str  # by which all of it is taken back again
    changes: list[LogEntry] = []  # that were undone, one for each memory
    messages: list[str] = []  # ids of what was said and is gone, or is there again
    kept: dict[str, str] = {}  # memories that stay as they are, and why
    dry_run: bool = False


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A memory found again; the score, from 0 to 1, is how likely it is to answer."""

    memory: Fact
    score: float


T = TypeVar("T")


class Page(list[T], Generic[T]):
    """A list as far as it was asked for and fits into the bytes that were given."""

    following: Cursor | None  # where to go on, if there is more
    left_out: int  # of what recall found: how many did not fit
    probably_absent: bool  # of what recall found: memory holds no answer, as far as can be told

    def __init__(
        self,
        items: Iterable[T] = (),
        following: Cursor | None = None,
        left_out: int = 0,
        *,
        probably_absent: bool = False,
    ) -> None:
        super().__init__(items)
        self.following = following
        self.left_out = left_out
        self.probably_absent = probably_absent


# --- what an extractor is asked, and what it answers


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A memory there is, as far as a decision needs it."""

    id: str
    layer: Layer
    category: str
    content: str
    happened_at: datetime | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One fact of a text, and what to do with it; `target` is the memory that it repeats or supersedes."""

    action: Verdict
    layer: Layer
    category: str
    content: str  # one statement that can stand alone
    reason: str  # a sentence in the language of the text
    target: str | None = None
    happened_at: datetime | None = None  # when, for an event that says so
    time_text: str = ""  # the words that said it
    topic: str = ""  # what it is about; left out, its words decide
    quote: str = ""  # the words of the text that say so; the memory is found by them too


class Extractor(Protocol):
    """Finds the facts of a text and compares them with what is known."""

    async def decide(
        self, text: str, known: Sequence[Known], *, owner_type: OwnerType, at: datetime
    ) -> list[Decision]:
        """What to do, in the order of the text; facts that repeat each other within the text are one. No fact is no decision."""
        ...

    async def close(self) -> None: ...
