"""What callers say, checked once: every refusal names the value and what would do."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from msgspec import UNSET, UnsetType

from octavo.errors import InvalidQuery, InvalidRecord
from octavo.kernel.codec import EARLIEST
from octavo.kernel.model import check_count, to_utc
from octavo.layers.records import Owner
from octavo.layers.values import ACTIONS, CATEGORIES, LAYERS, Action, Layer

Wrong = type[InvalidRecord] | type[InvalidQuery]
T = TypeVar("T")


def owner(user_id: str | None, agent_id: str | None, wrong: Wrong = InvalidQuery) -> Owner:
    """The one owner that was named."""
    found = optional_owner(user_id, agent_id, wrong)
    if found is None:
        raise wrong("whose memory? give user_id or agent_id")
    return found


def optional_owner(user_id: str | None, agent_id: str | None, wrong: Wrong = InvalidQuery) -> Owner | None:
    """The owner that was named, or None when nobody was."""
    if user_id is not None and agent_id is not None:
        raise wrong(f"give user_id or agent_id, not both; got {_shorten(user_id)} and {_shorten(agent_id)}")
    if user_id is None and agent_id is None:
        return None
    name, value = ("user_id", user_id) if user_id is not None else ("agent_id", agent_id)
    if not isinstance(value, str) or not value.strip():
        raise wrong(f"{name} must be a name; got {_shorten(value)}")
    return Owner("user" if name == "user_id" else "agent", value)


def layer(value: Any, wrong: Wrong = InvalidQuery) -> Layer:
    """One of the two layers."""
    return _one_of(value, LAYERS, f"layer {_shorten(value)}", wrong)


def optional_layer(value: Any) -> Layer | None:
    """One of the two layers, or None for both."""
    return None if value is None else layer(value)


def category(value: Any, of: Layer, wrong: Wrong = InvalidQuery) -> str:
    """One of the categories of the layer."""
    return _one_of(value, CATEGORIES[of], f"category {_shorten(value)} of the {of} layer", wrong)


def optional_action(value: Any) -> Action | None:
    """One of the actions of the log, or None for all."""
    return None if value is None else _one_of(value, ACTIONS, f"action {_shorten(value)}", InvalidQuery)


def _one_of(value: Any, known: Sequence[T], what: str, wrong: Wrong) -> T:
    for each in known:
        if value == each:
            return each
    raise wrong(f"unknown {what}; known: {', '.join(map(str, known))}")


def content(value: Any) -> str:
    """What is to be remembered: some text."""
    if not isinstance(value, str):
        raise InvalidRecord(f"content must be a string; got {_shorten(value)}")
    if not value.strip():
        raise InvalidRecord(f"content is {'blank' if value else 'empty'}: there is nothing to remember")
    return value


def metadata(value: Any) -> dict[str, Any]:
    """The caller's own facts; None is none."""
    if value is not None and not isinstance(value, dict):
        raise InvalidRecord(f"metadata must be a dict; got {_shorten(value)}")
    return value or {}


def reason(value: Any) -> str | None:
    """Why something is changed; None and blank leave it to the default."""
    if value is not None and not isinstance(value, str):
        raise InvalidRecord(f"reason must be a sentence; got {_shorten(value)}")
    return value if value and value.strip() else None


def sources(value: Any) -> list[str]:
    """Ids of events."""
    listed = isinstance(value, Sequence) and not isinstance(value, str)
    if not listed or not all(isinstance(one, str) and one for one in value):
        raise InvalidRecord(f"sources must be a list of event ids; got {_shorten(value)}")
    return list(dict.fromkeys(value))


def name(what: str, value: Any) -> str:
    """The id of something; one that no record can have is just not found."""
    if not isinstance(value, str):
        raise InvalidQuery(f"{what} must be a string; got {_shorten(value)}")
    return value


def flag(what: str, value: Any, wrong: Wrong = InvalidQuery) -> bool:
    """A yes or no; "no" would be a yes."""
    if not isinstance(value, bool):
        raise wrong(f"{what} must be True or False; got {_shorten(value)}")
    return value


def limit(value: Any) -> int | None:
    """How many at most; None is all."""
    return None if value is None else check_count(value, "limit must be 0 or more, or None for all")


