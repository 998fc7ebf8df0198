"""Octavo inside LangChain: a retriever and tools over what is remembered, and chat histories and memories of its own classes.

    from octavo.integrations.langchain import OctavoRetriever, memory_tools

    agent = create_agent(model, tools=memory_tools(memory, user_id="lin"))
    retriever = OctavoRetriever(memory=memory, user_id="lin")

Retriever, tools and histories need `langchain-core`. Memories need `langchain-classic` too, or `langchain` before 1.0, and load on first use.
"""

import functools
import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from octavo.integrations import require_package, tools
from octavo.integrations.tools import run_on, unwrap
from octavo.memory import AsyncMemory, Memory
from octavo.memory.searching import Whose
from octavo.search.hits import Hits, MemoryHit

with require_package(__name__, "LangChain", "langchain-core"):
    from langchain_core.documents import Document  # type: ignore[import-not-found]
    from langchain_core.retrievers import BaseRetriever  # type: ignore[import-not-found]
    from langchain_core.tools import BaseTool, StructuredTool  # type: ignore[import-not-found]
    from pydantic import ConfigDict, Field

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


class OctavoRetriever(BaseRetriever):  # type: ignore[misc] # its types are not there without LangChain
    """Finds what is kept for a user or agent, best first: facts, messages, documents, or the `sources` that are named.

    `k` is how many. A `Memory` can be asked by `invoke` and `ainvoke`, an `AsyncMemory` by `ainvoke` on its event loop.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    memory: Memory | AsyncMemory = Field(exclude=True, repr=False)
    user_id: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    sources: Sequence[str] | None = None
    k: int = 4

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        # A wrong name is refused now, not when it is asked.
        Whose("", self.user_id, self.agent_id, self.session_id)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: Any,  # noqa: ARG002 - LangChain looks for this name
        k: int | None = None,
    ) -> list[Document]:
        if not isinstance(self.memory, Memory):
            raise TypeError("an AsyncMemory is asked by `ainvoke`; give a Memory for `invoke`")
        return _documents(self.memory.search(query, **self._search_options(k)))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: Any,  # noqa: ARG002
        k: int | None = None,
    ) -> list[Document]:
        return _documents(
            await run_on(self.memory, unwrap(self.memory).search(query, **self._search_options(k)))
        )

    def _search_options(self, k: int | None) -> dict[str, Any]:
        named = ("user_id", "agent_id", "session_id", "sources")
        return {name: getattr(self, name) for name in named} | {"limit": self.k if k is None else k}


def memory_tools(
    memory: Memory | AsyncMemory, *, user_id: str | None = None, agent_id: str | None = None
) -> list[BaseTool]:
    """The tools `search_memory` and `remember` for an agent, over what is kept for this user or agent."""
    return [_tool(memory, each) for each in tools.both_tools(memory, user_id=user_id, agent_id=agent_id)]


def _tool(memory: Memory | AsyncMemory, function: Any) -> BaseTool:
    if not isinstance(memory, Memory):
        return StructuredTool.from_function(coroutine=function, parse_docstring=True)

    @functools.wraps(function)
    def wait(**given: str) -> Any:
        return memory.portal.call(function(**given))

    return StructuredTool.from_function(wait, function, parse_docstring=True)


def _documents(hits: Hits) -> list[Document]:
    return [Document(id=hit.id, page_content=hit.text, metadata=_metadata(hit)) for hit in hits]


def _metadata(hit: MemoryHit) -> dict[str, Any]:
    """Whose it is, from where and when, and how likely it is an answer; the caller's own metadata beside that."""
    told = {
        name: getattr(hit, name)
        for name in ("source", "kind", "score", "why", "user_id", "agent_id", "session_id")
    }
    return {**hit.metadata, **told, "when": hit.when.isoformat()}
