"""Octavo's messages, chat histories and values as LangChain's, and LangChain's as Octavo's, with everything they hold."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from langchain_core import messages as langchain  # type: ignore[import-not-found]
from langchain_core.chat_history import BaseChatMessageHistory  # type: ignore[import-not-found]
from langchain_core.documents import Document  # type: ignore[import-not-found]

from octavo import conversation
from octavo.errors import InvalidRecord
from octavo.util.sync import Closing


def to_octavo(message: langchain.BaseMessage) -> conversation.BaseMessage:
    """The same message as Octavo's; a chunk, as streaming ends with one, is the message it is a chunk of."""
    if not isinstance(message, langchain.BaseMessage):
        raise TypeError(f"a history is made of LangChain's messages; got {message!r}"[:300])
    told = langchain.message_to_dict(langchain.message_chunk_to_message(message))
    try:
        return conversation.message_from_dict(to_plain(told))
    except ValueError as error:  # such as RemoveMessage, which asks for something and says nothing
        raise InvalidRecord(f"{type(message).__name__} cannot be kept in a history: {error}") from error


def to_langchain(message: conversation.BaseMessage) -> langchain.BaseMessage:
    """The same message as LangChain's."""
    return all_to_langchain([message])[0]


def all_to_octavo(messages: Iterable[langchain.BaseMessage]) -> list[conversation.BaseMessage]:
    """Each message as Octavo's."""
    return [to_octavo(message) for message in messages]


def all_to_langchain(messages: Iterable[conversation.BaseMessage]) -> list[langchain.BaseMessage]:
    """Each message as LangChain's."""
    return list(langchain.messages_from_dict(conversation.messages_to_dict(messages)))


def to_plain(value: Any) -> Any:
    """The same with plain texts: the text of a model's message is of a class of LangChain's, which no store can write."""
    if isinstance(value, str):
        return str.__str__(value)  # of a text that is an enum too, str() would give its name
    if isinstance(value, dict):
        return {key: to_plain(one) for key, one in value.items()}
    return [to_plain(one) for one in value] if isinstance(value, list) else value


class Holds:
    """Something of LangChain's that holds the same of Octavo's, in the attribute `octavo`."""

    octavo: Any


class OctavoChatMessageHistory(Closing, Holds, BaseChatMessageHistory):  # type: ignore[misc] # its types are not there without LangChain
    """Any history of `octavo.conversation` as one of LangChain's; a history that is handed in stays open.

    The history inside, with `trim`, `latest`, `count` and the rest of what LangChain's do not have, is the attribute `octavo`.
    """

    octavo: Any
    owns_history: ClassVar[bool] = False

    def __init__(self, history: conversation.BaseChatMessageHistory) -> None:
        super().__init__()
        self.octavo = history

    @property
    def messages(self) -> list[langchain.BaseMessage]:
        """All messages, oldest first, in a list of their own. Assigning puts others in their place."""
        return all_to_langchain(self.octavo.messages)

    @messages.setter
    def messages(self, messages: Sequence[langchain.BaseMessage]) -> None:
        self.octavo.replace(all_to_octavo(messages))

    async def aget_messages(self) -> list[langchain.BaseMessage]:
        """`messages`, awaited."""
        return all_to_langchain(await self.octavo.aget_messages())

    def add_messages(self, messages: Sequence[langchain.BaseMessage]) -> None:
        """Keep messages; one that cannot be kept is refused with all the others."""
        self.octavo.add_messages(all_to_octavo(messages))

    async def aadd_messages(self, messages: Sequence[langchain.BaseMessage]) -> None:
        """`add_messages`, awaited."""
        await self.octavo.aadd_messages(all_to_octavo(messages))

    def clear(self) -> None:
        """Remove all messages."""
        self.octavo.clear()

    async def aclear(self) -> None:
        """`clear`, awaited."""
        await self.octavo.aclear()

    def close(self) -> None:
        """Let go of what was opened here; what was handed in stays open."""
        if self.owns_history:
            self.octavo.close()

    async def aclose(self) -> None:
        """`close`, awaited."""
        if self.owns_history:
            await self.octavo.aclose()


class BorrowedHistory(conversation.BaseChatMessageHistory):
    """A history of LangChain's, or of anyone who made one for it, as one of Octavo's.

    Only its plain methods are called, also by the `a…` twins: each such history has them, and few have twins of their own.
    States, such as a running summary, live in this process only.
    """

    def __init__(self, theirs: BaseChatMessageHistory) -> None:
        self.theirs = theirs

    @property
    def messages(self) -> list[conversation.BaseMessage]:  # type: ignore[override] # it is replaced by `replace`
        """All messages, oldest first."""
        return all_to_octavo(self.theirs.messages)

    def add_messages(self, messages: Sequence[conversation.BaseMessage]) -> None:
        """Add messages in this order."""
        self.theirs.add_messages(all_to_langchain(messages))

    def clear(self) -> None:
        """Forget all messages and all states."""
        self.theirs.clear()
        self._states.clear()


_KINDS = {
    getattr(langchain, kind.__name__): kind
    for kind in (
        conversation.HumanMessage,
        conversation.AIMessage,
        conversation.SystemMessage,
        conversation.FunctionMessage,
        conversation.ToolMessage,
        conversation.ChatMessage,
    )
}


def to_ours(value: Any) -> Any:
    """What LangChain gives, as Octavo's memories take it: texts, messages and their classes, histories, memories."""
    if isinstance(value, list):
        return [to_ours(one) for one in value]
    if isinstance(value, str):
        return to_plain(value)
    if isinstance(value, langchain.BaseMessage):
        return to_octavo(value)
    if isinstance(value, Holds):
        return value.octavo
    if isinstance(value, BaseChatMessageHistory):
        return BorrowedHistory(value)
    return _KINDS.get(value, value) if isinstance(value, type) else value


def to_theirs(value: Any) -> Any:
    """What Octavo's memories tell, as LangChain takes it: messages, documents and histories."""
    if isinstance(value, list):
        return [to_theirs(one) for one in value]
    if isinstance(value, conversation.BaseMessage):
        return to_langchain(value)
    if isinstance(value, BorrowedHistory):
        return value.theirs
    if isinstance(value, conversation.BaseChatMessageHistory):
        return OctavoChatMessageHistory(value)
    if isinstance(value, conversation.Document):
        return Document(page_content=value.page_content, metadata=value.metadata, id=value.id)
    return value


def all_to_theirs(told: Mapping[str, Any]) -> dict[str, Any]:
    """Each value as LangChain takes it."""
    return {name: to_theirs(value) for name, value in told.items()}
