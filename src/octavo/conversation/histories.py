"""What every history can do, the one that lives in this process, and the one in a file that people can read."""

import codecs
import contextlib
import copy
import json
import os
from abc import ABC
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from octavo.conversation.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    as_message,
    check_messages,
    message_from_dict,
    message_to_dict,
    messages_from_dict,
    messages_to_dict,
)
from octavo.errors import InvalidRecord, StoreError
from octavo.kernel.model import check_count as check_number
from octavo.util.disk import folder_turn, make_folder, replace_file
from octavo.util.sync import Closing, Twins, as_async
from octavo.util.user_code import Fixed

T = TypeVar("T")
State: TypeAlias = dict[str, Any]
#: Changes the messages and the states it is given, in place; what it answers is the answer of the update.
Edit: TypeAlias = Callable[[list[BaseMessage], dict[str, State]], T]


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

    def add_ai_message(self, message: str | BaseMessage) -> None:
        """Add what the model answered."""
        self.add_message(as_message(message, AIMessage))

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

        def put(held: list[BaseMessage], _: dict[str, State]) -> None:
            held[:] = check_messages(messages)

        self._update(put)

    def latest(self, n: int) -> list[BaseMessage]:
        """The newest `n` messages, oldest first."""
        return list(self.messages[-n:]) if check_count("n", n) else []

    def count(self) -> int:
        """How many messages there are."""
        return len(self.messages)

    def trim(self, keep_last: int) -> int:
        """Drop all but the newest messages; answer how many went."""
        check_count("keep_last", keep_last)
        return self._drop_oldest(lambda held: max(0, len(held) - keep_last))

    def trim_before(self, kept: Sequence[BaseMessage]) -> int:
        """Drop what stands before these messages, which were read here; answer how many went.

        Whatever others have added since then stays, however many that is.
        """
        return self._drop_oldest(lambda held: _position(held, check_messages(kept)))

    def _drop_oldest(self, count: Callable[[list[BaseMessage]], int]) -> int:
        def drop(held: list[BaseMessage], _: dict[str, State]) -> int:
            gone = count(held)
            del held[:gone]
            return gone

        return self._update(drop)

    def get_state(self, name: str) -> State | None:
        """The state of this name, or None."""
        return copy.deepcopy(self._states.get(name))

    def set_state(self, name: str, state: State) -> None:
        """Keep a state under this name, in place of the one before."""
        kept = plain_state(name, state)
        self._update(lambda _, states: states.update({name: kept}))

    def fold_messages(self, messages: Sequence[BaseMessage], name: str, state: State, before: State) -> bool:
        """Put a state in place of the oldest messages and of the state before, all of which were read here.

        Where somebody else has changed any of them since then, nothing is done, and False is the answer.
        """
        kept, oldest = plain_state(name, state), len(messages)

        def fold(held: list[BaseMessage], states: dict[str, State]) -> bool:
            if states.get(name, {}) != before or held[:oldest] != list(messages):
                return False
            states[name] = kept
            del held[:oldest]
            return True

        return self._update(fold)

    def close(self) -> None:
        """Let go of what was opened."""

    async def aget_messages(self) -> list[BaseMessage]:
        """`messages`, awaited."""
        return await self._run_in_thread(lambda: list(self.messages))

    async def aadd_user_message(self, message: str | BaseMessage) -> None:
        """`add_user_message`, awaited."""
        await self.aadd_message(as_message(message, HumanMessage))

    async def aadd_ai_message(self, message: str | BaseMessage) -> None:
        """`add_ai_message`, awaited."""
        await self.aadd_message(as_message(message, AIMessage))

    aadd_message = as_async(add_message)
    aadd_messages = as_async(add_messages)
    aclear = as_async(clear)
    areplace = as_async(replace)
    alatest = as_async(latest)
    acount = as_async(count)
    atrim = as_async(trim)
    atrim_before = as_async(trim_before)
    aget_state = as_async(get_state)
    aset_state = as_async(set_state)
    afold_messages = as_async(fold_messages)
    aclose = as_async(close)

    def _update(self, edit: Edit[T]) -> T:
        """Read, edit and write back what was changed: states first, so that a failure leaves both and not neither."""
        read = list(self.messages)
        held = list(read)
        answer = edit(held, self._states)
        if held == read:
            return answer
        attribute = getattr(type(self), "messages", None)
        if not isinstance(attribute, property) or attribute.fset is not None:
            self.messages = held
            return answer
        states = dict(self._states)  # `clear` forgets them
        self.clear()
        self.add_messages(held)
        self._states.update(states)
        return answer

    @property
    def _states(self) -> dict[str, State]:
        # Made on first use: a subclass may have an __init__ that knows nothing of this one.
        return cast("dict[str, State]", self.__dict__.setdefault("_kept_states", {}))


