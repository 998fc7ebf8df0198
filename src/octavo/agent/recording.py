"""Recording beside the agent's work: events are noted at once and written in order; trouble never reaches the agent."""

import asyncio
import dataclasses
import logging
import math
import re
import reprlib
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from octavo.errors import ConfigError, InvalidRecord, StoreClosed, StoreUnavailable
from octavo.events import AgentEvent, BaseMemoryStore, EventStore, as_store, to_record
from octavo.kernel.codec import MAX_DEPTH
from octavo.kernel.model import Add, Query, Record
from octavo.kernel.ports import Store
from octavo.kernel.text import drop_unstorable, folder_name, pluralize
from octavo.stores.sql.urls import parse
from octavo.util.user_code import attempt
from octavo.wraps.attempts import Attempts

if TYPE_CHECKING:
    from octavo.wraps.journal import Journal

_log = logging.getLogger("octavo.agent")
_BATCH = 500
_MOST_HELD = 10_000  # events kept in memory while neither the store nor the disk takes any
# The store takes nothing now, whatever the event: the only errors that mean "later".
_AWAY = (StoreUnavailable, StoreClosed, ConfigError)
_ROOT = Path(".octavo") / "queue"
_SECRET = re.compile("pass|pwd|secret|token|key", re.IGNORECASE)
_repr = reprlib.Repr()  # never raises and never ends in a circle, as repr may
_repr.maxstring = _repr.maxother = _repr.maxlong = 1000
#: Of an event that is too large as a whole: characters of one text, those of all of it, and what a value counts beside them.
_SHORT, _MOST, _EACH = 100_000, 1_000_000, 8


