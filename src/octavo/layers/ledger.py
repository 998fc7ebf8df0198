"""Changes that are written together with their log rows, so that neither is ever there without the other.

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
from msgspec import UNSET

from octavo.errors import Conflict, NotFound, StoreUnavailable
from octavo.kernel.ids import new_id
from octavo.kernel.model import Add, Change, Op, Query, Record, Remove, Scope
from octavo.kernel.ports import Store, written
from octavo.kernel.text import spell
from octavo.layers.deciding import Layer
from octavo.layers.records import (
    COLLECTIONS,
    LAYER_OF,
    LOG,
    log_id,
    mark_of,
    place_of,
    row,
    state_of,
    version_of,
)
from octavo.layers.values import LAYERS, Action, Status

#: How often a change is tried that others come before; each time one of them got through.
TRIES = 50
_TICK = timedelta(microseconds=1)
_PAUSE_SECONDS = 0.05


class Step(msgspec.Struct, frozen=True):
    """A change of one memory: its ops, of which the last adds the log row and the one before it does the change."""

    ops: list[Op]
    log: Record
    memory: Record  # as it is afterwards, or was; of a remark about no memory, the row itself
    certain: bool = False  # it changes no memory, so nobody can come before it


class Ledger:
    """Writes steps into a store, each of them whole or not at all."""

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self.store = store
        self.clock = clock
        self._mends: set[asyncio.Task[Any]] = set()

    async def write(self, ops: Sequence[Op]) -> tuple[Status, list[int]]:
        """Where the ops are now, and what each of them touched; nobody knows that yet of queued ones."""
        answer = await written(self.store, ops)
        return ("success" if answer.stored else "queued"), answer.counts

    async def take(self, steps: Sequence[Step]) -> tuple[Status, list[bool]]:
        """Write the steps in one go; answer which of them nobody came before."""
        status, counts = await self.write([op for step in steps for op in step.ops])
        won: list[bool] = []
        mending: list[Op] = []
        at = 0
        for step in steps:
            at += len(step.ops)
            if step.certain or status == "queued":
                won.append(True)
                continue
            changed, told = counts[at - 2] > 0, counts[at - 1] > 0
            if changed != told:
                mending += _mending(step, changed=changed)
            won.append(told and (changed or _brings_back(step)))
        if mending:
            await self._mend(mending)
        return status, won

    async def _mend(self, ops: list[Op]) -> None:
        """Make table and log agree again, though the caller gives up."""
        task = asyncio.get_running_loop().create_task(self.write(ops))
        self._mends.add(task)  # the loop alone would not keep it
        task.add_done_callback(self._mends.discard)
        await asyncio.shield(task)

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
        layers = LAYERS if layer is None else (layer,)
        pages = await asyncio.gather(
            *(
                self.store.find(
                    Query(collection=COLLECTIONS[one], ids=(memory,), scope=scope, alive_at=alive_at, limit=1)
                )
                for one in layers
            )
        )
        for page in pages:
            for record in page:
                return record
        raise NotFound(f"there is no memory {memory!r}")

    async def newest(self, memory: str, tenant: str) -> Record | None:
        """The log row of the last change of a memory."""
        query = Query(
            collection=LOG,
            scope=Scope(tenant=tenant, session=memory),
            kinds=("insert", "update", "delete", "expire"),
            newest_first=True,
            limit=1,
        )
        return next(iter(await self.store.find(query)), None)

    def after(self, earlier: datetime | None) -> datetime:
        """Now, and in any case after that: a clock that is set back must not turn a history around."""
        at = self.clock()
        return at if earlier is None else max(at, earlier + _TICK)


def insertion(record: Record, reason: str, metadata: dict[str, Any] | None = None) -> Step:
    """A memory that begins."""
    log = _row(record, "insert", reason, None, record, metadata)
    return Step([Add([record]), Add([log])], log, record)


def reinsertion(record: Record, reason: str, metadata: dict[str, Any] | None = None) -> Step:
    """A memory that is there again, under its old id."""
    log = _row(record, "insert", reason, None, record, metadata)
    # It removes nothing, but whoever remembers which ids were just stored hears that this one may be gone.
    forgotten = Query(
        collection=record.collection, ids=(record.id,), scope=place_of(record.scope), marks=("v0",)
    )
    return Step([Remove(forgotten), Add([record]), Add([log])], log, record)


def alteration(before: Record, after: Record, reason: str, metadata: dict[str, Any] | None = None) -> Step:
    """A memory that becomes another version of itself."""
    log = _row(after, "update", reason, before, after, metadata)
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
    gone = msgspec.structs.replace(before, updated_at=at)
    log = _row(gone, action, reason, before, None, metadata)
    return Step([Remove(_version(before)), Add([log])], log, before)


def remark(
    record: Record | None, scope: Scope, layer: Layer, reason: str, at: datetime, metadata: dict[str, Any]
) -> Step:
    """A log row that says why nothing was changed."""
    memory = "" if record is None else record.id
    log = row(scope, memory, layer, "ignore", reason, at, id_=new_id("log_"), metadata=metadata)
    return Step([Add([log])], log, record or log, certain=True)


def _brings_back(step: Step) -> bool:
    return isinstance(step.ops[-2], Add)


def _mending(step: Step, *, changed: bool) -> list[Op]:
    """What to do after a step of which the table or the log took one half only.

    Anybody can bring back what was removed, since nothing is left to be of the wrong version. So whoever comes so late that
    another brought it back and removed it again puts into the table what the log does not know; or others find that there.
    The log is the truth: of a version that it had already, the table keeps nothing.
    """
    log, memory = step.log, step.memory
    if changed:
        return [] if isinstance(step.ops[-2], Remove) else [Remove(_version(memory))]
    if _brings_back(step):  # this version is the truth, but such a late one is in its place
        late = Query(collection=memory.collection, ids=(memory.id,), scope=place_of(memory.scope))
        return [Remove(late), Add([memory])]
    return [Remove(Query(collection=LOG, ids=(log.id,), scope=Scope(tenant=log.scope.tenant)))]


def same(one: Record, other: Record) -> bool:
    """Whether two versions of a memory differ in nothing but their number."""
    # Compared as JSON: to Python, 1 == True, and a change from one to the other would be dropped.
    return _said(one) == _said(other)


def _said(record: Record) -> tuple[Any, ...]:
    data = {name: value for name, value in record.data.items() if name != "version"}
    return (record.kind, record.text, record.expires_at, spell(data), spell(record.metadata))


def _version(record: Record) -> Query:
    """Exactly this version of the memory."""
    return Query(
        collection=record.collection,
        ids=(record.id,),
        scope=place_of(record.scope),
        marks=(mark_of(version_of(record)),),
    )


def _row(
    record: Record,
    action: Action,
    reason: str,
    before: Record | None,
    after: Record | None,
    metadata: dict[str, Any] | None,
) -> Record:
    version = version_of(record) + (after is None)
    return row(
        record.scope,
        record.id,
        LAYER_OF[record.collection],
        action,
        reason,
        record.updated_at or record.created_at,
        id_=log_id(record.id, version),
        version=version,
        before=None if before is None else state_of(before),
        after=None if after is None else state_of(after),
        metadata=metadata,
    )
