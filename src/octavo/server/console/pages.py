"""How a page comes to be: who asks, in which language, from which template; and forms, which carry a token."""

import functools
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import parse_qs, quote, urlencode

import jinja2
import msgspec
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from jinja2.runtime import Context
from markupsafe import Markup, escape
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from octavo.errors import OctavoError
from octavo.kernel.text import printable, spell
from octavo.server.access import CONSOLE, Caller, needed_access
from octavo.server.console import drawing, signing
from octavo.server.console.problems import TITLES, in_chinese
from octavo.server.console.texts import CHINESE
from octavo.server.gate import CALLER, REQUEST_ID
from octavo.server.logs import Secrets
from octavo.server.problems import Problem, refusal, sentence
from octavo.server.requests import memories_of
from octavo.server.routing import checked

B = TypeVar("B", bound=BaseModel)
LANGUAGE = "octavo_language"
SHOWN = 600  # characters of a text in a list
WHOLE = 20_000  # characters of a text on a page of its own
_FORM_BYTES = 16_384  # of a form that anybody may send
_PREFERENCE = re.compile(r"\s*([A-Za-z]+|\*)[^,;]*(?:;\s*q=([0-9.]+))?")
#: Nothing is loaded from elsewhere, nothing is run that stands in a page, and no site can hold a page in a frame.
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    "Referrer-Policy": "same-origin",  # with none at all, a browser would not say which page sends a form
    "X-Frame-Options": "DENY",
    "Vary": "Accept-Language, Cookie",
}


class Page:
    """One request of a browser, and how it is answered."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.caller: Caller | None = request.scope.get(CALLER)
        self.query = request.query_params
        self.form: dict[str, str] = {}
        self.root = request.scope.get("root_path", "")
        self.language = _language(request)
        self.signing = signing.Signing(memories_of(request).digest_key)
        known = request.cookies.get(signing.BROWSER, "")
        self._browser = known or signing.new_browser()
        self._new_browser = not known

    @property
    def key_id(self) -> str | None:
        """The key of whoever is signed in."""
        return None if self.caller is None else self.caller.key_id

    def may(self, method: str, path: str) -> bool:
        """Whether whoever asks may do that, so that a page offers nothing that would be refused."""
        order = ("read", "write", "admin")
        caller = self.caller
        return caller is not None and order.index(caller.access) >= order.index(needed_access(method, path))

    def address(self, *names: str, **query: object) -> str:
        """The address of a page of the console, with the names in its path and what is asked of it."""
        path = "/".join([f"{self.root}{CONSOLE}", *(quote(name, safe="") for name in names)])
        asked = urlencode({name: value for name, value in query.items() if value not in (None, "")})
        return f"{path}?{asked}" if asked else path

    def here(self, **query: object) -> str:
        """The address of this page, with something else asked of it; None takes a question away."""
        asked = urlencode({k: v for k, v in {**self.query, **query}.items() if v not in (None, "")})
        scope = self.request.scope
        path = scope["raw_path"].decode("ascii", "replace") if scope.get("raw_path") else quote(scope["path"])
        return f"{path}?{asked}" if asked else path

    async def read_form(self) -> None:
        """Read what was sent, if it was sent from a page of ours."""
        body = b""
        async for piece in self.request.stream():
            body += piece
            if self.caller is None and len(body) > _FORM_BYTES:
                raise HTTPException(413, f"this form may have at most {_FORM_BYTES:,} bytes")
        try:
            read = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=100, errors="strict")
        except ValueError:
            raise HTTPException(400, "the form cannot be read") from None
        self.form = {name: values[-1].replace("\r\n", "\n") for name, values in read.items()}
        browser = self.request.cookies.get(signing.BROWSER, "")
        if not self.signing.fits(self.form.pop("token", ""), browser, self.key_id):
            raise HTTPException(
                403,
                "this form was not sent from a page of this console, or that page is too old; open it again",
            )

    def checked(self, kind: type[B], /, **values: Any) -> B:
        """What was asked for, checked as a request to the server is; what was left empty is left out."""
        given = {name: value for name, value in values.items() if value not in (None, "")}
        found: B = checked("form", kind.model_validate, given)
        return found

    def render(self, template: str, status: int = 200, /, **values: Any) -> Response:
        """A page."""
        made = (
            environment()
            .get_template(template)
            .render(
                page=self,
                language=self.language,
                token=self.signing.token(self._browser, self.key_id),
                done=self.query.get("done", ""),
                **values,
            )
        )
        response = HTMLResponse(made, status, headers=_HEADERS)
        if self._new_browser:
            self.set_cookie(response, signing.BROWSER, self._browser)
        return response

    def problem(self, status: int, detail: str) -> Response:
        """A page that says what went wrong."""
        title = HTTPStatus(status).phrase
        if self.language == "zh":
            title, detail = TITLES.get(status, title), in_chinese(detail)
        return self.render("problem.html", status, title=title, detail=detail)

    def redirect(self, address: str) -> Response:
        """Go on there, with a question and never with the form again."""
        return RedirectResponse(address, 303, headers=_HEADERS)

    def following(self, default: str | None = None) -> str:
        """Where to go on: a page of this console that was named, or another one."""
        named = self.form.get("next") or self.query.get("next", "")
        own = re.fullmatch(rf"{re.escape(self.root)}{CONSOLE}(?:[/?][^\\\s]*)?", named)
        return named if own else default or self.address()

    def set_cookie(self, response: Response, name: str, value: str, **more: Any) -> None:
        """Give the browser something that its pages cannot read and other sites cannot make it send."""
        forwarded = self.request.headers.get("x-forwarded-proto", "")
        secure = "https" in (self.request.url.scheme, forwarded)
        where = f"{self.root}{CONSOLE}"
        response.set_cookie(name, value, path=where, httponly=True, samesite="strict", secure=secure, **more)

    def drop_cookie(self, response: Response, name: str) -> None:
        """Take it back."""
        response.delete_cookie(name, path=f"{self.root}{CONSOLE}", httponly=True, samesite="strict")


Endpoint = Callable[[Page], Awaitable[Response]]


class PageRoute(Route):
    """A route whose name stands in the log of requests."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        scope["route"] = self
        await super().handle(scope, receive, send)


