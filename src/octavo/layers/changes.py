"""Changes of memories, each written together with its log row, so that neither is ever there without the other.

A memory carries its version as its only mark, and the log row of a version has an id that anybody can compute. A change expects
to find the version it was made from and to add a row that is new: of two writers that change the same version one gets
through, and the other has changed nothing. Nothing is locked, whatever the store and however many processes there are.
"""

from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import UNSET

from octavo.errors import Conflict, InvalidRecord
from octavo.kernel.model import Add, Change, Op, Query, Record, Remove, Scope
from octavo.kernel.terms.matching import FOUND_BY
from octavo.kernel.text import spell
from octavo.layers import checking, reasons
from octavo.layers.records import (
    LAYER_OF,
    log_record,
    mark_of,
    owner_of,
    record_of,
    state_of,
    storable,
    version_of,
)
from octavo.layers.topics import topic_of
from octavo.layers.values import Action, Layer, LogEntry


class Step(msgspec.Struct, frozen=True):
    """A change of one memory: its ops, which are done together or, when somebody came before, not at all."""

    ops: list[Op]
    log: Record
    memory: Record  # as it is afterwards, or was; of a remark about no memory, the row itself
    certain: bool = False  # it changes no memory, so nobody can come before it


def insertion(record: Record, reason: str, metadata: dict[str, Any] | None = None) -> Step:
    """A memory that begins, or that is there again under its old id."""
    log = _log(record, "insert", reason, None, record, metadata)
    return Step([Add([record], expect=1), Add([log], expect=1)], log, record)


def alteration(before: Record, after: Record, reason: str, metadata: dict[str, Any] | None = None) -> Step:
    """A memory that becomes another version of itself."""
    log = _log(after, "update", reason, before, after, metadata)
    change = Change(
        query=_query(before),
        kind=after.kind,
        text=after.text,
        data=after.data,
        metadata=after.metadata,
        expires_at=UNSET if after.expires_at == before.expires_at else after.expires_at,
        unmark=before.marks,
        mark=after.marks,
        updated_at=after.updated_at or after.created_at,
        expect=1,
    )
    return Step([change, Add([log], expect=1)], log, after)


def removal(
    before: Record, action: Action, reason: str, at: datetime, metadata: dict[str, Any] | None = None
) -> Step:
    """A memory that ends."""
    log = _log(msgspec.structs.replace(before, updated_at=at), action, reason, before, None, metadata)
    return Step([Remove(_query(before), expect=1), Add([log], expect=1)], log, before)


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
    layer, version = LAYER_OF[record.collection], version_of(record) + (after is None)
    at = record.updated_at or record.created_at
    return log_record(
        record.scope, record.id, layer, action, reason, at, version, before, after, metadata or {}
    )


def _query(record: Record) -> Query:
    """Exactly this version of the memory, and nothing of anybody else."""
    scope = record.scope
    return Query(
        collection=record.collection,
        ids=(record.id,),
        scope=Scope(tenant=scope.tenant, user=scope.user or "", agent=scope.agent or "", session=""),
        marks=(mark_of(version_of(record)),),
    )


def next_version(before: Record, at: datetime, data: dict[str, Any], **changes: Any) -> Record:
    """The memory as it is after a change, checked as a new one is; `data` is added to what it has."""
    version = version_of(before) + 1
    kept = before.data
    if changes.get("text", before.text) != before.text:  # what it was found by, it says no more
        kept = {**kept, FOUND_BY: [topic_of(changes["text"]), ""]}
    data = {**kept, **data, "version": version}
    return storable(
        msgspec.structs.replace(before, data=data, marks=(mark_of(version),), updated_at=at, **changes)
    )


def revision(
    before: Record, changes: dict[str, Any], at: datetime, why: str | None, event_ttl: timedelta | None
) -> Step:
    """The step that changes what is given of a memory, or that says that nothing differs."""
    layer = LAYER_OF[before.collection]
    was = checking.Ending(bool(before.data.get("is_permanent")), before.expires_at)
    told = {name: changes[name] for name in ("is_permanent", "expiry_date") if name in changes}
    ending = checking.ending(layer, at, was, event_ttl=event_ttl, **told)
    category = changes.get("category", UNSET)
    after = next_version(
        before,
        at,
        {"is_permanent": ending.is_permanent},
        kind=before.kind if category is UNSET else checking.category(category, layer, InvalidRecord),
        text=changes.get("content", before.text),
        metadata=changes.get("metadata", before.metadata),
        expires_at=ending.expires_at,
    )
    if _substance(before) == _substance(after):
        return remark(before, before.scope, layer, why or reasons.repeated(before.text), at, {})
    return alteration(before, after, why or reasons.updated(state_of(before), state_of(after)))


def _substance(record: Record) -> tuple[Any, ...]:
    """All of a memory but the number of its version."""
    data = {name: value for name, value in record.data.items() if name != "version"}
    # Compared as JSON: to Python, 1 == True, and a change from one to the other would be dropped.
    return (record.kind, record.text, record.expires_at, spell(data), spell(record.metadata))


def undoing(
    entry: LogEntry,
    scope: Scope,
    present: Record | None,
    why: str | None,
    at: datetime,
    *,
    last: LogEntry | None = None,
    metadata: dict[str, Any] | None = None,
) -> Step:
    """The step that takes back the last change of a memory, or all from `entry` to its `last` one.

    `present` is what the last change made of it, if it left anything.
    """
    last = last or entry
    facts = {"undo_of": last.id, **(metadata or {})}
    state = entry.before
    if state is None:  # it began with that change, so it ends now
        if present is None:
            raise Conflict(f"the memory {entry.memory_id!r} was removed meanwhile")
        reason = why or reasons.undone(present.text, entry.action, entry.reason)
        return removal(present, "delete", reason, at, facts)
    ends = state.expires_at
    # With an end that has passed nobody would see it again, and that is not what anybody undoes for.
    state = msgspec.structs.replace(
        state, updated_at=at, expires_at=None if ends is None or ends <= at else ends
    )
    version = (last.version or 0) + 1
    restored = record_of(entry.memory_id, owner_of(scope), scope.tenant, entry.memory_layer, state, version)
    reason = why or reasons.undone(state.content, entry.action, entry.reason)
    if present is None:
        return insertion(restored, reason, facts)
    return alteration(present, restored, reason, facts)
