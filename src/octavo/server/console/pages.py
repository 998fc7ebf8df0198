"""How a page comes to be: who asks, in which language, from which template; and forms, which carry a token."""

import difflib
import functools
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import parse_qs, quote, urlencode

import jinja2
import msgspec
from fastapi import Request, Response
from jinja2.runtime import Context
from markdown_it import MarkdownIt
from markupsafe import Markup, escape
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.routing import Route
from starlette.types import Scope

from octavo.kernel.terms.terms import simplify
from octavo.kernel.text import escape_controls, spell
from octavo.keys import ACCESS
from octavo.server.access import BROWSER_COOKIE, CONSOLE, Caller, Signing, needed_access
from octavo.server.console.texts import CHINESE, TITLES, translate
from octavo.server.gate import CALLER
from octavo.server.problems import Problem
from octavo.server.routing import Admitted, validate

B = TypeVar("B", bound=BaseModel)
LANGUAGE = "octavo_language"
SHOWN = 600  # characters of a text in a list
_FORM_BYTES = 16_384  # of a form that anybody may send
#: Nothing is loaded from elsewhere, nothing is run that stands in a page, and no site can hold a page in a frame.
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    "Referrer-Policy": "same-origin",  # with none at all, a browser would not say which page sends a form
    "X-Frame-Options": "DENY",
    "Vary": "Accept-Language, Cookie",
}

_WORDS = re.compile(r"[A-Za-z0-9_']+|\s+|.", re.DOTALL)
_MOST_WORDS = 600  # of each text that are compared: the time grows with their square
_LINKED = ("http://", "https://", "#")


class ConsoleRequest(Admitted):
    """One request of a browser, and how it is answered."""

    def __init__(self, request: Request) -> None:
        super().__init__(request.scope, request.receive)
        self.visitor: Caller | None = self.scope.get(CALLER)  # nobody who has yet to sign in
        self.key_id = None if self.visitor is None else self.visitor.key_id
        self.sent: dict[str, str] = {}  # with a form
        self.root = self.scope.get("root_path", "")
        self.language = _language(request)
        self.signing = Signing(self.memories.digest_key)
        known = self.cookies.get(BROWSER_COOKIE, "")
        self._browser = known or secrets.token_hex(16)  # which nobody guesses
        self._new_browser = not known

    def may(self, method: str, path: str) -> bool:
        """Whether whoever asks may do that, so that a page offers nothing that would be refused."""
        needed = ACCESS.index(needed_access(method, path))
        return self.visitor is not None and ACCESS.index(self.visitor.access) >= needed

    def address(self, *names: str, **query: object) -> str:
        """The address of a page of the console, with the names in its path and what is asked of it."""
        path = "/".join([f"{self.root}{CONSOLE}", *(quote(name, safe="") for name in names)])
        asked = urlencode({name: value for name, value in query.items() if value not in (None, "")})
        return f"{path}?{asked}" if asked else path

    def here(self, **query: object) -> str:
        """The address of this page, with something else asked of it; None takes a question away."""
        asked = urlencode({k: v for k, v in {**self.query_params, **query}.items() if v not in (None, "")})
        scope = self.scope
        path = scope["raw_path"].decode("ascii", "replace") if scope.get("raw_path") else quote(scope["path"])
        return f"{path}?{asked}" if asked else path

    async def read_form(self) -> None:
        """Read what was sent, if it was sent from a page of ours."""
        body = b""
        async for piece in self.stream():
            body += piece
            if self.visitor is None and len(body) > _FORM_BYTES:
                raise HTTPException(413, f"this form may have at most {_FORM_BYTES:,} bytes")
        try:
            read = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=100, errors="strict")
        except ValueError:
            raise HTTPException(400, "the form cannot be read") from None
        self.sent = {name: values[-1].replace("\r\n", "\n") for name, values in read.items()}
        browser = self.cookies.get(BROWSER_COOKIE, "")
        if not self.signing.fits(self.sent.pop("token", ""), browser, self.key_id):
            raise HTTPException(
                403,
                "this form was not sent from a page of this console, or that page is too old; open it again",
            )

    def read(self, kind: type[B], *names: str, **values: str) -> B:
        """What was asked for under these names, or all names of the kind, checked as a request to the server is.

        It comes from the form that was sent, or else from the address; what was left empty is left out.
        """
        given = self.sent if self.method == "POST" else self.query_params
        said = {name: given.get(name) for name in names or kind.model_fields} | values
        filled = {name: value for name, value in said.items() if value not in (None, "")}
        found: B = validate("form", kind.model_validate, filled)
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
                done=self.query_params.get("done", ""),
                **values,
            )
        )
        response = HTMLResponse(made, status, headers=_HEADERS)
        if self._new_browser:
            self.set_cookie(response, BROWSER_COOKIE, self._browser)
        return response

    def problem(self, status: int, detail: str) -> Response:
        """A page that says what went wrong."""
        title = HTTPStatus(status).phrase
        if self.language == "zh":
            title, detail = TITLES.get(status, title), translate(detail)
        return self.render("problem.html", status, title=title, detail=detail)

    def redirect(self, address: str) -> Response:
        """Go on there, with a question and never with the form again."""
        return RedirectResponse(address, 303, headers=_HEADERS)

    def next_page(self, default: str | None = None) -> str:
        """Where to go on: a page of this console that was named, or another one."""
        named = self.sent.get("next") or self.query_params.get("next", "")
        own = re.fullmatch(rf"{re.escape(self.root)}{CONSOLE}(?:[/?][^\\\s]*)?", named)
        return named if own else default or self.address()

    def set_cookie(self, response: Response, name: str, value: str, **more: Any) -> None:
        """Give the browser something that its pages cannot read and other sites cannot make it send."""
        forwarded = self.headers.get("x-forwarded-proto", "")
        secure = "https" in (self.url.scheme, forwarded)
        where = f"{self.root}{CONSOLE}"
        response.set_cookie(name, value, path=where, httponly=True, samesite="strict", secure=secure, **more)

    def drop_cookie(self, response: Response, name: str) -> None:
        """Take it back."""
        response.delete_cookie(name, path=f"{self.root}{CONSOLE}", httponly=True, samesite="strict")


