"""Octavo's conversation memories inside LangChain: real chat histories and real memories of its own classes.

    from octavo.integrations.langchain import StoreChatMessageHistory

    history = StoreChatMessageHistory("sqlite:///chat.db", session_id="monday")

Histories need `langchain-core`. Memories need `langchain-classic` too, or `langchain` before 1.0, and load on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any

from octavo.errors import ConfigError

try:
    import langchain_core.chat_history  # type: ignore[import-not-found] # noqa: F401 - or the modules below fail without a cure
except ImportError as error:
    raise ConfigError(
        f"octavo.integrations.langchain needs LangChain ({error}): pip install langchain-core"
    ) from error

from octavo.integrations.langchain.histories import (
    ChatMessageHistory,
    FileChatMessageHistory,
    OctavoChatMessageHistory,
    RedisChatMessageHistory,
    StoreChatMessageHistory,
    StoreSessions,
    to_langchain,
    to_octavo,
)

if TYPE_CHECKING:
    from octavo.integrations.langchain.memories import (
        CombinedMemory,
        ConversationBufferMemory,
        ConversationBufferWindowMemory,
        ConversationEntityMemory,
        ConversationSummaryBufferMemory,
        ConversationSummaryMemory,
        ConversationTokenBufferMemory,
        OctavoMemory,
        VectorStoreRetrieverMemory,
    )

__all__ = [
    "ChatMessageHistory",
    "CombinedMemory",
    "ConversationBufferMemory",
    "ConversationBufferWindowMemory",
    "ConversationEntityMemory",
    "ConversationSummaryBufferMemory",
    "ConversationSummaryMemory",
    "ConversationTokenBufferMemory",
    "FileChatMessageHistory",
    "OctavoChatMessageHistory",
    "OctavoMemory",
    "RedisChatMessageHistory",
    "StoreChatMessageHistory",
    "StoreSessions",
    "VectorStoreRetrieverMemory",
    "to_langchain",
    "to_octavo",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("octavo.integrations.langchain.memories"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
