"""One request: how it is spelled, when it is sent again, and which error its answer is. Nothing here does I/O."""

import os
import random
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import UNSET

from octavo.errors import (
    AccessDenied,
    ConfigError,
    Conflict,
    InvalidQuery,
    InvalidRecord,
    NotFound,
    OctavoError,
    StoreError,
    StoreUnavailable,
)
from octavo.kernel.model import utc
from octavo.util.secrets import shown

DEFAULT_URL = "http://127.0.0.1:8000"
LONGEST_WAIT_SECONDS = 30.0  # a server that wants more is not waited for: its error is the answer
_SHORTEST_WAIT_SECONDS = 0.1
_PASSING = {429, 502, 503, 504}


class Request(msgspec.Struct, frozen=True):
    """What goes out; `reads` says that repeating it changes nothing."""

    method: str
    path: str
    params: Mapping[str, str | int | float] = {}
    body: dict[str, Any] | None = None
    reads: bool = False
    keeps: bool = False  # something even when the store fails: then a 503 does not say that nothing was done
    also: tuple[int, ...] = ()  # statuses beside 2xx whose body is an answer all the same

    def answered_by(self, status: int) -> bool:
        """Whether the body of such an answer is what was asked for."""
        return 200 <= status < 300 or status in self.also

    def pause_after(self, status: int, headers: Mapping[str, str], tried: int) -> float | None:
        """The seconds to wait before this is sent again, or None for an answer that stands."""
        if status not in _PASSING or status in self.also:
            return None
        wait = _seconds(headers.get("retry-after"))
        if wait is not None and wait > LONGEST_WAIT_SECONDS:
            return None
        # With that header the server says that it did nothing yet; without, it may be a proxy that does not know.
        undone = wait is not None and (status == 429 or (status == 503 and not self.keeps))
        if not (self.reads or undone):
            return None
        return backoff_seconds(tried) if wait is None else wait

    def error(self, status: int, body: bytes, server: str) -> OctavoError:
        """The error that an answer is."""
        detail = _detail(body) or f"the server answered {status}"
        sentence = f"{detail} ({self.method} {self.path}, status {status})"
        if status in {401, 403, 421}:  # 421: without keys, the server answers its own machine alone
            return AccessDenied(sentence)
        if status == 404:
            return NotFound(sentence)
        if status == 409:
            return Conflict(sentence)
        if status in _PASSING:
            return StoreUnavailable(f"{server}: {sentence}")
        if 400 <= status < 500:
            return InvalidQuery(sentence) if self.reads else InvalidRecord(sentence)
        return StoreError(f"{server}: {sentence}")


def backoff_seconds(tried: int) -> float:
    """How long to wait after so many tries; spread out, or clients that lost the same server would come back as one."""
    return _SHORTEST_WAIT_SECONDS * float(2**tried) * random.uniform(0.5, 1.5)  # noqa: S311


def _seconds(spelled: str | None) -> float | None:
    try:
        seconds = float(spelled or "")
    except ValueError:  # none, or a date, which Octavo never sends
        return None
    return seconds if 0 <= seconds < float("inf") else None


class _Refusal(msgspec.Struct):
    detail: Any = ""


def _detail(body: bytes) -> str:
    """What the server says is wrong, in one line: its sentence, or where its checks found what."""
    try:
        detail = msgspec.json.decode(body, type=_Refusal).detail
    except msgspec.DecodeError:
        return ""
    if isinstance(detail, list):
        return "; ".join(_complaint(each) for each in detail)
    return detail if isinstance(detail, str) else msgspec.json.encode(detail).decode()


def _complaint(each: Any) -> str:
    if not isinstance(each, dict):
        return str(each)
    place = ".".join(str(part) for part in each.get("loc") or ())
    return f"{place}: {each.get('msg', each)}" if place else str(each.get("msg", each))


def checked_url(given: str | None) -> str:
    """The address of a server: the given one, else OCTAVO_SERVER, else this machine; ConfigError if it is none."""
    if given is None:
        given = os.environ.get("OCTAVO_SERVER") or DEFAULT_URL
    try:
        parts = urlsplit(given)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or "?" in given or "#" in given:
        raise ConfigError(f"base_url {shown(given)!r} is no address of a server; try {DEFAULT_URL}")
    return given.rstrip("/")


def checked_key(given: str | None) -> str:
    """The API key: the given one, else OCTAVO_API_KEY, else none."""
    key = (os.environ.get("OCTAVO_API_KEY", "") if given is None else given).strip()
    if not (key.isascii() and key.isprintable() and " " not in key):
        # Said here, without the key: whoever builds the header would repeat it in his error.
        raise ConfigError("api_key holds characters that no header can carry; `octavo keys create` makes one")
    return key


def owner_path(user_id: str | None, agent_id: str | None) -> str:
    """The path of whose memory is meant."""
    if (user_id is None) == (agent_id is None):
        raise InvalidQuery(
            f"whose memory? give user_id or agent_id, and one of them; got {user_id!r}, {agent_id!r}"
        )
    return (
        f"/memory/user/{path_name(user_id)}"
        if user_id is not None
        else f"/memory/agent/{path_name(agent_id)}"
    )


def path_name(given: str | None) -> str:
    """A name as one part of a path, whatever characters it holds."""
    if not given:
        raise InvalidQuery("an empty name names nothing")
    try:
        quoted = quote(given, safe="")
    except UnicodeEncodeError:
        raise InvalidQuery(f"{given!r} holds a character that UTF-8 cannot say") from None
    # A path is tidied on its way: these two would be taken for this folder and the one above.
    return quoted.replace(".", "%2E") if given in {".", ".."} else quoted


def given(**named: Any) -> dict[str, Any]:
    """What was given of a body, with times in UTC."""
    return {
        name: utc(value) if isinstance(value, datetime) else value
        for name, value in named.items()
        if value is not None and value is not UNSET
    }


def given_params(**named: Any) -> dict[str, str | int | float]:
    """What was given of a query, with times in UTC."""
    values = given(**named)
    return {name: each.isoformat() if isinstance(each, datetime) else each for name, each in values.items()}
