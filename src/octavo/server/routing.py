"""How a request reaches its route: names in paths, and parameters and bodies, read and checked in one go."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException

from octavo.server.gate import SLASH
from octavo.server.requests import MOST_UNKNOWN
from octavo.util.sync import let_others

#: Values in a body: each is made, checked and written several times, while everybody else waits.
_MOST_VALUES = 20_000


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
            if len(query) > len(names) + MOST_UNKNOWN:
                unknown = [{"type": "extra_forbidden", "loc": ("parameters", name)} for name in query]
                raise RequestValidationError(unknown)
            # What the path says comes last: no query can stand in for it.
            given = checked(
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
    check_values(raw)
    await let_others(len(raw))
    try:
        value = json.loads(raw) if raw and request.headers.get("content-type") else raw or None
    except json.JSONDecodeError as error:
        wrong = error.msg.rstrip(": ").removesuffix(" at")
        raise HTTPException(
            400, f"the body cannot be read as JSON: {wrong} at character {error.pos}"
        ) from None
    except (ValueError, RecursionError):  # no UTF-8, a number of thousands of digits, thousands of brackets
        raise HTTPException(400, "the body cannot be read as JSON") from None
    found = checked("body", kind.validate_python, value)
    await let_others(len(raw))
    return found


def checked(where: str, check: Callable[[Any], Any], value: Any) -> Any:
    """What pydantic makes of a value; what does not fit is said to be in this part of the request."""
    try:
        return check(value)
    except ValidationError as error:
        told = error.errors(include_url=False, include_context=False)
    raise RequestValidationError([{**each, "loc": (where, *each["loc"])} for each in told])


def check_values(body: bytes) -> None:
    """Refuse a body of more values than others should wait for."""
    if not _few_values(body):
        raise HTTPException(400, f"a body may hold at most {_MOST_VALUES:,} values")


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
