"""Octavo's chat histories under LangChain's names and with its arguments, and those of many sessions over one store."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from langchain_core import messages as langchain  # type: ignore[import-not-found]

from octavo import conversation
from octavo.integrations.langchain.translating import OctavoChatMessageHistory, all_to_octavo
from octavo.stores import open_store
from octavo.util.sync import Closing, shared_portal


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
