"""What went wrong, as an answer: the one module where errors become status codes; and what the server writes down:
one line for each request, of JSON or for a terminal, and no secret in any line.
"""

import logging
import os
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import IO, Any, Literal, TypeAlias

import msgspec
from starlette.responses import Response

from octavo.config import Settings
from octavo.config.settings import secrets_of
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
from octavo.kernel.text import escape_controls, escape_json_controls
from octavo.util.secrets import mask_passwords
from octavo.util.tracing import current_ids

access_log = logging.getLogger("octavo.access")
_KEY = re.compile(r"(oct_[0-9A-Za-z]{1,16})_[0-9A-Za-z_-]+")
_NAMES = ("octavo", "uvicorn.error", "fastapi")


class Secrets:
    """What must not be said to anybody: passwords in URLs, the keys of models, and API keys."""

    def __init__(self, settings: Settings) -> None:
        self._urls = secrets_of(settings)
        if key := os.environ.get("OPENAI_API_KEY"):
            self._urls.append(f"?api_key={key}")

    def hide(self, text: str) -> str:
        """The text without them."""
        return mask_keys(mask_passwords(text, self._urls))


def mask_keys(text: str) -> str:
    """The text with every API key in it cut to the part that names it."""
    return _KEY.sub(r"\1_…", text) if "oct_" in text else text


