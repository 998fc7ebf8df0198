"""All pages of the console, and what stands around them: signing in and out, the language, and refusals."""

import importlib.resources
from collections.abc import Sequence

from fastapi import Response
from starlette.responses import RedirectResponse
from starlette.routing import Match, Route

from octavo.kernel.ids import now
from octavo.server.access import CONSOLE, SIGN_IN_COOKIE, SIGN_IN_LASTS
from octavo.server.console import memories, operating, people, sessions
from octavo.server.console.pages import LANGUAGE, ConsoleRequest, Pages

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
    first = Route("/", lambda request: RedirectResponse(f"{request.scope.get('root_path', '')}{CONSOLE}"))
    views: Sequence[Pages] = (
        operating.pages, people.pages, memories.pages, sessions.pages, pages
    )  # fmt: skip
    return [first, *(route for each in views for route in each)]


@pages.add("GET", "/static/{name}")
async def show_file(page: ConsoleRequest) -> Response:
    """The stylesheet or the program of all pages."""
    name = page.path_params["name"]
    if name not in _STATIC:
        return page.problem(404, "there is no such file")
    return Response(_STATIC[name], media_type=_TYPES[name])


@pages.add("GET", "/language")
async def choose_language(page: ConsoleRequest) -> Response:
    """Show every page in this language from now on."""
    response = page.redirect(page.next_page())
    chosen = "zh" if page.query_params.get("to") == "zh" else "en"
    page.set_cookie(response, LANGUAGE, chosen, max_age=_YEAR_SECONDS)
    return response


@pages.add("GET", "/sign-in")
async def show_sign_in(page: ConsoleRequest) -> Response:
    """Ask for an API key, where one is needed."""
    if not page.memories.settings.server.needs_key:
        return page.redirect(page.address())
    return page.render("sign_in.html", next=page.query_params.get("next", ""), wrong=False)


@pages.add("POST", "/sign-in")
async def sign_in(page: ConsoleRequest) -> Response:
    """Give the browser a cookie that is good as long as the key is, and half a day at most."""
    key = await page.memories.keys.check(page.sent.get("key", "").strip())
    if key is None:
        return page.render("sign_in.html", 403, next=page.sent.get("next", ""), wrong=True)
    home = page.address() if key.user is None else page.address("people", key.user)
    response = page.redirect(page.next_page(home) if key.user is None else home)
    lasts = int(SIGN_IN_LASTS.total_seconds())
    page.set_cookie(response, SIGN_IN_COOKIE, page.signing.sign_in(key.id, now()), max_age=lasts)
    return response


@pages.add("POST", "/sign-out")
async def sign_out(page: ConsoleRequest) -> Response:
    """Take the cookie back."""
    response = page.redirect(page.address("sign-in"))
    page.drop_cookie(response, SIGN_IN_COOKIE)
    return response


@pages.add("GET", "/{rest:path}")
async def show_nothing(page: ConsoleRequest) -> Response:
    """Say that there is no such page; one that is asked for with a slash behind it is found without.

    What takes only a form has no page: opened again, as after an error, it leads to the nearest one above.
    """
    rest = page.path_params["rest"]
    if not rest or rest.endswith("/"):
        return page.redirect(
            page.address(*rest.rstrip("/").split("/")) if rest.strip("/") else page.address()
        )
    known, path, above = routes()[:-1], page.scope["path"], page.here().partition("?")[0]
    if not _is_known(page, known, path, "POST"):
        return page.problem(404, "there is no such page")
    while not _is_known(page, known, path, "GET"):
        path, above = path.rpartition("/")[0], above.rpartition("/")[0]
    return page.redirect(above)


def _is_known(page: ConsoleRequest, known: Sequence[Route], path: str, method: str) -> bool:
    scope = {**page.scope, "path": path, "method": method}
    return any(route.matches(scope)[0] is Match.FULL for route in known)
