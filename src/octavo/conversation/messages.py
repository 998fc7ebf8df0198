"""The messages of a conversation, and their plain form: nothing a message holds is lost on the way there and back."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from octavo.errors import InvalidRecord
from octavo.kernel.model import Cursor

Content: TypeAlias = str | list[Any]


class BaseMessage:
    """One thing said. `content` is a text, or a list of blocks as models take them. Equal means equal in everything."""

    type: ClassVar[str] = "base"
    #: The fields that a kind of message has beside those of all.
    own: ClassVar[tuple[str, ...]] = ()
    #: Where the store that it was read from keeps it; no part of what it says.
    kept_at: Cursor | None = None

    def __init__(
        self,
        content: Content,
        additional_kwargs: dict[str, Any] | None = None,
        response_metadata: dict[str, Any] | None = None,
        id: str | None = None,  # noqa: A002 - what models call it
        name: str | None = None,
        **extras: Any,
    ) -> None:
        if not isinstance(content, str | list):
            raise TypeError(
                f"the content of a message is a string or a list of blocks; got {content!r}"[:300]
            )
        self.content: Content = content
        self.additional_kwargs: dict[str, Any] = {} if additional_kwargs is None else additional_kwargs
        self.response_metadata: dict[str, Any] = {} if response_metadata is None else response_metadata
        self.id = id
        self.name = name
        #: What else came with the message: kept, and told again.
        self.extras: dict[str, Any] = extras

    @property
    def text(self) -> str:
        """What is said, the text of several blocks joined."""
        if isinstance(self.content, str):
            return self.content
        said = (block if isinstance(block, str) else _text(block) for block in self.content)
        return "\n".join(part for part in said if part)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BaseMessage):
            return NotImplemented
        return type(self) is type(other) and _fields(self) == _fields(other)

    __hash__ = None  # type: ignore[assignment] # a message can be changed

    def __repr__(self) -> str:
        shown = [f"{name}={value!r}" for name, value in _fields(self).items() if value not in (None, {}, [])]
        return f"{type(self).__name__}({', '.join(shown)})"


class HumanMessage(BaseMessage):
    """What a person said."""

    type = "human"


class AIMessage(BaseMessage):
    """What a model answered, with the tools it asked for."""

    type = "ai"
    own = ("tool_calls", "invalid_tool_calls", "usage_metadata")

    def __init__(
        self,
        content: Content,
        additional_kwargs: dict[str, Any] | None = None,
        response_metadata: dict[str, Any] | None = None,
        *,
        tool_calls: list[dict[str, Any]] | None = None,
        invalid_tool_calls: list[dict[str, Any]] | None = None,
        usage_metadata: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(content, additional_kwargs, response_metadata, **fields)
        self.tool_calls: list[dict[str, Any]] = [] if tool_calls is None else tool_calls
        self.invalid_tool_calls: list[dict[str, Any]] = (
            [] if invalid_tool_calls is None else invalid_tool_calls
        )
        self.usage_metadata = usage_metadata


class SystemMessage(BaseMessage):
    """What the model is told before the others speak."""

    type = "system"


class FunctionMessage(BaseMessage):
    """What a function answered; `name` says which."""

    type = "function"
    name: str

    def __init__(self, content: Content, name: str, **fields: Any) -> None:
        super().__init__(content, name=name, **fields)


class ToolMessage(BaseMessage):
    """What a tool answered to the call with this id."""

    type = "tool"
    own = ("tool_call_id", "status", "artifact")

    def __init__(
        self,
        content: Content,
        tool_call_id: str,
        status: str = "success",
        artifact: Any = None,
        **fields: Any,
    ) -> None:
        super().__init__(content, **fields)
        self.tool_call_id = tool_call_id
        self.status = status
        self.artifact = artifact


class ChatMessage(BaseMessage):
    """What somebody in a role of the caller's own said."""

    type = "chat"
    own = ("role",)

    def __init__(self, content: Content, role: str, **fields: Any) -> None:
        super().__init__(content, **fields)
        self.role = role


