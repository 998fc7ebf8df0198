"""What every reader yields: records, what could not be read and what was left out; and how messages and facts become records.

Then the one writer: batches, resumed where they stopped; and the look ahead that writes nothing.
"""

import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from octavo.chat.messages import Msg, stamp, to_record
from octavo.errors import InvalidRecord
from octavo.kernel.codec import encode_record, seal
from octavo.kernel.ids import now
from octavo.kernel.model import Add, Query, Record, Scope, to_utc
from octavo.kernel.ports import Store
from octavo.kernel.text import spell
from octavo.layers import records as facts
from octavo.layers.changes import insert_step
from octavo.layers.records import LOG
from octavo.layers.values import DEFAULT_USER, DEFAULTS, Layer, State
from octavo.transfer.copying import PAGE_BYTES, CopyStep, Moved, Progress, Trail, check_size

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


_SAMPLES = 3  # of each collection
_SAMPLE_CHARACTERS = 100
_MOST_LISTED = 1000  # of what could not be read; all of it is counted

#: Begins to read a source; called again, it begins again.
Read: TypeAlias = Callable[[], Items]


class Brought(Moved, kw_only=True):
    """What an import came to."""

    unreadable: list[Unreadable] = msgspec.field(default_factory=list)  # the first thousand; `bad` counts all
    left_out: dict[str, int] = msgspec.field(default_factory=dict)  # by reason

    async def records(self, read: Read) -> AsyncGenerator[tuple[Record, ...], None]:
        """What is read, in groups that are kept together; the rest is counted here, and what no store would take is unreadable."""
        seen: dict[int, int] = {}  # what each id said first
        async with aclosing(read()) as items:  # or a file would stay open when the import is stopped
            async for item in items:
                if isinstance(item, Unreadable | LeftOut):
                    self._note(item)
                    continue
                records = item if isinstance(item, tuple) else (item,)
                try:
                    for record in records:
                        seal(record)
                except InvalidRecord as error:
                    self._note(Unreadable(_position(records[0]), str(error)))
                    continue
                first = records[0]
                key, said = hash((first.collection, first.key)), hash(first.text or spell(first.data))
                if key not in seen:
                    seen[key] = said
                    yield records
                elif seen[key] == said:
                    self._note(LeftOut("repeated with the same id and text"))
                else:
                    reason = "a repeated id: what was read first under it is kept, and this is not"
                    self._note(Unreadable(_position(first), reason))

    def _note(self, item: Unreadable | LeftOut) -> None:
        if isinstance(item, LeftOut):
            self.left_out[item.reason] = self.left_out.get(item.reason, 0) + 1
            return
        self.bad += 1
        if len(self.unreadable) < _MOST_LISTED:
            self.unreadable.append(item)


def _position(record: Record) -> str:
    return f"{record.collection} {record.id!r}"[:200]


class Sample(msgspec.Struct, frozen=True):
    """One record of a look ahead."""

    collection: str
    kind: str
    user: str | None
    session: str | None
    text: str


class Preview(Brought, kw_only=True):
    """What an import would bring."""

    kinds: dict[str, int] = msgspec.field(default_factory=dict)  # "messages user" → how many
    users: int = 0
    sessions: int = 0
    samples: list[Sample] = msgspec.field(default_factory=list)


async def preview(read: Read, progress: Progress | None = None) -> Preview:
    """Read a source to its end, and say what is in it."""
    told, shown, kinds = Preview(), Counter[str](), Counter[str]()
    users: set[Any] = set()
    sessions: set[Any] = set()
    async with aclosing(told.records(read)) as everything:
        async for found in everything:
            told.count(found, progress, None)
            record, scope = found[0], found[0].scope
            kinds[f"{record.collection} {record.kind}".strip()] += 1
            users.add(scope.user)
            sessions.add((scope.user, scope.session))
            if shown[record.collection] < _SAMPLES:
                shown[record.collection] += 1
                text = " ".join((record.text or str(record.data)).split())
                cut = text if len(text) <= _SAMPLE_CHARACTERS else f"{text[:_SAMPLE_CHARACTERS]}…"
                told.samples.append(Sample(record.collection, record.kind, scope.user, scope.session, cut))
    told.kinds = dict(kinds)
    told.users = len({user for user in users if user})
    told.sessions = len({named for named in sessions if named[1]})
    return told


async def bring(
    read: Read,
    target: Store,
    run: str,
    *,
    batch: int = 1000,
    progress: Progress | None = None,
    resume: Path | str | None = None,
) -> Brought:
    """Add all that is read to the target; what it keeps already is left as it is, and what was forgotten stays forgotten.

    With `resume`, an interrupted import of the same `run` that is called again with the same file goes on where it stopped.
    """
    size = check_size(batch)
    with Trail(resume, run) as trail:
        if trail.last is not None and not await trail.last.holds(target):
            trail.clear()
        brought = await _run(read, target, trail, size, progress)
        if brought is None:  # the source is not what it was
            trail.clear()
            brought = await _run(read, target, trail, size, progress)
        assert brought is not None  # noqa: S101 - there is nothing to go on from now
        trail.clear()
    return brought


async def _run(
    read: Read, target: Store, trail: Trail, size: int, progress: Progress | None
) -> Brought | None:
    """Bring what stands behind the end of the trail; None when the source does not lead there any more."""
    begun, told = trail.last, Brought()
    left = begun.read if begun else 0
    waiting: list[tuple[Record, ...]] = []
    count = waiting_bytes = 0

    async def flush() -> None:
        nonlocal count, waiting_bytes
        records = [record for each in waiting for record in each]
        if not records:
            return
        told.added += await _write(target, waiting)
        last, done = records[-1], told.resumed + told.read + len(records)
        trail.mark(
            CopyStep(tenant=last.scope.tenant, collection=last.collection, cursor=last.cursor, read=done)
        )
        told.count(records, progress, None)
        waiting.clear()
        count = waiting_bytes = 0

    async with aclosing(told.records(read)) as everything:
        async for found in everything:
            if left > 0:
                left -= len(found)
                told.resumed += len(found)
                if left <= 0 and (left < 0 or begun is None or found[-1].id != begun.cursor.id):
                    return None
                continue
            waiting.append(found)
            count += len(found)
            waiting_bytes += sum(len(encode_record(record)) for record in found)
            if count >= size or waiting_bytes >= PAGE_BYTES:
                await flush()
    await flush()
    return None if left > 0 else told


async def _write(target: Store, items: list[tuple[Record, ...]]) -> int:
    """Add records; a fact whose log says that it was here before is not brought back."""
    rows = [record for item in items for record in item if record.collection == LOG and len(item) > 1]
    known: set[tuple[str, str]] = set()
    for tenant in {record.scope.tenant for record in rows}:
        ids = tuple(dict.fromkeys(record.id for record in rows if record.scope.tenant == tenant))
        found = await target.find(Query(collection=LOG, ids=ids, scope=Scope(tenant=tenant)))
        known |= {(record.scope.key, record.id) for record in found}
    new = [
        record
        for item in items
        if not any(record.collection == LOG and (record.scope.key, record.id) in known for record in item)
        for record in item
    ]
    if not new:
        return 0
    [added] = await target.apply([Add(new)])
    return added
