"""What every reader yields: records, what could not be read and what was left out; and how messages and facts become records."""

import hashlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import msgspec

from octavo.chat.messages import Msg, stamp, to_record
from octavo.errors import InvalidRecord
from octavo.kernel.ids import now
from octavo.kernel.model import Record, Scope, to_utc
from octavo.layers import records as facts
from octavo.layers.changes import insert_step
from octavo.layers.values import DEFAULT_USER, DEFAULTS, Layer, State

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)


class Unreadable(msgspec.Struct, frozen=True):
    """Something of the source that could not be read: where it stands, and why."""

    position: str
    reason: str


class LeftOut(msgspec.Struct, frozen=True):
    """Something of the source that is no memory; it is counted by its reason."""

    reason: str


#: One thing of a source; records that are kept together or not at all are a tuple.
Item: TypeAlias = Record | tuple[Record, ...] | Unreadable | LeftOut
Items: TypeAlias = AsyncGenerator[Item, None]


class DefaultOwner(msgspec.Struct, frozen=True, kw_only=True):
    """Whose it becomes where the source does not say."""

    tenant: str = ""
    user: str = DEFAULT_USER
    session: str | None = None

    def talk(self, session: str, user: str | None = None) -> Scope:
        """Where the messages of a session are, as the chat face keeps them."""
        return Scope(tenant=self.tenant, user=user or self.user, agent="", session=self.session or session)


class Times:
    """Times that go on: where a source has none, or the same twice, its order is kept."""

    def __init__(self, start: datetime | None = None) -> None:
        self._last = (start or _EPOCH) - _TICK

    def next(self, at: datetime | None) -> datetime:
        """This time, or the first one after the last."""
        self._last = at if at is not None and at > self._last else self._last + _TICK
        return self._last


def stable_id(*parts: object) -> str:
    """An id that is the same whenever the same is read."""
    spelled = "".join(f"{len(text)}:{text}" for text in map(str, parts))
    return hashlib.blake2b(spelled.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def moment(given: Any) -> datetime | None:
    """A time in UTC of what a source says: seconds or milliseconds since 1970, ISO 8601, or a datetime; None if it says nothing.

    One without an offset is UTC. What cannot be read is ValueError: any other time in its place would be a lie.
    """
    if given is None or given == "":
        return None
    try:
        if isinstance(given, int | float) and not isinstance(given, bool):
            return _EPOCH + timedelta(seconds=given / 1000 if given > 1e11 else given)
        at = datetime.fromisoformat(given) if isinstance(given, str) else given
        if isinstance(at, datetime):
            return at.replace(tzinfo=UTC) if at.tzinfo is None else to_utc(at)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"{str(given)[:60]!r} is no time; ISO 8601 and seconds since 1970 can be read")


def seq_of(at: datetime) -> int:
    """The sequence number of a record of that time: the same whenever it is read."""
    seq = (at - _EPOCH) // _TICK
    if not 0 <= seq < 2**53:
        raise ValueError(f"{at.isoformat()} is no time of a record: these are between 1970 and 2255")
    return seq


def message_record(
    message: Msg, scope: Scope, at: datetime, marks: Sequence[str] = (), *, stamped: bool = True
) -> Record:
    """The record of a message of that time, under the message's own id."""
    if stamped:
        message.timestamp = stamp(at)
    record = to_record(message, tuple(marks), scope)
    return msgspec.structs.replace(record, created_at=at, seq=seq_of(at))


def make_message(
    id_: str, role: str, content: Any, metadata: Mapping[str, Any], name: str | None = None
) -> Msg:
    """A message as the chat face has it, with the metadata there is; what is neither the user's nor the assistant's is the system's."""
    known: Any = role if role in ("user", "assistant") else "system"
    message = Msg(name or role, content, known, {key: value for key, value in metadata.items() if value})
    message.id = id_
    return message


def fact_records(
    owner: DefaultOwner,
    id_: str,
    text: str,
    at: datetime | None,
    *,
    came_from: str,
    user: str | None = None,
    agent: str | None = None,
    layer: Layer = "profile",
    category: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    updated_at: datetime | None = None,
    expires_at: datetime | None = None,
    is_permanent: bool | None = None,
) -> tuple[Record, ...]:
    """A fact and the log row that says where it came from, which are kept together."""
    from octavo.layers.rules import categorise

    if not isinstance(text, str) or not text.strip():
        raise InvalidRecord("it says nothing")
    began = at or now()
    whose = facts.Owner("agent", agent) if agent and not user else facts.Owner("user", user or owner.user)
    permanent = (layer == "profile" and expires_at is None) if is_permanent is None else is_permanent
    state = State(
        category=category or categorise(text, layer) or DEFAULTS[layer],
        content=text,
        metadata=dict(metadata or {}),
        data={"is_permanent": permanent, "sources": []},
        created_at=began,
        updated_at=max(began, updated_at or began),
        expires_at=expires_at,
    )
    fact = facts.record_of(id_, whose, owner.tenant, layer, state, 1)
    fact = facts.check_storable(msgspec.structs.replace(fact, seq=seq_of(began)))
    return fact, insert_step(fact, f"imported from {came_from}").log


def try_make(position: str, make: Callable[..., Any], *given: Any) -> Any:
    """What is made of this, or Unreadable with the position and the reason why nothing can be; what was so already stays so."""
    try:
        return given[0] if isinstance(given[0], Unreadable) else make(*given)
    except (InvalidRecord, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        return Unreadable(position, " ".join(reason.split())[:300] or type(error).__name__)