#: Who speaks, as the chat face of the same messages calls them; others go by their type.
ROLES = {"human": "user", "ai": "assistant"}
_SHARED = ("content", "additional_kwargs", "response_metadata", "id", "name")
_KINDS: dict[str, type[BaseMessage]] = {
    kind.type: kind
    for kind in (HumanMessage, AIMessage, SystemMessage, FunctionMessage, ToolMessage, ChatMessage)
}


def message_to_dict(message: BaseMessage) -> dict[str, Any]:
    """A message as `{"type": …, "data": {…}}`, which shares nothing with it."""
    return {"type": check_message(message).type, "data": copy.deepcopy(_fields(message))}


def check_message(message: BaseMessage) -> BaseMessage:
    """The message itself; what is none is TypeError, and what could not be read again is refused."""
    if not isinstance(message, BaseMessage):
        raise TypeError(f"a history is made of messages; got {message!r}"[:300])
    _kind_of(message.type)
    try:
        message.text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRecord(
            f"a message holds half a surrogate pair at {error.start}: {error.object[:40]!r}"
        ) from None
    return message


def check_messages(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    """All of these messages, each of which is one."""
    if isinstance(messages, BaseMessage) or not isinstance(messages, Iterable):
        raise TypeError(f"messages are a list of messages; got {messages!r}"[:300])
    return [check_message(message) for message in messages]


def _kind_of(name: Any) -> type[BaseMessage]:
    if (kind := _KINDS.get(str(name))) is None:
        raise ValueError(f"a message of type {name!r} is not known; known: {', '.join(_KINDS)}")
    return kind


def messages_to_dict(messages: Iterable[BaseMessage]) -> list[dict[str, Any]]:
    """Each message as `message_to_dict` tells it."""
    return [message_to_dict(message) for message in check_messages(messages)]


def message_from_dict(told: Mapping[str, Any]) -> BaseMessage:
    """The message that `message_to_dict` told; a kind that is not known is refused by name."""
    if not isinstance(told, Mapping) or not isinstance(told.get("data"), Mapping):
        raise ValueError(f"a message is told as {{'type': …, 'data': {{…}}}}; got {told!r}"[:300])  # noqa: TRY004
    kind = _kind_of(told.get("type"))
    fields = {str(key): copy.deepcopy(value) for key, value in told["data"].items() if key != "type"}
    try:
        return kind(**fields)
    except TypeError as error:
        raise ValueError(f"a message of type {kind.type!r}: {error}") from error


def messages_from_dict(told: Iterable[Mapping[str, Any]]) -> list[BaseMessage]:
    """The messages that `messages_to_dict` told."""
    return [message_from_dict(one) for one in told]


def get_buffer_string(
    messages: Sequence[BaseMessage], human_prefix: str = "Human", ai_prefix: str = "AI"
) -> str:
    """A conversation as text: one `role: content` after the other; of several blocks the words, never a picture's bytes."""
    return "\n".join(f"{speaker(message, human_prefix, ai_prefix)}: {message.text}" for message in messages)


def speaker(message: BaseMessage, human_prefix: str = "Human", ai_prefix: str = "AI") -> str:
    """Who said it, as `get_buffer_string` names them."""
    if isinstance(message, HumanMessage):
        return human_prefix
    if isinstance(message, AIMessage):
        return ai_prefix
    return "System" if isinstance(message, SystemMessage) else type(message).__name__


def as_message(value: object, kind: type[BaseMessage]) -> BaseMessage:
    """A value of a turn as a message: a text becomes one of this kind, a message of another library one of ours."""
    if isinstance(value, BaseMessage):
        return value
    if isinstance(value, str):
        return kind(value)
    known = _KINDS.get(str(getattr(value, "type", "")))
    content = getattr(value, "content", None)
    if known is None or not isinstance(content, str | list):
        raise TypeError(f"what is said in a turn is a text or a message; got {value!r}"[:300])
    fields = {name: getattr(value, name) for name in (*_SHARED, *known.own) if hasattr(value, name)}
    return message_from_dict({"type": known.type, "data": fields})


def _fields(message: BaseMessage) -> dict[str, Any]:
    return {**message.extras, **{name: getattr(message, name) for name in (*_SHARED, *message.own)}}


def _text(block: Any) -> str:
    return str(block.get("text") or "") if isinstance(block, Mapping) else ""
