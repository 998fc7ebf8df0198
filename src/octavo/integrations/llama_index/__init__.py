"""Memory for LlamaIndex: chat engines and agents keep what was said in any store, and are told what is remembered.

    from octavo.integrations.llama_index import OctavoMemory

    memory = OctavoMemory.from_defaults("sqlite:///octavo.db", "monday", "lin")
    engine = SimpleChatEngine.from_defaults(llm=llm, memory=memory)

It is LlamaIndex's own `Memory` over a chat store of Octavo's; a memory block tells the model what else is known.
"""

from collections.abc import Coroutine
from typing import Any, Self, TypeVar

from octavo.integrations import require_package, tools
from octavo.integrations.tools import run_on, unwrap
from octavo.kernel.ports import Store
from octavo.memory import AsyncMemory, Memory
from octavo.memory.searching import DEFAULT_SESSION, Whose
from octavo.util.sync import Closing, as_plain

with require_package(__name__, "LlamaIndex", "llama-index-core"):
    from llama_index.core.base.llms.types import ChatMessage  # type: ignore[import-not-found]
    from llama_index.core.bridge.pydantic import Field  # type: ignore[import-not-found]
    from llama_index.core.memory import BaseMemoryBlock  # type: ignore[import-not-found]
    from llama_index.core.memory import Memory as LlamaMemory
    from llama_index.core.tools import FunctionTool  # type: ignore[import-not-found]

from octavo.integrations.llama_index.chat_store import OctavoChatStore

__all__ = ["OctavoChatStore", "OctavoMemory", "OctavoMemoryBlock", "memory_tools"]

T = TypeVar("T")


class OctavoMemory(Closing, LlamaMemory):  # type: ignore[misc]
    """LlamaIndex's `Memory` with its messages in a store of Octavo's; make it by `from_defaults`."""

    # Without a default, or what is loaded from JSON would keep nothing.
    sql_store: OctavoChatStore = Field(exclude=True)

    @classmethod
    def class_name(cls) -> str:
        return "OctavoMemory"

    @classmethod
    def from_defaults(
        cls,
        url_or_store: str | Store,
        session_id: str = DEFAULT_SESSION,
        user_id: str = "default_user",
        *,
        tenant: str = "",
        **options: Any,
    ) -> Self:
        """The memory of a session. The options are those of `Memory.from_defaults`: `token_limit`, `memory_blocks`, …."""
        store = OctavoChatStore(url_or_store, user_id, tenant=tenant)
        return super().from_defaults(session_id=session_id, chat_store=store, **options)  # type: ignore[no-any-return]

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self.sql_store.wait(work)

    def close(self) -> None:
        """Close the store, unless it was handed in."""
        self.sql_store.close()

    async def aclose(self) -> None:
        """`close`, awaited."""
        await self.sql_store.aclose()

    # LlamaIndex's own wait on a loop of their own, and for ever where that is the loop of the store.
    get = as_plain(LlamaMemory.aget)
    get_all = as_plain(LlamaMemory.aget_all)
    put = as_plain(LlamaMemory.aput)
    put_messages = as_plain(LlamaMemory.aput_messages)
    set = as_plain(LlamaMemory.aset)
    reset = as_plain(LlamaMemory.areset)


class OctavoMemoryBlock(BaseMemoryBlock[str]):  # type: ignore[misc]
    """Tells the model what is remembered of a user, and learns the facts in what leaves the short-term memory.

    With `accept_short_term_memory=False` nothing is learnt.
    """

    name: str = "remembered"
    memory: Memory | AsyncMemory = Field(exclude=True)
    user_id: str | None = None
    agent_id: str | None = None
    max_tokens: int = 800

    def model_post_init(self, _: Any, /) -> None:
        # A wrong name is refused now, not when it is asked for.
        Whose(user_id=self.user_id, agent_id=self.agent_id)

    async def _aget(self, messages: list[ChatMessage] | None = None, **_: Any) -> str:
        said = [message.content for message in messages or () if message.content]
        asked = [message.content for message in messages or () if message.role == "user" and message.content]
        if not asked:
            return ""
        work = unwrap(self.memory).context(
            asked[-1], max_tokens=self.max_tokens, shown=said, user_id=self.user_id, agent_id=self.agent_id
        )
        return (await run_on(self.memory, work)).text

    async def _aput(self, messages: list[ChatMessage]) -> None:
        # LlamaIndex names the session here.
        session = messages[-1].additional_kwargs.get("session_id") if messages else None
        whose = Whose(user_id=self.user_id, agent_id=self.agent_id, session_id=session)
        speaker = "assistant" if "agent_id" in whose.owner else "user"
        for said in [message.content for message in messages if message.role == speaker and message.content]:
            # Facts alone: the messages stay in the session, and kept there again they would be told again.
            work = unwrap(self.memory).layers.extract(said, metadata=whose.learnt_in, **whose.owner)
            await run_on(self.memory, work)


def memory_tools(
    memory: Memory | AsyncMemory, *, user_id: str | None = None, agent_id: str | None = None
) -> list[FunctionTool]:
    """The tools `search_memory` and `remember` for an agent, over what is kept for this user or agent."""
    both = tools.both_tools(memory, user_id=user_id, agent_id=agent_id)
    return [FunctionTool.from_defaults(async_fn=each) for each in both]
