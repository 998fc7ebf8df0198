"""Octavo's messages, chat histories and values as LangChain's, and LangChain's as Octavo's; histories under LangChain's names.

What one holds, the other does.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from langchain_core import messages as langchain  # type: ignore[import-not-found]
from langchain_core.chat_history import BaseChatMessageHistory  # type: ignore[import-not-found]
from langchain_core.documents import Document  # type: ignore[import-not-found]

from octavo import conversation
from octavo.errors import InvalidRecord
from octavo.stores import open_store
from octavo.util.sync import Closing, shared_portal


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


class _Own(OctavoChatMessageHistory):
    """A history that makes the one it holds, from the same arguments, and so closes it."""

    kind: ClassVar[Any]
    owns_history = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(self.kind(*arguments, **options))


class ChatMessageHistory(_Own):
    """Messages in this process's memory."""

    kind = conversation.ChatMessageHistory

    def __init__(self, messages: Sequence[langchain.BaseMessage] = ()) -> None:
        super().__init__(all_to_octavo(messages))


class FileChatMessageHistory(_Own):
    """Messages in a file of JSON: `FileChatMessageHistory(file_path, *, encoding=None, ensure_ascii=False)`."""

    kind = conversation.FileChatMessageHistory

    @property
    def file_path(self) -> Path:
        """The file."""
        return Path(self.octavo.file_path)

    @property
    def encoding(self) -> str:
        """How the file is written."""
        return str(self.octavo.encoding)


class RedisChatMessageHistory(_Own):
    """Messages in a list in Redis, with LangChain's arguments: the prefix of the key stands before the time to live."""

    kind = conversation.RedisChatMessageHistory

    def __init__(
        self,
        session_id: str,
        url: str = "redis://localhost:6379/0",
        key_prefix: str = "chat_history:",
        ttl: int | None = 24 * 60 * 60,
    ) -> None:
        if not isinstance(key_prefix, str):  # where Octavo's own history has its time to live
            raise TypeError(f"key_prefix is a string, and ttl comes after it; got {key_prefix!r}")
        super().__init__(session_id, url, ttl, key_prefix=key_prefix)

    @property
    def key(self) -> str:
        """The key of the list in Redis."""
        return str(self.octavo.key)


class StoreChatMessageHistory(_Own):
    """Messages in the store that a URL names, or in one that is handed in, which stays open.

    `StoreChatMessageHistory(url_or_store, session_id, user_id, tenant="")`.
    """

    kind = conversation.StoreChatMessageHistory


class StoreSessions(Closing):
    """The histories of many sessions over one store, which is opened once: what `RunnableWithMessageHistory` asks for them.

    Call it with a session's id. `for_user` asks for the user's too, for a `history_factory_config` that names both.
    """

    def __init__(self, url: str, user_id: str = "default_user", *, tenant: str = "") -> None:
        self._store = open_store(url)
        self._user_id = user_id
        self._tenant = tenant

    def __call__(self, session_id: str) -> OctavoChatMessageHistory:
        """The history of a session; it need not be closed."""
        return self.for_user(self._user_id, session_id)

    def for_user(self, user_id: str, session_id: str) -> OctavoChatMessageHistory:
        """The history of a session of this user's; it need not be closed."""
        return OctavoChatMessageHistory(shared_portal().call(self._history(user_id, session_id)))

    async def _history(self, user_id: str, session_id: str) -> conversation.StoreChatMessageHistory:
        # Made over there, it belongs there: or the store would belong to the caller's event loop, and a blocking call
        # from that loop would wait for itself.
        return conversation.StoreChatMessageHistory(self._store, session_id, user_id, tenant=self._tenant)

    def close(self) -> None:
        """Close the store."""
        shared_portal().call(self._store.close())

    async def aclose(self) -> None:
        """`close`, awaited."""
        await shared_portal().acall(self._store.close())


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
