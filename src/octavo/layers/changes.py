"""Changes of memories, each written together with its log row, so that neither is ever there without the other.

A memory carries its version as its only mark, and the log row of a version has an id that anybody can compute. A change expects
to find the version it was made from and to add a row that is new: of two writers that change the same version one gets
through, and the other has changed nothing. Nothing is locked, whatever the store and however many processes there are.
"""

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import UNSET

from octavo.errors import Conflict, InvalidRecord
from octavo.kernel.ids import new_id
from octavo.kernel.model import Add, Change, Op, Query, Record, Remove, Scope, exact_scope
from octavo.kernel.ports import Store
from octavo.kernel.terms.matching import FOUND_BY
from octavo.kernel.text import spell
from octavo.layers import checking, reasons
from octavo.layers.records import (
    LAYER_OF,
    check_storable,
    log_record,
    mark_of,
    owner_of,
    record_of,
    state_of,
    version_of,
)
from octavo.layers.topic import topic_of
from octavo.layers.values import Action, Layer, LogEntry, OwnerType
from octavo.util.secrets import DigestKey
from octavo.util.sync import import_aside, run_steps

_logger = logging.getLogger("octavo.layers")


class ChangeStep(msgspec.Struct, frozen=True):
    """A change of one memory: its ops, which are done together or, when somebody came before, not at all."""

    ops: list[Op]
    log: Record
    memory: Record  # as it is afterwards, or was; of a remark about no memory, the row itself
    certain: bool = False  # it changes no memory, so nobody can come before it


def insert_step(record: Record, reason: str, metadata: dict[str, Any] | None = None) -> ChangeStep:
    """A memory that begins, or that is there again under its old id."""
    log = _log(record, "insert", reason, None, record, metadata)
    return ChangeStep([Add([record], expect=1), Add([log], expect=1)], log, record)


def update_step(
    before: Record, after: Record, reason: str, metadata: dict[str, Any] | None = None
) -> ChangeStep:
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
    return ChangeStep([change, Add([log], expect=1)], log, after)


def remove_step(
    before: Record, action: Action, reason: str, at: datetime, metadata: dict[str, Any] | None = None
) -> ChangeStep:
    """A memory that ends."""
    log = _log(msgspec.structs.replace(before, updated_at=at), action, reason, before, None, metadata)
    return ChangeStep([Remove(_query(before), expect=1), Add([log], expect=1)], log, before)


def remark_step(
    record: Record | None, scope: Scope, layer: Layer, reason: str, at: datetime, metadata: dict[str, Any]
) -> ChangeStep:
    """A log row that says why nothing was changed."""
    log = log_record(scope, record.id if record else "", layer, "ignore", reason, at, metadata=metadata)
    return ChangeStep([Add([log], expect=1)], log, record or log, certain=True)


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
    mark = mark_of(version_of(record))
    return Query(
        collection=record.collection,
        ids=(record.id,),
        scope=exact_scope(record.scope),
        marks=(mark,) if mark in record.marks else None,  # of one written by hand, its log row alone decides
    )


def next_version(before: Record, at: datetime, data: dict[str, Any], **changes: Any) -> Record:
    """The memory as it is after a change, checked as a new one is; `data` is added to what it has."""
    version = version_of(before) + 1
    kept = before.data
    if changes.get("text", before.text) != before.text:  # what it was found by, it says no more
        kept = {**kept, FOUND_BY: [topic_of(changes["text"]), ""]}
    data = {**kept, **data, "version": version}
    return check_storable(
        msgspec.structs.replace(before, data=data, marks=(mark_of(version),), updated_at=at, **changes)
    )


def revise_step(
    before: Record, changes: dict[str, Any], at: datetime, why: str | None, event_ttl: timedelta | None
) -> ChangeStep:
    """The step that changes what is given of a memory, or that says that nothing differs."""
    layer = LAYER_OF[before.collection]
    was = checking.Expiry(bool(before.data.get("is_permanent")), before.expires_at)
    told = {name: changes[name] for name in ("is_permanent", "expiry_date") if name in changes}
    ending = checking.expiry(layer, at, was, event_ttl=event_ttl, **told)
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
        return remark_step(before, before.scope, layer, why or reasons.say("repeated", before.text), at, {})
    return update_step(before, after, why or reasons.describe_update(state_of(before), state_of(after)))


def _substance(record: Record) -> tuple[Any, ...]:
    """All of a memory but the number of its version."""
    data = {name: value for name, value in record.data.items() if name != "version"}
    # Compared as JSON: to Python, 1 == True, and a change from one to the other would be dropped.
    return (record.kind, record.text, record.expires_at, spell(data), spell(record.metadata))


