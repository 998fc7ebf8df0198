"""Routes that say what they answer, and what is made from them: the OpenAPI document, and its page for people at /docs."""

import base64
import hashlib
import json
from collections.abc import Callable
from html import escape
from typing import Any, TypeVar

import msgspec
from fastapi import APIRouter, FastAPI, Response
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.responses import HTMLResponse

from octavo.config import Settings
from octavo.server.access import OPEN, needed_access
from octavo.server.problems import STATUSES, Problem
from octavo.server.routing import QuickRoute

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
        example: msgspec.Struct,
        *statuses: int,
        also: type[msgspec.Struct] | None = None,
        keyless: bool = False,
        media: tuple[str, ...] = ("application/json",),
    ) -> Callable[[F], F]:
        """Make a function the route that answers such a value, or one of another kind, or one of these statuses."""
        kinds = [type(example)] if also is None else [type(example), also]
        _described.extend(each for each in kinds if each not in _described)
        refs = [_ref(each) for each in kinds]
        schema = refs[0] if len(refs) == 1 else {"anyOf": refs}
        answer = {
            "description": " ".join((each.__doc__ or "").splitlines()[0] for each in kinds),
            "content": {
                media[0]: {"schema": schema, "example": msgspec.to_builtins(example)},
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
    for route in app.routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            for method in route.methods or ():
                # FastAPI drops what is null, which an example must show.
                told["paths"][route.path_format][method.lower()]["responses"]["200"] = route.responses[200]
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
    return HTMLResponse(_page(document), headers={"Content-Security-Policy": _POLICY})


def _page(document: dict[str, Any]) -> str:
    """The document as HTML, without a script."""
    keyed = "securitySchemes" in document["components"]
    about = "".join(f"<p>{_text(each)}</p>" for each in document["info"]["description"].strip().split("\n\n"))
    key = ", with the API key in <code>$OCTAVO_API_KEY</code>" if keyed else ""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>",
        f"<title>Octavo</title><style>{_STYLE}</style><h1>Octavo {escape(document['info']['version'])}</h1>{about}",
        f"<p>The lines below ask <code>$OCTAVO_SERVER</code>, such as <code>http://127.0.0.1:8000</code>{key}. ",
        "The same for programs: <a href='openapi.json'>openapi.json</a>.</p>",
    ]
    for tag in document["tags"]:
        parts.append(f"<h2>{escape(tag['name'])}</h2><p>{_text(tag['description'])}</p>")
        for path, methods in document["paths"].items():
            for method, told in methods.items():
                if tag["name"] in told["tags"]:
                    parts.append(_route(document, method.upper(), path, told, keyed=keyed))
    return "\n".join(parts)


def _route(document: dict[str, Any], method: str, path: str, told: dict[str, Any], *, keyed: bool) -> str:
    names = {
        each["name"]: each["name"].upper() for each in told.get("parameters", ()) if each["in"] == "path"
    }
    curl = [f'curl -X {method} "$OCTAVO_SERVER{path.format(**{**names, **_NAMES})}"']
    access = "no key" if path in OPEN else f"{needed_access(method, path)} access"
    if keyed and path not in OPEN:
        curl.append('-H "Authorization: Bearer $OCTAVO_API_KEY"')
    rows = [(each["name"], each["in"], each["schema"]) for each in told.get("parameters", ())]
    if "requestBody" in told:
        schema = told["requestBody"]["content"]["application/json"]["schema"]
        name = next((each for each in schema.get("anyOf", ()) if "$ref" in each), schema)["$ref"]
        body = document["components"]["schemas"][name.rpartition("/")[2]]
        rows += [(name, "body", field) for name, field in body["properties"].items()]
        curl += ['-H "Content-Type: application/json"', f"-d '{_json(body['examples'][0])}'"]
    table = "".join(
        f"<tr><td><code>{escape(name)}</code><td>{where}<td><code>{escape(_kind(schema))}</code>"
        for name, where, schema in rows
    )
    answer = next(iter(told["responses"]["200"]["content"].values()))
    example = answer["example"]
    line = " \\\n  ".join(curl)
    refusals = ", ".join(status for status in told["responses"] if status != "200")
    return (
        f"<details><summary><b>{method}</b><code>{escape(path)}</code> {_text(told['summary'])}"
        f"{f' <i>{access}</i>' if keyed else ''}</summary><p>{_text(told['description'])}</p><table>{table}</table>"
        f"<pre>{escape(line)}</pre><pre>{escape(_json(example, indent=2))}</pre>"
        f"<p>Refusals: {refusals}.</p></details>"
    )


def _kind(schema: dict[str, Any]) -> str:
    either = [_kind(each) for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    kind = " | ".join(schema.get("enum", either)) or schema.get("format") or schema.get("type", "")
    return f"{kind} = {_json(schema['default'])}" if schema.get("default") is not None else kind


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _text(prose: str) -> str:
    """Prose with its `words` as code."""
    parts = escape(prose).split("`")
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))
