"""LangChain's messages and Octavo's, each as the other, with everything they hold."""

from collections.abc import Iterable
from typing import Any

from langchain_core import messages as langchain  # type: ignore[import-not-found]

from octavo import conversation
from octavo.errors import InvalidRecord


def to_octavo(message: langchain.BaseMessage) -> conversation.BaseMessage:
    """The same message as Octavo's; a chunk, as streaming ends with one, is the message it is a chunk of."""
    if not isinstance(message, langchain.BaseMessage):
        raise TypeError(f"a history is made of LangChain's messages; got {message!r}"[:300])
    told = langchain.message_to_dict(langchain.message_chunk_to_message(message))
    try:
        return conversation.message_from_dict(plain(told))
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


def plain(value: Any) -> Any:
    """The same with plain texts: the text of a model's message is of a class of LangChain's, which no store can write."""
    if isinstance(value, str):
        return str.__str__(value)  # of a text that is an enum too, str() would give its name
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value
