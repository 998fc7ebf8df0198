"""Octavo inside LangChain: a retriever and tools over what is remembered, and chat histories and memories of its own classes.

    from octavo.integrations.langchain import OctavoRetriever, memory_tools

    agent = create_agent(model, tools=memory_tools(memory, user_id="lin"))
    retriever = OctavoRetriever(memory=memory, user_id="lin")

Retriever, tools and histories need `langchain-core`. Memories need `langchain-classic` too, or `langchain` before 1.0, and load on first use.
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

from octavo.integrations.langchain.finding import OctavoRetriever, memory_tools
from octavo.integrations.langchain.histories import (
    ChatMessageHistory,
    FileChatMessageHistory,
    RedisChatMessageHistory,
    StoreChatMessageHistory,
    StoreSessions,
)
from octavo.integrations.langchain.translating import OctavoChatMessageHistory, to_langchain, to_octavo

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
    "OctavoRetriever",
    "RedisChatMessageHistory",
    "StoreChatMessageHistory",
    "StoreSessions",
    "VectorStoreRetrieverMemory",
    "memory_tools",
    "to_langchain",
    "to_octavo",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("octavo.integrations.langchain.memories"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
