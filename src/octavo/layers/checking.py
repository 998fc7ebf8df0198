"""What callers say, checked once: every refusal names the value and what would do."""

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from octavo.errors import InvalidQuery, InvalidRecord
from octavo.kernel.codec import EARLIEST, seal
from octavo.kernel.model import Record, utc
from octavo.layers.deciding import CATEGORIES, Layer
from octavo.layers.records import Owner, memory_id, record_of, state_of
from octavo.layers.values import ACTIONS, LAYERS, Action, State

#: A log row holds a memory twice, before and after a change, and no store keeps more than 16 MiB in a record.
MAX_MEMORY_BYTES = 7 * 1024 * 1024
MAX_METADATA_DEPTH = 60

Wrong = type[InvalidRecord] | type[InvalidQuery]
T = TypeVar("T")


def owner(user_id: str | None, agent_id: str | None, wrong: Wrong = InvalidQuery) -> Owner:
    """The one owner that was named."""
    found = perhaps_owner(user_id, agent_id, wrong)
    if found is None:
        raise wrong("whose memory? give user_id or agent_id")
    return found


def perhaps_owner(user_id: str | None, agent_id: str | None, wrong: Wrong = InvalidQuery) -> Owner | None:
    """The owner that was named, or None when nobody was."""
    if user_id is not None and agent_id is not None:
        raise wrong(f"give user_id or agent_id, not both; got {_short(user_id)} and {_short(agent_id)}")
    if user_id is None and agent_id is None:
        return None
    name, value = ("user_id", user_id) if user_id is not None else ("agent_id", agent_id)
    if not isinstance(value, str) or not value:
        raise wrong(f"{name} must be a name; got {_short(value)}")
    return Owner("user" if name == "user_id" else "agent", value)


def _one_of(value: Any, known: Sequence[T], what: str, wrong: Wrong) -> T:
    for each in known:
        if value == each:
            return each
    raise wrong(f"unknown {what}; known: {', '.join(map(str, known))}")


def layer(value: Any, wrong: Wrong = InvalidQuery) -> Layer:
    """One of the two layers."""
    return _one_of(value, LAYERS, f"layer {_short(value)}", wrong)


def perhaps_layer(value: Any, wrong: Wrong = InvalidQuery) -> Layer | None:
    return None if value is None else layer(value, wrong)


def category(value: Any, of: Layer, wrong: Wrong = InvalidQuery) -> str:
    """One of the categories of the layer."""
    return _one_of(value, CATEGORIES[of], f"category {_short(value)} of the {of} layer", wrong)


def action(value: Any) -> Action | None:
    """One of the actions of the log, or None."""
    return None if value is None else _one_of(value, ACTIONS, f"action {_short(value)}", InvalidQuery)


def content(value: Any) -> str:
    """What is to be remembered: some text."""
    if not isinstance(value, str):
        raise InvalidRecord(f"content must be a string; got {_short(value)}")
    if not value.strip():
        raise InvalidRecord(f"content is {'blank' if value else 'empty'}: there is nothing to remember")
    return value


def metadata(value: Any) -> dict[str, Any]:
    """The caller's own facts; None is none."""
    if value is not None and not isinstance(value, dict):
        raise InvalidRecord(f"metadata must be a dict; got {_short(value)}")
    return value or {}


def reason(value: Any) -> str | None:
    """Why something is changed; None and blank leave it to the default."""
    if value is not None and not isinstance(value, str):
        raise InvalidRecord(f"reason must be a sentence; got {_short(value)}")
    return value if value and value.strip() else None


def sources(value: Any) -> list[str]:
    """Ids of events."""
    listed = isinstance(value, Sequence) and not isinstance(value, str)
    if not listed or not all(isinstance(one, str) and one for one in value):
        raise InvalidRecord(f"sources must be a list of event ids; got {_short(value)}")
    return list(dict.fromkeys(value))


def name(what: str, value: Any) -> str:
    """The id of something; one that no record can have is just not found."""
    if not isinstance(value, str):
        raise InvalidQuery(f"{what} must be a string; got {_short(value)}")
    return value


def limit(value: Any) -> int | None:
    """How many at most; None is all."""
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise InvalidQuery(f"limit must be 0 or more, or None for all; got {_short(value)}")
    return value