def undo_step(
    entry: LogEntry,
    last: LogEntry,
    scope: Scope,
    present: Record | None,
    why: str | None,
    at: datetime,
    metadata: dict[str, Any] | None = None,
) -> ChangeStep:
    """The step that takes back all changes of a memory from `entry` to its `last` one.

    `present` is what the last change made of it, if it left anything.
    """
    facts = {"undo_of": last.id, **(metadata or {})}
    state = entry.before
    if state is None:  # it began with that change, so it ends now
        if present is None:
            raise Conflict(f"the memory {entry.memory_id!r} was removed meanwhile")
        reason = why or reasons.describe_undo(present.text, entry.action, entry.reason)
        return remove_step(present, "delete", reason, at, facts)
    ends = state.expires_at
    # With an end that has passed nobody would see it again, and that is not what anybody undoes for.
    state = msgspec.structs.replace(
        state, updated_at=at, expires_at=None if ends is None or ends <= at else ends
    )
    version = (last.version or 0) + 1
    restored = record_of(entry.memory_id, owner_of(scope), scope.tenant, entry.memory_layer, state, version)
    reason = why or reasons.describe_undo(state.content, entry.action, entry.reason)
    if present is None:
        return insert_step(restored, reason, facts)
    return update_step(present, restored, reason, facts)


# --- owners of memories

# An owner has one record, whose only mark is replaced whenever a fact is added by an extraction or one is rejected. An extraction
# expects the mark that it has read, so that of two processes that find the same new fact at once only one can add it: the
# other has changed nothing, looks again, and finds it known. What was rejected is kept as keyed digests. The key is not in the
# store: whoever has the store alone can neither read them nor try what they might say.

OWNERS, _NAME = "owners", "owner"
_READ = 4000  # characters of a fact by which it is known again


class OwnerNotes:
    """What is noted about one owner, as it was read; each write that is guarded by it renews it."""

    def __init__(self, scope: Scope, key: DigestKey, record: Record | None) -> None:
        self._scope = scope
        self._key = key
        self._mark = record.marks[0] if record is not None else None
        data = {} if record is None else record.data
        self.rejected: dict[str, list[str]] = (
            data.get("rejected") or {}
        )  # digests, by the memory that said it
        self._made_with: str = data.get("key") or ""

    @classmethod
    async def read(cls, store: Store, scope: Scope, key: DigestKey) -> "OwnerNotes":
        """What is noted about the owner of that scope."""
        await import_aside("octavo.layers.rules")  # which say what is like something that was rejected
        query = Query(collection=OWNERS, ids=(_NAME,), scope=exact_scope(scope), limit=1)
        return cls(scope, key, next(iter(await store.find(query)), None))

    def guard(self, rejected: dict[str, list[str]] | None = None) -> Op:
        """What lets a write through only if nobody has renewed the mark since; `rejected` takes the place of what is noted."""
        data = {"rejected": self.rejected if rejected is None else rejected, "key": self._made_with}
        before, self._mark = self._mark, new_id("m")
        if before is None:
            owner = owner_of(self._scope)
            record = Record(
                collection=OWNERS, id=_NAME, kind=owner.type, scope=exact_scope(self._scope), data=data,
                marks=(self._mark,),
            )  # fmt: skip
            return Add([record], expect=1)
        query = Query(collection=OWNERS, ids=(_NAME,), scope=exact_scope(self._scope), marks=(before,))
        return Change(query=query, data=data, mark=(self._mark,), unmark=(before,), expect=1)

    def reject_op(self, memory: Record) -> Op:
        """The write that rejects what a memory says."""
        self._made_with = self._key_name()
        digests = self._digests(memory.text, str(memory.data.get("happened_at") or ""))
        return self.guard({**self.rejected, memory.id: sorted(digests)})

    def allow_op(self, memory_id: str) -> Op:
        """The write that lifts the rejection of what a memory said."""
        return self.guard({name: told for name, told in self.rejected.items() if name != memory_id})

    def rejects(self, content: str, happened_at: datetime | None) -> bool:
        """Whether a fact says what was rejected."""
        if not self.rejected:
            return False
        if self._made_with != self._key_name():
            _logger.warning("what %s rejected was noted with another key, and is not heeded", self._scope.key)
            return False
        at = checking.moment("happened_at", happened_at)
        when = "" if at is None else at.isoformat()
        known = {digest for digests in self.rejected.values() for digest in digests}
        return not known.isdisjoint(self._digests(content, when))

    def _key_name(self) -> str:
        return self._key.digest("key")

    def _digests(self, content: str, happened_at: str) -> set[str]:
        owner = owner_of(self._scope)
        scope_key = exact_scope(self._scope).key
        told = signatures(content, owner.type, happened_at[:10])
        return {self._key.digest(scope_key, *signature) for signature in told}


def signatures(content: str, owner_type: OwnerType, day: str = "") -> Iterable[Sequence[str]]:
    """What a fact is known again by: each thing that it says as the rules see it, and its words without those that carry none.

    What it says is the slots and their plain values, such as residence and berlin, in whichever language it is told; of what
    happened, the words and the day.
    """
    from octavo.layers.rules.facts import COMMON, words
    from octavo.layers.rules.reading import facts_of

    text = content[:_READ]
    negated = "not" if COMMON.NEGATED.search(text) else ""
    yield "words", negated, day, *sorted(words(text))
    for fact in run_steps(facts_of(text, owner_type)):
        if fact.slots:
            yield "slots", *(part for slot in sorted(fact.slots.items()) for part in slot)
