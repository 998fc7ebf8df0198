"""Who may call: with keys the key decides, without keys only this machine's own programs.

And what browsers are given: a sign-in that ends with its API key, tokens of forms, leave for pages of other sites.
"""

import hmac
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import msgspec
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp

from octavo.config import Settings
from octavo.config.settings import LOOPBACK
from octavo.errors import StoreUnavailable
from octavo.kernel.ids import now
from octavo.keys import Access, KeyInfo, RateLimit
from octavo.server.problems import problem
from octavo.util.secrets import DigestKey

if TYPE_CHECKING:
    from octavo.server.app import TenantMemories

#: What needs no key.
OPEN = frozenset({"/health", "/health/live", "/health/ready", "/docs", "/openapi.json"})
CONSOLE = "/console"
SIGN_IN = f"{CONSOLE}/sign-in"  # which takes a key, and needs none
_NO_SECRETS = (f"{CONSOLE}/static/", f"{CONSOLE}/language")  # the same for everybody
#: Pages about what is not of one tenant alone, or that change who may do what.
_FOR_ADMINS = re.compile(r"/console/(people/[^/]+/forget|(reliability|vault|access)(/.*)?)", re.DOTALL)
MCP = "/mcp"  # each of its tools needs what it needs
_BATCH = "/batch"  # each of its parts comes this way again, and needs what it needs
_ASKS = {"/memory/query", "/search", "/context", _BATCH, MCP}  # sent, but they change nothing
#: Where a key that is bound to a user may go: all of these look at whose key it is. What is not here is refused to it.
_OF_A_USER = (
    *("/memory/", "/events", "/sessions", "/users", "/stats", "/search", "/context", _BATCH, MCP),
    *(
        f"{CONSOLE}/{page}"
        for page in ("people", "memories", "search", "context", "log", "sessions", "undo", "sign-out")
    ),
)
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_FORWARDED = (
    b"forwarded",
    b"via",
    b"x-forwarded-for",
    b"x-forwarded-host",
    b"x-forwarded-proto",
    b"x-real-ip",
)
_HOST = re.compile(r"(\[[0-9a-f:]+\]|[0-9a-z.-]+)(?::\d*)?", re.IGNORECASE)
#: What mem0's clients send without changing anything, and how they show a key.
_MEM0_ASKS = {
    "/v2/memories/",
    "/v2/memories/search/",
    "/v3/memories/",
    "/v3/memories/search/",
    "/mem0/search",
}
_SCHEMES = frozenset({"bearer", "token"})
SIGN_IN_COOKIE = "octavo_console"
BROWSER_COOKIE = "octavo_browser"
SIGN_IN_LASTS = timedelta(hours=12)
_PURPOSE = "octavo-console"


class Caller(msgspec.Struct, frozen=True):
    """Who calls: the tenant whose memory is theirs, and the key they showed."""

    tenant: str
    key_id: str | None = None
    # Where no keys are needed, only this machine's own programs can call: they could open the store themselves.
    access: Access = "admin"
    user: str | None = None  # the one user whose memory is theirs; None is every user of the tenant

    @property
    def admin(self) -> bool:
        """Whether they may see what is not theirs."""
        return self.access == "admin"


def needed_access(method: str, path: str) -> Access:
    """What a request needs. It depends on nothing but these two, so that no new route can be left open."""
    if path in {"/config", "/metrics", "/queue", "/mem0/reset"} or path.startswith("/queue/"):
        return "admin"
    if _FOR_ADMINS.fullmatch(path):
        return "admin"
    if path == f"{CONSOLE}/sign-out":
        return "read"
    if method == "DELETE" and path.startswith("/users/"):  # for good
        return "admin"
    return "read" if method in _READS or path in _ASKS | _MEM0_ASKS else "write"


def is_open(path: str) -> bool:
    """Whether a path says the same to everybody, with a key or without."""
    return path in OPEN or path == "/" or path.startswith(_NO_SECRETS)