class Recorder:
    """Writes events behind the agent's back, many in one write, in the order they were noted; `flush` waits for them.

    While the store is away they go through a Journal into `directory`, from where they are delivered when it is back; the
    folder is made when something has to wait. Without a directory they wait in memory. Nothing here raises into the
    agent's work: what went wrong is logged, and counted in `lost` when an event could not be kept at all.
    """

    def __init__(
        self, memory_store: BaseMemoryStore, directory: Path | None = None, *, timeout: float = 4.0
    ) -> None:
        self._store: Store = as_store(memory_store)
        self._tenant = memory_store.tenant
        self._directory = directory
        self._timeout = timeout
        self._attempts = Attempts()
        self._journal: Journal | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # the one the journal belongs to
        self._pending: deque[Record] = deque()
        self._noted = self._settled = 0  # how many there were, and how many need no more attention
        self._task: asyncio.Task[bool] | None = None
        self._trouble = False
        self.lost = 0
        self.last_error = ""

    @property
    def held(self) -> int:
        """How many events are in memory only, neither stored nor queued on disk."""
        return self._noted - self._settled

    @property
    def away(self) -> bool:
        """Whether the store could not be reached when it was last tried; who need not ask it should not."""
        return self._trouble or (self._journal is not None and self._journal.status().state == "down")

    def note(self, event: AgentEvent) -> None:
        """Have the event written soon; takes no time, and never raises for what its data hold."""
        # Taken now: a tool may change its arguments while they wait to be written.
        event.data = make_keepable(event.data)
        event.metadata = make_keepable(event.metadata) if event.metadata else {}
        self._pending.append(to_record(event, self._tenant))
        self._noted += 1
        while len(self._pending) > _MOST_HELD:
            self._lose(
                self._pending.popleft(), "there are too many and neither the store nor the disk takes them"
            )
            self._settled += 1
        self._begin()

    async def flush(self) -> None:
        """Wait until all that was noted before is stored, or queued on disk, or has been tried."""
        noted = self._noted
        while self._settled < noted:
            if not await asyncio.shield(self._begin()):
                return

    async def wait_until_stored(self) -> None:
        """Wait until the store has all that was noted, so that whoever asks it next finds that; else StoreUnavailable."""
        noted = self._noted  # what others note meanwhile is theirs to wait for
        await self.flush()
        if (journal := self._journal) is not None and journal.status().waiting:
            # Whoever asks now is not interested in when the next try would have been.
            trying = asyncio.ensure_future(attempt(journal.replay_now()))
            await asyncio.wait({trying}, timeout=self._timeout)
            status = journal.status()
            if status.waiting and status.state == "down":
                raise StoreUnavailable(
                    f"events wait in {status.directory} for the store: {status.last_error}"
                )
            await journal.find(Query(collection="events", limit=1))  # waits for what is queued
        if self._settled < noted:
            raise StoreUnavailable(
                f"{pluralize(len(self._pending), 'event')} waiting to be stored: {self.last_error}"
            )

    async def close(self) -> None:
        """Store or queue what is left; the memory store stays open."""
        await self.flush()
        journal, self._journal = self._journal, None
        if journal is not None and (error := (await attempt(journal.close())).error):
            _log.error("the queue of events could not be closed: %s: %s", type(error).__name__, error)
        if self._pending:
            _log.error(
                "%s could neither be stored nor queued: %s",
                pluralize(len(self._pending), "event"),
                self.last_error,
            )

    def _begin(self) -> "asyncio.Task[bool]":
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write_some())
        return self._task

    async def _write_some(self) -> bool:
        """Write what waits, as much as goes into one write, and have the rest written next; False when it has to wait."""
        batch = [self._pending.popleft() for _ in range(min(len(self._pending), _BATCH))]
        done = 0
        try:
            done = await self._write(batch)
        finally:  # also when the loop is ending
            self._pending.extendleft(reversed(batch[done:]))
            self._settled += done
        if done < len(batch):
            return False
        if self._pending:
            self._task = asyncio.get_running_loop().create_task(self._write_some())
        return True

    async def _write(self, batch: list[Record]) -> int:
        """Keep these, or find out which of them cannot be kept; answer how many, from the first, need no more attention."""
        error = (await attempt(self._keep(batch))).error
        if error is None:
            if self._trouble:
                _log.info("events are recorded again")
            self._trouble = False
            return len(batch)
        if isinstance(error, _AWAY):
            self.last_error = f"{type(error).__name__}: {error}"
            if not self._trouble:
                _log.error("events are not recorded now, and wait in memory: %s", self.last_error)
            self._trouble = True
            return 0
        if len(batch) > 1:  # one of them is bad; the others must not go with it
            for number, record in enumerate(batch):
                if not await self._write([record]):
                    return number
            return len(batch)
        [record] = batch
        cut = msgspec.structs.replace(record, data=shorten(record.data), metadata=shorten(record.metadata))
        if isinstance(error, InvalidRecord) and cut != record:
            return await self._write([cut])
        self._lose(record, f"{type(error).__name__}: {error}")
        return 1

    async def _keep(self, records: list[Record]) -> None:
        ops = [Add(records)]
        if self._journal is not None and self._loop is not asyncio.get_running_loop():
            self._journal = None  # it belongs to a loop that has ended; what waits in it is on disk
        if self._journal is None and not self._has_leftovers():
            try:
                # Half of the time: the rest is for the queue.
                await self._attempts.read(self._store.apply(ops), self._timeout / 2)
            except StoreUnavailable:
                if self._directory is None:
                    raise
            else:
                return
        try:
            await self._open_journal().write(ops)
        except StoreUnavailable as error:
            if isinstance(error.__cause__, ConfigError) and (journal := self._journal) is not None:
                # A folder that cannot be used must not keep events from a store that is back.
                self._journal, self._directory = None, None
                await journal.close()
            raise

    def _open_journal(self) -> "Journal":
        from octavo.wraps.journal import Journal

        if self._journal is None:
            if self._directory is None:
                raise StoreUnavailable("there is no folder for events to wait in")
            self._loop = asyncio.get_running_loop()
            self._journal = Journal(
                self._store,
                self._directory,
                timeout=self._timeout,
                # A store written by a user can be down for writing only, and nobody can tell: then it is tried for hours.
                max_retries=500,
                owned=False,
            )
        return self._journal

    def _has_leftovers(self) -> bool:
        """Whether something may wait there from before, which has to be delivered first."""
        return self._directory is not None and not self._settled and self._directory.is_dir()

    def _lose(self, record: Record, reason: str) -> None:
        self.lost += 1
        self.last_error = reason
        _log.error("event %s of %r was lost: %s", record.id, record.scope.agent, reason)


