"""What is sent, when it is sent again, and what an answer means. Nothing here does I/O: both clients drive it."""

import random
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET

from octavo.errors import (
    AccessDenied,
    Conflict,
    InvalidQuery,
    InvalidRecord,
    NotFound,
    OctavoError,
    StoreError,
    StoreUnavailable,
)

T = TypeVar("T")
LONGEST_WAIT_SECONDS = 30.0  # a server that wants more is not waited for: its error is the answer
_SHORTEST_WAIT_SECONDS = 0.1
_PASSING = {429, 502, 503, 504}


class Asked(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One request: what goes out, and how its answer is read. `reads` says that repeating it changes nothing."""

    method: str
    path: str
    answer: Callable[[bytes], T]
    params: dict[str, str | int | float] = {}
    body: dict[str, Any] | None = None
    reads: bool = False
    keeps: bool = (
        False  # something even when the store fails in between, so that a 503 does not say "nothing was done"
    )
    also: tuple[int, ...] = ()  # statuses beside 2xx whose body is an answer all the same
    listed: str = ""  # where the rows of a listing are in its answer; it may take several pages
    most: int | None = None  # rows that were asked for, if that is not all
    backwards: bool = False  # whether each further page stands before the one that was read


class Listing(Generic[T]):
    """A listing, page by page, until all that was asked for is there."""

    def __init__(self, asked: "Asked[T]") -> None:
        self._asked = asked
        self.rows: list[Any] = []

    def take(self, page: Any) -> "Asked[T] | None":
        """Keep the rows of a page; what to ask for next, if there is more and it is wanted."""
        asked, rows = self._asked, getattr(page, self._asked.listed)
        self.rows = [*rows, *self.rows] if asked.backwards else [*self.rows, *rows]
        left = None if asked.most is None else asked.most - len(self.rows)
        if page.next is UNSET or (left is not None and left <= 0):
            return None
        limit = {} if left is None else {"limit": left}
        return msgspec.structs.replace(asked, params={**asked.params, **limit, "after": page.next})


class Tries(Generic[T]):
    """One request until it is answered or given up."""

    def __init__(self, asked: Asked[T], retries: int, where: str) -> None:
        self._asked = asked
        self._left = retries
        self._tried = 0
        self._where = where

    def failed(self, error: Exception, *, unsent: bool) -> float:
        """The seconds to wait before the next try, after one that got no answer; StoreUnavailable when it was the last."""
        if self._left and (unsent or self._asked.reads):
            return self._pause(None)
        doubt = "" if unsent or self._asked.reads else "; whether the change was made is not known"
        said = " ".join(str(error).split()) or type(error).__name__
        raise StoreUnavailable(f"no answer from {self._where}: {said}{doubt}") from error

    def answered(self, status: int, headers: Mapping[str, str]) -> float | None:
        """The seconds to wait before the next try, or None for an answer that stands."""
        if status not in _PASSING or status in self._asked.also or not self._left:
            return None
        after = _seconds(headers.get("retry-after"))
        # With that header the server says that it did nothing yet; without, it may be a proxy that does not know.
        undone = status == 429 or (status == 503 and not self._asked.keeps)
        if not (self._asked.reads or (after is not None and undone)):
            return None
        return None if after is not None and after > LONGEST_WAIT_SECONDS else self._pause(after)

    def read(self, status: int, body: bytes) -> T:
        """What the answer says, or the error that it is."""
        if 200 <= status < 300 or status in self._asked.also:
            try:
                return self._asked.answer(body)
            except msgspec.DecodeError as error:
                raise StoreError(
                    f"{self._where} gave an answer that this client cannot read ({error}); is it an Octavo server?"
                ) from error
        raise _error(status, self._asked, body, self._where)

    def _pause(self, after: float | None) -> float:
        self._left -= 1
        self._tried += 1
        if after is not None:
            return after
        # Spread out: clients that lost the same server must not come back as one.
        return _SHORTEST_WAIT_SECONDS * float(2 ** (self._tried - 1)) * random.uniform(0.5, 1.5)  # noqa: S311


def _seconds(spelled: str | None) -> float | None:
    if spelled is None:
        return None
    try:
        seconds = float(spelled)
    except ValueError:  # a date, which Octavo never sends
        return None
    return seconds if 0 <= seconds < float("inf") else None


class _Refusal(msgspec.Struct):
    detail: Any = ""


def _error(status: int, asked: Asked[Any], body: bytes, where: str) -> OctavoError:
    detail = _detail(body) or f"the server answered {status}"
    said = f"{detail} ({asked.method} {asked.path}, status {status})"
    if status in {401, 403, 421}:  # 421: without keys, the server answers its own machine alone
        return AccessDenied(said)
    if status == 404:
        return NotFound(said)
    if status == 409:
        return Conflict(said)
    if status in _PASSING:
        return StoreUnavailable(f"{where}: {said}")
    if 400 <= status < 500:
        return InvalidQuery(said) if asked.reads else InvalidRecord(said)
    return StoreError(f"{where}: {said}")


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