def moment(what: str, value: Any, wrong: Wrong = InvalidQuery) -> datetime | None:
    """A time in UTC; one without a zone is local time."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise wrong(f"{what} must be a datetime; got {_short(value)}")
    try:
        at = utc(value)
    except (OverflowError, ValueError):
        at = None
    if at is None or at < EARLIEST:
        raise wrong(f"{what} is outside the years 1000 to 9999 in UTC: {value!r}")
    return at


def flag(what: str, value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise InvalidRecord(f"{what} must be True or False; got {_short(value)}")
    return value


class Ending(msgspec.Struct, frozen=True):
    """Whether a memory is kept for ever, and when it ends."""

    is_permanent: bool
    expires_at: datetime | None


def ending(
    of: Layer,
    at: datetime,
    *,
    is_permanent: Any = None,
    expiry_date: Any = None,
    ttl_seconds: Any = None,
    event_ttl: timedelta | None = None,
) -> Ending:
    """How long a new memory is kept: as told, or else the profile for ever and events as long as configured."""
    permanent = flag("is_permanent", is_permanent)
    if expiry_date is not None and ttl_seconds is not None:
        raise InvalidRecord("give expiry_date or ttl_seconds, not both")
    given = "ttl_seconds" if expiry_date is None else "expiry_date"
    expires_at = future(expiry_date, at) if ttl_seconds is None else _after(ttl_seconds, at)
    if permanent and expires_at is not None:
        raise InvalidRecord(f"a memory that is_permanent does not expire; leave out {given} or is_permanent")
    if expires_at is not None:
        return Ending(False, expires_at)
    if permanent is None:
        permanent = of == "profile"
    if of == "event" and not permanent and event_ttl is not None:
        return Ending(False, _later(at, event_ttl))
    return Ending(permanent, None)


def revised_ending(
    of: Layer,
    at: datetime,
    was: Ending,
    *,
    is_permanent: bool | UnsetType | None,
    expiry_date: datetime | UnsetType | None,
    event_ttl: timedelta | None,
) -> Ending:
    """How long a memory is kept from now on; what is not said stays."""
    permanent = None if is_permanent is UNSET else flag("is_permanent", is_permanent)
    if expiry_date is not UNSET and expiry_date is not None:
        return ending(of, at, is_permanent=permanent, expiry_date=expiry_date)
    if permanent:
        return Ending(True, None)
    if expiry_date is None:  # no end, which does not say that there never may be one
        return Ending(was.is_permanent if permanent is None else permanent, None)
    if permanent is False and was.is_permanent:
        return ending(of, at, is_permanent=False, event_ttl=event_ttl)
    return was


def future(value: Any, at: datetime) -> datetime | None:
    """When a memory ends, which must not have been already."""
    expires_at = moment("expiry_date", value, InvalidRecord)
    if expires_at is not None and expires_at <= at:
        raise InvalidRecord(
            f"expiry_date {expires_at.isoformat()} is in the past; forget() removes a memory at once"
        )
    return expires_at


def _after(seconds: Any, at: datetime) -> datetime:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise InvalidRecord(f"ttl_seconds must be a number of seconds; got {_short(seconds)}")
    if seconds <= 0:
        raise InvalidRecord(f"ttl_seconds must be more than 0; got {seconds}")
    try:
        return _later(at, timedelta(seconds=seconds))
    except OverflowError:
        raise InvalidRecord(
            f"ttl_seconds is {seconds}: that ends after the year 9999; is_permanent=True never ends"
        ) from None


def _later(at: datetime, by: timedelta) -> datetime:
    # Never at the same moment: what is remembered is seen at least once.
    return at + max(by, timedelta(microseconds=1))


def new_memory(
    owner: Owner,
    tenant: str,
    of: Layer,
    kind: str,
    text: str,
    at: datetime,
    ending: Ending,
    *,
    sources: list[str],
    metadata: dict[str, Any],
    embeds: bool,
    happened_at: datetime | None = None,
) -> Record:
    """The record of a memory that begins now, under a fresh id."""
    id_ = memory_id(owner, at)
    data: dict[str, Any] = {"is_permanent": ending.is_permanent, "sources": sources}
    if happened_at is not None:
        data["happened_at"] = spelled_moment(happened_at)
    if embeds:
        data["embedding_id"] = id_
    state = State(
        category=kind, content=text, metadata=metadata, data=data,
        created_at=at, updated_at=at, expires_at=ending.expires_at,
    )  # fmt: skip
    return storable(record_of(id_, owner, tenant, of, state, version=1))


def spelled_moment(at: datetime) -> str:
    """A time as the data of a memory keeps it."""
    return (moment("happened_at", at) or at).isoformat()


def storable(record: Record) -> Record:
    """The record as it will be stored, or InvalidRecord when it cannot be, or its log could not."""
    sealed = seal(record)
    if sealed.facts >= 0:  # flat metadata is stored as it was given: no need to read megabytes back
        sealed = msgspec.structs.replace(sealed, metadata_json="{}")
        stored = msgspec.structs.replace(sealed.record, metadata=dict(record.metadata))
    else:
        stored = sealed.record
    if _depth(stored.metadata, 1) > MAX_METADATA_DEPTH:
        raise InvalidRecord(f"metadata is nested deeper than {MAX_METADATA_DEPTH} levels")
    size = len(msgspec.json.encode(state_of(stored)))
    if size > MAX_MEMORY_BYTES:
        raise InvalidRecord(
            f"{size} bytes are more than the {MAX_MEMORY_BYTES} a memory may have; keep it in parts"
        )
    return stored


def _depth(value: Any, at: int) -> int:
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return at
    return max((_depth(inner, at + 1) for inner in value), default=at)


def _short(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= 80 else f"{said[:80]}…"
