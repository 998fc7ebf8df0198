"""Memories that put a running summary in place of what was said long ago."""

import asyncio
import threading
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

from octavo.chat.messages import check_string
from octavo.conversation.histories import BaseChatMessageHistory
from octavo.conversation.language import (
    SUMMARY_PROMPT,
    SUMMARY_PROMPT_EN,
    Formats,
    LanguageModel,
    as_language,
    ask,
    fill,
    pick_prompt,
)
from octavo.conversation.memories import TokenCounting, at_least, first_kept, keep_mode, log
from octavo.conversation.messages import ROLES, BaseMessage, SystemMessage, speaker
from octavo.errors import ModelError
from octavo.util.sync import as_plain
from octavo.util.user_code import Checked

STATE = "summary"  # under this name the history keeps the summary
_NO_STATS: Mapping[str, Any] = {
    "summary_count": 0,
    "total_summary_tokens": 0,
    "original_message_count": 0,
    "compression_ratio": 0.0,
    "last_summary_time": None,
    "sum_of_ratios": 0.0,
}


class _Past(NamedTuple):
    """A summary and what came after it, as the history has them."""

    state: dict[str, Any]  # as it was read: what is written is written in its place, or not at all
    summary: str
    messages: list[BaseMessage]  # that are not in the summary yet
    summarised: list[BaseMessage]  # that are in it, and in the history still, though they should not be

    @property
    def stats(self) -> dict[str, Any]:
        return {**_NO_STATS, **self.state.get("stats", {})}