Endpoint = Callable[[ConsoleRequest], Awaitable[Response]]


class Pages(list[Route]):
    """Pages and forms about one thing."""

    def add(self, method: str, path: str) -> Callable[[Endpoint], Endpoint]:
        """Make a function the page of a path, or what is done with a form that is sent there."""

        def add(function: Endpoint) -> Endpoint:
            async def answer(request: Request) -> Response:
                """What is wrong with a form or a page is told as all errors are, and comes back to `refusal_page`."""
                page = ConsoleRequest(request)
                if request.method == "POST":
                    await page.read_form()
                return await function(page)

            self.append(Route(f"{CONSOLE}{path}", answer, methods=[method]))
            return function

        return add


def refusal_page(scope: Scope, told: Response) -> Response:
    """A refusal as a page; whoever only has to sign in is asked to."""
    page = ConsoleRequest(Request(scope))
    if told.status_code == 401 and scope["method"] in ("GET", "HEAD"):
        return page.redirect(page.address("sign-in", next=page.here()))
    made = page.problem(told.status_code, msgspec.json.decode(bytes(told.body), type=Problem).detail)
    for name in ("retry-after", "www-authenticate", "allow", "x-request-id"):
        if name in told.headers:
            made.headers[name] = told.headers[name]
    return made


# --- what templates speak with


@functools.cache
def environment() -> jinja2.Environment:
    """The templates, each compiled for its first page (3 to 30 ms); whatever comes to stand in one is escaped."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("octavo.server.console"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        auto_reload=False,
    )
    made.globals |= {"_": _say, "diff": word_diff, "markdown": render_markdown}
    made.filters |= {
        "shown": show_text,
        "when": when,
        "number": "{:,}".format,
        "marked": mark_terms,
        "spelled": spell,
    }
    return made


@jinja2.pass_context
def _say(context: Context, text: str) -> str:
    return CHINESE.get(text, text) if context.get("language") == "zh" else text


def show_text(text: object, most: int = SHOWN) -> str:
    """A text as it can be shown: what would steer a terminal or turn the direction of a line is spelled out, the rest cut."""
    whole = str(text)
    cut = "\n".join(map(escape_controls, whole[:most].split("\n")))
    return cut if len(whole) <= most else f"{cut}… (+{len(whole) - most:,})"


def when(at: datetime | None) -> Markup:
    """A moment, to the second, in UTC."""
    if at is None:
        return Markup("–")
    at = at.astimezone(UTC)
    spelled = at.strftime("%Y-%m-%d %H:%M:%S")
    return Markup('<time datetime="{}">{}</time>').format(at.isoformat(), escape(spelled))


def word_diff(before: str, after: str) -> list[tuple[str, str]]:
    """How one text became the other: pieces that stayed (""), went ("del") or came ("ins"), in order."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if max(len(old), len(new)) > _MOST_WORDS:
        return [("del", before), ("ins", after)]
    pieces: list[tuple[str, str]] = []
    for kind, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            pieces.append(("", "".join(old[i:j])))
            continue
        pieces += [("del", "".join(old[i:j]))] if j > i else []
        pieces += [("ins", "".join(new[k:m]))] if m > k else []
    return pieces


def mark_terms(text: str, terms: Sequence[str]) -> Markup:
    """The text with the terms in it marked, a word as a whole when it begins with one."""
    known = sorted({term for term in terms if term}, key=len, reverse=True)
    if not known:
        return escape(text)
    found = re.compile("|".join(_spelling(term) for term in known), re.IGNORECASE)
    made, last = [], 0
    for match in found.finditer(simplify(text)):
        marked = text[match.start() : match.end()]
        made += [escape(text[last : match.start()]), Markup("<mark>{}</mark>").format(marked)]
        last = match.end()
    return Markup("").join([*made, escape(text[last:])])


def _spelling(term: str) -> str:
    return rf"\b{re.escape(term)}[a-z]*" if term.isascii() and term.isalnum() else re.escape(term)


@functools.cache
def _markdown() -> MarkdownIt:
    """A reader of documents, in which HTML is text, no link runs anything, and nothing is fetched from elsewhere."""
    reader = MarkdownIt("commonmark", {"html": False}).disable("image")
    reader.validateLink = lambda url: url.startswith(_LINKED)  # type: ignore[method-assign]
    return reader


def render_markdown(text: str) -> Markup:
    """A document as it reads."""
    reader = _markdown()
    tokens = reader.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + 2)}"  # the page's own come first
        for link in token.children or ():
            if link.type == "link_open":
                link.attrSet("rel", "noreferrer noopener")
    return Markup(reader.renderer.render(tokens, reader.options, {}))  # noqa: S704 - it escapes what is no Markdown


def _language(request: Request) -> str:
    """The language that was chosen, or else the one that the browser names first of those there are."""
    if (chosen := request.cookies.get(LANGUAGE)) in ("en", "zh"):
        return str(chosen)
    # Browsers name the language that they like best first.
    wanted = re.findall(r"\b(en|zh)\b", request.headers.get("accept-language", "")[:500].lower())
    return wanted[0] if wanted else "en"
