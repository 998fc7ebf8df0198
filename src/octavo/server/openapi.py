"""Routes that say what they answer, and what is made from them: the OpenAPI document, and its page for people at /docs.

Answers are structs that are written to JSON as they are; those that the client reads as they are written here are in
`octavo.client.answers`.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal, TypeVar

import jinja2
import msgspec
from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from markupsafe import Markup, escape
from msgspec import UNSET, UnsetType
from starlette.responses import HTMLResponse, Response

from octavo.client.answers import Session, User
from octavo.config import Settings
from octavo.layers.values import Fact, Layer, LogEntry, Outcome, Status
from octavo.server.access import OPEN, needed_access
from octavo.server.problems import STATUSES, Problem
from octavo.server.routing import QuickRoute
from octavo.service.records import EventRecord, TurnRecord

F = TypeVar("F", bound=Callable[..., Any])

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color-scheme: light dark }
summary { cursor: pointer; padding: .3rem 0 } summary b { display: inline-block; min-width: 4.5rem }
summary code { font-weight: bold } details { border-bottom: 1px solid #8886 } i { opacity: .7 }
pre { overflow-x: auto; padding: .7rem; background: #8882 } td { padding: 0 1rem .2rem 0; vertical-align: top }
"""
# Nothing is loaded, run or sent by this page, whatever comes to stand in it.
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_NAMES = {
    "memory_type": "user", "entity_id": "user123", "layer": "profile", "session": "dm:lin", "user_id": "user123",
}  # fmt: skip
_REF = "#/components/schemas/{name}"

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
        kind: type[msgspec.Struct],
        *statuses: int,
        also: type[msgspec.Struct] | None = None,
        keyless: bool = False,
        media: tuple[str, ...] = ("application/json",),
    ) -> Callable[[F], F]:
        """Make a function the route that answers a value of this kind, or of another one, or one of these statuses."""
        kinds = [kind] if also is None else [kind, also]
        _described.extend(each for each in kinds if each not in _described)
        refs = [_ref(each) for each in kinds]
        schema = refs[0] if len(refs) == 1 else {"anyOf": refs}
        answer = {
            "description": " ".join((each.__doc__ or "").splitlines()[0] for each in kinds),
            "content": {
                media[0]: {"schema": schema},
                **{text: {"schema": {"type": "string"}} for text in media[1:]},
            },
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
        "description": "`{}`: {}".format(*STATUSES[status]),
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
        schemas[name] = _close_schema(schema)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for name in ("NewMemory", "Revision"):
        content = schemas[name]["properties"]["content"]
        next(iter(content.get("anyOf", [content])))["maxLength"] = settings.server.max_content_bytes
    schemas["Batch"]["properties"]["requests"]["maxItems"] = settings.server.max_batch
    keyed = settings.server.needs_key
    if keyed:
        components["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer oct_…`"},
            "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        }
    for path in told["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _without_null(parameter["schema"])
            if keyed and "401" in operation["responses"]:
                operation["security"] = [{"bearer": []}, {"header": []}]
    return told


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter's schema without null, which no query can say: it is left out instead."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return schema
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    return {**kinds[0], **rest}


def _close_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """An answer has the fields it is described with and no others, and every one that is always sent is required."""
    properties: dict[str, Any] = schema.get("properties", {})
    kind = next((each for each in _described if each.__name__ == schema.get("title")), None)
    fields = () if kind is None else msgspec.structs.fields(kind)
    sometimes = {field.encode_name for field in fields if field.default is msgspec.UNSET}
    always = [name for name in properties if name not in sometimes]
    return {**schema, "required": always, "additionalProperties": False} if properties else schema


def docs_page(document: dict[str, Any]) -> Response:
    """The page at /docs: every route with a line to try, for people, on a machine without the internet too."""
    templates = jinja2.Environment(loader=jinja2.PackageLoader("octavo.server"), autoescape=True)
    schemas = document["components"]["schemas"]

    def find_schemas(told: dict[str, Any]) -> list[dict[str, Any]]:
        """What is sent or answered: the schema that is referred to, or several, of which one may be null."""
        schema = next(iter(told["content"].values()))["schema"]
        named = [each["$ref"] for each in schema.get("anyOf", [schema]) if "$ref" in each]
        return [schemas[name.rpartition("/")[2]] for name in named]

    templates.filters |= {
        "schemas": find_schemas,
        "json": _json,
        "kind": _kind,
        "prose": _render_prose,
        "named": _name_path,
    }
    keyed = "securitySchemes" in document["components"]
    page = templates.get_template("docs.html")
    shown = page.render(document, style=_STYLE, keyed=keyed, open_paths=OPEN, access=needed_access)
    return HTMLResponse(shown, headers={"Content-Security-Policy": _POLICY})


def _name_path(path: str, told: dict[str, Any]) -> str:
    """A path to try: names that are known from the examples, and others by what they stand for."""
    names = (each["name"] for each in told.get("parameters", ()) if each["in"] == "path")
    return path.format(**{name: _NAMES.get(name, name.upper()) for name in names})


def _kind(schema: dict[str, Any]) -> str:
    either = [_kind(each) for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    kind = " | ".join(schema.get("enum", either)) or schema.get("format") or schema.get("type", "")
    return f"{kind} = {_json(schema['default'])}" if schema.get("default") is not None else kind


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _render_prose(text: str) -> Markup:
    """A text with its `words` as code."""
    return Markup(re.sub("`(.*?)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - it is escaped


_encode = msgspec.json.Encoder().encode


def answer(value: Any) -> Response:
    """The value as JSON; times are ISO 8601 in UTC."""
    return Response(_encode(value), media_type="application/json")


class MemoryList(msgspec.Struct, frozen=True, kw_only=True):
    """Memories of one layer of one user or agent."""

    user_id: str | UnsetType = UNSET
    agent_id: str | UnsetType = UNSET
    layer: Layer
    count: int
    memories: list[Fact]
    next: str | UnsetType = UNSET  # what `after` is given for more


class ExportedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One line of an export: a record, without what is empty."""

    collection: str
    id: str
    created_at: datetime
    seq: int
    kind: str | UnsetType = UNSET
    scope: dict[str, str] | UnsetType = UNSET  # tenant, user, agent and session
    text: str | UnsetType = UNSET
    data: dict[str, Any] | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    marks: list[str] | UnsetType = UNSET
    updated_at: datetime | UnsetType = UNSET
    expires_at: datetime | UnsetType = UNSET


class Allowed(msgspec.Struct, frozen=True, kw_only=True):
    """The memory whose fact may be learnt again."""

    allowed: str


class LogList(msgspec.Struct, frozen=True, kw_only=True):
    """Log rows of one memory, or of one user or agent; newest first."""

    memory_id: str | UnsetType = UNSET
    user_id: str | UnsetType = UNSET
    agent_id: str | UnsetType = UNSET
    count: int
    logs: list[LogEntry]
    next: str | UnsetType = UNSET  # what `after` is given for more


class EventList(msgspec.Struct, frozen=True, kw_only=True):
    """Events, newest first."""

    session: str | None
    count: int
    events: list[EventRecord]
    next: str | UnsetType = UNSET  # what `after` is given for more


class TurnList(msgspec.Struct, frozen=True, kw_only=True):
    """Turns of a session, newest first."""

    session: str
    count: int
    turns: list[TurnRecord]
    next: str | UnsetType = UNSET  # what `after` is given for more


class SessionList(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions, the latest first."""

    count: int
    sessions: list[Session]
    next: str | UnsetType = UNSET  # what `after` is given for more


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What a supervisor or a load balancer is told, by the status alone."""

    status: Literal["alive", "ready"]


class UserList(msgspec.Struct, frozen=True, kw_only=True):
    """Users, by name."""

    count: int
    users: list[User]
    next: str | UnsetType = UNSET  # what `after` is given for more


class AutoExtracted(msgspec.Struct, frozen=True, kw_only=True):
    """What was made of a text, fact by fact; `source_id` is the event that keeps the text."""

    mode: Literal["auto_extract"] = "auto_extract"
    status: Status
    source_id: str
    total_extracted: int
    inserted: int
    updated: int
    ignored: int
    profile_count: int
    event_count: int
    memories: list[Outcome]
    note: str | UnsetType = UNSET  # what was left out of a text that is longer than what is read of it
