"""The page at /docs: every route with a line to try, for people, on a machine without the internet too."""

import base64
import hashlib
import json
from collections.abc import Awaitable, Callable
from html import escape
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from octavo.server.access import OPEN, needed_access

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
_NAMES = {"memory_type": "user", "entity_id": "user123", "layer": "profile", "session": "dm:lin"}


def docs_route(document: Callable[[], dict[str, Any]]) -> Callable[[Request], Awaitable[Response]]:
    """The route of the page over this OpenAPI document."""
    made: list[str] = []

    async def docs(_: Request) -> Response:
        if not made:
            made.append(page(document()))
        return HTMLResponse(made[0], headers={"Content-Security-Policy": _POLICY})

    return docs


def page(document: dict[str, Any]) -> str:
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
    example = told["responses"]["200"]["content"]["application/json"]["example"]
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
