"""What callers may send, and how it is read: paths, queries and bodies, each checked in one go.

Unknown fields and parameters are refused: a misspelled one would otherwise be lost without a word.
"""

import asyncio
import base64
import json
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec
from fastapi import Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
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
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    create_model,
    model_validator,
)
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException

from octavo.kernel.codec import EARLIEST, MAX_NAME_BYTES
from octavo.kernel.model import Cursor
from octavo.layers import LayeredMemory
from octavo.layers.values import Layer
from octavo.server.gate import SLASH, caller_of
from octavo.service.memory import AsyncMemoryService
from octavo.util.turns import let_others

if TYPE_CHECKING:
    from octavo.server.app import Memories

MAX_QUESTION_BYTES = 64 * 1024
MAX_LIMIT = 1000
MAX_PROFILE = 10_000
_CENTURY_SECONDS = 100 * 365 * 86_400
_MOST_UNKNOWN = 20  # fields or parameters that are refused one by one
_MOST_TOKEN = 2000  # characters; the names in a cursor are short
#: Values in a body: each is made, checked and written several times, while everybody else waits.
_MOST_VALUES = 20_000

Category: TypeAlias = Literal[
    "preference", "ability", "career", "education", "personality", "value",
    "conversation", "meeting", "action", "decision", "event", "other",
]  # fmt: skip


def _text(most_bytes: int | None = None, *, blank: bool = False) -> AfterValidator:
    """The check of a text: what can be stored, of so many bytes, and saying something."""

    def check(text: str) -> str:
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise ValueError("must not hold half a character") from None
        if most_bytes is not None and size > most_bytes:
            raise ValueError(f"must be at most {most_bytes:,} bytes in UTF-8")
        if "\0" in text:
            raise ValueError("must not hold a NUL")
        if not blank and not text.strip():
            raise ValueError("must say something")
        return text

    return AfterValidator(check)


def _moment(given: object) -> object:
    """A time of ISO 8601 in UTC. One without an offset is taken for UTC, since a server cannot know its caller's clock."""
    example = "must be a time of ISO 8601, such as 2026-01-31T12:00:00Z"
    if not isinstance(given, str):
        raise ValueError(example)  # noqa: TRY004 - pydantic's way
    try:
        at = datetime.fromisoformat(given)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{example}; got {given[:40]!r}") from None
    if at < EARLIEST:
        raise ValueError(f"must be {EARLIEST:%Y-%m-%d} or later")
    return at


