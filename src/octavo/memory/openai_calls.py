"""A call of the OpenAI SDK: the messages in it, where memory is put, and the answer, whole or in pieces.

Only names that the SDK's values have are read, so that any object of the same shape will do.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeAlias

from octavo.chat.messages import Msg
from octavo.memory.context import has_block, without_blocks
from octavo.memory.messages import read_messages
from octavo.util.user_code import caught

#: A message as a chat completion spells it.
Message: TypeAlias = dict[str, Any]

_SYSTEM = ("system", "developer")
_KEPT_BLOCKS = ("text", "tool_use", "tool_result")


class Call(Protocol):
    """One call, and what has come of it so far."""

    kwargs: dict[str, Any]  # what the SDK is called with

    def messages(self) -> list[Message]:
        """All messages that are sent, the system's too."""

    def put(self, block: str) -> None:
        """Send what is remembered along."""

    def receive(self, answer: Any) -> None:
        """Take the whole answer."""

    def receive_piece(self, event: Any) -> None:
        """Take the next piece of a streamed answer."""

    def answer(self) -> list[Message]:
        """What was answered, as far as it was received."""


class ChatCall:
    """A call of `chat.completions`: a list of messages, and one message for an answer."""

    def __init__(self, kwargs: dict[str, Any]) -> None:
        self.kwargs = kwargs
        self._text = ""
        self._tools: dict[int, dict[str, str]] = {}
        if isinstance(kwargs.get("messages"), Iterable):
            self.kwargs = {**kwargs, "messages": list(kwargs["messages"])}  # it may be readable only once

    def messages(self) -> list[Message]:
        return [_message(one) for one in self.kwargs.get("messages") or ()]

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
    """A call of `responses`: a text or a list of items, and a list of items for an answer."""

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


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _tool_call(id: str, name: str, arguments: str) -> Message:  # noqa: A002 - the SDK's name
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _message(message: Any) -> Message:
    """A message of a list that is sent, which may be what the SDK answered before."""
    told = {"role": _get(message, "role"), "content": _content(_get(message, "content"))}
    calls = [
        _tool_call(_get(call, "id") or "", _get(asked, "name") or "", _get(asked, "arguments") or "")
        for call in _get(message, "tool_calls") or ()
        if (asked := _get(call, "function") or _get(call, "custom"))
    ]
    named = {name: value for name in ("name", "tool_call_id") if (value := _get(message, name))}
    return {**told, **named, "tool_calls": calls} if calls else {**told, **named}


def message_of_item(item: Any) -> Message | None:
    """An item of a response, sent or answered, as a message; nothing for thoughts and the steps of hosted tools."""
    kind = _get(item, "type")
    if _get(item, "role"):
        return {"role": _get(item, "role"), "content": _content(_get(item, "content"))}
    if kind in ("function_call", "custom_tool_call"):
        arguments = _get(item, "arguments") or _get(item, "input") or ""
        call = _tool_call(_get(item, "call_id") or "", _get(item, "name") or "", arguments)
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    if kind in ("function_call_output", "custom_tool_call_output"):
        output = _content(_get(item, "output"))
        return {"role": "tool", "tool_call_id": _get(item, "call_id") or "", "content": output}
    return None


def _content(content: Any) -> Any:
    """A text, or the blocks that are none; blocks that are all text are one text."""
    if content is None or isinstance(content, str):
        return content
    blocks = [_block(block) for block in content]
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(block["text"] for block in blocks)
    return blocks


def _block(block: Any) -> dict[str, Any]:
    if isinstance(block, str):
        return {"type": "text", "text": block}
    text = _get(block, "text") or _get(block, "refusal")
    if isinstance(text, str):
        return {"type": "text", "text": text}
    return dict(block) if isinstance(block, Mapping) else {"type": str(_get(block, "type"))}


# --- what is kept of it


def has_memory(messages: Iterable[Message]) -> bool:
    """Whether what is remembered is among the messages; a tool or the model cannot claim that it is."""
    told = (message for message in messages if message["role"] in (*_SYSTEM, "user"))
    return any(map(has_block, texts_of(told)))


def without_instructions(messages: Iterable[Message]) -> list[Message]:
    """What user, assistant and tools said."""
    return [message for message in messages if message["role"] not in _SYSTEM]


def messages_to_keep(messages: Iterable[Message]) -> list[Msg]:
    """The messages as they are kept: without what was remembered, and pictures and files sent along."""
    kept: list[Msg] = []
    for message in messages:
        with caught():  # one message of a kind that nobody knows must not hold up the others
            [read] = read_messages([message], speaker="user", metadata=None)
            if content := _kept_content(read.content):
                read.content = content
                kept.append(read)
    return kept


def _kept_content(content: Any) -> Any:
    if isinstance(content, str):
        return without_blocks(content).strip()
    blocks = [
        {**block, "text": without_blocks(block["text"]).strip()} if block["type"] == "text" else block
        for block in content
        if block["type"] in _KEPT_BLOCKS or _is_link(block)
    ]
    return [block for block in blocks if block.get("text", True)]


def _is_link(block: Mapping[str, Any]) -> bool:
    source = block.get("source")
    url = source.get("url") if isinstance(source, Mapping) else None
    return isinstance(url, str) and not url.startswith("data:")


def texts_of(messages: Iterable[Message]) -> list[str]:
    """The words in messages."""
    return [text for message in messages for text in _texts(message["content"])]


def question(messages: Iterable[Message]) -> str:
    """What the user said last."""
    last = next((each for each in reversed([*messages]) if each["role"] == "user"), None)
    return without_blocks("\n".join(texts_of([last]))) if last else ""


def _texts(content: Any) -> Iterable[str]:
    if isinstance(content, str):
        return (content,)
    return (block["text"] for block in content or () if block["type"] == "text")
