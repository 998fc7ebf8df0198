"""Routes that say what they answer, and the OpenAPI document made from them: answers are described by their structs."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from fastapi import APIRouter, FastAPI, Response
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from octavo.config import Settings
from octavo.server.problems import Problem
from octavo.server.requests import QuickRoute

F = TypeVar("F", bound=Callable[..., Any])

_REF = "#/components/schemas/{name}"

_MEANING = {
    400: "The body cannot be read.",
    401: "No API key, or one that is unknown, expired or revoked.",
    403: "The key has not the access that this needs, or a page of another site asks.",
    404: "There is no such thing, or it is somebody else's.",
    409: "Somebody else changed it, or it cannot be undone any more.",
    413: "The request is too large.",
    415: "The body is not sent as JSON.",
    421: "Without keys, the server answers only to 127.0.0.1 and localhost, and to no proxy.",
    422: "Something in the request does not fit; the sentence names it.",
    429: "This key has made too many requests; `Retry-After` says when to come back.",
    503: "The store cannot be reached, or too many requests are under way; `Retry-After` says when to come back.",
    504: "It took too long.",
}
_RETRY = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}}
_REALM = {"WWW-Authenticate": {"description": "`Bearer`.", "schema": {"type": "string"}}}
_HEADERS = {401: _REALM, 429: _RETRY, 503: _RETRY, 504: _RETRY}
_ALWAYS = (401, 403, 413, 421, 422, 429, 503, 504)
_OPEN = (403, 421, 503, 504)

#: Every struct that an answer is described by.
_described: list[Any] = [Problem]


class Routes(APIRouter):
    """Routes about one thing; the name of a function is the id of its operation."""

    def __init__(self, tag: str) -> None:
        super().__init__(
            route_class=QuickRoute,
            tags=[tag],
            default_response_class=Response,
            generate_unique_id_function=lambda route: route.name,
        )

    def answers(
        self,
        method: str,
        path: str,
        summary: str,
        example: msgspec.Struct,
        *statuses: int,
        also: type[msgspec.Struct] | None = None,
        keyless: bool = False,
    ) -> Callable[[F], F]:
        """Make a function the route that answers such a value, or one of another kind, or one of these statuses."""
        kinds = [type(example)] if also is None else [type(example), also]
        _described.extend(each for each in kinds if each not in _described)
        refs = [_ref(each) for each in kinds]
        schema = refs[0] if len(refs) == 1 else {"anyOf": refs}
        answer = {
            "description": " ".join((each.__doc__ or "").splitlines()[0] for each in kinds),
            "content": {"application/json": {"schema": schema, "example": msgspec.to_builtins(example)}},
        }

        def add(function: F) -> F:
            refusals = {*(_OPEN if keyless else _ALWAYS), *statuses}
            refusals |= {415} if method in ("POST", "PUT") else set()
            refusals |= {400} if "body" in function.__annotations__ else set()
            responses = {200: answer, **{status: _refusal(status) for status in sorted(refusals)}}
            self.add_api_route(path, function, methods=[method], summary=summary, responses=responses)
            return function

        return add


def _ref(kind: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": _REF.format(name=kind.__name__)}


def _refusal(status: int) -> dict[str, Any]:
    told: dict[str, Any] = {
        "description": _MEANING[status],
        "content": {"application/json": {"schema": _ref(Problem)}},
    }
    return {**told, "headers": _HEADERS[status]} if status in _HEADERS else told


def document(app: FastAPI, settings: Settings) -> dict[str, Any]:
    """The whole document."""
    told = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
    )
    components = told.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    _, structs = msgspec.json.schema_components(_described, ref_template=_REF)
    for name, schema in structs.items():
        schemas[name] = _closed(schema)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for name in ("NewMemory", "Revision"):
        content = schemas[name]["properties"]["content"]
        next(iter(content.get("anyOf", [content])))["maxLength"] = settings.server.max_content_bytes
    keyed = settings.server.needs_key
    if keyed:
        components["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer oct_…`"},
            "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        }
    for route in app.routes:
        if isinstance(route, APIRoute):
            for method in route.methods or ():
                # FastAPI drops what is null, which an example must show.
                told["paths"][route.path_format][method.lower()]["responses"]["200"] = route.responses[200]
    for path in told["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _given(parameter["schema"])
            if keyed and "401" in operation["responses"]:
                operation["security"] = [{"bearer": []}, {"header": []}]
    return told


def _given(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter's schema without null, which no query can say: it is left out instead."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return schema
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    return {**kinds[0], **rest}


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """An answer has the fields it is described with and no others, and every one that is always sent is required."""
    properties: dict[str, Any] = schema.get("properties", {})
    kind = next((each for each in _described if each.__name__ == schema.get("title")), None)
    fields = () if kind is None else msgspec.structs.fields(kind)
    sometimes = {field.encode_name for field in fields if field.default is msgspec.UNSET}
    always = [name for name in properties if name not in sometimes]
    return {**schema, "required": always, "additionalProperties": False} if properties else schema
