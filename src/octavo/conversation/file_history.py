"""A history in a file that people can read."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from octavo.conversation.histories import BaseChatMessageHistory, Decide, State, plain_state, to_json
from octavo.conversation.messages import BaseMessage, messages_from_dict, messages_to_dict
from octavo.errors import StoreError
from octavo.kernel.ids import new_id
from octavo.util.attributes import Fixed
from octavo.util.file_modes import keep_mode, make_folder, open_file


class FileChatMessageHistory(BaseChatMessageHistory):
    """Messages as a JSON array in a file, states beside it in `<file>.state.json`.

    Every change writes the file anew under another name and puts that in its place, so that it is whole at any moment.
    Several processes may write: each takes its turn, and sees what the others wrote.
    """

    file_path: Fixed[str] = Fixed("make another history for another file")

    def __init__(self, file_path: str | os.PathLike[str]) -> None:
        self.file_path = os.fspath(file_path)
        # Where it is now: a link stays a link, and the process may go to another folder.
        self._path = Path(self.file_path).resolve()
        self._state_path = self._path.with_name(f"{self._path.name}.state.json")
        self._load_messages()  # a file that is no history is better refused now than at the first turn

    @property
    def messages(self) -> list[BaseMessage]:
        """The messages, oldest first; assigning replaces them all."""
        return self._load_messages()

    @messages.setter
    def messages(self, messages: Sequence[BaseMessage]) -> None:
        self.replace(messages)

    @property
    def _messages(self) -> list[BaseMessage]:
        return self.messages

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages in this order, all of them or none."""
        if messages:
            with self._turn():
                self._save_messages([*self._load_messages(), *messages])

    def replace(self, messages: Sequence[BaseMessage]) -> None:
        """Hold these messages in place of all others; states stay."""
        with self._turn():
            self._save_messages(messages)

    def get_state(self, name: str) -> State | None:
        """The state of this name, or None."""
        return self._load_states().get(name)

    def set_state(self, name: str, state: State) -> None:
        """Keep a state under this name, in place of the one before."""
        kept = plain_state(name, state)
        with self._turn():
            _write(self._state_path, {**self._load_states(), name: kept})

    def clear(self) -> None:
        """Forget all, and remove the files."""
        with self._turn():
            self._path.unlink(missing_ok=True)
            self._state_path.unlink(missing_ok=True)

    def _drop(self, decide: Decide, name: str = "", state: State | None = None) -> int | None:
        kept = None if state is None else plain_state(name, state)
        with self._turn():
            held, states = self._load_messages(), self._load_states()
            oldest = decide(held, states.get(name) or {})
            if oldest is not None and kept is not None:
                _write(self._state_path, {**states, name: kept})
            if oldest:
                self._save_messages(held[oldest:])
            return oldest

    def _load_messages(self) -> list[BaseMessage]:
        with self._translated():
            try:
                return messages_from_dict(_read(self._path, list))
            except ValueError as error:
                raise StoreError(f"{self.file_path} is not a list of messages: {error}") from error

    def _save_messages(self, messages: Sequence[BaseMessage]) -> None:
        _write(self._path, messages_to_dict(messages))

    def _load_states(self) -> dict[str, State]:
        with self._translated():
            states: dict[str, State] = _read(self._state_path, dict)
            return states

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Nobody else writes in this folder meanwhile, in this process or another."""
        with self._translated():
            make_folder(self._path.parent)
            # The folder and not the file: the file is another one after every write.
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX)
                yield
            finally:
                os.close(folder)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(f"the history {self.file_path}: {error}") from error


def _read(path: Path, kind: type[list[Any] | dict[str, Any]]) -> Any:
    """What a file of this kind of JSON holds; nothing, when there is no file."""
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return kind()
    except ValueError as error:  # no UTF-8, or no JSON
        raise StoreError(f"{path} is not JSON: {error}; mend it or move it away") from error
    if not isinstance(held, kind):
        raise StoreError(
            f"{path} holds no JSON {'array' if kind is list else 'object'}; mend it or move it away"
        )
    return held


def _write(path: Path, value: Any) -> None:
    """Put a file in the place of another, whole or not at all."""
    text = to_json(value, indent=2)
    new = path.with_name(f".{path.name}.{new_id()}")
    try:
        with open(new, "x", encoding="utf-8", opener=open_file) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        keep_mode(new, path)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
