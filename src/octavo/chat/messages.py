"""One message of a conversation, and the blocks it may be made of: plain dicts, so that they are JSON as they stand."""

import copy
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Required, Self, TypeAlias, TypedDict, cast

from octavo.kernel.ids import new_id, now


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
        timestamp: str | None = None,
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
        self.timestamp = stamp(now()) if timestamp is None else timestamp
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
    return cast("list[ContentBlock]", list(content))
