"""What every history can do, and the one that lives in this process."""

import asyncio
import copy
from abc import ABC
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, cast

from octavo.conversation.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    message_from_dict,
    message_to_dict,
)
from octavo.util.sync import Closing

T = TypeVar("T")
P = ParamSpec("P")


class BaseChatMessageHistory(Closing, ABC):
    """The messages of one conversation, oldest first, and small named states that live as long as they do.

    A history of your own has `messages` (an attribute or a property), `clear`, and `add_message` or `add_messages`;
    the rest follows from these. Fill in more where the backend knows a shorter way. The `a…` twins run the plain
    methods on another thread.
    """

    messages: list[BaseMessage]
    #: Whether the plain methods never wait for anything, so that their twins need no thread.
    instant = False

    _serialize_message = staticmethod(message_to_dict)
    _deserialize_message = staticmethod(message_from_dict)

    def add_user_message(self, message: str | BaseMessage) -> None:
        """Add what a person said."""
        self.add_message(HumanMessage(message) if isinstance(message, str) else message)

    def add_ai_message(self, message: str | BaseMessage) -> None:
        """Add what the model answered."""
        self.add_message(AIMessage(message) if isinstance(message, str) else message)

    def add_message(self, message: BaseMessage) -> None:
        """Add one message."""
        if type(self).add_messages is not BaseChatMessageHistory.add_messages:
            self.add_messages([message])
        else:
            self.messages.append(message)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages in this order; where the backend can, all of them or none."""
        for message in messages:
            self.add_message(message)

    def clear(self) -> None:
        """Forget all messages and all states."""
        self.messages = []
        self._states.clear()

    def replace(self, messages: Sequence[BaseMessage]) -> None:
        """Hold these messages in place of all others; states stay."""
        kept = list(messages)
        attribute = getattr(type(self), "messages", None)
        if not isinstance(attribute, property) or attribute.fset is not None:
            self.messages = kept
            return
        states = dict(self._states)  # `clear` forgets them
        self.clear()
        self.add_messages(kept)
        self._states.update(states)

    def latest(self, n: int) -> list[BaseMessage]:
        """The newest `n` messages, oldest first."""
        return list(self.messages[-counted("n", n) :]) if n else []

    def count(self) -> int:
        """How many messages there are."""
        return len(self.messages)

    def trim(self, keep_last: int) -> int:
        """Drop all but the newest messages; answer how many went."""
        held = list(self.messages)
        surplus = max(0, len(held) - counted("keep_last", keep_last))
        if surplus:
            self.replace(held[surplus:])
        return surplus

    def trim_before(self, kept: Sequence[BaseMessage]) -> int:
        """Drop what stands before these messages, which were read here; answer how many went.

        Whatever others have added since then stays, however many that is.
        """
        start = position(self.messages, kept)
        if start:
            self.replace(self.messages[start:])
        return start

    def get_state(self, name: str) -> dict[str, Any] | None:
        """The state of this name, or None."""
        return copy.deepcopy(self._states.get(name))

    def set_state(self, name: str, state: dict[str, Any]) -> None:
        """Keep a state under this name, in place of the one before."""
        self._states[name] = copy.deepcopy(state)

    def fold(self, oldest: int, name: str, state: dict[str, Any]) -> None:
        """Put a state in place of the oldest messages; where the backend can, both in one write."""
        self.set_state(name, state)
        if counted("oldest", oldest):
            self.replace(self.messages[oldest:])

    def fold_messages(
        self, messages: Sequence[BaseMessage], name: str, state: dict[str, Any], before: dict[str, Any]
    ) -> bool:
        """Put a state in place of the oldest messages and of the state before, all of which were read here.

        Where somebody else has changed any of them since then, nothing is done, and False is the answer.
        """
        if (self.get_state(name) or {}) != before or self.messages[: len(messages)] != list(messages):
            return False
        self.fold(len(messages), name, state)
        return True

    def close(self) -> None:
        """Let go of what was opened."""

    def refuse_deadlock(self) -> None:
        """RuntimeError when a blocking call from here would wait for itself."""

    async def aget_messages(self) -> list[BaseMessage]:
        """`messages`, awaited."""
        return await self._away(lambda: list(self.messages))

    async def aadd_user_message(self, message: str | BaseMessage) -> None:
        """`add_user_message`, awaited."""
        await self.aadd_message(HumanMessage(message) if isinstance(message, str) else message)

    async def aadd_ai_message(self, message: str | BaseMessage) -> None:
        """`add_ai_message`, awaited."""
        await self.aadd_message(AIMessage(message) if isinstance(message, str) else message)

    async def aadd_message(self, message: BaseMessage) -> None:
        """`add_message`, awaited."""
        await self._away(self.add_message, message)

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """`add_messages`, awaited."""
        await self._away(self.add_messages, messages)

    async def aclear(self) -> None:
        """`clear`, awaited."""
        await self._away(self.clear)

    async def areplace(self, messages: Sequence[BaseMessage]) -> None:
        """`replace`, awaited."""
        await self._away(self.replace, messages)

    async def alatest(self, n: int) -> list[BaseMessage]:
        """`latest`, awaited."""
        return await self._away(self.latest, n)

    async def acount(self) -> int:
        """`count`, awaited."""
        return await self._away(self.count)

    async def atrim(self, keep_last: int) -> int:
        """`trim`, awaited."""
        return await self._away(self.trim, keep_last)

    async def atrim_before(self, kept: Sequence[BaseMessage]) -> int:
        """`trim_before`, awaited."""
        return await self._away(self.trim_before, kept)

    async def aget_state(self, name: str) -> dict[str, Any] | None:
        """`get_state`, awaited."""
        return await self._away(self.get_state, name)

    async def aset_state(self, name: str, state: dict[str, Any]) -> None:
        """`set_state`, awaited."""
        await self._away(self.set_state, name, state)

    async def afold(self, oldest: int, name: str, state: dict[str, Any]) -> None:
        """`fold`, awaited."""
        await self._away(self.fold, oldest, name, state)

    async def afold_messages(
        self, messages: Sequence[BaseMessage], name: str, state: dict[str, Any], before: dict[str, Any]
    ) -> bool:
        """`fold_messages`, awaited."""
        return await self._away(self.fold_messages, messages, name, state, before)

    async def aclose(self) -> None:
        """`close`, awaited."""
        await self._away(self.close)

    async def _away(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return work(*args, **kwargs) if self.instant else await asyncio.to_thread(work, *args, **kwargs)

    @property
    def _states(self) -> dict[str, dict[str, Any]]:
        # Made on first use: a subclass may have an __init__ that knows nothing of this one.
        return cast("dict[str, dict[str, Any]]", self.__dict__.setdefault("_kept_states", {}))


class ChatMessageHistory(BaseChatMessageHistory):
    """Messages in this process, gone when it ends. `messages` is the list itself."""

    instant = True

    def __init__(self, messages: list[BaseMessage] | None = None) -> None:
        self.messages = [] if messages is None else messages

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages in this order."""
        self.messages.extend(messages)

    def trim(self, keep_last: int) -> int:
        """Drop all but the newest messages; answer how many went."""
        surplus = max(0, len(self.messages) - counted("keep_last", keep_last))
        del self.messages[:surplus]
        return surplus


def position(held: Sequence[BaseMessage], kept: Sequence[BaseMessage]) -> int:
    """Where these messages stand among those held; 0 when they do not, so that nothing is dropped for them.

    Where several stretches are alike it is the first one: dropped too little is dropped with the next turn.
    """
    most = len(held) - len(kept)
    wanted = list(kept)
    stretches = (at for at in range(most + 1) if list(held[at : at + len(wanted)]) == wanted)
    return next(stretches, 0) if wanted else 0


def counted(name: str, number: int) -> int:
    """A number of messages; one below 0 is refused by name."""
    if number < 0:
        raise ValueError(f"{name} is 0 or more; got {number}")
    return number