def queue_directory(memory_store: BaseMemoryStore, agent_name: str) -> Path | None:
    """A folder that belongs to this store and no other: what waits in it must not end up in another one.

    Beside the database or folder where the store is one; otherwise under `.octavo/queue`. None when the store lives in
    this process, which it can only leave together with the agent, or is an object of which nobody knows where it writes.
    """
    if not isinstance(memory_store, EventStore):
        kind = type(memory_store)
        config = getattr(memory_store, "config", None)
        told = {k: v for k, v in make_keepable(config or {}).items() if not _SECRET.search(k)}
        identity = f"{kind.__module__}.{kind.__qualname__} {agent_name} {msgspec.json.encode(told, order='sorted')!r}"
        return _ROOT / folder_name(f"{kind.__name__}-{agent_name}", identity)
    if not memory_store.url:
        return None
    address = parse(memory_store.url)
    if address.scheme == "memory":
        return None
    if address.scheme == "sqlite":
        path = address.path.removeprefix("/")
        return Path(f"{path}.queue") if path not in ("", ":memory:") else None
    if address.scheme == "file":
        return Path(f"{(address.host + address.path).rstrip('/')}.queue")
    from octavo.assemble import name_store  # here: a recorder beside a file needs nothing of it

    where = name_store(memory_store.url)
    return _ROOT / folder_name(where, where)


def make_keepable(value: Any) -> Any:
    """The value with whatever JSON or a store has no word for spelled as text; nothing is shared with the original."""
    return _plain(value, 1, {})


def _plain(value: Any, depth: int, seen: dict[tuple[int, int], tuple[Any, Any]]) -> Any:
    kind = type(value)
    if kind is str:
        return drop_unstorable(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if -(2**63) <= value < 2**63 else f"{value:#x}"  # in decimals Python itself may refuse
    if kind is float:
        return value if math.isfinite(value) else str(value)
    if depth >= MAX_DEPTH:
        return _safe_repr(value)
    known = seen.get((id(value), depth))  # what occurs several times is looked at once
    if known is None:
        # With the value itself: its id is its own only as long as it is there.
        known = seen[id(value), depth] = value, _make_plain(value, depth, seen)
    return known[1]


def _make_plain(value: Any, depth: int, seen: dict[tuple[int, int], tuple[Any, Any]]) -> Any:
    if isinstance(value, Mapping):
        return {_key(key): _plain(one, depth + 1, seen) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one, depth + 1, seen) for one in value]
    try:
        if (fields := _fields(value)) is not None:
            return _plain(fields, depth, seen)
        plain = msgspec.to_builtins(value, str_keys=True)  # times, enums, UUIDs …
    except (TypeError, ValueError, AttributeError, RecursionError):
        return _safe_repr(value)
    return _plain(plain, depth + 1, seen) if type(plain) is not type(value) else _safe_repr(value)


def _fields(value: Any) -> dict[str, Any] | None:
    """What an object holds, one level of it; None for what has no fields."""
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    kind = type(value)
    fields = (
        dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else getattr(kind, "__attrs_attrs__", None)
    )
    return None if fields is None else {one.name: getattr(value, one.name) for one in fields}


def shorten(value: Any) -> Any:
    """A value that was too large to keep, with its long texts and its later values cut, and what was cut told."""
    return _cut(value, _MOST)[0]


def _cut(value: Any, room: int) -> tuple[Any, int]:
    """The value in so much room, and how much of it that took."""
    if isinstance(value, str):
        most = min(_SHORT, room)
        kept = value if len(value) <= most else f"{value[:most]}… ({len(value):,} characters in all)"
        return kept, _EACH + min(len(value), most)
    if not isinstance(value, dict | list):
        return value, _EACH
    names = list(value) if isinstance(value, dict) else range(len(value))
    found: dict[Any, Any] = {}
    left = room - _EACH
    for name in names:
        if left <= _EACH:
            found[f"… ({len(names) - len(found):,} more)"] = None
            break
        key, taken = _cut(name, left // 2)
        # Half of it: what stands beside a huge value is kept too.
        found[key], more = _cut(value[name], left // 2)
        left -= taken + more
    if isinstance(value, dict):
        return found, room - left
    return [name if isinstance(name, str) else one for name, one in found.items()], room - left


def _key(key: Any) -> str:
    return drop_unstorable(key if type(key) is str else str(getattr(key, "value", key)))


def _safe_repr(value: Any) -> str:
    return drop_unstorable(_repr.repr(value))
