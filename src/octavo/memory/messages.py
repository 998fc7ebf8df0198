"""What people hand to `add`: a text, a message as OpenAI or Anthropic spell it, a `Msg`, or a list of these."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from octavo.chat.messages import Msg, Role
from octavo.errors import InvalidRecord

#: What `add` takes.
Said: TypeAlias = str | Mapping[str, Any] | Msg | Sequence["str | Mapping[str, Any] | Msg"]

_ROLES: dict[str, Role] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "system",
    "function": "system",
}
_TEXTS = ("text", "input_text", "output_text")
_FORMS = (
    "a text, a message such as {'role': 'user', 'content': 'I live in Berlin'}, a Msg, or a list of these"
)


def read_messages(said: Said, *, speaker: Role, metadata: Mapping[str, Any] | None) -> list[Msg]:
    """The messages in what was said, each with the metadata; a plain text is the speaker's."""
    given = [said] if isinstance(said, str | Mapping | Msg) or hasattr(said, "model_dump") else said
    if not isinstance(given, list | tuple):
        raise InvalidRecord(f"add takes {_FORMS}; got {_short(said)}")
    messages = [_read(one, speaker) for one in given]
    for message in messages:
        if isinstance(message.content, str) and not message.content.strip():
            raise InvalidRecord("a message is empty: there is nothing to remember")
        message.metadata = {**message.metadata, **(metadata or {})}
    return messages


def _read(one: Any, speaker: Role) -> Msg:
    if isinstance(one, Msg):
        return Msg.from_dict(one.to_dict())  # a copy: the caller's stays as it is
    if isinstance(one, str):
        return Msg(speaker, one, speaker)
    if hasattr(one, "model_dump"):  # what the SDKs answer with
        one = one.model_dump(exclude_none=True)
    if not isinstance(one, Mapping):
        raise InvalidRecord(f"a message is {_FORMS}; got {_short(one)}")
    role = _ROLES.get(str(one.get("role", "")).lower())
    if role is None:
        raise InvalidRecord(f"the role of a message is one of {', '.join(_ROLES)}; got {one.get('role')!r}")
    blocks = _content(one)
    if one.get("tool_call_id") and isinstance(blocks, str):
        blocks = [_result(one["tool_call_id"], blocks, one)]
    calls = one.get("tool_calls") or ()
    if calls:
        said = [{"type": "text", "text": blocks}] if isinstance(blocks, str) and blocks else []
        blocks = [*(said if isinstance(blocks, str) else blocks), *map(_call, calls)]
    name = one.get("name")
    return Msg(name if isinstance(name, str) and name else role, blocks, role)


def _content(message: Mapping[str, Any]) -> Any:
    """A text, or blocks: text and thinking as they are, tool calls and results, and whatever else has a type."""
    content = message.get("content")
    if content is None or isinstance(content, str):
        if content is None and not message.get("tool_calls"):
            raise InvalidRecord(f"a message has a content; got {_short(message)}")
        return content or ""
    if not isinstance(content, list | tuple):
        raise InvalidRecord(f"the content of a message is a text or a list of blocks; got {_short(content)}")
    return [_block(block) for block in content]


def _block(block: Any) -> dict[str, Any]:
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if hasattr(block, "model_dump"):
        block = block.model_dump(exclude_none=True)
    if not isinstance(block, Mapping) or not isinstance(block.get("type"), str):
        raise InvalidRecord(f"a block is a text, or a dict with a 'type'; got {_short(block)}")
    kind = block["type"]
    if kind in _TEXTS:
        return {"type": "text", "text": str(block.get("text", ""))}
    if kind == "tool_result":
        return _result(block.get("tool_use_id") or block.get("id") or "", block.get("content"), block)
    if kind in ("image_url", "input_image"):
        url = block.get("image_url")
        url = url.get("url", "") if isinstance(url, Mapping) else url or ""
        return {"type": "image", "source": {"type": "url", "url": url}}
    return dict(block)


def _result(call: str, content: Any, message: Mapping[str, Any]) -> dict[str, Any]:
    output = content if isinstance(content, str) else [_block(block) for block in content or ()]
    return {
        "type": "tool_result",
        "id": call,
        "name": message.get("name") or "",
        "output": message.get("output", output),
    }


def _call(call: Any) -> dict[str, Any]:
    """A tool call of a chat completion as a block; arguments that are no JSON object are kept as they were said."""
    if hasattr(call, "model_dump"):
        call = call.model_dump(exclude_none=True)
    asked = call.get("function") or call.get("custom") or {}
    raw = asked.get("arguments") or asked.get("input") or ""
    try:
        arguments = msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, TypeError):
        arguments = {}
    block = {
        "type": "tool_use",
        "id": call.get("id") or "",
        "name": asked.get("name") or "",
        "input": arguments,
    }
    return {**block, "raw_input": raw} if raw and not arguments else block


def _short(value: object) -> str:
    return repr(value)[:120]
