"""All pages of the console, and what stands around them: signing in and out, the language, and refusals."""

import importlib.resources
from collections.abc import Sequence

from fastapi import Request, Response
from starlette.responses import RedirectResponse
from starlette.routing import Route
from starlette.types import Scope

from octavo.kernel.ids import now
from octavo.server.access import CONSOLE
from octavo.server.console import signing
from octavo.server.console.pages import LANGUAGE, Page, Pages, as_page, environment
from octavo.server.console.views import asking, memories, overview, people, sessions, upkeep
from octavo.server.requests import memories_of

pages = Pages()
_TYPES = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_STATIC = {
    name: (importlib.resources.files("octavo.server.console") / "static" / name).read_bytes()
    for name in _TYPES
}
_YEAR_SECONDS = 365 * 86_400


def routes() -> list[Route]:
    """The routes of all pages, in the order in which they are matched."""
    environment()
    first = Route("/", lambda request: RedirectResponse(f"{request.scope.get('root_path', '')}{CONSOLE}"))
    views: Sequence[Pages] = (
        overview.pages, people.pages, memories.pages, asking.pages, sessions.pages, upkeep.pages, pages
    )  # fmt: skip
    return [first, *(route for each in views for route in each)]


def refusal_page(scope: Scope, told: Response) -> Response:
    """A refusal as a page; whoever only has to sign in is asked to."""
    page = Page(Request(scope))
    if told.status_code == 401 and scope["method"] in ("GET", "HEAD"):
        return page.redirect(page.address("sign-in", next=page.here()))
    return as_page(page, told)


@pages.add("GET", "/static/{name}")
async def show_file(page: Page) -> Response:
    """The stylesheet or the program of all pages."""
    name = page.request.path_params["name"]
    if name not in _STATIC:
        return page.problem(404, "there is no such file")
    return Response(_STATIC[name], media_type=_TYPES[name])


@pages.add("GET", "/language")
async def choose_language(page: Page) -> Response:
    """Show every page in this language from now on."""
    response = page.redirect(page.following())
    chosen = "zh" if page.query.get("to") == "zh" else "en"
    page.set_cookie(response, LANGUAGE, chosen, max_age=_YEAR_SECONDS)
    return response


@pages.add("GET", "/sign-in")
async def show_sign_in(page: Page) -> Response:
    """Ask for an API key, where one is needed."""
    if not memories_of(page.request).settings.server.needs_key:
        return page.redirect(page.address())
    return page.render("sign_in.html", next=page.query.get("next", ""), wrong=False)


@pages.add("POST", "/sign-in")
async def sign_in(page: Page) -> Response:
    """Give the browser a cookie that is good as long as the key is, and half a day at most."""
    key = await memories_of(page.request).keys.check(page.form.get("key", "").strip())
    if key is None:
        return page.render("sign_in.html", 403, next=page.form.get("next", ""), wrong=True)
    home = page.address() if key.user is None else page.address("people", key.user)
    response = page.redirect(page.following(home) if key.user is None else home)
    lasts = int(signing.LASTS.total_seconds())
    page.set_cookie(response, signing.SIGN_IN, page.signing.sign_in(key.id, now()), max_age=lasts)
    return response


@pages.add("POST", "/sign-out")
async def sign_out(page: Page) -> Response:
    """Take the cookie back."""
    response = page.redirect(page.address("sign-in"))
    page.drop_cookie(response, signing.SIGN_IN)
    return response


@pages.add("GET", "/{rest:path}")
async def show_nothing(page: Page) -> Response:
    """Say that there is no such page; one that is asked for with a slash behind it is found without."""
    rest = page.request.path_params["rest"]
    if not rest or rest.endswith("/"):
        return page.redirect(
            page.address(*rest.rstrip("/").split("/")) if rest.strip("/") else page.address()
        )
    return page.problem(404, "there is no such page")