class Pages(list[Route]):
    """Pages and forms about one thing."""

    def add(self, method: str, path: str) -> Callable[[Endpoint], Endpoint]:
        """Make a function the page of a path, or what is done with a form that is sent there."""

        def add(function: Endpoint) -> Endpoint:
            self.append(PageRoute(f"{CONSOLE}{path}", _answering(function), methods=[method]))
            return function

        return add


def _answering(function: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        page = Page(request)
        try:
            if request.method == "POST":
                await page.read_form()
            return await function(page)
        except RequestValidationError as error:
            return page.problem(422, sentence(error.errors()))
        except HTTPException as error:
            return page.problem(error.status_code, str(error.detail))
        except OctavoError as error:
            admin = page.caller is not None and page.caller.admin
            secrets: Secrets = request.app.state.secrets
            told = refusal(error, secrets, request.scope.get(REQUEST_ID, ""), admin=admin)
            if told is None:
                raise
            return as_page(page, told)

    return answer


def as_page(page: Page, told: Response) -> Response:
    """A refusal as people read it."""
    made = page.problem(told.status_code, msgspec.json.decode(bytes(told.body), type=Problem).detail)
    for name in ("retry-after", "www-authenticate", "allow", "x-request-id"):
        if name in told.headers:
            made.headers[name] = told.headers[name]
    return made


# --- what templates speak with


@functools.cache
def environment() -> jinja2.Environment:
    """The templates; whatever comes to stand in one is escaped."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("octavo.server.console"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        auto_reload=False,
    )
    made.globals |= {"_": _say, "diff": drawing.word_diff, "markdown": drawing.markdown}
    made.filters |= {
        "shown": shown,
        "when": when,
        "number": "{:,}".format,
        "marked": drawing.marked,
        "spelled": spell,
    }
    for name in made.list_templates():  # compiled while it serves, they would hold up everybody
        made.get_template(name)
    return made


@jinja2.pass_context
def _say(context: Context, text: str) -> str:
    return CHINESE.get(text, text) if context.get("language") == "zh" else text


def shown(text: object, most: int = SHOWN) -> str:
    """A text as it can be shown: what would steer a terminal or turn the direction of a line is spelled out, the rest cut."""
    whole = str(text)
    cut = "\n".join(map(printable, whole[:most].split("\n")))
    return cut if len(whole) <= most else f"{cut}… (+{len(whole) - most:,})"


def when(at: datetime | None) -> Markup:
    """A moment, to the second, in UTC."""
    if at is None:
        return Markup("–")
    at = at.astimezone(UTC)
    spelled = at.strftime("%Y-%m-%d %H:%M:%S")
    return Markup('<time datetime="{}">{}</time>').format(at.isoformat(), escape(spelled))


def _language(request: Request) -> str:
    """The language that was chosen, or else the one that the browser asks for first of those there are."""
    if (chosen := request.cookies.get(LANGUAGE)) in ("en", "zh"):
        return str(chosen)
    wanted: list[tuple[float, str]] = []
    for each in request.headers.get("accept-language", "")[:500].split(","):
        if found := _PREFERENCE.match(each):
            try:
                wanted.append((-float(found[2] or 1), found[1].lower()))
            except ValueError:
                continue
    known = [name for _, name in sorted(wanted, key=lambda one: one[0]) if name in ("en", "zh")]
    return known[0] if known else "en"
