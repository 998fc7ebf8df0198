"""What tools answer: typed values for programs, a few lines for models, and no more of either than fits."""

import base64
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Self, TypeVar

import msgspec
from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel, ConfigDict, Field

from octavo.errors import InvalidQuery
from octavo.kernel.model import Cursor
from octavo.kernel.text import estimate_tokens
from octavo.layers.values import LogEntry, Outcome
from octavo.search.hits import fit_line, one_line

_SHARE = 4  # of an answer, what one text may take: a quarter


class Texted(BaseModel):
    """One thing of a list, with a text that may be cut."""

    model_config = ConfigDict(from_attributes=True)

    text: str = Field(description="What it says; … stands for what did not fit.")

    @classmethod
    def of(cls, value: Any) -> Self:
        """What a model is told of a value that has these attributes."""
        return cls.model_validate(value)


class Change(Texted):
    """What became of one fact."""

    id: str = Field(description="The memory's id, for update_memory, delete_memory and memory_history.")
    action: str = Field(description="insert, update, or ignore for what was known already.")
    replaces: str | None = Field(None, description="What the memory said before, of an update.")

    @classmethod
    def of(cls, value: Outcome) -> Self:
        """What a model is told of an outcome."""
        return cls(id=value.id, action=value.action, text=value.content, replaces=value.supersedes or None)

    def __str__(self) -> str:
        was = f" (was: {one_line(self.replaces)})" if self.replaces else ""
        return f"{self.action} {self.id}: {one_line(self.text)}{was}"


class Remembered(BaseModel):
    """What was kept."""

    status: str = Field(description="stored; or queued: on disk, and stored when the database is back.")
    memories: list[Change]
    note: str = ""


class Hit(Texted):
    """Something that was found."""

    id: str
    score: float = Field(description="From 0 to 1: how likely it answers.")
    when: datetime
    source: str = Field(description="facts (which can be updated and deleted), messages, documents, …")
    why: str

    def __str__(self) -> str:
        named = f" [id {self.id}]" if self.source == "facts" else f" [{self.source}]"
        return f"{self.when:%Y-%m-%d}: {one_line(self.text)}{named}"


class Found(BaseModel):
    """The hits, best first."""

    hits: list[Hit]
    left_out: int = Field(0, description="Hits that did not fit.")
    probably_absent: bool = Field(False, description="Memory probably holds no answer to this question.")


class Block(BaseModel):
    """A block for a prompt."""

    text: str
    tokens: int
    probably_absent: bool = False


class Memory(Texted):
    """One fact about the user."""

    id: str
    layer: str = Field(description="profile: who the user is; event: what happened.")
    category: str
    created_at: datetime
    updated_at: datetime

    def __str__(self) -> str:
        return f"{self.updated_at:%Y-%m-%d}: {one_line(self.text)} [id {self.id}]"


class Memories(BaseModel):
    """A page of facts, newest first."""

    memories: list[Memory]
    next: str | None = Field(None, description="Give it as `after` for the next page; null at the end.")


class Step(Texted):
    """One change of a memory, and what it said then."""

    when: datetime
    action: str
    reason: str

    @classmethod
    def of(cls, value: LogEntry) -> Self:
        """What a model is told of a row of the log."""
        state = value.after or value.before
        said = "" if state is None else state.content
        return cls(text=said, when=value.created_at, action=value.action, reason=value.reason)

    def __str__(self) -> str:
        return f"{self.when:%Y-%m-%d %H:%M} {self.action}: {one_line(self.text)} ({one_line(self.reason)})"


class History(BaseModel):
    """All that happened to a memory, oldest first."""

    memory_id: str
    changes: list[Step]
    left_out: int = Field(0, description="Older changes that did not fit.")


T = TypeVar("T", bound=Texted)


def take_fitting(items: Sequence[T], max_tokens: int) -> list[T]:
    """The first of these that fit into so many tokens of JSON, each with a text of a quarter of it at most; at least one."""
    taken: list[T] = []
    room = max_tokens
    for item in items:
        short = item.model_copy(update={"text": cut(item.text, max_tokens // _SHARE)})
        cost = estimate_tokens(short.model_dump_json())
        if cost > room and taken:
            break
        room -= cost
        taken.append(short)
    return taken


def cut(text: str, max_tokens: int) -> str:
    """The text, or its beginning with an ellipsis."""
    body = text[: max_tokens * 8]  # characters: no tokenizer makes longer tokens of what people say
    fits = fit_line("", body, lambda line: estimate_tokens(line) <= max_tokens, estimate_tokens)
    if fits is None:
        fits = f"{body[:max_tokens]}…"
    return fits if len(body) == len(text) or fits.endswith("…") else f"{fits}…"


def result(value: BaseModel, text: str) -> CallToolResult:
    """What a tool answers: the value for programs, the text for models."""
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=value.model_dump(mode="json")
    )


def token(cursor: Cursor | None) -> str | None:
    """A cursor as a model gives it back."""
    return None if cursor is None else base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode()


def cursor_of(spelled: str | None) -> Cursor | None:
    """The cursor that an answer gave as `next`."""
    if spelled is None:
        return None
    try:
        found = msgspec.json.decode(base64.b64decode(spelled, b"-_", validate=True), type=Cursor)
    except (ValueError, msgspec.DecodeError):
        found = Cursor()
    if found.at is None or found.at.tzinfo is None:
        raise InvalidQuery("`after` must be the `next` of an earlier answer; leave it out to begin")
    return found
