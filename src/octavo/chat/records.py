"""Messages and summaries as the kernel keeps them."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

from octavo.chat.marks import copy_id, copy_mark, kept, ours, told
from octavo.chat.messages import Msg, stamp
from octavo.kernel.ids import next_seq
from octavo.kernel.model import Record, Scope

MESSAGES, SUMMARIES = "messages", "summaries"
SUMMARY_ID = "compressed_summary"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_record(message: Msg, marks: tuple[str, ...], scope: Scope) -> Record:
    """A message as it is kept; its place in the order is the moment of this call."""
    if not isinstance(message.id, str):
        raise TypeError(f"the id of a message is a string; got {message.id!r}"[:300])
    data: dict[str, Any] = {"name": message.name, "timestamp": message.timestamp}
    if message.invocation_id is not None:
        data["invocation_id"] = message.invocation_id
    if not isinstance(message.content, str):
        data["content"] = message.content
    seq = next_seq()
    return Record(
        collection=MESSAGES,
        id=kept(message.id),
        kind=message.role,
        scope=scope,
        text=message.get_text_content() or "",
        data=data,
        metadata=message.metadata,
        marks=tuple(kept(mark) for mark in marks),
        # A clock may be set back; the sequence never is.
        created_at=_EPOCH + timedelta(microseconds=seq),
        seq=seq,
    )


def to_copy(record: Record) -> Record:
    """The same message once more, in the same place of the order, under an id of its own."""
    return Record(
        collection=MESSAGES,
        id=copy_id(),
        kind=record.kind,
        scope=record.scope,
        text=record.text,
        data={**record.data, "id": told(record.id)},
        metadata=record.metadata,
        marks=(copy_mark(told(record.id)), *record.marks),
        created_at=record.created_at,
        seq=record.seq,
    )


def to_message(record: Record) -> Msg:
    """The message that is kept in a record, which may be another face's."""
    data = record.data
    role = record.kind if record.kind in ("user", "system") else "assistant"
    message = Msg(
        str(data.get("name", role)),
        data.get("content", record.text),
        cast("Any", role),
        record.metadata,
        data.get("timestamp") or stamp(record.created_at),
        data.get("invocation_id"),
    )
    message.id = data["id"] if ours(record.id) else told(record.id)
    return message


def marks_told(record: Record) -> list[str]:
    """The marks callers gave, in the order they were given."""
    return [told(mark) for mark in record.marks if not ours(mark)]


def summary_message(record: Record) -> Msg:
    """A summary as the message that stands in front of the others."""
    message = Msg("user", record.text, "user", timestamp=stamp(record.updated_at or record.created_at))
    message.id = SUMMARY_ID
    return message
