"""What every history can do, and the one that lives in this process."""

import copy
import json
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, cast

from octavo.conversation.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    as_message,
    message_from_dict,
    message_to_dict,
)
from octavo.errors import InvalidRecord
from octavo.util.sync import Closing, Twins, threaded

T = TypeVar("T")
State: TypeAlias = dict[str, Any]
#: Of the messages that are held and the state beside them: how many of the oldest go, or None to change nothing.
Decide: TypeAlias = Callable[[list[BaseMessage], State], int | None]


class BaseChatMessageHistory(Twins, Closing, ABC):
    """The messages of one conversation, oldest first, and small named states that live as long as they do.

    A history of your own has `messages` (an attribute or a property), `clear`, and `add_message` or `add_messages`;
    the rest follows from these. Fill in more where the backend knows a shorter way. Each method has an `a…` twin, which
    runs it on another thread unless it is written, too.
    """

    messages: list[BaseMessage]

    _serialize_message = staticmethod(message_to_dict)
    _deserialize_message = staticmethod(message_from_dict)

    def add_user_message(self, message: str | BaseMessage) -> None:
        """Add what a person said."""
        self.add_message(as_message(message, HumanMessage))

    async def aadd_user_message(self, message: str | BaseMessage) -> None:
        """`add_user_message`, awaited."""
        await self.aadd_message(as_message(message, HumanMessage))

    def add_ai_message(self, message: str | BaseMessage) -> None:
        """Add what the model answered."""
        self.add_message(as_message(message, AIMessage))

    async def aadd_ai_message(self, message: str | BaseMessage) -> None:
        """`add_ai_message`, awaited."""
        await self.aadd_message(as_message(message, AIMessage))

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
        return list(self.messages[-at_least_zero("n", n) :]) if n else []

    def count(self) -> int:
        """How many messages there are."""
        return len(self.messages)

    def trim(self, keep_last: int) -> int:
        """Drop all but the newest messages; answer how many went."""
        at_least_zero("keep_last", keep_last)
        return self._drop(lambda held, _: max(0, len(held) - keep_last)) or 0

    def trim_before(self, kept: Sequence[BaseMessage]) -> int:
        """Drop what stands before these messages, which were read here; answer how many went.

        Whatever others have added since then stays, however many that is.
        """
        return self._drop(lambda held, _: position(held, kept)) or 0

    def get_state(self, name: str) -> State | None:
        """The state of this name, or None."""
        return copy.deepcopy(self._states.get(name))

    def set_state(self, name: str, state: State) -> None:
        """Keep a state under this name, in place of the one before."""
        self._states[name] = copy.deepcopy(state)

    def fold_messages(self, messages: Sequence[BaseMessage], name: str, state: State, before: State) -> bool:
        """Put a state in place of the oldest messages and of the state before, all of which were read here.

        Where somebody else has changed any of them since then, nothing is done, and False is the answer.
        """

        def unchanged(held: list[BaseMessage], stated: State) -> int | None:
            oldest = len(messages)
            return oldest if stated == before and held[:oldest] == list(messages) else None

        return self._drop(unchanged, name, state) is not None

    def close(self) -> None:
        """Let go of what was opened."""

    async def aget_messages(self) -> list[BaseMessage]:
        """`messages`, awaited."""
        return await self._away(lambda: list(self.messages))

    aadd_message = threaded(add_message)
    aadd_messages = threaded(add_messages)
    aclear = threaded(clear)
    areplace = threaded(replace)
    alatest = threaded(latest)
    acount = threaded(count)
    atrim = threaded(trim)
    atrim_before = threaded(trim_before)
    aget_state = threaded(get_state)
    aset_state = threaded(set_state)
    afold_messages = threaded(fold_messages)
    aclose = threaded(close)

    def _drop(self, decide: Decide, name: str = "", state: State | None = None) -> int | None:
        """Drop as many of the oldest messages as is decided, and keep the state; should the first fail, both are there."""
        held = list(self.messages)
        oldest = decide(held, self.get_state(name) or {})
        if oldest is not None and state is not None:
            self.set_state(name, state)
        if oldest:
            self.replace(held[oldest:])
        return oldest

    @property
    def _states(self) -> dict[str, State]:
        # Made on first use: a subclass may have an __init__ that knows nothing of this one.
        return cast("dict[str, State]", self.__dict__.setdefault("_kept_states", {}))


class ChatMessageHistory(BaseChatMessageHistory):
    """Messages in this process, gone when it ends. `messages` is the list itself."""

    def __init__(self, messages: list[BaseMessage] | None = None) -> None:
        self.messages = [] if messages is None else messages

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages in this order."""
        self.messages.extend(messages)

    async def _away(self, work: Callable[[], T]) -> T:
        return work()  # it never waits for anything


def position(held: Sequence[BaseMessage], kept: Sequence[BaseMessage]) -> int:
    """Where these messages stand among those held; 0 when they do not, so that nothing is dropped for them.

    Where several stretches are alike it is the first one: dropped too little is dropped with the next turn.
    """
    most = len(held) - len(kept)
    wanted = list(kept)
    stretches = (at for at in range(most + 1) if list(held[at : at + len(wanted)]) == wanted)
    return next(stretches, 0) if wanted else 0


def at_least_zero(name: str, number: int) -> int:
    """A number of messages; one below 0 is refused by name."""
    if number < 0:
        raise ValueError(f"{name} is 0 or more; got {number}")
    return number


def to_json(value: Any, *, indent: int | None = None) -> str:
    """A value as JSON in readable UTF-8; what JSON cannot say is InvalidRecord."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:  # UnicodeEncodeError is a ValueError
        raise InvalidRecord(f"this cannot be kept as JSON: {error}") from error
    return text


def plain_state(name: str, state: Mapping[str, Any]) -> State:
    """A state as plain values that share nothing with it."""
    if not isinstance(state, Mapping):
        raise InvalidRecord(f"the state {name!r} is a dict; got {state!r}"[:300])
    read: State = json.loads(to_json(dict(state)))
    return read
