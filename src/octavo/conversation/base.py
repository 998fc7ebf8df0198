"""What every memory can do, and what memories of a conversation have in common."""

import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, ClassVar

from octavo.conversation.histories import BaseChatMessageHistory, ChatMessageHistory
from octavo.conversation.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    as_message,
    buffer_line,
    get_buffer_string,
)
from octavo.errors import StoreUnavailable
from octavo.kernel.terms.tokens import estimate_tokens
from octavo.util.sync import Twins, threaded

log = logging.getLogger("octavo.conversation")


class BaseMemory(Twins, ABC):
    """What a prompt is given of the past. Each verb has an `a…` twin, and a subclass writes either of the two.

    A verb written plainly is awaited on another thread; one written as a coroutine is waited for when called plainly.
    """

    @property
    @abstractmethod
    def memory_variables(self) -> list[str]:
        """The names under which this memory gives what it holds."""

    def load_memory_variables(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """What the memory holds that is worth telling with these inputs, by name."""
        raise NotImplementedError(_missing(self, "load_memory_variables"))

    def save_context(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Remember one turn: what was asked, and what was answered."""
        raise NotImplementedError(_missing(self, "save_context"))

    def clear(self) -> None:
        """Forget everything."""
        raise NotImplementedError(_missing(self, "clear"))

    aload_memory_variables = threaded(load_memory_variables)
    asave_context = threaded(save_context)
    aclear = threaded(clear)


class BaseChatMemory(BaseMemory):
    """A memory over the history of one conversation, which it adds each turn to."""

    #: Keys of the inputs that are never what the user said.
    passed_over: ClassVar[tuple[str, ...]] = ("stop",)

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
        asked, *_, answered = self._turn(inputs, outputs)
        return asked.text, answered.text

    def _turn(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> list[BaseMessage]:
        """The messages of a turn, as they are kept."""
        return [self._input(inputs), output_message(outputs, self.output_key)]

    def _input(self, inputs: Mapping[str, Any]) -> BaseMessage:
        """What the user said."""
        return input_message(inputs, self.input_key, (*self.memory_variables, *self.passed_over))

    def _shown(self, messages: Sequence[BaseMessage]) -> list[BaseMessage] | str:
        """Messages as this memory was asked to give them."""
        self._last_accessed = time.time()
        return list(messages) if self.return_messages else self._as_text(messages)

    def _as_text(self, messages: Sequence[BaseMessage]) -> str:
        return get_buffer_string(messages, self.human_prefix, self.ai_prefix)

    def _line(self, message: BaseMessage) -> str:
        return buffer_line(message, self.human_prefix, self.ai_prefix)


def input_message(inputs: Mapping[str, Any], input_key: str | None, left_out: Collection[str]) -> BaseMessage:
    """What the user said: the input under this key, else the only one that is not left out."""
    keys = [key for key in inputs if key not in left_out]
    return _said(
        inputs, _key(inputs, input_key, keys, "which of the inputs the user said", "input_key"), HumanMessage
    )


def output_message(outputs: Mapping[str, Any], output_key: str | None) -> BaseMessage:
    """What was answered: the output under this key, else the only one, else `output`."""
    keys = ["output"] if len(outputs) > 1 and "output" in outputs else list(outputs)
    return _said(
        outputs, _key(outputs, output_key, keys, "which of the outputs was answered", "output_key"), AIMessage
    )


def _key(values: Mapping[str, Any], given: str | None, keys: Sequence[str], what: str, setting: str) -> str:
    if given is not None:
        if given not in values:
            raise ValueError(f"{setting} is {given!r}, and there is no such key: {_list(values)}")
        return given
    if len(keys) != 1:
        raise ValueError(f"{what} is not clear: {_list(keys)}; give {setting} to say it")
    return keys[0]


def _list(keys: Collection[str]) -> str:
    return ", ".join(map(repr, keys)) or "there are none"


def _said(values: Mapping[str, Any], key: str, kind: type[BaseMessage]) -> BaseMessage:
    value = values[key]
    if value is None or isinstance(value, dict | list | tuple | int | float):
        value = json.dumps(value, ensure_ascii=False, default=str)  # in words that can be read again
    return as_message(value, kind)


def number_from(least: int, what: str) -> Callable[[Any], int]:
    """A check of a whole number: at least so many, else ValueError that says of what."""

    def check(number: Any) -> int:
        if not isinstance(number, int) or number < least:
            raise ValueError(f"{what} from {least} on; got {number!r}")
        return number

    return check


def keep_mode(keep: Any) -> str:
    """What `keep=` says, or ValueError.

    "prune" removes from the history what a memory no longer shows; "all" only leaves it out of what is shown.
    """
    if keep not in ("prune", "all"):
        raise ValueError(f'keep is "prune" or "all"; got {keep!r}')
    return str(keep)


def _missing(memory: BaseMemory, verb: str) -> str:
    return f"{type(memory).__name__} has neither {verb} nor a{verb}"