def room(max_bytes: Any) -> int | None:
    """How many bytes an answer may take; None is any."""
    return None if max_bytes is None else check_count(max_bytes, "max_bytes must be a number, 0 or more")


def moment(what: str, value: Any, wrong: Wrong = InvalidQuery) -> datetime | None:
    """A time in UTC; one without a zone is local time."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise wrong(f"{what} must be a datetime; got {_shorten(value)}")
    try:
        at = to_utc(value)
    except (OverflowError, ValueError):
        at = None
    if at is None or at < EARLIEST:
        raise wrong(f"{what} is outside the years 1000 to 9999 in UTC: {value!r}")
    return at


def span(since: Any, until: Any) -> tuple[datetime | None, datetime | None]:
    """A beginning and an end in UTC; refused where nothing could be in between."""
    begin, end = moment("since", since), moment("until", until)
    if begin is not None and end is not None and begin > end:
        raise InvalidQuery(f"since ({begin.isoformat()}) is later than until ({end.isoformat()})")
    return begin, end


class Expiry(NamedTuple):
    """Whether a memory is kept for ever, and when it ends."""

    is_permanent: bool
    expires_at: datetime | None


def read_time(given: object) -> datetime:
    """A time of ISO 8601 in UTC. One without an offset is taken for UTC, since nobody knows its caller's clock."""
    example = "must be a time of ISO 8601, such as 2026-01-31T12:00:00Z"
    if not isinstance(given, str):
        raise ValueError(example)  # noqa: TRY004 - pydantic's way
    try:
        at = datetime.fromisoformat(given)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        hint = "; a + in an address is written %2B" if " " in given[11:] else ""
        raise ValueError(f"{example}; got {given[:40]!r}{hint}") from None
    if at < EARLIEST:
        raise ValueError(f"must be {EARLIEST:%Y-%m-%d} or later")
    return at


def expiry(
    of: Layer,
    at: datetime,
    was: Expiry | None = None,
    *,
    is_permanent: Any = UNSET,
    expiry_date: datetime | UnsetType | None = UNSET,
    ttl_seconds: Any = None,
    event_ttl: timedelta | None = None,
) -> Expiry:
    """How long a memory is kept: as told, or as it was; else the profile for ever and events as long as configured.

    An `expiry_date` of None says that there is no end, not that there never may be one.
    """
    if is_permanent not in (UNSET, None):
        flag("is_permanent", is_permanent, InvalidRecord)
    given = "expiry_date" if ttl_seconds is None else "ttl_seconds"
    if ttl_seconds is not None:
        if expiry_date is not UNSET:
            raise InvalidRecord("give expiry_date or ttl_seconds, not both")
        expiry_date = _expiry_after(ttl_seconds, at)
    expires_at = None if expiry_date is UNSET else moment("expiry_date", expiry_date, InvalidRecord)
    if expires_at is not None:
        if is_permanent is True:
            raise InvalidRecord(
                f"a memory that is_permanent does not expire; leave out {given} or is_permanent"
            )
        if expires_at <= at:
            raise InvalidRecord(
                f"expiry_date {expires_at.isoformat()} is in the past; give a time to come, or delete the memory"
            )
        return Expiry(False, expires_at)
    if is_permanent is True:
        return Expiry(True, None)
    if was is not None and expiry_date is None:
        return Expiry(was.is_permanent and is_permanent is not False, None)
    if was is not None and not (was.is_permanent and is_permanent is False):
        return was
    permanent = of == "profile" and is_permanent is not False
    if of == "event" and event_ttl is not None:
        return Expiry(False, _add_time(at, event_ttl))
    return Expiry(permanent, None)


def _expiry_after(seconds: Any, at: datetime) -> datetime:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise InvalidRecord(f"ttl_seconds must be a number of seconds; got {_shorten(seconds)}")
    if seconds <= 0:
        raise InvalidRecord(f"ttl_seconds must be more than 0; got {seconds}")
    try:
        return _add_time(at, timedelta(seconds=seconds))
    except OverflowError:
        raise InvalidRecord(
            f"ttl_seconds is {seconds}: that ends after the year 9999; is_permanent=True never ends"
        ) from None


def _add_time(at: datetime, by: timedelta) -> datetime:
    # Never at the same moment: what is remembered is seen at least once.
    return at + max(by, timedelta(microseconds=1))


def _shorten(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= 80 else f"{said[:80]}…"