class SummarisingMemory(TokenCounting):
    """What summary memories have in common. The summary lives in the history, so that another process goes on with it.

    Without a model, the sentences that say most are taken over in their own words: `offline` in the statistics says so.
    When a model fails, the turn is kept as it was said and is summarised with the next one.
    """

    language = Checked(as_language)
    max_summary_tokens = Checked(at_least(1, "max_summary_tokens is a number of tokens"))
    keep = Checked(keep_mode)

    def __init__(
        self,
        llm: LanguageModel = None,
        buffer: str = "",
        prompt: Formats | None = None,
        summary_message_cls: type[BaseMessage] = SystemMessage,
        *,
        language: str | None = None,
        max_summary_tokens: int = 400,
        max_prompt_tokens: int = 6000,
        keep: str = "prune",
        **kwargs: Any,
    ) -> None:
        super().__init__(llm, **kwargs)
        self.prompt = prompt
        self.summary_message_cls = summary_message_cls
        self.language = language
        self.max_summary_tokens = max_summary_tokens
        self.max_prompt_tokens = max_prompt_tokens
        self.keep = keep
        self.failures = 0
        self.last_error: str | None = None
        self._first_buffer = check_string("a summary", buffer or "")
        self._summarising = threading.Lock()
        if llm is None:
            log.info("%s has no language model: summaries are extracted", type(self).__name__)

    async def apredict_new_summary(self, messages: Sequence[BaseMessage], existing_summary: str) -> str:
        """The summary of these messages and the summary before them; nothing is kept of it."""
        if self.llm is None:
            return await asyncio.to_thread(self._extract, messages, existing_summary)
        new_lines = self._as_text(messages)
        talk = f"{existing_summary}\n{new_lines}"
        prompt = pick_prompt(self.prompt, SUMMARY_PROMPT, SUMMARY_PROMPT_EN, self.language, talk)
        asked = fill(prompt, summary=existing_summary, new_lines=new_lines)
        if new_lines not in asked:
            raise ModelError("the prompt has no {new_lines}: the model would not see the conversation")
        return await ask(self.llm, asked)

    predict_new_summary = as_plain(apredict_new_summary)

    async def aget_summary_stats(self) -> dict[str, Any]:
        """How often was summarised, how much shorter it became, and whether a model did it."""
        past = await self._aread_past()
        stats = past.stats
        ratios = stats.pop("sum_of_ratios")
        return {
            **stats,
            "current_summary_length": len(past.summary),
            "average_compression_ratio": ratios / stats["summary_count"] if stats["summary_count"] else 0.0,
            "offline": self.llm is None,
            "failures": self.failures,
            "last_error": self.last_error,
        }

    get_summary_stats = as_plain(aget_summary_stats)

    @property
    def _summary_stats(self) -> dict[str, Any]:
        return {name: value for name, value in self.get_summary_stats().items() if name in _NO_STATS}

    async def aload_memory_variables(
        self,
        inputs: Mapping[str, Any],  # noqa: ARG002 - what is asked makes no difference here
    ) -> dict[str, Any]:
        """The summary and what is told beside it, under `memory_key`."""
        past = await self._aread_past()
        shown = self._format(self._shown_beside(past.messages))
        if not past.summary:
            return {self.memory_key: shown}
        if isinstance(shown, str):
            told = self._summary_text(past.summary)
            return {self.memory_key: f"{told}\n{shown}" if shown else told}
        return {self.memory_key: [self.summary_message_cls(past.summary), *shown]}

    def _summary_text(self, summary: str) -> str:
        """The summary as a text tells it."""
        return summary

    async def asave_context(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Keep the turn, then bring the summary up to date."""
        await super().asave_context(inputs, outputs)
        await self._tidy(self.aprune())

    async def aclear(self) -> None:
        """Forget the conversation and its summary."""
        await super().aclear()
        self._first_buffer = ""
        # The `clear` of a history of the caller's own may know nothing of states.
        if await self.chat_memory.aget_state(STATE):
            await self.chat_memory.aset_state(STATE, {})

    @abstractmethod
    def _count_oldest(self, messages: Sequence[BaseMessage]) -> int:
        """How many of the messages belong in the summary."""

    def _shown_beside(self, messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        """Which of the messages that are not in the summary are shown beside it."""
        return messages

    async def _aread_past(self) -> _Past:
        history = self.chat_memory
        if self.keep == "prune":
            # The messages first: should they be summarised meanwhile, they are told twice rather than not at all.
            messages = await history.aget_messages()
            state = await history.aget_state(STATE) or {}
            summarised = int(state.get("summarised", 0))
        else:
            state = await history.aget_state(STATE) or {}
            summarised = 0
            messages = await history.alatest(max(0, await history.acount() - int(state.get("summarised", 0))))
        summary = state.get("summary", self._first_buffer)
        return _Past(state, summary, messages[summarised:], messages[:summarised])

    @property
    def _summary(self) -> str:
        """The summary as it stands; assigning puts another in its place."""
        return self._wait(self._aread_past()).summary

    @_summary.setter
    def _summary(self, summary: str) -> None:
        self._wait(self._aput(summary))

    async def _aput(self, summary: str) -> None:
        check_string("a summary", summary)
        state = (await self._aread_past()).state
        await self.chat_memory.aset_state(STATE, {**state, "summary": summary})

    async def aprune(self) -> None:
        """Bring the summary up to date now, as every turn does."""
        # Whoever comes while another turn is summarised leaves its own to the next.
        if not self._summarising.acquire(blocking=False):
            return
        try:
            past = await self._aread_past()
            if oldest := self._count_oldest(past.messages):
                await self._asummarise(past, oldest)
        finally:
            self._summarising.release()

    prune = _update_summary = as_plain(aprune)

    async def _asummarise(self, past: _Past, oldest: int) -> None:
        """Put the summary of the oldest messages in their place; when the model fails, leave them."""
        state, summary, stats, gone = past.state, past.summary, past.stats, past.summarised
        for piece in self._pieces(past.messages[:oldest]):
            started = time.perf_counter()
            try:
                summary = await self.apredict_new_summary(piece, summary)
            except ModelError as error:
                self.failures += 1
                self.last_error = str(error)
                log.warning("the conversation is kept as it was said, until a summary succeeds: %s", error)
                return
            stats = self._stats_after(stats, piece, summary, time.perf_counter() - started)
            new = {"summary": summary, "summarised": 0, "stats": stats}
            gone = [*gone, *piece]
            if self.keep == "all":
                new["summarised"] = int(state.get("summarised", 0)) + len(piece)
                gone = []
            # A model takes its time. Should another process have summarised meanwhile, the messages that are the oldest
            # now are not the ones that were read, and dropping them would lose them.
            if not await self.chat_memory.afold_messages(gone, STATE, new, state):
                log.info("another summary of this conversation came first, and stands")
                return
            state, gone = new, []

    def _pieces(self, messages: Sequence[BaseMessage]) -> Iterator[list[BaseMessage]]:
        """The messages in portions that one prompt can hold: a long history may be opened with this memory."""
        if self.llm is None:
            yield list(messages)
            return
        piece: list[BaseMessage] = []
        tokens = 0
        for message in messages:
            cost = self._cost(message)
            if piece and tokens + cost > self.max_prompt_tokens:
                yield piece
                piece, tokens = [], 0
            piece.append(message)
            tokens += cost
        yield piece

    def _stats_after(
        self, before: Mapping[str, Any], messages: Sequence[BaseMessage], summary: str, seconds: float
    ) -> dict[str, Any]:
        original, made = self._count(self._as_text(messages)), self._count(summary)
        ratio = made / original if original else 0.0
        return {
            "summary_count": before["summary_count"] + 1,
            "total_summary_tokens": before["total_summary_tokens"] + made,
            "original_message_count": before["original_message_count"] + len(messages),
            "compression_ratio": ratio,
            "last_summary_time": seconds,
            "sum_of_ratios": before["sum_of_ratios"] + ratio,
        }

    def _extract(self, messages: Sequence[BaseMessage], before: str) -> str:
        from octavo.kernel.terms.extract import extract  # its patterns take time to build
        from octavo.kernel.text import SpokenLine

        lines = [
            SpokenLine(
                speaker(message, self.human_prefix, self.ai_prefix),
                ROLES.get(message.type, message.type),
                message.text,
            )
            for message in messages
        ]
        return extract(lines, self.max_summary_tokens, before) or before


class ConversationSummaryMemory(SummarisingMemory):
    """The summary of the whole conversation, brought up to date with every turn.

    What is in it is removed from the history, unless `keep="all"`. What a failing model has not summarised yet is told
    as it was said.
    """

    buffer = SummarisingMemory._summary  # noqa: SLF001 - of this module

    @classmethod
    def from_messages(
        cls,
        llm: LanguageModel,
        chat_memory: BaseChatMessageHistory,
        *,
        summarize_step: int = 2,
        **kwargs: Any,
    ) -> Self:
        """A memory that begins with a summary of a history, `summarize_step` messages at a time; the history stays whole.

        What is in a history that another of these memories summarised before is not summarised again.
        """
        made = cls(llm=llm, chat_memory=chat_memory, **{"keep": "all", **kwargs})
        made._wait(
            made._asummarise_steps(at_least(1, "summarize_step is a number of messages")(summarize_step))
        )
        return made

    async def _asummarise_steps(self, step: int) -> None:
        while (past := await self._aread_past()).messages:
            before = self.failures
            await self._asummarise(past, step)
            if self.failures > before:
                return  # the next turn tries again

    def _count_oldest(self, messages: Sequence[BaseMessage]) -> int:
        return len(messages) if len(messages) >= 2 else 0  # half a turn waits for the other half


class ConversationSummaryBufferMemory(SummarisingMemory):
    """The newest whole turns of at most `max_token_limit` tokens as they were said, and a summary of all before them.

    As text, the summary stands in front as a message of its kind does: `System: …`.
    """

    max_token_limit = Checked(at_least(0, "max_token_limit is a number of tokens"))

    def __init__(
        self,
        llm: LanguageModel = None,
        max_token_limit: int = 2000,
        moving_summary_buffer: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(llm, moving_summary_buffer, **kwargs)
        self.max_token_limit = max_token_limit

    moving_summary_buffer = SummarisingMemory._summary  # noqa: SLF001 - of this module

    @property
    def buffer(self) -> Any:
        """What is told: the summary and the turns after it, as text, or as messages with `return_messages`."""
        return self._wait(self.abuffer())

    async def abuffer(self) -> Any:
        """`buffer`, awaited."""
        return (await self.aload_memory_variables({}))[self.memory_key]

    def _summary_text(self, summary: str) -> str:
        return self._as_text([self.summary_message_cls(summary)])

    def _count_oldest(self, messages: Sequence[BaseMessage]) -> int:
        return first_kept(messages, self.max_token_limit, self._cost) or 0

    def _shown_beside(self, messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        return messages[self._count_oldest(messages) :]
