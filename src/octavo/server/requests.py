"""What callers may send: parameters and bodies, and what each of their fields may be.

Unknown fields and parameters are refused: a misspelled one would otherwise be lost without a word.
"""

import base64
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from fastapi import Path, Query
from msgspec import UNSET, UnsetType
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    WithJsonSchema,
    model_validator,
)

from octavo.kernel.codec import MAX_NAME_BYTES
from octavo.kernel.model import Cursor
from octavo.layers.checking import read_time
from octavo.layers.values import Layer

T = TypeVar("T")
MAX_QUESTION_BYTES = 64 * 1024
MAX_LIMIT = 1000
MAX_PROFILE = 10_000
_CENTURY_SECONDS = 100 * 365 * 86_400
MOST_UNKNOWN = 20  # fields or parameters that are refused one by one
_MOST_TOKEN = 4000  # characters; the names in a cursor are short
_MOST_PATH = 8192  # of a request in a batch

Category: TypeAlias = Literal[
    "preference", "ability", "career", "education", "personality", "value",
    "conversation", "meeting", "action", "decision", "event", "other",
]  # fmt: skip


Source: TypeAlias = Literal["facts", "messages", "observations", "events", "documents"]


def _text(most_bytes: int | None = None, *, blank: bool = False) -> AfterValidator:
    """The check of a text: what can be stored, of so many bytes, and saying something."""

    def check(text: str) -> str:
        if most_bytes is not None and len(text.encode()) > most_bytes:
            raise ValueError(f"must be at most {most_bytes:,} bytes in UTF-8")
        if "\0" in text:
            raise ValueError("must not hold a NUL")
        if not blank and not text.strip():
            raise ValueError("must say something")
        return text

    return AfterValidator(check)


class MomentCursor(msgspec.Struct, frozen=True):
    """Where a listing goes on whose order changes, and at which moment it began: what is newer moves nothing in it."""

    after: Cursor
    began: datetime


def _token_of(kind: type[T], usable: Callable[[T], bool]) -> BeforeValidator:
    """The check of a cursor that an answer gave as `next`."""

    def read(given: object) -> T:
        try:
            if not isinstance(given, str) or len(given) > _MOST_TOKEN:
                raise ValueError
            cursor = msgspec.json.decode(base64.b64decode(given, b"-_", validate=True), type=kind)
            if not usable(cursor):
                raise ValueError
        except (ValueError, msgspec.DecodeError):
            raise ValueError("must be the `next` of an answer of this listing") from None
        return cursor

    return BeforeValidator(read)


def _has_time(cursor: Cursor) -> bool:
    return cursor.at is not None and cursor.at.tzinfo is not None


Name = Annotated[
    str,
    # Told in the document only: a refusal in words says it better than one that shows a pattern.
    Field(min_length=1, max_length=MAX_NAME_BYTES, json_schema_extra={"pattern": "^[^\\u0000]+$"}),
    _text(MAX_NAME_BYTES, blank=True),
]
# How long it may be is a setting, which the routes look at.
Content = Annotated[str, Field(min_length=1), _text()]
Reason = Annotated[str, Field(min_length=1, max_length=4096), _text()]
When = Annotated[
    datetime, BeforeValidator(read_time), WithJsonSchema({"type": "string", "format": "date-time"})
]
Metadata = dict[str, Any]
PathName = Annotated[Name, Path()]
Limit = Annotated[int, Query(ge=0, le=MAX_LIMIT)]
_goes_on = Query(description="Go on from here: the `next` of the page before.")
_opaque = WithJsonSchema({"type": "string", "maxLength": _MOST_TOKEN})
#: Where to go on: the `next` of the answer before.
After = Annotated[Any, _goes_on, _token_of(Cursor, _has_time), _opaque]
#: The same in a listing of sessions or of a profile.
AfterMoment = Annotated[
    Any,
    _goes_on,
    _token_of(MomentCursor, lambda cursor: _has_time(cursor.after) and cursor.began.tzinfo is not None),
    _opaque,
]
#: The same in a listing by name: the name is the cursor's id.
AfterName = Annotated[
    Any, _goes_on, _token_of(Cursor, lambda cursor: cursor.at is None and cursor.id != ""), _opaque
]


