"""What went wrong, as an answer: the one place where errors become status codes."""

import os
import re
from collections.abc import Iterable, Mapping

import msgspec
from starlette.responses import Response

from octavo.config import Settings
from octavo.errors import (
    Conflict,
    InvalidQuery,
    InvalidRecord,
    ModelError,
    NotFound,
    OctavoError,
    StoreClosed,
    StoreUnavailable,
)
from octavo.secrets import hidden

RETRY_SECONDS = 5  # after which a caller may ask a store again that was down
_KEY = re.compile(r"(oct_[0-9A-Za-z]{1,16})_[0-9A-Za-z_-]+")

_STATUS: tuple[tuple[type[OctavoError], int], ...] = (
    (NotFound, 404),
    (Conflict, 409),
    (InvalidRecord, 422),
    (InvalidQuery, 422),
    (StoreUnavailable, 503),
    (StoreClosed, 503),
    (ModelError, 503),
)


class Problem(msgspec.Struct, frozen=True):
    """Why a request was not done."""

    detail: str


class Secrets:
    """What must not be said to anybody: passwords in URLs, the keys of models, and API keys."""

    def __init__(self, settings: Settings) -> None:
        vector, extraction = settings.vector, settings.extraction
        self._urls = [
            settings.database.dsn,
            vector.url,
            vector.embedder,
            vector.previous_embedder,
            vector.base_url,
            extraction.base_url,
        ]
        # Spelled as an option of a URL, since that is what is known to be secret there.
        keys = (vector.api_key, extraction.api_key, os.environ.get("OPENAI_API_KEY"))
        self._urls += [f"?api_key={key}" for key in keys if key]

    def hidden(self, text: str) -> str:
        """The text without them."""
        return masked(hidden(text, (url for url in self._urls if url)))


def masked(text: str) -> str:
    """The text with every API key in it cut to the part that names it."""
    return _KEY.sub(r"\1_…", text) if "oct_" in text else text


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """An answer that says what went wrong."""
    # A caller's own text may stand in it, and that may hold what UTF-8 cannot say.
    said = detail.encode(errors="replace").decode()
    return Response(
        msgspec.json.encode(Problem(said)), status, headers=headers, media_type="application/json"
    )


def refusal(error: OctavoError, secrets: Secrets) -> Response | None:
    """The answer to an error that a caller can understand; None when it is nobody's fault but the server's."""
    for kind, status in _STATUS:
        if isinstance(error, kind):
            headers = {"Retry-After": str(RETRY_SECONDS)} if status == 503 else None
            return problem(status, secrets.hidden(str(error)), headers)
    return None


def sentence(errors: Iterable[Mapping[str, object]]) -> str:
    """What pydantic has to say about a request, in one sentence; of the values only those that cannot be personal."""
    said = []
    for error in errors:
        place = error.get("loc")
        parts = [str(part) for part in place] if isinstance(place, tuple) else []
        where = ".".join(parts[1:] or parts)
        what = str(error.get("msg", "")).removeprefix("Value error, ")
        if error.get("type") == "extra_forbidden":
            what = "is not known here; leave it out"
        said.append(f"{where}: {what}{_got(error)}")
    return masked("; ".join(dict.fromkeys(said)))


_CHOSEN = {
    "literal_error", "int_parsing", "greater_than_equal", "less_than_equal", "int_type", "bool_type", "float_type"
}  # fmt: skip


def _got(error: Mapping[str, object]) -> str:
    value = error.get("input")
    number = isinstance(value, int | float)
    word = isinstance(value, str) and len(value) <= 40 and error.get("type") in _CHOSEN
    return f"; got {value!r}" if (number or word) and error.get("type") != "extra_forbidden" else ""
