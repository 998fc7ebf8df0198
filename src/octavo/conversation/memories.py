"""What every memory can do, and those that show the messages themselves: all, the last turns, or as many as fit."""

import copy
import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from numbers import Real
from typing import Any

from octavo.chat.messages import check_string
from octavo.conversation.histories import BaseChatMessageHistory, ChatMessageHistory
from octavo.conversation.language import LanguageModel, TokenCounter, as_model, counter_of
from octavo.conversation.messages import AIMessage, BaseMessage, HumanMessage, as_message, get_buffer_string
from octavo.errors import StoreUnavailable
from octavo.kernel.model import check_count
from octavo.kernel.text import estimate_tokens
from octavo.util.sync import Twins, as_async, as_plain
from octavo.util.user_code import Checked

log = logging.getLogger("octavo.conversation")
_FIRST_LOOK = 16  # messages that are read at first; each further look is twice as long


def at_least(least: int, what: str) -> Callable[[Any], int]:
    """A check of a whole number: at least so many, else ValueError that says of what."""
    return lambda number: check_count(number, f"{what} from {least} on", ValueError, least)


def keep_mode(keep: Any) -> str:
    """What `keep=` says, or ValueError.

    "prune" removes from the history what a memory no longer shows; "all" only leaves it out of what is shown.
    """
    if keep not in ("prune", "all"):
        raise ValueError(f'keep is "prune" or "all"; got {keep!r}')
    return str(keep)