def _cursor(given: object) -> Cursor:
    """The cursor that an answer gave as `next`."""
    try:
        if not isinstance(given, str) or len(given) > _MOST_TOKEN:
            raise ValueError
        cursor = msgspec.json.decode(base64.b64decode(given, b"-_", validate=True), type=Cursor)
        if cursor.at is None or cursor.at.tzinfo is None:
            raise ValueError
    except (ValueError, msgspec.DecodeError):
        raise ValueError("must be the `next` of an answer of this listing") from None
    return cursor


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
    datetime, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})
]
Metadata = dict[str, Any]
PathName = Annotated[Name, Path()]
Limit = Annotated[int, Query(ge=0, le=MAX_LIMIT)]
#: Where to go on: the `next` of the answer before.
After = Annotated[
    Any,
    Query(description="Go on from here: the `next` of the page before."),
    BeforeValidator(_cursor),
    WithJsonSchema({"type": "string", "maxLength": _MOST_TOKEN}),
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
        if isinstance(given, dict) and len(given) > len(known) + _MOST_UNKNOWN:
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
        named = self.user_id is not None or self.agent_id is not None
        if named is self.everyone:
            both = ", not both" if named else ""
            raise ValueError(f'whose memories? give user_id or agent_id, or "everyone": true{both}')
        return self


class Undoing(Body):
    """Why a change is undone."""

    model_config = _examples({"reason": "记错了"})

    reason: Reason | None = None


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


class QuickRoute(APIRoute):
    """A route that FastAPI documents, and that reads and checks a request many times faster than FastAPI does."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        endpoint: Callable[..., Coroutine[Any, Any, Response]] = self.endpoint
        fields = [*self.dependant.path_params, *self.dependant.query_params]
        parameters: type[BaseModel] = create_model(  # type: ignore[call-overload]
            f"{self.name}_parameters",
            __config__=ConfigDict(extra="forbid"),
            **{field.name: (field.field_info.annotation, field.field_info) for field in fields},
        )
        names = [field.name for field in fields]
        reads = self.methods == {"GET"}  # a change that was begun is made, whoever waits for it
        body = self.dependant.body_params[0].field_info if self.dependant.body_params else None
        kind: TypeAdapter[Any] | None = body and TypeAdapter(body.annotation)  # type: ignore[arg-type]

        async def handle(request: Request) -> Response:
            query: Mapping[str, str] = request.query_params if request.scope["query_string"] else {}
            if len(query) > len(names) + _MOST_UNKNOWN:
                unknown = [{"type": "extra_forbidden", "loc": ("parameters", name)} for name in query]
                raise RequestValidationError(unknown)
            # What the path says comes last: no query can stand in for it.
            given = _checked(
                "parameters", parameters.model_validate, {**query, **request.scope["path_params"]}
            )
            values = {name: getattr(given, name) for name in names}
            if body is not None and kind is not None:
                values["body"] = await _read_body(request, kind, needed=body.is_required())
            work = endpoint(request=request, **values)
            return await (_unless_gone(work, request) if reads else work)

        return handle


async def _unless_gone(work: Coroutine[Any, Any, Response], request: Request) -> Response:
    """The answer; for a caller who has gone away nothing more is read."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    reading, leaving = asyncio.create_task(work), asyncio.create_task(gone())
    try:
        await asyncio.wait({reading, leaving}, return_when=asyncio.FIRST_COMPLETED)
        # 499 is what a log calls a request whose caller did not wait; nobody is sent it.
        return await reading if reading.done() else Response(status_code=499)
    finally:
        leaving.cancel()
        reading.cancel()


async def _read_body(request: Request, kind: TypeAdapter[Any], *, needed: bool) -> Any:
    """What a request says in its body; others have a turn before a long one is parsed, and after it."""
    raw = await request.body()
    if needed and not raw:
        raise RequestValidationError([{"type": "missing", "loc": ("body",), "msg": "Field required"}])
    if not _few_values(raw):
        raise HTTPException(400, f"a body may hold at most {_MOST_VALUES:,} values")
    await let_others(len(raw))
    try:
        value = json.loads(raw) if raw and request.headers.get("content-type") else raw or None
    except json.JSONDecodeError as error:
        wrong = {"type": "json_invalid", "loc": ("body", error.pos), "msg": "JSON decode error"}
        raise RequestValidationError([wrong]) from None
    except (ValueError, RecursionError):  # no UTF-8, a number of thousands of digits, thousands of brackets
        raise HTTPException(400, "the body cannot be read as JSON") from None
    checked = _checked("body", kind.validate_python, value)
    await let_others(len(raw))
    return checked


def _checked(where: str, check: Callable[[Any], Any], value: Any) -> Any:
    """What pydantic makes of a value; what does not fit is said to be in this part of the request."""
    try:
        return check(value)
    except ValidationError as error:
        told = error.errors(include_url=False, include_context=False)
    raise RequestValidationError([{**each, "loc": (where, *each["loc"])} for each in told])


def _few_values(body: bytes) -> bool:
    """Whether a body of JSON has few enough values to be parsed, which is seen much sooner than they are made."""
    if _separators(body) <= _MOST_VALUES:
        return True
    # What stands inside a text makes no value: of a body without escaped quotes, every other part is a text.
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside = b"".join(plain.split(b'"')[::2])
    return plain.count(b'"') <= 4 * _MOST_VALUES and _separators(outside) <= _MOST_VALUES


def _separators(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


class NameConvertor(Convertor[str]):
    """Any text, a slash written as %2F included."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return value.replace(SLASH, "/")

    def to_string(self, value: str) -> str:
        return value.replace("/", "%2F")


class OwnerConvertor(NameConvertor):
    """`user` or `agent`; or a path with another word in this place would hide the routes that it belongs to."""

    regex = "user|agent"


register_url_convertor("name", NameConvertor())
register_url_convertor("owner", OwnerConvertor())


def token(cursor: Cursor | None) -> str | UnsetType:
    """A cursor as callers give it back; nothing where there is no more."""
    return UNSET if cursor is None else base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode()


def memories_of(request: Request) -> "Memories":
    """What the server holds."""
    held: Memories = request.app.state.memories
    return held


def page_bytes(request: Request) -> int:
    """The most that a listing answers at once."""
    return memories_of(request).settings.server.max_page_bytes


def layers_of(request: Request) -> LayeredMemory:
    """The memories that the caller may see."""
    return memories_of(request).layers(caller_of(request.scope).tenant)


def service_of(request: Request) -> AsyncMemoryService:
    """The events that the caller may see."""
    return memories_of(request).service(caller_of(request.scope).tenant)
