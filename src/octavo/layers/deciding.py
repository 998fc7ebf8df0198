"""What an extractor is asked, and what it answers: single facts, and what to do with each."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

import msgspec

Layer: TypeAlias = Literal["profile", "event"]
OwnerType: TypeAlias = Literal["user", "agent"]
Verdict: TypeAlias = Literal["insert", "update", "ignore"]

#: The categories of each layer, as documented.
CATEGORIES: dict[Layer, tuple[str, ...]] = {
    "profile": ("preference", "ability", "career", "education", "personality", "value"),
    "event": ("conversation", "meeting", "action", "decision", "event", "other"),
}

#: What a memory is when nobody can tell.
DEFAULTS: dict[Layer, str] = {"profile": "preference", "event": "other"}


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


class Extractor(Protocol):
    """Finds the facts of a text and compares them with what is known."""

    async def decide(
        self, text: str, known: Sequence[Known], *, owner_type: OwnerType, at: datetime
    ) -> list[Decision]:
        """What to do, in the order of the text; facts that repeat each other within the text are one. No fact is no decision."""
        ...

    async def close(self) -> None: ...
