"""What all routes share: how a path names things, whose memory a request is about, and what can go wrong."""

import base64
from typing import Annotated, Any

import msgspec
from fastapi import Path, Query, Request
from fastapi.exceptions import RequestValidationError
from msgspec import UNSET, UnsetType
from pydantic import BeforeValidator, WithJsonSchema
from starlette.convertors import Convertor, register_url_convertor

from octavo.kernel.model import Cursor
from octavo.layers import LayeredMemory
from octavo.server.bodies import MAX_LIMIT, Name, OwnerType
from octavo.server.gate import SLASH, caller_of
from octavo.server.memories import Memories
from octavo.service.memory import Memory


class NameConvertor(Convertor[str]):
    """Any text, a slash written as %2F included."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return value.replace(SLASH, "/")

    def to_string(self, value: str) -> str:
        return value.replace("/", "%2F")


class OwnerConvertor(Convertor[str]):
    """`user` or `agent`; or a path with another word in this place would hide the routes that it belongs to."""

    regex = "user|agent"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


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
    most: int = memories_of(request).settings.server.max_page_bytes
    return most


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
