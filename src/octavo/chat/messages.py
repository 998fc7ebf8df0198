"""Messages of a conversation, the blocks they may be made of, and how the kernel keeps them, with marks and summary.

Blocks are plain dicts, so that they are JSON as they stand. A few names in a store are ours: the second copy of a message has
an id of its own, and a mark that says whose copy it is. Ours begin with U+001F and "="; whatever a caller names with U+001F
in front is kept with another one before it. So they never meet.
"""

import contextlib
import copy
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Literal, Required, Self, TypeAlias, TypedDict, cast

import msgspec

from octavo.errors import StoreUnavailable
from octavo.kernel.ids import new_id, next_seq, now
from octavo.kernel.model import Record, Scope
from octavo.kernel.ports import Renews, Store

MESSAGES, SUMMARIES = "messages", "summaries"
SUMMARY_ID = "compressed_summary"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SUMMARY, CONTENT = "_compressed_summary", "content"
_GUARD = "\x1f"
_OURS = _GUARD + "="


class TextBlock(TypedDict):
    """Something said."""

    type: Literal["text"]
    text: str


class ThinkingBlock(TypedDict):
    """Something thought, and not said."""

    type: Literal["thinking"]
    thinking: str


class Base64Source(TypedDict):
    """Media inside the message."""

    type: Literal["base64"]
    media_type: str
    data: str


class URLSource(TypedDict):
    """Media elsewhere."""

    type: Literal["url"]
    url: str


class ImageBlock(TypedDict):
    """A picture."""

    type: Literal["image"]
    source: Base64Source | URLSource


class AudioBlock(TypedDict):
    """A sound."""

    type: Literal["audio"]
    source: Base64Source | URLSource


class VideoBlock(TypedDict):
    """A film."""

    type: Literal["video"]
    source: Base64Source | URLSource


class ToolUseBlock(TypedDict, total=False):
    """A call of a tool; its result has the same `id`."""

    type: Required[Literal["tool_use"]]
    id: Required[str]
    name: Required[str]
    input: Required[dict[str, Any]]
    raw_input: str


class ToolResultBlock(TypedDict):
    """What a tool answered to the call of the same `id`."""

    type: Literal["tool_result"]
    id: str
    output: str | list[TextBlock | ImageBlock | AudioBlock | VideoBlock]
    name: str


ContentBlock: TypeAlias = (
    TextBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock | ImageBlock | AudioBlock | VideoBlock
)
BlockType: TypeAlias = Literal["text", "thinking", "tool_use", "tool_result", "image", "audio", "video"]
Role: TypeAlias = Literal["user", "assistant", "system"]
_ROLES = ("user", "assistant", "system")
_NEEDED = ("name", "content", "role")
_KEYS = ("id", "name", "role", "content", "metadata", "timestamp", "invocation_id")


class Msg:
    """Who said what, and when; `content` is a string or a list of blocks. Messages are equal when all of them is."""

    __slots__ = ("content", "id", "invocation_id", "metadata", "name", "role", "timestamp")

    def __init__(
        self,
        name: str,
        content: str | Sequence[ContentBlock],
        role: Role,
        metadata: dict[str, Any] | None = None,
        timestamp: str | datetime | None = None,
        invocation_id: str | None = None,
    ) -> None:
        if role not in _ROLES:
            raise ValueError(f"role is one of {', '.join(_ROLES)}; got {role!r}")
        if not isinstance(name, str):
            raise TypeError(f"the name of a message is a string; got {type(name).__name__}")
        if not isinstance(metadata, dict | None):
            raise TypeError(f"the metadata of a message is a dict; got {type(metadata).__name__}")
        self.id = new_id()
        self.name = name
        self.content: str | list[ContentBlock] = _content(content)
        self.role: Role = role
        self.metadata: dict[str, Any] = {} if metadata is None else metadata
        at = now() if timestamp is None else timestamp
        self.timestamp = (
            stamp(at) if isinstance(at, datetime) else check_string("the timestamp of a message", at)
        )
        self.invocation_id = invocation_id

    def to_dict(self) -> dict[str, Any]:
        """All of the message as plain values, which share nothing with it."""
        told: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "role": self.role,
            "content": copy.deepcopy(self.content),
            "metadata": copy.deepcopy(self.metadata),
            "timestamp": self.timestamp,
        }
        if self.invocation_id is not None:
            told["invocation_id"] = self.invocation_id
        return told

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Self:
        """The message that `to_dict` told; a key that is missing or unknown is refused by name."""
        if not isinstance(told, Mapping):
            raise TypeError(f"a message is told as a dict; got {told!r}"[:300])
        if missing := [key for key in _NEEDED if key not in told]:
            raise ValueError(f"a message needs {missing[0]!r}; got {', '.join(map(str, told)) or 'nothing'}")
        if unknown := [key for key in told if key not in _KEYS]:
            raise ValueError(f"a message has no {unknown[0]!r}; known: {', '.join(_KEYS)}")
        given = copy.deepcopy({key: value for key, value in told.items() if key != "id"})
        message = cls(**given)
        if told.get("id") is not None:
            message.id = told["id"]
        return message

    def get_text_content(self, separator: str = "\n") -> str | None:
        """What was said, the text of several blocks joined; None when no block is text."""
        if isinstance(self.content, str):
            return self.content
        texts = [block["text"] for block in self.content if block["type"] == "text"]
        return separator.join(texts) if texts else None

    def get_content_blocks(
        self, block_type: BlockType | Sequence[BlockType] | None = None
    ) -> list[ContentBlock]:
        """The blocks of a type, or of several, or all of them; a string counts as one block of text."""
        blocks = self.content
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        if block_type is None:
            return list(blocks)
        wanted = (block_type,) if isinstance(block_type, str) else tuple(block_type)
        return [block for block in blocks if block["type"] in wanted]

    def has_content_blocks(self, block_type: BlockType | Sequence[BlockType] | None = None) -> bool:
        """Whether there is any block of the type."""
        return bool(self.get_content_blocks(block_type))

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, Msg) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return (
            f"Msg(id='{self.id}', name='{self.name}', content={self.content!r}, role='{self.role}', "
            f"metadata={self.metadata!r}, timestamp='{self.timestamp}', invocation_id='{self.invocation_id}')"
        )


