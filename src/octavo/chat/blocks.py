"""The blocks a message may be made of. Each is a plain dict, so that it is JSON as it stands."""

from typing import Any, Literal, Required, TypeAlias, TypedDict


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
