"""What all routes share: how a path and a query are read, whose memory a request is about, and how a page is told.

Parameters are documented by FastAPI and checked in one go, which is many times faster than by it.
"""

import asyncio
import base64
import functools
from collections.abc import Callable, Coroutine, Iterable
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from msgspec import UNSET, UnsetType
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    WithJsonSchema,
    create_model,
)
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException

from octavo.kernel.model import Cursor
from octavo.layers import LayeredMemory
from octavo.server.bodies import MAX_LIMIT, Name, OwnerType
from octavo.server.gate import SLASH, caller_of
from octavo.server.memories import Memories
from octavo.service.memory import Memory
from octavo.util.turns import let_others

_GONE = 499  # what a log calls a request whose caller did not wait; nobody is sent it
Handler = Callable[[Request], Coroutine[Any, Any, Response]]
#: Values in a body: each is made, checked and written several times, while everybody else waits.
_MOST_VALUES = 20_000
_MOST_UNKNOWN = 20  # parameters that are refused one by one


class QuickRoute(APIRoute):
    """A route that refuses a query parameter it does not know: a misspelled one would be lost."""

    def get_route_handler(self) -> Handler:
        endpoint: Callable[..., Coroutine[Any, Any, Response]] = self.endpoint
        if self.body_field is not None:
            self.dependant.call = _after_parsing(endpoint)
            return self._of_body(super().get_route_handler())
        fields = [*self.dependant.path_params, *self.dependant.query_params]
        given: type[BaseModel] = create_model(  # type: ignore[call-overload]
            f"{self.name}_parameters",
            __config__=ConfigDict(extra="forbid"),
            **{field.name: (field.field_info.annotation, field.field_info) for field in fields},
        )
        names = [field.name for field in fields]
        reads = self.methods == {"GET"}  # a change that was begun is made, whoever waits for it

        async def handle(request: Request) -> Response:
            # What the path says comes last: no query can stand in for it.
            query = request.query_params if request.scope["query_string"] else {}
            if len(query) > len(names) + _MOST_UNKNOWN:
                raise _unknown(query)
            try:
                checked = given.model_validate({**query, **request.scope["path_params"]})
            except ValidationError as error:
                told = error.errors(include_url=False, include_context=False)
                raise RequestValidationError(
                    [{**each, "loc": ("parameters", *each["loc"])} for each in told]
                ) from None
            work = endpoint(request=request, **{name: getattr(checked, name) for name in names})
            return await (_unless_gone(work, request) if reads else work)

        return handle

    def _of_body(self, handler: Handler) -> Handler:
        """What has a body says everything in it."""

        async def handle(request: Request) -> Response:
            if request.scope["query_string"]:
                raise _unknown(request.query_params or ("?",))
            body = await request.body()
            if not _few_values(body):
                raise HTTPException(400, f"a body may hold at most {_MOST_VALUES:,} values")
            await let_others(len(body))
            return await handler(request)

        return handle


def _after_parsing(
    endpoint: Callable[..., Coroutine[Any, Any, Response]],
) -> Callable[..., Coroutine[Any, Any, Response]]:
    """The endpoint, with a turn for others between the parsing of a long body and what is done with it."""

    @functools.wraps(endpoint)
    async def call(*, request: Request, **values: Any) -> Response:
        await let_others(len(await request.body()))
        return await endpoint(request=request, **values)

    return call


async def _unless_gone(work: Coroutine[Any, Any, Response], request: Request) -> Response:
    """The answer; for a caller who has gone away nothing more is read."""
    reading = asyncio.create_task(work)
    going = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({reading, going}, return_when=asyncio.FIRST_COMPLETED)
        return await reading if reading.done() else Response(status_code=_GONE)
    finally:
        going.cancel()
        reading.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _unknown(names: Iterable[str]) -> RequestValidationError:
    return RequestValidationError(
        [{"type": "extra_forbidden", "loc": ("parameters", name)} for name in names]
    )


def _few_values(body: bytes) -> bool:
    """Whether a body of JSON has few enough values to be parsed, which is seen much sooner than they are made."""
    if _marks(body) <= _MOST_VALUES:
        return True
    # What stands inside a text makes no value: of a body without escaped quotes, every other part is a text.
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    return plain.count(b'"') <= 4 * _MOST_VALUES and _marks(b"".join(plain.split(b'"')[::2])) <= _MOST_VALUES


def _marks(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def router(tag: str) -> APIRouter:
    """A router of such routes; the name of a function is the id of its operation."""
    return APIRouter(
        route_class=QuickRoute,
        tags=[tag],
        default_response_class=Response,
        generate_unique_id_function=lambda route: route.name,
    )


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

PathName = Annotated[Name, Path()]
Limit = Annotated[int, Query(ge=0, le=MAX_LIMIT)]
_MOST_TOKEN = 2000  # characters; the names in a cursor are short


def _cursor(given: object) -> Cursor:
    """The cursor that an answer gave as `next`."""
    try:
        if not isinstance(given, str) or len(given) > _MOST_TOKEN:
            raise ValueError
        cursor = _decode_cursor(base64.b64decode(given, b"-_", validate=True))
        if cursor.at is None or cursor.at.tzinfo is None:
            raise ValueError
    except (ValueError, msgspec.DecodeError):
        raise ValueError("must be the `next` of an answer of this listing") from None
    return cursor


_decode_cursor = msgspec.json.Decoder(Cursor).decode

#: Where to go on: the `next` of the answer before.
After = Annotated[
    Any,
    Query(description="Go on from here: the `next` of the page before."),
    BeforeValidator(_cursor),
    WithJsonSchema({"type": "string", "maxLength": _MOST_TOKEN}),
]


def token(cursor: Cursor | None) -> str | UnsetType:
    """A cursor as callers give it back; nothing where there is no more."""
    return UNSET if cursor is None else base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode()


def page_bytes(request: Request) -> int:
    """The most that a listing answers at once."""
    return memories_of(request).settings.server.max_page_bytes


def memories_of(request: Request) -> Memories:
    """What the server holds."""
    held: Memories = request.app.state.memories
    return held


def layers_of(request: Request) -> LayeredMemory:
    """The memories that the caller may see."""
    return memories_of(request).layers(caller_of(request.scope).tenant)


def service_of(request: Request) -> Memory:
    """The events that the caller may see."""
    return memories_of(request).service(caller_of(request.scope).tenant)


def check_content(request: Request, content: str | None) -> None:
    """Refuse content that is longer than this server takes."""
    most = memories_of(request).settings.server.max_content_bytes
    if content is not None and len(content.encode()) > most:
        wrong = f"must be at most {most:,} bytes in UTF-8 (server.max_content_bytes)"
        raise RequestValidationError([{"type": "too_long", "loc": ("body", "content"), "msg": wrong}])


def owner(memory_type: OwnerType, entity_id: str) -> dict[str, Any]:
    """Whose memories: `user_id` or `agent_id`."""
    return {f"{memory_type}_id": entity_id}