def is_console(path: str) -> bool:
    """Whether a path is one of the pages for people."""
    return path == CONSOLE or path.startswith(f"{CONSOLE}/")


def is_open_to_users(path: str) -> bool:
    """Whether a key that is bound to a user may ask for this path; no new route is open to it before it is named here."""
    return any(path == each.rstrip("/") or path.startswith(f"{each.rstrip('/')}/") for each in _OF_A_USER)


class Door:
    """Lets callers in, or says why not."""

    def __init__(self, settings: Settings, memories: "TenantMemories") -> None:
        self.needs_key = settings.server.needs_key
        self._memories = memories
        self._tenant = settings.service.tenant
        self._sites = frozenset(settings.server.cors_origins)
        self._rate = RateLimit(settings.server.requests_per_minute)
        self._signing = Signing(memories.digest_key)

    def refuse_stranger(self, headers: Mapping[bytes, bytes]) -> Response | None:
        """Without keys: refuse what another site made a browser send, or what came through a proxy."""
        host = headers.get(b"host", b"").decode("latin-1")
        if host and not _is_this_machine(host):
            # A site whose name was pointed at this machine would otherwise read and write all of it.
            return problem(
                421,
                "this server answers only to 127.0.0.1 and localhost; "
                "set server.auth: on and give keys to callers from elsewhere",
            )
        if any(name in headers for name in _FORWARDED):
            return problem(
                421, "this request came through a proxy, but the server asks for no keys; set server.auth: on"
            )
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and origin not in self._sites and not _is_this_machine(origin.partition("://")[2]):
            return problem(403, "a page of another site may not call this server (server.cors_origins)")
        return None

    async def caller(
        self, method: str, path: str, headers: Iterable[tuple[bytes, bytes]]
    ) -> Caller | Response:
        """Who calls, or why they may not."""
        if not self.needs_key:
            return Caller(self._tenant)
        headers = list(headers)
        shown = _shown_keys(headers)
        if len(shown) > 1:
            # Which of them counts is not for this server to guess: a proxy in front may have looked at the other.
            return _unauthorized("this request shows more than one API key; send one")
        if not shown and is_console(path):
            return self._admit(await self._find_signed_in(headers), method, path)
        if not shown:
            return _unauthorized(
                "this server needs an API key: send `Authorization: Bearer oct_…` or `X-API-Key: oct_…`; "
                "octavo keys create makes one"
            )
        access = needed_access(method, path)
        key = await self._verify(shown.pop(), queues=access == "write" or path == _BATCH)
        return self._admit(key, method, path)

    async def _find_signed_in(self, headers: Iterable[tuple[bytes, bytes]]) -> KeyInfo | None:
        """The key of whoever signed in at the console with it; the store is asked each time, so that a revoked one is out."""
        cookie = next((value.decode("latin-1") for name, value in headers if name == b"cookie"), "")
        key_id = self._signing.key_id(cookies_in(cookie).get(SIGN_IN_COOKIE, ""), now())
        return None if key_id is None else await self._memories.keys.find_valid(key_id)

    def _admit(self, key: KeyInfo | None, method: str, path: str) -> Caller | Response:
        access = needed_access(method, path)
        if key is None:
            return _unauthorized("this API key is unknown, expired or revoked")
        if wait := self._rate.wait(key.id):
            seconds = max(1, round(wait + 0.5))
            detail = f"this key may make {self._rate.per_minute} requests a minute; come back in {seconds} s"
            return problem(429, detail, {"Retry-After": str(seconds)})
        if not key.allows(access):
            return problem(403, f"this needs a key with {access} access; this one has {key.access}")
        if key.user is not None and not is_open_to_users(path):
            return problem(403, f"this key opens the memory of one user, and {path[:80]} is not only theirs")
        return Caller(key.tenant, key.id, key.access, key.user)

    async def _verify(self, text: str, *, queues: bool) -> KeyInfo | None:
        keys = self._memories.keys
        # While the store is down or catches up, writes can still be queued for it, if their callers are let in. Whoever reads
        # waits: nobody can say whether the key was revoked since.
        if queues and self._memories.queues() and (key := keys.recall(text)) is not None:
            return key
        try:
            return await keys.check(text)
        except StoreUnavailable:
            if not queues or (key := keys.recall(text)) is None:
                raise
            return key


