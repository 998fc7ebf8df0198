"""What every memory can do, and what memories of a conversation have in common."""

import asyncio
import functools
import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from octavo.conversation.histories import BaseChatMessageHistory, ChatMessageHistory
from octavo.conversation.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    as_message,
    buffer_line,
    get_buffer_string,
)
from octavo.conversation.waiting import portal
from octavo.errors import StoreUnavailable
from octavo.kernel.terms.tokens import estimate_tokens

log = logging.getLogger("octavo.conversation")
T = TypeVar("T")

#: "prune" removes from the history what a memory no longer shows; "all" only leaves it out of what is shown.
Keep: TypeAlias = Literal["prune", "all"]

_VERBS = ("load_memory_variables", "save_context", "clear")


def _threaded(plain: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    @functools.wraps(plain)
    async def twin(self: "BaseMemory", *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(plain, self, *args, **kwargs)

    twin.__name__, twin.__qualname__ = f"a{plain.__name__}", f"a{plain.__qualname__}"
    return twin


def _waited(twin: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    @functools.wraps(twin)
    def plain(self: "BaseMemory", *args: Any, **kwargs: Any) -> Any:
        return self._wait(twin(self, *args, **kwargs))

    plain.__name__, plain.__qualname__ = (
        twin.__name__[1:],
        twin.__qualname__.replace(twin.__name__, twin.__name__[1:]),
    )
    return plain


class BaseMemory(ABC):
    """What a prompt is given of the past. Each verb has an `a…` twin, and a subclass writes either of the two.

    A verb written plainly is awaited on another thread; one written as a coroutine is waited for when called plainly.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for verb in _VERBS:
            plain, twin = cls.__dict__.get(verb), cls.__dict__.get(f"a{verb}")
            # Of the very method that is written here: through `self`, each of the two would end up in the other.
            if plain is not None and twin is None:
                setattr(cls, f"a{verb}", _threaded(plain))
            elif twin is not None and plain is None:
                setattr(cls, verb, _waited(twin))

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

    async def aload_memory_variables(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """`load_memory_variables`, awaited."""
        raise NotImplementedError(_missing(self, "load_memory_variables"))

    async def asave_context(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """`save_context`, awaited."""
        raise NotImplementedError(_missing(self, "save_context"))

    async def aclear(self) -> None:
        """`clear`, awaited."""
        raise NotImplementedError(_missing(self, "clear"))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Block until a coroutine of this memory is done."""
        return portal().call(work)


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

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            self.chat_memory.refuse_deadlock()
        except RuntimeError:
            work.close()  # or Python warns that it was never awaited
            raise
        return super()._wait(work)

    async def asave_context(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Add the turn to the history, both sides of it in one write."""
        turn = self._turn(inputs, outputs)
        await self.chat_memory.aadd_messages(turn)
        self._message_count += len(turn)
        self._total_tokens += estimate_tokens(self._as_text(turn))

    async def _tidy(self, work: Coroutine[Any, Any, None]) -> None:
        """Do what comes after a turn that is kept; while the store is away it is left to the next turn."""
        try:
            await work
        except StoreUnavailable as error:
            log.info("the conversation is tidied up with a later turn: %s", error)

    async def aclear(self) -> None:
        """Forget the conversation, and what was made of it."""
        await self.chat_memory.aclear()

    def _get_input_output(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> tuple[str, str]:
        """What the user said and what was answered, as text."""
        asked, *_, answered = self._turn(inputs, outputs)
        return asked.text, answered.text

    def _turn(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> list[BaseMessage]:
        """The messages of a turn, as they are kept."""
        asked = inputs[self._asked_under(inputs)]
        answered = outputs[self._answered_under(outputs)]
        return [as_message(_said(asked), HumanMessage), as_message(_said(answered), AIMessage)]

    def _asked_under(self, inputs: Mapping[str, Any]) -> str:
        if self.input_key is not None:
            return _given("input_key", self.input_key, inputs)
        left_out = {*self.memory_variables, *self.passed_over}
        keys = [key for key in inputs if key not in left_out]
        if len(keys) != 1:
            raise ValueError(
                f"which of the inputs the user said is not clear: {_named(keys)}; give input_key to say it"
            )
        return keys[0]

    def _answered_under(self, outputs: Mapping[str, Any]) -> str:
        if self.output_key is not None:
            return _given("output_key", self.output_key, outputs)
        if len(outputs) == 1:
            return next(iter(outputs))
        if "output" in outputs:
            return "output"
        raise ValueError(
            f"which of the outputs was answered is not clear: {_named(outputs)}; give output_key to say it"
        )

    def _shown(self, messages: Sequence[BaseMessage]) -> list[BaseMessage] | str:
        """Messages as this memory was asked to give them."""
        self._last_accessed = time.time()
        return list(messages) if self.return_messages else self._as_text(messages)

    def _as_text(self, messages: Sequence[BaseMessage]) -> str:
        return get_buffer_string(messages, self.human_prefix, self.ai_prefix)

    def _line(self, message: BaseMessage) -> str:
        return buffer_line(message, self.human_prefix, self.ai_prefix)


def number_from(least: int, what: str) -> Callable[[Any], int]:
    """A check of a whole number: at least so many, else ValueError that says of what."""

    def check(number: Any) -> int:
        if not isinstance(number, int) or number < least:
            raise ValueError(f"{what} from {least} on; got {number!r}")
        return number

    return check


def kept_as(keep: str) -> Keep:
    """What `keep=` says, or ValueError."""
    if keep == "prune":
        return "prune"
    if keep == "all":
        return "all"
    raise ValueError(f'keep is "prune" or "all"; got {keep!r}')


def _said(value: Any) -> Any:
    """A value of a turn that is no text and no message, in words that can be read again."""
    if value is None or isinstance(value, dict | list | tuple | int | float):
        return json.dumps(value, ensure_ascii=False, default=str)
    return value


def _given(setting: str, key: str, values: Mapping[str, Any]) -> str:
    if key not in values:
        raise ValueError(f"{setting} is {key!r}, and there is no such key: {_named(values)}")
    return key


def _named(keys: Any) -> str:
    return ", ".join(repr(key) for key in keys) or "there are none"


def _missing(memory: BaseMemory, verb: str) -> str:
    return f"{type(memory).__name__} has neither {verb} nor a{verb}"
