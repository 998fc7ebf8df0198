"""Messages and summaries as the kernel keeps them, marks as callers give them, and the state of a memory as one value.

A few names are ours: the second copy of a message has an id of its own, and a mark that says whose copy it is. Ours begin
with U+001F and "="; whatever a caller names with U+001F in front is kept with another one before it. So they never meet.
"""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, cast

from octavo.chat.messages import Msg, stamp
from octavo.kernel.ids import new_id, next_seq
from octavo.kernel.model import Record, Scope

MESSAGES, SUMMARIES = "messages", "summaries"
SUMMARY_ID = "compressed_summary"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SUMMARY, CONTENT = "_compressed_summary", "content"
_GUARD = "\x1f"
_OURS = _GUARD + "="


def mark_of(mark: Any) -> str:
    """A mark as plain text: a string, or the value of a string enum."""
    if not isinstance(mark, str):
        raise TypeError(f"a mark is a string or a member of a string enum; got {mark!r}"[:300])
    return str(mark.value) if isinstance(mark, Enum) else str.__str__(mark)


def marks_of(marks: Any) -> tuple[str, ...]:
    """One mark, several or none, each once."""
    if marks is None:
        return ()
    if isinstance(marks, str):
        return (mark_of(marks),)
    if not isinstance(marks, list | tuple | set | frozenset):
        raise TypeError(f"marks are a string, a list of strings or None; got {marks!r}"[:300])
    given = [mark_of(mark) for mark in marks]
    # A set has no order of its own, and the one it happens to have differs between processes.
    return tuple(dict.fromkeys(given if isinstance(marks, list | tuple) else sorted(given)))


def ids_of(msg_ids: Any) -> tuple[str, ...]:
    """The ids of messages, each once."""
    if isinstance(msg_ids, str) or not isinstance(msg_ids, Iterable):
        raise TypeError(f"msg_ids is a list of ids; got {msg_ids!r}"[:300])
    given = tuple(dict.fromkeys(msg_ids))
    for one in given:
        if not isinstance(one, str):
            raise TypeError(f"the id of a message is a string; got {one!r}"[:300])
    return given


def kept_name(name: str) -> str:
    """A caller's id or mark as the store keeps it."""
    return _GUARD + name if name.startswith(_GUARD) else name


def given_name(name: str) -> str:
    """An id or mark out of the store as the caller gave it."""
    return name.removeprefix(_GUARD)


def is_ours(name: str) -> bool:
    """Whether no caller gave this name."""
    return name.startswith(_OURS)


def copy_id() -> str:
    """An id for one more copy of a message that is kept already."""
    return _OURS + new_id()


def copy_mark(message_id: str) -> str:
    """What all further copies of a message are marked with, so that they are found as quickly as the first."""
    return _OURS + hashlib.blake2b(message_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


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
        id=kept_name(message.id),
        kind=message.role,
        scope=scope,
        text=message.get_text_content() or "",
        data=data,
        metadata=message.metadata,
        marks=tuple(kept_name(mark) for mark in marks),
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
        data={**record.data, "id": given_name(record.id)},
        metadata=record.metadata,
        marks=(copy_mark(given_name(record.id)), *record.marks),
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
    message.id = data["id"] if is_ours(record.id) else given_name(record.id)
    return message


def given_marks(record: Record) -> list[str]:
    """The marks callers gave, in the order they were given."""
    return [given_name(mark) for mark in record.marks if not is_ours(mark)]


def summary_message(record: Record) -> Msg:
    """A summary as the message that stands in front of the others."""
    message = Msg("user", record.text, "user", timestamp=stamp(record.updated_at or record.created_at))
    message.id = SUMMARY_ID
    return message


def to_state(summary: str, content: list[tuple[Msg, list[str]]]) -> dict[str, Any]:
    """The state of a memory: each message as a dict, with its marks."""
    return {SUMMARY: summary, CONTENT: [[message.to_dict(), marks] for message, marks in content]}


def read_state(
    state: Mapping[str, Any], *, strict: bool
) -> tuple[str | None, list[tuple[Msg, tuple[str, ...]]] | None]:
    """The summary and the messages with their marks; None stands for a part the state does not speak of."""
    if not isinstance(state, Mapping):
        raise TypeError(f"a state is a dict, as state_dict() makes it; got {type(state).__name__}")
    if strict:
        if missing := [key for key in (SUMMARY, CONTENT) if key not in state]:
            raise KeyError(
                f"the state has no {missing[0]!r}; strict=False leaves what it does not name as it is"
            )
        if unknown := [key for key in state if key not in (SUMMARY, CONTENT)]:
            raise KeyError(f"the state has an unknown {unknown[0]!r}; strict=False passes over it")
    if SUMMARY in state and not isinstance(state[SUMMARY], str):
        raise TypeError(f"{SUMMARY!r} is a string; got {type(state[SUMMARY]).__name__}")
    if CONTENT in state and not isinstance(state[CONTENT], list | tuple):
        raise TypeError(
            f"{CONTENT!r} is a list of messages with their marks; got {type(state[CONTENT]).__name__}"
        )
    content = [_entry(entry) for entry in state[CONTENT]] if CONTENT in state else None
    return state.get(SUMMARY), content


def _entry(entry: Any) -> tuple[Msg, tuple[str, ...]]:
    if isinstance(entry, Mapping):  # as memories without marks told it
        return Msg.from_dict(entry), ()
    if not (isinstance(entry, list | tuple) and len(entry) == 2 and isinstance(entry[0], Mapping)):
        raise ValueError(f"a state holds [message, marks] for each message; got {entry!r}"[:300])
    return Msg.from_dict(entry[0]), marks_of(entry[1])
