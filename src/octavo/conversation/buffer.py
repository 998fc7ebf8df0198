"""Memories that show the messages themselves: all of them, the last turns, or as many as fit."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from octavo.conversation.base import BaseChatMemory, keep_mode, number_from
from octavo.conversation.language import LanguageModel, TokenCounter, as_model, counter_of
from octavo.conversation.messages import BaseMessage, HumanMessage
from octavo.kernel.terms.tokens import estimate_tokens
from octavo.util.attributes import Checked
from octavo.util.sync import waited

_FIRST_LOOK = 16  # messages that are read at first; each further look is twice as long


class MessageView(BaseChatMemory):
    """A memory that shows some of the messages of its history; a subclass says which, and what is pruned."""

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

    async def aget_memory_stats(self) -> dict[str, Any]:
        """How much is held, since when, and when it was last asked for."""
        messages = await self._aview()
        return {
            "message_count": len(messages),
            "buffer_size_chars": len(self._as_text(messages)),
            "created_at": self._created_at,
            "last_accessed": self._last_accessed,
            "memory_type": type(self).__name__,
        }

    get_memory_stats = waited(aget_memory_stats)

    async def _aview(self) -> list[BaseMessage]:
        return await self.chat_memory.aget_messages()


class PruningView(MessageView):
    """A memory that shows the end of its history, and removes what stands before it, unless `keep="all"`."""

    keep = Checked(keep_mode)

    def __init__(self, keep: str = "prune", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.keep = keep
        self._processed = 0
        self._pruned = 0

    @abstractmethod
    async def _adrop(self) -> int:
        """Remove from the history what is not shown; answer how many messages that were."""

    async def asave_context(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Add the turn to the history, and let the oldest go."""
        await super().asave_context(inputs, outputs)
        self._processed += 2
        await self._tidy(self._aprune())

    async def _aprune(self) -> None:
        """Remove from the history what is no longer shown."""
        if self.keep == "prune":
            self._pruned += await self._adrop()

    _prune_messages = waited(_aprune)


class ConversationBufferWindowMemory(PruningView):
    """The last `k` turns, which are 2k messages. Older ones are removed from the history, unless `keep="all"`."""

    k = Checked(number_from(0, "k is a number of turns"))

    def __init__(self, k: int = 5, *, keep: str = "prune", **kwargs: Any) -> None:
        super().__init__(keep, **kwargs)
        self.k = k

    async def aget_window_info(self) -> dict[str, Any]:
        """How full the window is, and how much has left it."""
        size = min(await self.chat_memory.acount(), 2 * self.k) // 2
        return {
            "max_window_size": self.k,
            "current_window_size": size,
            "total_messages_processed": self._processed,
            "messages_pruned": self._pruned,
            "window_utilization": size / self.k if self.k else 0.0,
            "pruning_efficiency": self._pruned / self._processed if self._processed else 0.0,
        }

    get_window_info = waited(aget_window_info)

    async def _adrop(self) -> int:
        return await self.chat_memory.atrim(2 * self.k)

    async def _aview(self) -> list[BaseMessage]:
        return await self.chat_memory.alatest(2 * self.k)


class ConversationTokenBufferMemory(PruningView):
    """The newest whole turns of at most `max_token_limit` tokens, and always the last one.

    Older ones are removed from the history, unless `keep="all"`. Tokens are counted by `count_tokens`, else by the
    model's `get_num_tokens`, else estimated.
    """

    max_token_limit = Checked(number_from(0, "max_token_limit is a number of tokens"))

    def __init__(
        self,
        llm: LanguageModel = None,
        max_token_limit: int = 2000,
        *,
        count_tokens: TokenCounter | None = None,
        keep: str = "prune",
        **kwargs: Any,
    ) -> None:
        super().__init__(keep, **kwargs)
        self._count_tokens = count_tokens
        self.llm = llm
        self.max_token_limit = max_token_limit
        self._look = _FIRST_LOOK

    @property
    def llm(self) -> LanguageModel:
        """The model that counts tokens, if it can; assigning another counts with that."""
        return self._llm

    @llm.setter
    def llm(self, llm: LanguageModel) -> None:
        self._llm = llm if hasattr(llm, "get_num_tokens") else as_model(llm)
        self._count = counter_of(llm, self._count_tokens)

    async def aget_token_info(self) -> dict[str, Any]:
        """How much of the budget is used, and how much has been dropped for it."""
        current = await self._aget_current_token_count()
        return {
            "total_messages_processed": self._processed,
            "messages_pruned": self._pruned,
            "max_token_limit": self.max_token_limit,
            "current_token_count": current,
            "token_utilization": current / self.max_token_limit if self.max_token_limit else 0.0,
            "estimated": self._count is estimate_tokens,
        }

    get_token_info = waited(aget_token_info)

    async def _adrop(self) -> int:
        return await self.chat_memory.atrim_before(await self._aview())

    async def _aview(self) -> list[BaseMessage]:
        while True:
            found = await self.chat_memory.alatest(self._look)
            complete = len(found) < self._look
            start = first_kept(found, self.max_token_limit, self._cost, complete=complete)
            if start is not None:
                # The next time one look will do: with the turn that is added until then, and one that no longer fits.
                self._look = max(_FIRST_LOOK, len(found) - start + 8)
                return found[start:]
            self._look *= 2

    async def _aget_current_token_count(self) -> int:
        """What the messages shown cost."""
        return sum(map(self._cost, await self._aview()))

    _get_current_token_count = waited(_aget_current_token_count)
    _prune_messages_to_token_limit = waited(PruningView._aprune)  # noqa: SLF001 - its own, by the documented name

    def _cost(self, message: BaseMessage) -> int:
        return self._count(self._line(message))


def first_kept(
    messages: Sequence[BaseMessage], limit: int, cost: Callable[[BaseMessage], int], *, complete: bool = True
) -> int | None:
    """Where the newest whole turns that cost at most `limit` begin; the last one is kept whatever it costs.

    A turn begins with what a person says. What stands before the first one counts to it. None when the beginning lies
    before these messages, which are not all there are.
    """
    total = 0
    kept: int | None = None
    fits = len(messages)
    for at in range(len(messages) - 1, -1, -1):
        total += cost(messages[at])
        if total <= limit:
            fits = at
        if isinstance(messages[at], HumanMessage) and (kept is None or total <= limit):
            kept = at
        if total > limit and kept is not None:
            return kept
    if not complete:
        return None
    if total <= limit:
        return 0
    # Nobody asked anything: messages that belong to no turn are dropped one by one.
    return min(fits, max(0, len(messages) - 1))
