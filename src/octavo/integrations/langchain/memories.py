"""Octavo's conversation memories as memories of LangChain's, so that its chains run on them."""

from collections.abc import Mapping
from typing import Any, ClassVar

from langchain_core import messages as langchain  # type: ignore[import-not-found]
from langchain_core.chat_history import BaseChatMessageHistory  # type: ignore[import-not-found]

from octavo import conversation
from octavo.errors import ConfigError
from octavo.integrations.langchain.translating import Holds, all_to_theirs, to_ours, to_theirs

try:
    from langchain_classic.base_memory import BaseMemory  # type: ignore[import-not-found]
except ImportError as error:
    try:  # where LangChain had it before 1.0
        from langchain_core.memory import BaseMemory  # type: ignore[import-not-found]
    except ImportError:
        raise ConfigError(
            f"LangChain's memories need its classic part ({error}): pip install langchain-classic"
        ) from error


class OctavoMemory(Holds, BaseMemory):  # type: ignore[misc] # its types are not there without LangChain
    """Any memory of `octavo.conversation` as one of LangChain's.

    Chains give it LangChain's messages and get LangChain's messages. What LangChain's memories do not have, such as
    `get_memory_stats()`, is asked of the memory inside, which is the attribute `octavo`.
    """

    octavo: Any

    def __init__(self, memory: Any) -> None:
        super().__init__(octavo=memory)

    @property
    def memory_variables(self) -> list[str]:
        """The names under which this memory tells what it holds."""
        return list(self.octavo.memory_variables)

    def load_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """What the memory tells for these inputs."""
        return all_to_theirs(self.octavo.load_memory_variables(self._translate(inputs)))

    async def aload_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """`load_memory_variables`, awaited."""
        return all_to_theirs(await self.octavo.aload_memory_variables(self._translate(inputs)))

    def save_context(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        """Keep a turn of the conversation."""
        self.octavo.save_context(self._translate(inputs), self._translate(outputs))

    async def asave_context(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        """`save_context`, awaited."""
        await self.octavo.asave_context(self._translate(inputs), self._translate(outputs))

    def clear(self) -> None:
        """Forget everything."""
        self.octavo.clear()

    async def aclear(self) -> None:
        """`clear`, awaited."""
        await self.octavo.aclear()

    def _translate(self, values: Mapping[str, Any]) -> dict[str, Any]:
        # A chain hands back what it was told: to convert it would cost a whole conversation with each turn.
        told = self.memory_variables
        return {name: value if name in told else to_ours(value) for name, value in values.items()}

    def __getattr__(self, name: str) -> Any:
        memory = self.__dict__.get("octavo")
        if memory is None or name.startswith("_"):  # it is being made or copied, or pydantic asks for its own
            return super().__getattr__(name)
        return to_theirs(getattr(memory, name))

    def __setattr__(self, name: str, value: Any) -> None:
        memory = self.__dict__.get("octavo")
        if memory is None or name.startswith("_") or name in type(self).model_fields:
            super().__setattr__(name, value)
        elif name in vars(memory) or hasattr(type(memory), name):
            setattr(memory, name, to_ours(value))
        else:
            raise AttributeError(f"{type(self).__name__} has no {name} to assign")


class _Named(OctavoMemory):
    """A memory that makes the one it holds from the same arguments."""

    kind: ClassVar[Any]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        made = self.kind(
            *map(to_ours, arguments), **{name: to_ours(value) for name, value in options.items()}
        )
        super().__init__(made)


class _Buffered(_Named):
    """A memory with a buffer, which LangChain gives as messages where messages are asked for."""

    @property
    def buffer(self) -> Any:
        """What is shown: as text, or as messages with `return_messages`."""
        return self.buffer_as_messages if self.octavo.return_messages else self.octavo.buffer

    @property
    def buffer_as_messages(self) -> Any:
        """What is shown, as messages."""
        return to_theirs(self.octavo.buffer_as_messages)

    async def abuffer(self) -> Any:
        """`buffer`, awaited."""
        asked = self.octavo.abuffer_as_messages if self.octavo.return_messages else self.octavo.abuffer
        return to_theirs(await asked())

    async def abuffer_as_messages(self) -> Any:
        """`buffer_as_messages`, awaited."""
        return to_theirs(await self.octavo.abuffer_as_messages())


class ConversationBufferMemory(_Buffered):
    """All of the conversation."""

    kind = conversation.ConversationBufferMemory


class ConversationBufferWindowMemory(_Buffered):
    """The last `k` turns."""

    kind = conversation.ConversationBufferWindowMemory


class ConversationTokenBufferMemory(_Buffered):
    """As many of the last turns as `max_token_limit` has room for."""

    kind = conversation.ConversationTokenBufferMemory


class _Summarising(_Named):
    """A memory that makes summaries."""

    def predict_new_summary(self, messages: list[langchain.BaseMessage], existing_summary: str) -> str:
        """The summary of these messages and the summary before them; nothing is kept of it."""
        return str(self.octavo.predict_new_summary(to_ours(messages), existing_summary))

    async def apredict_new_summary(self, messages: list[langchain.BaseMessage], existing_summary: str) -> str:
        """`predict_new_summary`, awaited."""
        return str(await self.octavo.apredict_new_summary(to_ours(messages), existing_summary))


class ConversationSummaryMemory(_Summarising):
    """A summary that grows with each turn."""

    kind = conversation.ConversationSummaryMemory

    @classmethod
    def from_messages(
        cls, llm: Any, chat_memory: BaseChatMessageHistory, *, summarize_step: int = 2, **options: Any
    ) -> "ConversationSummaryMemory":
        """A memory that begins with a summary of a history, `summarize_step` messages at a time; the history stays whole."""
        given = {name: to_ours(value) for name, value in options.items()}
        made = cls.__new__(cls)
        OctavoMemory.__init__(
            made, cls.kind.from_messages(llm, to_ours(chat_memory), summarize_step=summarize_step, **given)
        )
        return made


class ConversationSummaryBufferMemory(_Summarising):
    """A summary of what is old, and the last turns as they were."""

    kind = conversation.ConversationSummaryBufferMemory

    async def abuffer(self) -> Any:
        """`buffer`, awaited."""
        return to_theirs(await self.octavo.abuffer())


class ConversationEntityMemory(_Named):
    """What is known of the people and things that are spoken of."""

    kind = conversation.ConversationEntityMemory


class VectorStoreRetrieverMemory(_Named):
    """The turns that a retriever finds for the input."""

    kind = conversation.VectorStoreRetrieverMemory


class CombinedMemory(_Named):
    """Several memories at once."""

    kind = conversation.CombinedMemory
