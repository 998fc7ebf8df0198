"""Items of LangGraph's stores as records, and back."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from langgraph.store.base import PutOp, get_text_at_path, tokenize_path  # type: ignore[import-not-found]

from octavo.integrations.langgraph.namespaces import ITEMS, Namespace, split
from octavo.kernel.model import Record, Scope

_UNSEARCHED = " "  # the text of an item that nobody wants to find by what it says


def to_record(op: PutOp, scope: Scope, at: datetime, fields: Sequence[str]) -> Record:
    """The record of an item that is put at this time, found by these fields unless the op says otherwise."""
    return Record(
        collection=ITEMS,
        id=op.key,
        scope=scope,
        text=_text(op, fields),
        data={"value": dict(op.value)} | ({} if op.ttl is None else {"ttl_minutes": op.ttl}),
        expires_at=end_of(at, op.ttl),
        created_at=at,
    )


def _text(op: PutOp, fields: Sequence[str]) -> str:
    """What an item is found by: nothing, some fields, or (said by an empty text) all that is in it."""
    if op.index is False:
        return _UNSEARCHED
    fields = fields if op.index is None else op.index
    if "$" in fields:
        return ""
    texts = [text for field in fields for text in get_text_at_path(op.value, tokenize_path(field))]
    return "\n".join(texts) or _UNSEARCHED


def to_item(record: Record) -> dict[str, Any]:
    """What LangGraph's `Item` of a record is made of."""
    return {
        "value": record.data["value"],
        "key": record.id,
        "namespace": namespace_of(record),
        "created_at": born_at(record),
        "updated_at": record.created_at,
    }


def namespace_of(record: Record) -> Namespace:
    """Where an item is."""
    return split(record.scope.session)


def born_at(record: Record) -> datetime:
    """When an item was first written."""
    born = record.data.get("created_at")
    return datetime.fromisoformat(born) if born else record.created_at


def with_birth(record: Record, at: datetime) -> Record:
    """The same, of an item that was first written at this time."""
    if at == record.created_at:
        return record
    return msgspec.structs.replace(record, data={**record.data, "created_at": at.isoformat()})


def end_of(at: datetime, minutes: float | None) -> datetime | None:
    """When what lives so many minutes ends."""
    return None if minutes is None else at + timedelta(minutes=minutes)
