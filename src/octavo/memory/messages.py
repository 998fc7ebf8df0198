"""What people hand to `add`: a text, a message as OpenAI or Anthropic spell it, a `Msg`, or a list of these."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from octavo.chat.messages import Msg, Role
from octavo.errors import InvalidRecord

#: What `add` takes.
Said: TypeAlias = str | Mapping[str, Any] | Msg | Sequence["str | Mapping[str, Any] | Msg"]

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}
_ROLES |= dict.fromkeys(("system", "developer", "tool", "function"), "system")
_FORMS = (
    "a text, a message such as {'role': 'user', 'content': 'I live in Berlin'}, a Msg, or a list of these"
)


def read_messages(said: Said, *, speaker: Role, metadata: Mapping[str, Any] | None) -> list[Msg]:
    """The messages in what was said, each with the metadata; a plain text is the speaker's."""
    given = said if isinstance(said, list | tuple) else [said]
    messages = [_read(one, speaker) for one in given]
    for message in messages:
        message.metadata = {**message.metadata, **(metadata or {})}
    return messages


def _read(one: Any, speaker: Role) -> Msg:
    if isinstance(one, Msg):
        return Msg.from_dict(one.to_dict())  # a copy: the caller's stays as it is
    told = {"role": speaker, "content": one} if isinstance(one, str) else _plain(one)
    if not isinstance(told, Mapping):
        raise InvalidRecord(f"add takes {_FORMS}; got {_short(one)}")
    role = _ROLES.get(str(told.get("role")))
    if role is None:
        raise InvalidRecord(f"the role of a message is one of {', '.join(_ROLES)}; got {told.get('role')!r}")
    content, calls = told.get("content"), told.get("tool_calls") or ()
    if told.get("tool_call_id"):
        content = [{"type": "tool_result", "tool_use_id": told["tool_call_id"], "content": content}]
    if isinstance(content, str):
        content = [content] if content.strip() else []
    if not isinstance(content, list | tuple | None):
        raise InvalidRecord(f"the content of a message is a text or a list of blocks; got {_short(content)}")
    blocks: Any = [*map(_block, content or ()), *map(_call, calls)]
    if len(blocks) == 1 and isinstance(told.get("content"), str) and blocks[0]["type"] == "text":
        blocks = told["content"]
    if not blocks:
        raise InvalidRecord(f"a message has a content that is not empty; got {_short(one)}")
    name = told.get("name")
    return Msg(name if isinstance(name, str) and name else role, blocks, role)


def _block(block: Any) -> dict[str, Any]:
    """A block as a `Msg` has it: text, the result of a tool, a picture, or whatever else has a type."""
    told = {"type": "text", "text": block} if isinstance(block, str) else _plain(block)
    if not isinstance(told, Mapping) or not isinstance(told.get("type"), str):
        raise InvalidRecord(f"a block is a text, or a dict with a 'type'; got {_short(block)}")
    kind = told["type"]
    if kind in ("input_text", "output_text"):
        return {"type": "text", "text": str(told.get("text", ""))}
    if kind == "tool_result":
        said, call = told.get("content", told.get("output")), told.get("tool_use_id") or told.get("id") or ""
        output = said if isinstance(said, str) else [_block(part) for part in said or ()]
        return {"type": kind, "id": call, "name": told.get("name") or "", "output": output}
    if kind in ("image_url", "input_image"):
        url = told.get("image_url")
        url = url.get("url") if isinstance(url, Mapping) else url
        return {"type": "image", "source": {"type": "url", "url": url or ""}}
    return dict(told)


def _call(call: Any) -> dict[str, Any]:
    """A tool call of a chat completion as a block; arguments that are no JSON object are kept as they were said."""
    told = _plain(call)
    asked = told.get("function") or told.get("custom") or {}
    raw = asked.get("arguments") or asked.get("input") or ""
    try:
        more: dict[str, Any] = {"input": msgspec.json.decode(raw, type=dict[str, Any])}
    except (msgspec.DecodeError, TypeError):
        more = {"input": {}, "raw_input": raw}
    return {"type": "tool_use", "id": told.get("id") or "", "name": asked.get("name") or "", **more}


def _plain(value: Any) -> Any:
    """What the SDKs answer with, as a dict; everything else as it is."""
    return value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else value


def _short(value: object) -> str:
    return repr(value)[:120]