class Lines(logging.Formatter):
    """How records become lines; keys and passwords in them are masked."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets


class JsonLines(Lines):
    """Each record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {"time": datetime.fromtimestamp(record.created, UTC)}
        if record.name == access_log.name and isinstance(record.args, dict):
            said |= {name: _make_printable(value) for name, value in record.args.items()}
        else:
            said |= {"level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
            if record.exc_info and record.exc_info[1] is not None:
                said["error"] = "".join(traceback.format_exception(record.exc_info[1]))
            said |= current_ids()
            # Before it is JSON, which spells a password with a quote or a backslash in it another way.
            said |= {name: self._secrets.hide(_make_printable(said[name])) for name in said if name != "time"}
        return escape_json_controls(self._secrets.hide(msgspec.json.encode(said).decode()))


class TerminalLines(Lines):
    """Each request as one short line for people: when, status, how long, method and route; other records with their tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        if record.name == access_log.name and isinstance(record.args, dict):
            told = record.args
            where = self._line(f"{told.get('method', '')!s:<6} {told.get('route') or '-'}")
            return f"{at}  {told.get('status', 0)}  {told.get('ms', 0):>8.1f} ms  {where}"
        said = self._line(f"{record.levelname.lower()}  {record.name}: {record.getMessage()}")
        why = record.exc_info[1] if record.exc_info else None
        trace = "" if why is None else "".join(traceback.format_exception(why))
        return "\n".join([f"{at}  {said}", *(f"  {self._line(line)}" for line in trace.splitlines())])

    def _line(self, text: str) -> str:
        """The text as one line that cannot steer the terminal."""
        return escape_controls(self._secrets.hide(_make_printable(text)))


def _make_printable(value: Any) -> Any:
    """What a client sent may hold halves of characters, which no line can."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def write_logs(secrets: Secrets, *, requests: bool = True, stream: IO[str] | None = None) -> None:
    """Send this process's logs to stderr: lines for people on a terminal, else of JSON; without `requests` only warnings and errors."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TerminalLines(secrets) if stream.isatty() else JsonLines(secrets))
    # At the root: what asyncio or a driver has to say may hold a password as well.
    root = logging.getLogger()
    root.handlers = [each for each in root.handlers if not isinstance(each.formatter, Lines)]
    root.addHandler(handler)
    for name in _NAMES:
        logging.getLogger(name).setLevel(logging.WARNING)
    access_log.setLevel(logging.INFO if requests else logging.CRITICAL)


RETRY_SECONDS = 5  # after which a caller may ask a store again that was down
_log = logging.getLogger("octavo.server")

_STATUS: tuple[tuple[type[OctavoError], int], ...] = (
    (NotFound, 404),
    (Conflict, 409),
    (InvalidRecord, 422),
    (InvalidQuery, 422),
    (StoreUnavailable, 503),
    (StoreClosed, 503),
    (ModelError, 503),
)

Code: TypeAlias = Literal[
    "unreadable", "access_denied", "not_found", "not_allowed", "conflict", "too_large", "not_json", "invalid", "too_many",
    "failed", "unsupported", "unavailable", "timeout",
]  # fmt: skip
#: Each status with its word for programs, and what it means in the documentation; `detail` is for people.
STATUSES: dict[int, tuple[Code, str]] = {
    400: ("unreadable", "The body cannot be read as JSON, or has too many values."),
    401: ("access_denied", "No API key, or one that is unknown, expired or revoked."),
    403: ("access_denied", "The key has not the access that this needs, or a page of another site asks."),
    404: ("not_found", "There is no such thing, or it is somebody else's."),
    405: ("not_allowed", ""),
    408: ("timeout", ""),
    409: ("conflict", "Somebody else changed it, or it cannot be undone any more."),
    413: ("too_large", "The request is too large."),
    415: ("not_json", "The body is not sent as JSON."),
    421: ("access_denied", "Without keys, the server answers only to 127.0.0.1 and localhost, and to no proxy."),
    422: ("invalid", "Something in the request does not fit; the sentence names it."),
    429: ("too_many", "This key has made too many requests; `Retry-After` says when to come back."),
    500: ("failed", ""),
    501: ("unsupported", "The store that this server was given cannot do this."),
    503: ("unavailable", "The store cannot be reached, or too many requests are under way; `Retry-After` says when to come back."),
    504: ("timeout", "It took too long."),
}  # fmt: skip
CODES: dict[int, Code] = {status: code for status, (code, _) in STATUSES.items()}


class Problem(msgspec.Struct, frozen=True):
    """Why a request was not done: a sentence for people, and a word for programs."""

    detail: str
    code: Code

    @classmethod
    def of(cls, status: int, detail: str) -> "Problem":
        """The problem that an answer of this status tells of."""
        # A caller's own text may stand in it, and that may hold what UTF-8 cannot say.
        said = detail.encode(errors="replace").decode()
        return cls(said, CODES.get(status, "invalid" if status < 500 else "failed"))


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """An answer that says what went wrong."""
    told = msgspec.json.encode(Problem.of(status, detail))
    return Response(told, status, headers=headers, media_type="application/json")


def refusal(error: OctavoError, secrets: Secrets, request_id: str, *, admin: bool) -> Response | None:
    """The answer to an error that a caller can understand; None when it is nobody's fault but the server's.

    Why something that the server needs is away names hosts, ports and paths: that is for an admin, and for the log.
    """
    for kind, status in _STATUS:
        if isinstance(error, kind):
            told = secrets.hide(str(error))
            if status != 503:
                return problem(status, told)
            if not admin:
                _log.warning("503 at request_id %s: %s: %s", request_id, type(error).__name__, told)
                what = "a model" if kind is ModelError else "the store"
                told = f"{what} cannot be reached now; the server's log says why at request_id {request_id}"
            return problem(status, told, {"Retry-After": str(RETRY_SECONDS)})
    return None


_MOST_ERRORS = 10


def sentence(errors: Sequence[Mapping[str, object]]) -> str:
    """What pydantic has to say about a request, in one sentence; of the values only those that cannot be personal."""
    said = []
    for error in errors[:_MOST_ERRORS]:
        path = error.get("loc")
        parts = [str(part) for part in path] if isinstance(path, tuple) else []
        where = _cut(".".join(parts[1:] or parts), 80)
        what = _cut(str(error.get("msg", "")).removeprefix("Value error, "), 200)
        if error.get("type") == "extra_forbidden":
            near = error.get("near")
            cure = f"did you mean {near[0]}?" if isinstance(near, list) and near else "leave it out"
            what = f"is not known here; {cure}"
        elif error.get("type") in ("model_attributes_type", "model_type", "dict_type"):
            what = "must be a JSON object"
        elif error.get("type") == "string_unicode":
            what = "must not hold half a character"
        said.append(f"{where}: {what}{_cut(_got(error), 80)}")
    if len(errors) > _MOST_ERRORS:
        said.append(f"and {len(errors) - _MOST_ERRORS:,} more")
    return mask_keys("; ".join(dict.fromkeys(said)))


def _cut(text: str, most: int) -> str:
    """The text, or its beginning: a caller's own words may stand in it, and have no end."""
    return text if len(text) <= most else f"{text[:most]}…"


_CHOSEN = {
    "literal_error", "int_parsing", "greater_than_equal", "less_than_equal", "int_type", "bool_type", "float_type"
}  # fmt: skip


def _got(error: Mapping[str, object]) -> str:
    value = error.get("input")
    number = isinstance(value, int | float)
    word = isinstance(value, str) and len(value) <= 40 and error.get("type") in _CHOSEN
    return f"; got {value!r}" if (number or word) and error.get("type") != "extra_forbidden" else ""
