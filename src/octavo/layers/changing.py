"""Single changes as steps: what a memory becomes when it is revised, and when a change of it is undone."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from octavo.errors import Conflict, InvalidRecord, NotFound
from octavo.kernel.model import Record, Scope
from octavo.layers import checking, reasons
from octavo.layers.ledger import Ledger, Step, alteration, reinsertion, remark, removal, same
from octavo.layers.records import LAYER_OF, log_id, made, mark_of, owner_of, state_of, version_of
from octavo.layers.values import LogEntry


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """What to change of a memory; the rest stays."""

    content: str | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    category: str | UnsetType = UNSET
    is_permanent: bool | UnsetType = UNSET
    expiry_date: datetime | UnsetType | None = UNSET


def revised(
    ledger: Ledger, before: Record, revision: Revision, why: str | None, event_ttl: timedelta | None
) -> Step:
    """The step that changes a memory, or that says that nothing differs."""
    at = ledger.after(before.updated_at)
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
    changed = msgspec.structs.replace(
        before,
        kind=before.kind if category is UNSET else checking.category(category, layer, InvalidRecord),
        text=before.text if revision.content is UNSET else revision.content,
        metadata=before.metadata if revision.metadata is UNSET else revision.metadata,
        data={**before.data, "is_permanent": ending.is_permanent, "version": version},
        marks=(mark_of(version),),
        updated_at=at,
        expires_at=ending.expires_at,
    )
    after = checking.kept(changed)
    if same(before, after):
        return remark(before, before.scope, layer, why or reasons.repeated(before.text), at, {})
    return alteration(before, after, why or reasons.updated(state_of(before), state_of(after)))


async def undone(ledger: Ledger, entry: LogEntry, scope: Scope, why: str | None) -> Step:
    """The step that takes back the last change of a memory; `scope` is that of its log row."""
    at = ledger.after(entry.created_at)
    facts = {"undo_of": entry.id}
    if entry.before is None:  # it began with that change, so it ends now
        present = await _present(ledger, entry, scope)
        return removal(present, "delete", why or _told(entry, present.text), at, facts)
    ends = entry.before.expires_at
    # With an end that has passed nobody would see it again, and that is not what anybody undoes for.
    state = msgspec.structs.replace(
        entry.before, updated_at=at, expires_at=None if ends is None or ends <= at else ends
    )
    restored = made(
        owner_of(scope),
        scope.tenant,
        entry.memory_layer,
        state,
        id_=entry.memory_id,
        version=(entry.version or 0) + 1,
    )
    told = why or _told(entry, state.content)
    if entry.after is None:
        return reinsertion(restored, told, facts)
    return alteration(await _present(ledger, entry, scope), restored, told, facts)


async def _present(ledger: Ledger, entry: LogEntry, scope: Scope) -> Record:
    """The memory at the version that the change made; the row alone may be older than what is there by now."""
    try:
        record = await ledger.find(entry.memory_id, Scope(tenant=scope.tenant), entry.memory_layer)
    except NotFound:
        raise Conflict(f"the memory {entry.memory_id!r} was removed meanwhile") from None
    if version_of(record) != entry.version:
        newer = log_id(entry.memory_id, version_of(record))
        raise Conflict(f"only the last change of a memory can be undone: {newer!r} is newer")
    return record


def _told(entry: LogEntry, content: str) -> str:
    return reasons.undone(content, entry.action, entry.reason)