def _examples(*bodies: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": list(bodies)})


class Body(BaseModel):
    """What is sent with a request; the examples of each are in its schema."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _few_unknown(cls, given: Any) -> Any:
        """Refuse at once what has many unknown fields: an error for each would be larger than the request."""
        known = cls.model_fields
        if isinstance(given, dict) and len(given) > len(known) + MOST_UNKNOWN:
            unknown = [name for name in given if name not in known]
            named = ", ".join(repr(name[:40]) for name in unknown[:3])
            raise ValueError(f"{len(unknown):,} fields are not known here, such as {named}; leave them out")
        return given


class NewMemory(Body):
    """Something to remember about a user or an agent: as it stands, or split into single facts by `auto_extract`."""

    model_config = _examples(
        {"content": "用户是一名软件工程师，毕业于北京大学", "memory_layer": "profile"},
        {"content": "Joined the product review", "memory_layer": "event", "ttl_seconds": 86400},
        {"content": "他是一名软件工程师。他下午参加了技术分享会。", "auto_extract": True},
    )

    content: Content
    memory_layer: Layer = "event"
    category: Category | None = Field(None, description="One of the layer's; without it, the words decide.")
    metadata: Metadata | None = None
    is_permanent: StrictBool | None = None
    expiry_date: When | None = None
    ttl_seconds: Annotated[StrictInt | StrictFloat, Field(gt=0, le=_CENTURY_SECONDS)] | None = None
    auto_extract: StrictBool = False
    reason: Reason | None = Field(None, description="Why, for the log.")

    @model_validator(mode="after")
    def _fits(self) -> "NewMemory":
        if self.expiry_date is not None and self.ttl_seconds is not None:
            raise ValueError("give expiry_date or ttl_seconds, not both")
        if self.auto_extract:
            for name in ("category", "is_permanent", "expiry_date", "ttl_seconds", "reason"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} is decided for each fact by auto_extract; leave it out")
            if "memory_layer" in self.model_fields_set:
                raise ValueError("memory_layer is decided for each fact by auto_extract; leave it out")
        return self


class Revision(Body):
    """What is to change in a memory; fields left out stay as they are."""

    model_config = _examples(
        {"content": "用户是一名高级软件工程师", "reason": "补充了具体的职级信息"},
        {"metadata": {"source": "interview"}, "reason": "Where it came from"},
    )

    content: Content | None = None
    category: Category | None = None
    metadata: Metadata | None = None
    is_permanent: StrictBool | None = None
    expiry_date: When | None = Field(None, description="null takes the date away")
    reason: Reason | None = None

    @model_validator(mode="after")
    def _says_something(self) -> "Revision":
        for name in ("content", "category", "metadata", "is_permanent"):
            if name in self.model_fields_set and getattr(self, name) is None:
                raise ValueError(f"{name} cannot be null; leave it out to keep it")
        if not self.model_fields_set - {"reason"}:
            raise ValueError("give content, category, metadata, is_permanent or expiry_date")
        return self


#: What a question about nobody is answered.
WHOSE = (
    'whose memory? give user_id or agent_id, with session_id for one of their sessions, or "everyone": true'
)
WHOSE_MEMORIES = 'whose memories? give user_id or agent_id, or "everyone": true'


class Question(Body):
    """What to look for, and in whose memories; `everyone` needs a key with admin access, where keys are needed."""

    model_config = _examples(
        {"query": "他在哪里上的大学？", "user_id": "user123", "top_k": 5},
        {"query": "What was decided about the database?", "agent_id": "planner", "layer": "event"},
    )

    query: Annotated[str, Field(min_length=1, max_length=MAX_QUESTION_BYTES), _text(MAX_QUESTION_BYTES)]
    user_id: Name | None = None
    agent_id: Name | None = None
    layer: Layer | None = None
    top_k: Annotated[StrictInt, Field(ge=1, le=100)] = 10
    everyone: StrictBool = False

    @model_validator(mode="after")
    def _one_owner(self) -> "Question":
        if self.user_id is not None and self.agent_id is not None:
            raise ValueError("give user_id or agent_id, not both")
        if self.everyone and (self.user_id is not None or self.agent_id is not None):
            raise ValueError(f"{WHOSE_MEMORIES}, not both")
        return self


class Prompted(Body):
    """A question, and whose memory it is put to."""

    query: Annotated[str, Field(min_length=1, max_length=MAX_QUESTION_BYTES), _text(MAX_QUESTION_BYTES)]
    user_id: Name | None = None
    agent_id: Name | None = None
    session_id: Name | None = Field(
        None,
        description="Only this session of theirs; where nobody is named, of `default_user` and of nobody.",
    )

    @property
    def whose(self) -> dict[str, Any]:
        """Whose memory is meant, as `octavo.AsyncMemory` is told."""
        return {"user_id": self.user_id, "agent_id": self.agent_id, "session_id": self.session_id}


class Search(Prompted):
    """What to look for in everything that is kept for somebody; `everyone` needs admin access, where keys are needed."""

    model_config = _examples(
        {"query": "where do I live?", "user_id": "user123", "limit": 5},
        {"query": "花生", "user_id": "user123", "sources": ["facts", "messages"]},
    )

    sources: Annotated[list[Source], Field(min_length=1)] | None = None
    since: When | None = None
    until: When | None = None
    metadata: Metadata | None = Field(
        None, description="What the metadata must hold: names and plain values."
    )
    limit: Annotated[StrictInt, Field(ge=1, le=100)] = 10
    everyone: StrictBool = False
    as_of: When | None = Field(None, description="What the answer would have been at that moment.")

    @model_validator(mode="after")
    def _not_both(self) -> "Search":
        if self.everyone and any(self.whose.values()):
            raise ValueError(f"{WHOSE}, not both")
        return self


class Prompt(Prompted):
    """What a block for a prompt is wanted for, and how many tokens it may take."""

    model_config = _examples(
        {"query": "what shall I cook?", "user_id": "user123", "session_id": "monday", "max_tokens": 800}
    )

    max_tokens: Annotated[StrictInt, Field(ge=0, le=100_000)] = 1000
    as_of: When | None = Field(None, description="What the block would have been at that moment.")


class Undoing(Body):
    """Why a change is undone."""

    model_config = _examples({"reason": "记错了"})

    reason: Reason | None = None


class UndoingAll(Undoing):
    """What is to be taken back of an owner: what one add did, all since a moment, or an earlier undo of many changes."""

    model_config = _examples(
        {"since": "2026-01-31T12:00:00Z", "dry_run": True},
        {"undo": "undo_066069c3cff3ed8f", "reason": "记错了"},
    )

    add: Annotated[list[Name], Field(min_length=1)] | None = Field(
        None, description="Ids of the messages that it kept."
    )
    since: When | None = None
    undo: Name | None = Field(None, description="The id of that undo.")
    dry_run: StrictBool = False

    @model_validator(mode="after")
    def _one(self) -> "UndoingAll":
        if sum(each is not None for each in (self.add, self.since, self.undo)) != 1:
            raise ValueError("give one of add, since and undo")
        return self


class NewEvent(Body):
    """One thing observed; the same `obs_id` in the same session is one event, however often it is sent."""

    model_config = _examples(
        {"session_key": "dm:lin", "obs_type": "message", "payload": {"text": "我对花生过敏"}, "actor": "lin"}
    )

    session_key: Name
    obs_type: Name = "message"
    payload: Metadata
    source_name: Annotated[str, Field(max_length=MAX_NAME_BYTES)] = ""
    actor: Name | None = None
    obs_id: Name | None = None
    timestamp: When | None = None
    metadata: Metadata = {}
    gate_result: Metadata | None = None
    meta: Metadata = {}
    user_id: Name | None = None


def _check_rooted(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError("must begin with /")
    return path


class BatchedRequest(Body):
    """One of the requests of a batch; a query stands in its path, as in `/events?limit=5`."""

    method: Literal["GET", "POST", "PUT", "DELETE"] = "GET"
    path: Annotated[
        str,
        Field(min_length=1, max_length=_MOST_PATH, json_schema_extra={"pattern": "^/"}),
        _text(_MOST_PATH),
        AfterValidator(_check_rooted),
    ]
    body: Any = None


class Batch(Body):
    """Requests to this server, which are answered in their order."""

    model_config = _examples(
        {
            "requests": [
                {"method": "POST", "path": "/memory/user/user123", "body": {"content": "喜欢喝绿茶"}},
                {"path": "/memory/user/user123/profile?limit=5"},
            ]
        }
    )

    # How many there may be is a setting, which the route looks at.
    requests: Annotated[list[BatchedRequest], Field(min_length=1)]


def token(cursor: Cursor | MomentCursor | None) -> str | UnsetType:
    """A cursor as callers give it back; nothing where there is no more."""
    return UNSET if cursor is None else base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode()
