"""Memories that show the messages themselves: all of them, the last turns, or as many as fit."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from octavo.conversation.base import BaseChatMemory, kept_as, number_from
from octavo.conversation.language import LanguageModel, TokenCounter, as_model, counter_of
from octavo.conversation.messages import BaseMessage
from octavo.conversation.turns import FIRST_LOOK, newest_turns
from octavo.kernel.terms.tokens import estimate_tokens
from octavo.util.attributes import Checked


class MessageView(BaseChatMemory):
    """A memory that shows some of the messages of its history; a subclass says which."""

    @abstractmethod
    async def _aview(self) -> list[BaseMessage]:
        """The messages shown, oldest first."""

    @property
    def buffer(self) -> str:
        """What is shown, as text."""
        return self._as_text(self.buffer_as_messages)

    @property
    def buffer_as_messages(self) -> list[BaseMessage]:
        """What is shown, as messages."""
        return self._wait(self._aview())

    async def aload_memory_variables(
        self,
        inputs: Mapping[str, Any],  # noqa: ARG002 - what is asked makes no difference here
    ) -> dict[str, Any]:
        """The messages shown, under `memory_key`: as text, or as they are with `return_messages`."""
        return {self.memory_key: self._shown(await self._aview())}


class ConversationBufferMemory(MessageView):
    """The whole conversation."""

    def get_memory_stats(self) -> dict[str, Any]:
        """How much is held, since when, and when it was last asked for."""
        return self._wait(self.aget_memory_stats())

    async def aget_memory_stats(self) -> dict[str, Any]:
        """`get_memory_stats`, awaited."""
        messages = await self._aview()
        return {
            "message_count": len(messages),
            "buffer_size_chars": len(self._as_text(messages)),
            "created_at": self._created_at,
            "last_accessed": self._last_accessed,
            "memory_type": type(self).__name__,
        }

    async def _aview(self) -> list[BaseMessage]:
        return await self.chat_memory.aget_messages()


class ConversationBufferWindowMemory(MessageView):
    """The last `k` turns, which are 2k messages. Older ones are removed from the history, unless `keep="all"`."""

    k = Checked(number_from(0, "k is a number of turns"))
    keep = Checked(kept_as)

    def __init__(self, k: int = 5, *, keep: str = "prune", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.k = k
        self.keep = keep
        self._window_stats = {
            "current_window_size": 0,
            "total_messages_processed": 0,
            "messages_pruned": 0,
        }

    async def asave_context(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Add the turn to the history, and let the oldest go."""
        await super().asave_context(inputs, outputs)
        self._window_stats["total_messages_processed"] += 2
        await self._tidy(self._aprune_messages())

    def _prune_messages(self) -> None:
        """Remove from the history what has left the window."""
        self._wait(self._aprune_messages())

    async def _aprune_messages(self) -> None:
        if self.keep == "prune":
            self._window_stats["messages_pruned"] += await self.chat_memory.atrim(2 * self.k)

    def get_window_info(self) -> dict[str, Any]:
        """How full the window is, and how much has left it."""
        return self._wait(self.aget_window_info())

    async def aget_window_info(self) -> dict[str, Any]:
        """`get_window_info`, awaited."""
        stats = self._window_stats
        stats["current_window_size"] = min(await self.chat_memory.acount(), 2 * self.k) // 2
        processed = stats["total_messages_processed"]
        return {
            "max_window_size": self.k,
            **stats,
            "window_utilization": stats["current_window_size"] / self.k if self.k else 0.0,
            "pruning_efficiency": stats["messages_pruned"] / processed if processed else 0.0,
        }

    async def _aview(self) -> list[BaseMessage]:
        return await self.chat_memory.alatest(2 * self.k)


class ConversationTokenBufferMemory(MessageView):
    """The newest whole turns of at most `max_token_limit` tokens, and always the last one.

    Older ones are removed from the history, unless `keep="all"`. Tokens are counted by `count_tokens`, else by the
    model's `get_num_tokens`, else estimated.
    """

    max_token_limit = Checked(number_from(0, "max_token_limit is a number of tokens"))
    keep = Checked(kept_as)

    def __init__(
        self,
        llm: LanguageModel = None,
        max_token_limit: int = 2000,
        *,
        count_tokens: TokenCounter | None = None,
        keep: str = "prune",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._count_tokens = count_tokens
        self.llm = llm
        self.max_token_limit = max_token_limit
        self.keep = keep
        self._look = FIRST_LOOK
        self._token_stats = {"total_messages_processed": 0, "messages_pruned": 0}

    @property
    def llm(self) -> LanguageModel:
        """The model that counts tokens, if it can; assigning another counts with that."""
        return self._llm

    @llm.setter
    def llm(self, llm: LanguageModel) -> None:
        self._llm = llm if hasattr(llm, "get_num_tokens") else as_model(llm)
        self._count = counter_of(llm, self._count_tokens)

    async def asave_context(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Add the turn to the history, and let the oldest go that no longer fit."""
        await super().asave_context(inputs, outputs)
        self._token_stats["total_messages_processed"] += 2
        await self._tidy(self._aprune_messages_to_token_limit())

    def _get_current_token_count(self) -> int:
        """What the messages shown cost."""
        return self._wait(self._aget_current_token_count())

    async def _aget_current_token_count(self) -> int:
        return sum(map(self._cost, await self._aview()))

    def _prune_messages_to_token_limit(self) -> None:
        """Remove from the history the turns that no longer fit."""
        self._wait(self._aprune_messages_to_token_limit())

    async def _aprune_messages_to_token_limit(self) -> None:
        if self.keep == "prune":
            self._token_stats["messages_pruned"] += await self.chat_memory.atrim_before(await self._aview())

    def get_token_info(self) -> dict[str, Any]:
        """How much of the budget is used, and how much has been dropped for it."""
        return self._wait(self.aget_token_info())

    async def aget_token_info(self) -> dict[str, Any]:
        """`get_token_info`, awaited."""
        current = await self._aget_current_token_count()
        return {
            **self._token_stats,
            "max_token_limit": self.max_token_limit,
            "current_token_count": current,
            "token_utilization": current / self.max_token_limit if self.max_token_limit else 0.0,
            "estimated": self._count is estimate_tokens,
        }

    async def _aview(self) -> list[BaseMessage]:
        shown = await newest_turns(self.chat_memory, self.max_token_limit, self._cost, self._look)
        # The next time one look will do: with the turn that is added until then, and one that no longer fits.
        self._look = max(FIRST_LOOK, len(shown) + 8)
        return shown

    def _cost(self, message: BaseMessage) -> int:
        return self._count(self._line(message))