class ChatMessageHistory(BaseChatMessageHistory):
    """Messages in this process, gone when it ends. `messages` is the list itself."""

    def __init__(self, messages: list[BaseMessage] | None = None) -> None:
        self.messages = [] if messages is None else messages

    @property
    def messages(self) -> list[BaseMessage]:
        """The messages, oldest first; a list that is assigned is held itself."""
        return self._held

    @messages.setter
    def messages(self, messages: Sequence[BaseMessage]) -> None:
        checked = check_messages(messages)
        self._held = messages if isinstance(messages, list) else checked

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages in this order, all of them or none."""
        self.messages.extend(check_messages(messages))

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        return work()  # it never waits for anything


class FileChatMessageHistory(BaseChatMessageHistory):
    """Messages as a JSON array in a file that people can read, states beside it in `<file>.state.json`.

    Every change writes the file anew under another name and puts that in its place, so that it is whole at any moment.
    Several processes may write: each takes its turn, and sees what the others wrote.
    """

    file_path: Fixed[str] = Fixed("make another history for another file")
    encoding: Fixed[str] = Fixed("make another history, with another encoding")

    def __init__(
        self, file_path: str | os.PathLike[str], *, encoding: str | None = None, ensure_ascii: bool = False
    ) -> None:
        self.file_path = os.fspath(file_path)
        self.encoding = encoding or "utf-8"
        try:
            codecs.lookup(self.encoding)
        except LookupError as error:
            raise ValueError(f"encoding is one that Python knows, such as utf-8; got {encoding!r}") from error
        self.ensure_ascii = ensure_ascii
        # Where it is now: a link stays a link, and the process may go to another folder.
        self._path = Path(self.file_path).resolve()
        self._state_path = self._path.with_name(f"{self._path.name}.state.json")
        _ = self.messages  # a file that is no history is better refused now than at the first turn

    @property
    def messages(self) -> list[BaseMessage]:
        """The messages, oldest first; assigning replaces them all."""
        held = self._read(self._path, list)
        try:
            return messages_from_dict(held)
        except ValueError as error:
            raise StoreError(f"{self.file_path} is not a list of messages: {error}") from error

    @messages.setter
    def messages(self, messages: Sequence[BaseMessage]) -> None:
        self.replace(messages)

    @property
    def _messages(self) -> list[BaseMessage]:
        return self.messages

    @property
    def _states(self) -> dict[str, State]:
        states: dict[str, State] = self._read(self._state_path, dict)
        return states

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages in this order, all of them or none."""
        self._update(lambda held, _: held.extend(check_messages(messages)))

    def clear(self) -> None:
        """Forget all, and remove the files."""
        with self._turn():
            self._path.unlink(missing_ok=True)
            self._state_path.unlink(missing_ok=True)

    def _update(self, edit: Edit[T]) -> T:
        with self._turn():
            read, states_read = self.messages, self._states
            held, states = list(read), dict(states_read)
            answer = edit(held, states)
            if states != states_read:
                self._write(self._state_path, states)
            if held != read:
                self._write(self._path, messages_to_dict(held))
            return answer

    def _read(self, path: Path, kind: type[list[Any] | dict[str, Any]]) -> Any:
        """What a file of this kind of JSON holds; nothing, when there is no file."""
        try:
            held = json.loads(path.read_text(encoding=self.encoding))
        except FileNotFoundError:
            return kind()
        except OSError as error:
            raise StoreError(f"the history {self.file_path}: {error}") from error
        except ValueError as error:  # not in that encoding, or no JSON
            raise StoreError(f"{path} is not JSON: {error}; mend it or move it away") from error
        if not isinstance(held, kind):
            shape = "array" if kind is list else "object"
            raise StoreError(f"{path} holds no JSON {shape}; mend it or move it away")
        return held

    def _write(self, path: Path, value: Any) -> None:
        """Put a file in the place of another, whole or not at all."""
        text = to_json(value, indent=2, ensure_ascii=self.ensure_ascii)
        try:
            content = text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise InvalidRecord(
                f"{error.object[error.start]!r} cannot be written in {self.encoding}: give ensure_ascii=True, or leave encoding out"
            ) from error
        replace_file(path, [content])

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Nobody else writes in this folder meanwhile, in this process or another."""
        try:
            make_folder(self._path.parent)
            with folder_turn(self._path.parent):  # of the folder: the file is another one after every write
                yield
        except OSError as error:
            raise StoreError(f"the history {self.file_path}: {error}") from error


def check_count(name: str, number: int) -> int:
    """A number of messages; what is none is refused by name."""
    return check_number(number, f"{name} is 0 or more", ValueError)


def to_json(value: Any, *, indent: int | None = None, ensure_ascii: bool = False) -> str:
    """A value as JSON in readable UTF-8; what JSON cannot say is InvalidRecord."""
    try:
        text = json.dumps(value, ensure_ascii=ensure_ascii, allow_nan=False, indent=indent)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:  # UnicodeEncodeError is a ValueError
        raise InvalidRecord(f"this cannot be kept as JSON: {error}") from error
    return text


def plain_state(name: str, state: Mapping[str, Any]) -> State:
    """A state as plain values that share nothing with it."""
    if not isinstance(name, str) or not name:
        raise InvalidRecord(f"the name of a state is a text that is not empty; got {name!r}"[:300])
    if not isinstance(state, Mapping):
        raise InvalidRecord(f"the state {name!r} is a dict; got {state!r}"[:300])
    read: State = json.loads(to_json(dict(state)))
    return read


def _position(held: list[BaseMessage], kept: list[BaseMessage]) -> int:
    """Where these messages stand among those held; 0 when they do not, so that nothing is dropped for them.

    Where several stretches are alike it is the first one: dropped too little is dropped with the next turn.
    """
    positions = range(len(held) - len(kept) + 1) if kept else ()
    return next((at for at in positions if held[at : at + len(kept)] == kept), 0)
