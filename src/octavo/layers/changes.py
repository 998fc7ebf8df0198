"""Changes of memories, each written together with its log row, so that neither is ever there without the other.

The log row of a version has an id of its own that anybody can compute, and a memory carries its version as its only mark.
So a change says "of version n", and of two writers that change the same version exactly one finds the mark and a free id.
Nothing is locked, whatever the store and however many processes there are.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from octavo.errors import Conflict, InvalidRecord, NotFound, StoreUnavailable
from octavo.kernel.model import Add, Change, Op, Query, Record, Remove, Scope
from octavo.kernel.ports import Store, written
from octavo.kernel.text import spell
from octavo.layers import checking, reasons
from octavo.layers.deciding import Layer
from octavo.layers.records import (
    COLLECTIONS,
    LAYER_OF,
    LOG,
    exact_scope,
    log_id,
    log_record,
    mark_of,
    owner_of,
    record_of,
    state_of,
    version_of,
)
from octavo.layers.values import LAYERS, Action, LogEntry, Status

#: How often a change is tried that others come before; each time one of them got through.
TRIES = 50
CHANGES: tuple[Action, ...] = ("insert", "update", "delete", "expire")
_TICK = timedelta(microseconds=1)
_PAUSE_SECONDS = 0.05


class Step(msgspec.Struct, frozen=True):
    """A change of one memory: its ops, of which the last adds the log row and the one before it does the change."""

    ops: list[Op]
    log: Record
    memory: Record  # as it is afterwards, or was; of a remark about no memory, the row itself
    certain: bool = False  # it changes no memory, so nobody can come before it

    @property
    def brings_back(self) -> bool:
        """Whether it adds the memory rather than changes or removes it."""
        return isinstance(self.ops[-2], Add)


class MemoryWriter:
    """Writes steps into a store, each of them whole or not at all."""

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self.store = store
        self.clock = clock
        self._repairs: set[asyncio.Task[Any]] = set()

    async def write(self, ops: Sequence[Op]) -> tuple[Status, list[int]]:
        """Where the ops are now, and what each of them touched; nobody knows that yet of queued ones."""
        answer = await written(self.store, ops)
        return ("success" if answer.stored else "queued"), answer.counts

    async def take(self, steps: Sequence[Step]) -> tuple[Status, list[bool]]:
        """Write the steps in one go; answer which of them nobody came before."""
        status, counts = await self.write([op for step in steps for op in step.ops])
        won: list[bool] = []
        repairs: list[Op] = []
        at = 0
        for step in steps:
            at += len(step.ops)
            if step.certain or status == "queued":
                won.append(True)
                continue
            changed, logged = counts[at - 2] > 0, counts[at - 1] > 0
            if changed != logged:
                repairs += _repair(step, changed=changed)
            won.append(logged and (changed or step.brings_back))
        if repairs:  # they are made though the caller gives up
            task = asyncio.get_running_loop().create_task(self.write(repairs))
            self._repairs.add(task)  # the loop alone would not keep it
            task.add_done_callback(self._repairs.discard)
            await asyncio.shield(task)
        return status, won

    async def change(self, memory: str, attempt: Callable[[], Awaitable[Step]]) -> Step:
        """Take the step that `attempt` makes of what is there now, as often as others come before it."""
        for tried in range(TRIES):
            step = await attempt()
            status, [won] = await self.take([step])
            if status == "queued" and not step.certain:
                raise StoreUnavailable(
                    f"the change of {memory!r} is queued: it will be made when the store is back, "
                    f"unless somebody else changes the memory before"
                )
            if won:
                return step
            await asyncio.sleep(random.random() * _PAUSE_SECONDS * (tried > 1))  # noqa: S311 - to be out of step
        raise Conflict(f"others changed {memory!r} {TRIES} times while this change was tried; try again")

    async def find(
        self, memory: str, scope: Scope, layer: Layer | None = None, *, alive_at: datetime | None = None
    ) -> Record:
        """The record of a memory in this scope, or NotFound."""
        queries = [
            Query(collection=COLLECTIONS[each], ids=(memory,), scope=scope, alive_at=alive_at, limit=1)
            for each in (LAYERS if layer is None else (layer,))
        ]
        for page in await asyncio.gather(*map(self.store.find, queries)):
            for record in page:
                return record
        raise NotFound(f"there is no memory {memory!r}")

    async def last_change(self, memory: str, tenant: str) -> Record | None:
        """The log row of the last change of a memory."""
        scope = Scope(tenant=tenant, session=memory)
        query = Query(collection=LOG, scope=scope, kinds=CHANGES, newest_first=True, limit=1)
        return next(iter(await self.store.find(query)), None)

    def after(self, earlier: datetime | None) -> datetime:
        """Now, and in any case after that: a clock that is set back must not turn a history around."""
        at = self.clock()
        return at if earlier is None else max(at, earlier + _TICK)


# --- steps


def insertion(record: Record, reason: str, metadata: dict[str, Any] | None = None) -> Step:
    """A memory that begins."""
    log = _log(record, "insert", reason, None, record, metadata)
    return Step([Add([record]), Add([log])], log, record)


def reinsertion(record: Record, reason: str, metadata: dict[str, Any] | None = None) -> Step:
    """A memory that is there again, under its old id."""
    step = insertion(record, reason, metadata)
    # It removes nothing, but whoever remembers which ids were just stored hears that this one may be gone.
    return msgspec.structs.replace(step, ops=[Remove(_memory_query(record, marks=("v0",))), *step.ops])


def alteration(before: Record, after: Record, reason: str, metadata: dict[str, Any] | None = None) -> Step:
    """A memory that becomes another version of itself."""
    log = _log(after, "update", reason, before, after, metadata)
    change = Change(
        query=_version(before),
        kind=after.kind,
        text=after.text,
        data=after.data,
        metadata=after.metadata,
        expires_at=UNSET if after.expires_at == before.expires_at else after.expires_at,
        unmark=before.marks,
        mark=after.marks,
        updated_at=after.updated_at or after.created_at,
    )
    return Step([change, Add([log])], log, after)


def removal(
    before: Record, action: Action, reason: str, at: datetime, metadata: dict[str, Any] | None = None
) -> Step:
    """A memory that ends."""
    log = _log(msgspec.structs.replace(before, updated_at=at), action, reason, before, None, metadata)
    return Step([Remove(_version(before)), Add([log])], log, before)


def remark(
    record: Record | None, scope: Scope, layer: Layer, reason: str, at: datetime, metadata: dict[str, Any]
) -> Step:
    """A log row that says why nothing was changed."""
    log = log_record(scope, record.id if record else "", layer, "ignore", reason, at, metadata=metadata)
    return Step([Add([log])], log, record or log, certain=True)


def _log(
    record: Record,
    action: Action,
    reason: str,
    before: Record | None,
    after: Record | None,
    metadata: dict[str, Any] | None,
) -> Record:
    return log_record(
        record.scope,
        record.id,
        LAYER_OF[record.collection],
        action,
        reason,
        record.updated_at or record.created_at,
        version=version_of(record) + (after is None),
        before=before,
        after=after,
        metadata=metadata,
    )


def _memory_query(record: Record, marks: tuple[str, ...] | None = None) -> Query:
    """This memory, whatever its version, or with one of the marks."""
    return Query(collection=record.collection, ids=(record.id,), scope=exact_scope(record.scope), marks=marks)


def _version(record: Record) -> Query:
    """Exactly this version of the memory."""
    return _memory_query(record, marks=(mark_of(version_of(record)),))


def _repair(step: Step, *, changed: bool) -> list[Op]:
    """What to do after a step of which the table or the log took one half only.

    Anybody can bring back what was removed, since nothing is left to be of the wrong version. So whoever comes so late that
    another brought it back and removed it again puts into the table what the log does not know; or others find that there.
    The log is the truth: of a version that it had already, the table keeps nothing.
    """
    if changed:
        return [] if isinstance(step.ops[-2], Remove) else [Remove(_version(step.memory))]
    if step.brings_back:  # this version is the truth, but such a late one is in its place
        return [Remove(_memory_query(step.memory)), Add([step.memory])]
    return [Remove(Query(collection=LOG, ids=(step.log.id,), scope=Scope(tenant=step.log.scope.tenant)))]


# --- what a memory becomes


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """What to change of a memory; the rest stays."""

    content: str | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    category: str | UnsetType = UNSET
    is_permanent: bool | UnsetType = UNSET
    expiry_date: datetime | UnsetType | None = UNSET


def revision_step(
    before: Record, revision: Revision, at: datetime, why: str | None, event_ttl: timedelta | None
) -> Step:
    """The step that changes a memory, or that says that nothing differs."""
    layer = LAYER_OF[before.collection]
    ending = checking.revised_ending(
        layer,
        at,
        checking.Ending(bool(before.data.get("is_permanent")), before.expires_at),
        is_permanent=revision.is_permanent,
        expiry_date=revision.expiry_date,
        event_ttl=event_ttl,
    )
    version = version_of(before) + 1
    category = revision.category
    after = checking.storable(
        msgspec.structs.replace(
            before,
            kind=before.kind if category is UNSET else checking.category(category, layer, InvalidRecord),
            text=before.text if revision.content is UNSET else revision.content,
            metadata=before.metadata if revision.metadata is UNSET else revision.metadata,
            data={**before.data, "is_permanent": ending.is_permanent, "version": version},
            marks=(mark_of(version),),
            updated_at=at,
            expires_at=ending.expires_at,
        )
    )
    if _substance(before) == _substance(after):
        return remark(before, before.scope, layer, why or reasons.repeated(before.text), at, {})
    return alteration(before, after, why or reasons.updated(state_of(before), state_of(after)))


def _substance(record: Record) -> tuple[Any, ...]:
    """All of a memory but the number of its version."""
    data = {name: value for name, value in record.data.items() if name != "version"}
    # Compared as JSON: to Python, 1 == True, and a change from one to the other would be dropped.
    return (record.kind, record.text, record.expires_at, spell(data), spell(record.metadata))


async def undo_step(writer: MemoryWriter, entry: LogEntry, scope: Scope, why: str | None) -> Step:
    """The step that takes back the last change of a memory; `scope` is that of its log row."""
    at = writer.after(entry.created_at)
    facts = {"undo_of": entry.id}
    if entry.before is None:  # it began with that change, so it ends now
        present = await _present(writer, entry, scope)
        reason = why or reasons.undone(present.text, entry.action, entry.reason)
        return removal(present, "delete", reason, at, facts)
    ends = entry.before.expires_at
    # With an end that has passed nobody would see it again, and that is not what anybody undoes for.
    state = msgspec.structs.replace(
        entry.before, updated_at=at, expires_at=None if ends is None or ends <= at else ends
    )
    version = (entry.version or 0) + 1
    restored = record_of(entry.memory_id, owner_of(scope), scope.tenant, entry.memory_layer, state, version)
    reason = why or reasons.undone(state.content, entry.action, entry.reason)
    if entry.after is None:
        return reinsertion(restored, reason, facts)
    return alteration(await _present(writer, entry, scope), restored, reason, facts)


async def _present(writer: MemoryWriter, entry: LogEntry, scope: Scope) -> Record:
    """The memory at the version that the change made; the row alone may be older than what is there by now."""
    try:
        record = await writer.find(entry.memory_id, Scope(tenant=scope.tenant), entry.memory_layer)
    except NotFound:
        raise Conflict(f"the memory {entry.memory_id!r} was removed meanwhile") from None
    if version_of(record) != entry.version:
        newer = log_id(entry.memory_id, version_of(record))
        raise Conflict(f"only the last change of a memory can be undone: {newer!r} is newer")
    return record
