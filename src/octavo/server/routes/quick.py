"""Routes whose parameters are checked in one go: they are documented by FastAPI, and read many times faster than by it."""

import asyncio
import functools
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from starlette.exceptions import HTTPException

from octavo.util.turns import let_others

_GONE = 499  # what a log calls a request whose caller did not wait; nobody is sent it
Handler = Callable[[Request], Coroutine[Any, Any, Response]]
_MOST_VALUES = (
    20_000  # in a body: each is made, checked and written several times, while everybody else waits
)
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


def router(**more: Any) -> APIRouter:
    """A router of such routes."""
    return APIRouter(route_class=QuickRoute, **more)
