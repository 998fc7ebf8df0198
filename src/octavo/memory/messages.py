"""Messages as others spell them: what people hand to `add`, and what is in a call of the OpenAI SDK and its answer.

Of an answer only names that the SDK's values have are read, so that any object of the same shape will do.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from octavo.chat.messages import Msg, Role
from octavo.errors import InvalidRecord
from octavo.kernel.ports import WriteStatus
from octavo.kernel.text import drop_unstorable
from octavo.layers.values import Outcome
from octavo.memory.context import has_block, strip_blocks
from octavo.util.user_code import catch_error

#: What `add` takes.
Said: TypeAlias = str | Mapping[str, Any] | Msg | Sequence["str | Mapping[str, Any] | Msg"]

#: A message as a chat completion spells it.
Message: TypeAlias = dict[str, Any]

_SYSTEM = ("system", "developer")
_FIELDS = ("role", "content", "name", "tool_calls", "tool_call_id", "metadata")
_KEPT_BLOCKS = ("text", "tool_use", "tool_result")
_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}
_ROLES |= dict.fromkeys(("system", "developer", "tool", "function"), "system")
_FORMS = (
    "a text, a message such as {'role': 'user', 'content': 'I live in Berlin'}, a Msg, or a list of these"
)


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """What became of what was said: the messages that keep it, and each fact of it that was inserted, updated or ignored."""

    messages: list[str] = []  # their ids, in order
    memories: list[Outcome] = []
    status: WriteStatus = "stored"
    note: str = ""  # what was not done, or not yet

    def count(self, action: str) -> int:
        """How many of the facts were inserted, updated or ignored."""
        return sum(outcome.action == action for outcome in self.memories)


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
        raise InvalidRecord(f"add takes {_FORMS}; got {_clip(one)}")
    role = _ROLES.get(str(told.get("role")))
    if role is None:
        raise InvalidRecord(f"the role of a message is one of {', '.join(_ROLES)}; got {told.get('role')!r}")
    content, calls = told.get("content"), told.get("tool_calls") or ()
    if told.get("tool_call_id"):
        content = [{"type": "tool_result", "tool_use_id": told["tool_call_id"], "content": content}]
    if isinstance(content, str):
        content = [content] if content.strip() else []
    if not isinstance(content, list | tuple | None):
        raise InvalidRecord(f"the content of a message is a text or a list of blocks; got {_clip(content)}")
    blocks: Any = [*map(_block, content or ()), *map(_call, calls)]
    if not any(block.get("text", True) for block in blocks):
        raise InvalidRecord(f"a message has a content that is not empty; got {_clip(one)}")
    if len(blocks) == 1 and isinstance(told.get("content"), str) and blocks[0]["type"] == "text":
        blocks = told["content"]
    name, more = told.get("name"), told.get("metadata") or {}
    if not isinstance(more, Mapping):
        raise InvalidRecord(f"the metadata of a message must be a dict; got {_clip(more)}")
    if told is one:  # a dict of the caller's; the rest of what an SDK answers with is about its call
        more = {**more, **{field: value for field, value in told.items() if field not in _FIELDS}}
    return Msg(name if isinstance(name, str) and name else role, blocks, role, dict(more))


def _block(block: Any) -> dict[str, Any]:
    """A block as a `Msg` has it: text, the result of a tool, a picture, or whatever else has a type."""
    told = {"type": "text", "text": block} if isinstance(block, str) else _plain(block)
    if not isinstance(told, Mapping) or not isinstance(told.get("type"), str):
        raise InvalidRecord(f"a block is a text, or a dict with a 'type'; got {_clip(block)}")
    kind = told["type"]
    if kind in ("input_text", "output_text", "refusal"):
        return {"type": "text", "text": str(told.get("text") or told.get("refusal") or "")}
    if kind == "tool_result":
        said, call = told.get("content", told.get("output")), told.get("tool_use_id") or told.get("id") or ""
        output = said if isinstance(said, str) else [_block(part) for part in said or ()]
        return {"type": kind, "id": call, "name": told.get("name") or "", "output": output}
    if kind in ("image_url", "input_image"):
        url = told.get("image_url")
        url = url.get("url") if isinstance(url, Mapping) else url
        return {"type": "image", "source": {"type": "url", "url": url or ""}}
    return {**told, "text": str(told.get("text") or "")} if kind == "text" else dict(told)


def _call(call: Any) -> dict[str, Any]:
    """A tool call of a chat completion as a block; arguments that are no JSON object are kept as they were said."""
    told = _plain(call)
    asked = isinstance(told, Mapping) and (told.get("function") or told.get("custom") or {})
    if not isinstance(asked, Mapping):
        raise InvalidRecord(f"a tool call is a dict with a 'function' that is one; got {_clip(call)}")
    raw = asked.get("arguments") or asked.get("input") or ""
    try:
        more: dict[str, Any] = {"input": msgspec.json.decode(raw, type=dict[str, Any])}
    except (msgspec.DecodeError, TypeError):
        more = {"input": {}, "raw_input": raw}
    return {"type": "tool_use", "id": told.get("id") or "", "name": asked.get("name") or "", **more}


def _plain(value: Any) -> Any:
    """What the SDKs answer with, as a dict; everything else as it is."""
    return value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else value


def _clip(value: object) -> str:
    return repr(value)[:120]


# --- calls of the OpenAI SDK: the messages in one, where memory is put, and the answer, whole or in pieces


class ChatCall:
    """A call of `chat.completions`: a list of messages, and one message for an answer.

    `kwargs` are what the SDK is called with, `messages` all that are sent, the system's too, and `put` sends what is
    remembered along. `answer` is what has come of it, as far as it was received, whole or in pieces.
    """

    def __init__(self, kwargs: dict[str, Any]) -> None:
        self.kwargs = kwargs
        self._text = ""
        self._tools: dict[int, dict[str, str]] = {}
        if isinstance(kwargs.get("messages"), Iterable):
            self.kwargs = {**kwargs, "messages": list(kwargs["messages"])}  # it may be readable only once

    def messages(self) -> list[Message]:
        return [_as_json(one) for one in self.kwargs.get("messages") or ()]

    def put(self, block: str) -> None:
        sent = self.kwargs["messages"]
        roles = [_get(message, "role") for message in sent]
        at = next((at for at, role in enumerate(roles) if role not in _SYSTEM), len(roles))
        role = roles[at - 1] if at else "system"
        told = {"role": role, "content": block}
        self.kwargs = {**self.kwargs, "messages": [*sent[:at], told, *sent[at:]]}

    def receive(self, answer: Any) -> None:
        message = answer.choices[0].message
        self._text = message.content or _get(message, "refusal") or ""
        for at, call in enumerate(_get(message, "tool_calls") or ()):
            self._tool(at, call)

    def receive_piece(self, event: Any) -> None:
        chunk = _get(event, "chunk") if _get(event, "type") == "chunk" else event
        for choice in _get(chunk, "choices") or ():
            if choice.index == 0 and choice.delta is not None:
                self._text += choice.delta.content or _get(choice.delta, "refusal") or ""
                for call in choice.delta.tool_calls or ():
                    self._tool(call.index, call)

    def _tool(self, at: int, call: Any) -> None:
        held = self._tools.setdefault(at, {"id": "", "name": "", "arguments": ""})
        asked = _get(call, "function") or _get(call, "custom")
        held["id"] = _get(call, "id") or held["id"]
        held["name"] += _get(asked, "name") or ""
        held["arguments"] += _get(asked, "arguments") or _get(asked, "input") or ""

    def answer(self) -> list[Message]:
        calls = [_tool_call(**self._tools[at]) for at in sorted(self._tools)]
        told = {"role": "assistant", "content": self._text or None}
        return [told | {"tool_calls": calls}] if calls else [told] if self._text else []


class ResponsesCall:
    """The same for a call of `responses`: a text or a list of items, and a list of items for an answer."""

    def __init__(self, kwargs: dict[str, Any]) -> None:
        self.kwargs = kwargs
        self._items: dict[int, Message] = {}
        if isinstance(kwargs.get("input"), Iterable) and not isinstance(kwargs["input"], str):
            self.kwargs = {**kwargs, "input": list(kwargs["input"])}

    def messages(self) -> list[Message]:
        told, given = self.kwargs.get("instructions"), self.kwargs.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given or ()
        read = [message for item in items if (message := message_of_item(item))]
        return [{"role": "system", "content": told}, *read] if isinstance(told, str) else read

    def put(self, block: str) -> None:
        told = self.kwargs.get("instructions")
        self.kwargs = {**self.kwargs, "instructions": f"{told}\n\n{block}" if told else block}

    def receive(self, answer: Any) -> None:
        read = {at: message_of_item(item) for at, item in enumerate(answer.output)}
        self._items = {at: message for at, message in read.items() if message}

    def receive_piece(self, event: Any) -> None:
        kind, at = event.type, _get(event, "output_index")
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            if event.response.output:
                self.receive(event.response)
        elif kind in ("response.output_item.added", "response.output_item.done"):
            if message := message_of_item(event.item):
                self._items[at] = message
        elif kind in ("response.output_text.delta", "response.refusal.delta"):
            held = self._items.setdefault(at, {"role": "assistant", "content": ""})
            held["content"] = (held["content"] or "") + event.delta
        elif kind in ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta"):
            self._items[at]["tool_calls"][0]["function"]["arguments"] += event.delta

    def answer(self) -> list[Message]:
        return [self._items[at] for at in sorted(self._items)]


ModelCall: TypeAlias = ChatCall | ResponsesCall


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _as_json(value: Any) -> Any:
    """A value of the SDK, or of any object of its shape, as dicts and lists that share nothing with it."""
    told = _plain(value)
    if isinstance(told, list | tuple):
        return [_as_json(each) for each in told]
    if isinstance(told, str | int | float | None) or not (
        isinstance(told, Mapping) or hasattr(told, "__dict__")
    ):
        return told
    fields = told if isinstance(told, Mapping) else vars(told)
    return {name: _as_json(inner) for name, inner in fields.items()}


def _tool_call(id: str, name: str, arguments: str) -> Message:  # noqa: A002 - the SDK's name
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def message_of_item(item: Any) -> Message | None:
    """An item of a response, sent or answered, as a message; nothing for thoughts and the steps of hosted tools."""
    told = _as_json(item)
    kind, call_id = told.get("type"), told.get("call_id") or ""
    if told.get("role"):
        return {"role": told["role"], "content": told.get("content")}
    if kind in ("function_call", "custom_tool_call"):
        call = _tool_call(call_id, told.get("name") or "", told.get("arguments") or told.get("input") or "")
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    if kind in ("function_call_output", "custom_tool_call_output"):
        return {"role": "tool", "tool_call_id": call_id, "content": told.get("output")}
    return None


# --- what is kept of it


def has_memory(messages: Iterable[Message]) -> bool:
    """Whether what is remembered is among the messages; a tool or the model cannot claim that it is."""
    told = (message for message in messages if message.get("role") in (*_SYSTEM, "user"))
    return any(map(has_block, texts_of(told)))


def drop_instructions(messages: Iterable[Message]) -> list[Message]:
    """What user, assistant and tools said."""
    return [message for message in messages if message.get("role") not in _SYSTEM]


def messages_to_keep(messages: Iterable[Message]) -> list[Msg]:
    """The messages as they are kept: without what was remembered, and pictures and files sent along."""
    kept: list[Msg] = []
    for message in messages:
        with catch_error():  # one message of a kind that nobody knows must not hold up the others
            [read] = read_messages([message], speaker="user", metadata=None)
            if content := _storable(_kept_content(read.content)):
                read.content, read.metadata = content, {}
                kept.append(read)
    return kept


def _kept_content(content: Any) -> Any:
    if isinstance(content, str):
        return strip_blocks(content).strip()
    blocks = [
        {**block, "text": strip_blocks(block["text"]).strip()} if block["type"] == "text" else block
        for block in content
        if block["type"] in _KEPT_BLOCKS or _is_link(block)
    ]
    kept = [block for block in blocks if block.get("text", True)]
    if all(block["type"] == "text" for block in kept):
        return "\n".join(block["text"] for block in kept)
    return kept


def _storable(value: Any) -> Any:
    """What is said, with a sign in the place of what no store keeps: left out, it would be new with each call."""
    if isinstance(value, str):
        return drop_unstorable(value)
    if isinstance(value, dict):
        return {_storable(name): _storable(inner) for name, inner in value.items()}
    return list(map(_storable, value)) if isinstance(value, list) else value


def _is_link(block: Mapping[str, Any]) -> bool:
    source = block.get("source")
    url = source.get("url") if isinstance(source, Mapping) else None
    return isinstance(url, str) and not url.startswith("data:")


def texts_of(messages: Iterable[Message]) -> list[str]:
    """The words in messages."""
    return [text for message in messages if (text := _text(message.get("content")))]


def question(messages: Iterable[Message]) -> str:
    """What the user said last."""
    last = next((each for each in reversed([*messages]) if each.get("role") == "user"), None)
    return strip_blocks("\n".join(texts_of([last]))) if last else ""


def _text(content: Any) -> str:
    """What a content says, whose blocks are spelt as they were sent."""
    if not isinstance(content, list):
        return content or ""
    told = (
        block if isinstance(block, str) else block.get("text") or block.get("refusal") for block in content
    )
    return "\n".join(text for text in told if isinstance(text, str))