def stamp(at: datetime) -> str:
    """A moment as messages tell it: local time, with milliseconds."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _content(content: Any) -> str | list[ContentBlock]:
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        raise TypeError(
            f"the content of a message is a string or a list of blocks; got {type(content).__name__}"
        )
    for block in content:
        if not (isinstance(block, dict) and isinstance(block.get("type"), str)):
            raise TypeError(
                f"a block is a dict with a 'type', as in {{'type': 'text', 'text': 'hello'}}; got {block!r}"
            )
        if block["type"] == "text" and not isinstance(block.get("text"), str):
            raise TypeError(f"a block of text has a 'text' that is a string; got {block!r}"[:300])
    return cast("list[ContentBlock]", list(content))


def check_string(what: str, value: Any) -> str:
    """A string; what is none is TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is a string; got {value!r}"[:300])
    return value


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
        check_string("the id of a message", one)
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


def copy_mark(message_id: str) -> str:
    """What all further copies of a message are marked with, so that they are found as quickly as the first."""
    return _OURS + hashlib.blake2b(message_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def to_record(message: Msg, marks: tuple[str, ...], scope: Scope) -> Record:
    """A message as it is kept; its position in the order is the moment of this call."""
    check_string("the id of a message", message.id)
    data: dict[str, Any] = {"name": message.name, "timestamp": message.timestamp}
    if message.invocation_id is not None:
        data["invocation_id"] = message.invocation_id
    if not isinstance(message.content, str):
        data["content"] = message.content
    return Record(
        collection=MESSAGES,
        id=kept_name(message.id),
        kind=message.role,
        scope=scope,
        text=message.get_text_content() or "",
        data=data,
        metadata=message.metadata,
        marks=tuple(kept_name(mark) for mark in marks),
        **next_position(),
    )


def next_position() -> dict[str, Any]:
    """The position in the order of a record that is made now: a clock may be set back, the sequence never is."""
    seq = next_seq()
    return {"created_at": _EPOCH + timedelta(microseconds=seq), "seq": seq}


def to_copy(record: Record) -> Record:
    """The same message once more, in the same position of the order, under an id of its own."""
    return msgspec.structs.replace(
        record,
        id=_OURS + new_id(),
        data={**record.data, "id": given_name(record.id)},
        marks=(copy_mark(given_name(record.id)), *record.marks),
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


def read_state(
    state: Mapping[str, Any], *, strict: bool
) -> tuple[str | None, list[tuple[Msg, tuple[str, ...]]] | None]:
    """The summary and the messages with their marks; None stands for a part the state does not speak of."""
    if not isinstance(state, Mapping):
        raise TypeError(f"a state is a dict, as state_dict() makes it; got {type(state).__name__}")
    parts = ((SUMMARY, str, "a string"), (CONTENT, list | tuple, "a list of messages with their marks"))
    for key, kind, words in parts:
        if strict and key not in state:
            raise KeyError(f"the state has no {key!r}; strict=False leaves what it does not name as it is")
        if key in state and not isinstance(state[key], kind):
            raise TypeError(f"{key!r} is {words}; got {type(state[key]).__name__}")
    if strict and (unknown := [key for key in state if key not in (SUMMARY, CONTENT)]):
        raise KeyError(f"the state has an unknown {unknown[0]!r}; strict=False passes over it")
    content = [_entry(entry) for entry in state[CONTENT]] if CONTENT in state else None
    return state.get(SUMMARY), content


def _entry(entry: Any) -> tuple[Msg, tuple[str, ...]]:
    if isinstance(entry, Mapping):  # as memories without marks told it
        return Msg.from_dict(entry), ()
    if not (isinstance(entry, list | tuple) and len(entry) == 2 and isinstance(entry[0], Mapping)):
        raise ValueError(f"a state holds [message, marks] for each message; got {entry!r}"[:300])
    return Msg.from_dict(entry[0]), marks_of(entry[1])


async def renew(store: Store, collections: Sequence[str], scope: Scope) -> None:
    """After a write, have all of a session live on where records expire, or its summary is forgotten before its messages.

    The write itself is done: if this fails, the next one makes up for it.
    """
    if isinstance(store, Renews):
        with contextlib.suppress(StoreUnavailable):
            await store.renew(collections, scope)