class Cors(CORSMiddleware):
    """Tells browsers that pages of these sites may call, with a key that they show themselves and never with cookies.

    It stands outside of everything: a browser asks for leave without a key, and hides an error that does not name the site.
    """

    def __init__(self, app: ASGIApp, origins: Collection[str]) -> None:
        super().__init__(
            app,
            allow_origins=origins,
            allow_methods=("GET", "POST", "PUT", "DELETE"),
            allow_headers=("Authorization", "Content-Type", "X-API-Key", "X-Request-ID"),
            expose_headers=("Retry-After", "X-Request-ID"),
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        """The leave that a browser asks for, or a refusal as all others are."""
        told = super().preflight_response(request_headers)
        if told.status_code == 200:
            return told
        why = "a page of this site may not call this server in this way (server.cors_origins)"
        return problem(403, why, {"Vary": "Origin"})


class Signing:
    """Signs with the key of digests, which every worker of this machine has, and no store."""

    def __init__(self, key: DigestKey) -> None:
        self._key = key

    def sign_in(self, key_id: str, at: datetime) -> str:
        """A cookie that stands for an API key until half a day later, and says nothing of its secret."""
        until = f"{int((at + SIGN_IN_LASTS).timestamp())}"
        return f"{key_id}.{until}.{self._signature(key_id, until)}"

    def key_id(self, cookie: str, at: datetime) -> str | None:
        """The API key that a cookie stands for; whether that is still good is for the store to say."""
        key_id, _, rest = cookie.partition(".")
        until, _, signature = rest.partition(".")
        good = hmac.compare_digest(signature.encode(), self._signature(key_id, until).encode())
        return key_id if good and until.isdigit() and int(until) > at.timestamp() else None

    def token(self, browser: str, key_id: str | None) -> str:
        """What a form must carry: it is of this browser and of whoever is signed in there."""
        return self._key.digest(_PURPOSE, "form", browser, key_id or "")

    def fits(self, token: str, browser: str, key_id: str | None) -> bool:
        """Whether a form carries what it was given."""
        expected = self.token(browser, key_id)
        return bool(browser) and hmac.compare_digest(token.encode(), expected.encode())

    def _signature(self, key_id: str, until: str) -> str:
        return self._key.digest(_PURPOSE, "sign-in", key_id, until)


def cookies_in(header: str) -> dict[str, str]:
    """The cookies of a request by name; of two with one name the first counts."""
    found: dict[str, str] = {}
    for each in header.split(";"):
        name, _, value = each.strip().partition("=")
        found.setdefault(name, value)
    return found


def _shown_keys(headers: Iterable[tuple[bytes, bytes]]) -> set[str]:
    """Every key in the headers; another way to authorise is somebody else's business."""
    shown = set()
    for name, value in headers:
        if name == b"authorization":
            scheme, _, text = value.decode("latin-1").partition(" ")
            shown.add(text.strip() if scheme.lower() in _SCHEMES else "")
        elif name == b"x-api-key":
            shown.add(value.decode("latin-1").strip())
    return shown - {""}


def _unauthorized(detail: str) -> Response:
    return problem(401, detail, {"WWW-Authenticate": 'Bearer realm="octavo"'})


def _is_this_machine(host: str) -> bool:
    found = _HOST.fullmatch(host)
    return found is not None and found[1].strip("[]").rstrip(".").lower() in LOOPBACK