class BaseMemory(Twins, ABC):
    """What a prompt is given of the past. Each verb has an `a…` twin, and a subclass writes either of the two.

    A verb written plainly is awaited on another thread; one written as a coroutine is waited for when called plainly.
    """

    @property
    @abstractmethod
    def memory_variables(self) -> list[str]:
        """The names under which this memory gives what it holds."""

    @abstractmethod
    def load_memory_variables(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """What the memory holds that is worth telling with these inputs, by name."""

    def save_context(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Remember one turn: what was asked, and what was answered."""
        raise NotImplementedError(_missing(self, "save_context"))

    def clear(self) -> None:
        """Forget everything."""
        raise NotImplementedError(_missing(self, "clear"))

    aload_memory_variables = as_async(load_memory_variables)
    asave_context = as_async(save_context)
    aclear = as_async(clear)


def _missing(memory: BaseMemory, verb: str) -> str:
    return f"{type(memory).__name__} has neither {verb} nor a{verb}"


class BaseChatMemory(BaseMemory):
    """A memory over the history of one conversation, which it adds each turn to."""

    def __init__(
        self,
        chat_memory: BaseChatMessageHistory | None = None,
        output_key: str | None = None,
        input_key: str | None = None,
        return_messages: bool = False,
        human_prefix: str = "Human",
        ai_prefix: str = "AI",
        memory_key: str = "history",
    ) -> None:
        if chat_memory is not None and not hasattr(chat_memory, "aadd_messages"):
            raise TypeError(
                f"chat_memory is a history, such as StoreChatMessageHistory(url, session_id); got {chat_memory!r}"
            )
        texts = {"human_prefix": human_prefix, "ai_prefix": ai_prefix, "memory_key": memory_key}
        for name, text in texts.items():
            check_string(name, text)
        self.chat_memory = ChatMessageHistory() if chat_memory is None else chat_memory
        self.output_key = output_key
        self.input_key = input_key
        self.return_messages = return_messages
        self.human_prefix = human_prefix
        self.ai_prefix = ai_prefix
        self.memory_key = memory_key
        self._message_count = 0  # of this process; the history knows of all
        self._total_tokens = 0
        self._created_at = time.time()
        self._last_accessed: float | None = None

    @property
    def memory_variables(self) -> list[str]:
        """The names under which this memory gives what it holds."""
        return [self.memory_key]

    def refuse_deadlock(self) -> None:
        """RuntimeError when the history lives on the very event loop that would be blocked."""
        self.chat_memory.refuse_deadlock()

    async def asave_context(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Add the turn to the history, both sides of it in one write."""
        turn = self._turn(inputs, outputs)
        await self.chat_memory.aadd_messages(turn)
        self._message_count += len(turn)
        self._total_tokens += estimate_tokens(self._as_text(turn))

    async def aclear(self) -> None:
        """Forget the conversation, and what was made of it."""
        await self.chat_memory.aclear()

    async def _tidy(self, work: Coroutine[Any, Any, None]) -> None:
        """Do what comes after a turn that is kept; while the store is away it is left to the next turn."""
        try:
            await work
        except StoreUnavailable as error:
            log.info("the conversation is tidied up with a later turn: %s", error)

    def _get_input_output(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> tuple[str, str]:
        """What the user said and what was answered, as text."""
        asked, answered = self._turn(inputs, outputs)
        return asked.text, answered.text

    def _turn(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> list[BaseMessage]:
        """The messages of a turn, as they are kept."""
        return [self._input(inputs), output_message(outputs, self.output_key)]

    def _input(self, inputs: Mapping[str, Any]) -> BaseMessage:
        """What the user said."""
        return input_message(inputs, self.input_key, (*self.memory_variables, "stop"))

    def _format(self, messages: Sequence[BaseMessage]) -> list[BaseMessage] | str:
        """Messages as this memory was asked to give them; copies, as a history in this process holds its own."""
        self._last_accessed = time.time()
        return copy.deepcopy(list(messages)) if self.return_messages else self._as_text(messages)

    def _as_text(self, messages: Sequence[BaseMessage]) -> str:
        return get_buffer_string(messages, self.human_prefix, self.ai_prefix)


def input_message(inputs: Mapping[str, Any], input_key: str | None, left_out: Collection[str]) -> BaseMessage:
    """What the user said: the input under this key, else the only one that is not left out."""
    if not isinstance(inputs, Mapping):
        raise TypeError(f"inputs are a dict, such as {{'input': 'hello'}}; got {inputs!r}"[:300])
    keys = [key for key in inputs if key not in left_out]
    return _message_of(inputs[_pick_key("input_key", input_key, keys, inputs)], HumanMessage)


def output_message(outputs: Mapping[str, Any], output_key: str | None) -> BaseMessage:
    """What was answered: the output under this key, else the only one, else `output`."""
    if not isinstance(outputs, Mapping):
        raise TypeError(f"outputs are a dict, such as {{'output': 'hello'}}; got {outputs!r}"[:300])
    keys = ["output"] if len(outputs) > 1 and "output" in outputs else list(outputs)
    return _message_of(outputs[_pick_key("output_key", output_key, keys, outputs)], AIMessage)


def _pick_key(setting: str, named: str | None, keys: Sequence[str], values: Mapping[str, Any]) -> str:
    """The key that is named, or the only one there is."""
    listed = ", ".join(map(repr, keys if named is None else values)) or "there are none"
    if named is None and len(keys) != 1:
        raise ValueError(f"which of the keys is meant is not clear: {listed}; give {setting} to say it")
    if named is not None and named not in values:
        raise ValueError(f"{setting} is {named!r}, and there is no such key: {listed}")
    return keys[0] if named is None else named


def _message_of(value: Any, kind: type[BaseMessage]) -> BaseMessage:
    if value is None or isinstance(value, dict | list | tuple | int | float):
        value = json.dumps(value, ensure_ascii=False, default=str)  # in words that can be read again
    return as_message(value, kind)


class MessageView(BaseChatMemory):
    """A memory that shows some of the messages of its history; a subclass says which."""

    @abstractmethod
    async def _aview(self) -> list[BaseMessage]:
        """The messages shown, oldest first."""

    @property
    def buffer(self) -> str:
        """What is shown, as text."""
        return self._wait(self.abuffer())

    buffer_as_str = buffer

    @property
    def buffer_as_messages(self) -> list[BaseMessage]:
        """What is shown, as messages."""
        return self._wait(self.abuffer_as_messages())

    async def abuffer(self) -> str:
        """`buffer`, awaited."""
        return self._as_text(await self._aview())

    abuffer_as_str = abuffer

    async def abuffer_as_messages(self) -> list[BaseMessage]:
        """`buffer_as_messages`, awaited."""
        return copy.deepcopy(await self._aview())

    async def aload_memory_variables(
        self,
        inputs: Mapping[str, Any],  # noqa: ARG002 - what is asked makes no difference here
    ) -> dict[str, Any]:
        """The messages shown, under `memory_key`: as text, or as they are with `return_messages`."""
        return {self.memory_key: self._format(await self._aview())}


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

    get_memory_stats = as_plain(aget_memory_stats)

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

    _prune_messages = _prune_messages_to_token_limit = as_plain(_aprune)


class ConversationBufferWindowMemory(PruningView):
    """The last `k` turns, which are 2k messages. Older ones are removed from the history, unless `keep="all"`."""

    k = Checked(at_least(0, "k is a number of turns"))

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

    get_window_info = as_plain(aget_window_info)

    @property
    def _window_stats(self) -> dict[str, Any]:
        return dict(list(self.get_window_info().items())[:4])  # without the shares that follow from them

    async def _adrop(self) -> int:
        return await self.chat_memory.atrim(2 * self.k)

    async def _aview(self) -> list[BaseMessage]:
        return await self.chat_memory.alatest(2 * self.k)


class TokenCounting(BaseChatMemory):
    """A memory that counts tokens: by `count_tokens`, else by the model's `get_num_tokens`, else by an estimate."""

    def __init__(
        self, llm: LanguageModel = None, *, count_tokens: TokenCounter | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if count_tokens is not None and not callable(count_tokens):
            raise TypeError(f"count_tokens is a function from text to a number; got {count_tokens!r}")
        self._count_tokens = count_tokens
        self.llm = llm

    @property
    def llm(self) -> LanguageModel:
        """The model, which counts tokens if it can; assigning another goes on with that."""
        return self._llm

    @llm.setter
    def llm(self, llm: LanguageModel) -> None:
        self._llm = as_model(llm)
        self._count = counter_of(llm, self._count_tokens)

    def _cost(self, message: BaseMessage) -> int:
        tokens = self._count(self._as_text([message]))
        if not isinstance(tokens, Real):
            raise TypeError(
                f"count_tokens must answer how many tokens a text has, a number; it answered {tokens!r}"
            )
        return tokens


class ConversationTokenBufferMemory(TokenCounting, PruningView):
    """The newest whole turns of at most `max_token_limit` tokens, and always the last one.

    Older ones are removed from the history, unless `keep="all"`.
    """

    max_token_limit = Checked(at_least(0, "max_token_limit is a number of tokens"))

    def __init__(self, llm: LanguageModel = None, max_token_limit: int = 2000, **kwargs: Any) -> None:
        super().__init__(llm, **kwargs)
        self.max_token_limit = max_token_limit
        self._look = _FIRST_LOOK

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

    get_token_info = as_plain(aget_token_info)

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

    _get_current_token_count = as_plain(_aget_current_token_count)


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
