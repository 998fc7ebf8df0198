"""Pages of other sites: which of them a browser lets call this server."""

from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp

from octavo.server.problems import problem


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
