"""A history in a file that people can read."""

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from octavo.conversation.histories import BaseChatMessageHistory, counted, position
from octavo.conversation.messages import BaseMessage, messages_from_dict
from octavo.conversation.spelling import plain, plain_state, spelled
from octavo.errors import StoreError
from octavo.kernel.ids import new_id
from octavo.util.attributes import Fixed
from octavo.util.file_modes import keep_mode, make_folder, open_file

_Told = list[dict[str, Any]]


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
        self._seen: tuple[tuple[int, int, int], _Told] | None = None
        self._load_messages()  # a file that is no history is better refused now than at the first turn

    @property
    def messages(self) -> list[BaseMessage]:
        """The messages, oldest first; assigning replaces them all."""
        return messages_from_dict(self._load_messages())

    @messages.setter
    def messages(self, messages: Sequence[BaseMessage]) -> None:
        self.replace(messages)

    @property
    def _messages(self) -> list[BaseMessage]:
        return self.messages

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages in this order, all of them or none."""
        added = plain(messages)
        if added:
            self._change(lambda told: [*told, *added])

    def replace(self, messages: Sequence[BaseMessage]) -> None:
        """Hold these messages in place of all others; states stay."""
        new = plain(messages)
        self._change(lambda _: new)

    def latest(self, n: int) -> list[BaseMessage]:
        """The newest `n` messages, oldest first."""
        return messages_from_dict(self._load_messages()[-counted("n", n) :]) if n else []

    def count(self) -> int:
        """How many messages there are."""
        return len(self._load_messages())

    def trim(self, keep_last: int) -> int:
        """Drop all but the newest messages; answer how many went."""
        counted("keep_last", keep_last)
        dropped = 0

        def cut(told: _Told) -> _Told:
            nonlocal dropped
            dropped = max(0, len(told) - keep_last)
            return told[dropped:]

        self._change(cut)
        return dropped

    def trim_before(self, kept: Sequence[BaseMessage]) -> int:
        """Drop what stands before these messages, which were read here; answer how many went."""
        with self._turn():
            told = self._load_messages()
            start = position(messages_from_dict(told), kept)
            if start:
                self._save_messages(told[start:])
            return start

    def get_state(self, name: str) -> dict[str, Any] | None:
        """The state of this name, or None."""
        with self._translated():
            return self._states_told().get(name)

    def set_state(self, name: str, state: dict[str, Any]) -> None:
        """Keep a state under this name, in place of the one before."""
        kept = plain_state(name, state)
        with self._turn():
            self._write_state(name, kept)

    def fold(self, oldest: int, name: str, state: dict[str, Any]) -> None:
        """Put a state in place of the oldest messages; should the process end between the two, both are there."""
        counted("oldest", oldest)
        kept = plain_state(name, state)
        with self._turn():
            self._write_state(name, kept)
            if oldest:
                self._save_messages(self._load_messages()[oldest:])

    def fold_messages(
        self, messages: Sequence[BaseMessage], name: str, state: dict[str, Any], before: dict[str, Any]
    ) -> bool:
        """Put a state in place of the oldest messages and of the state before, unless others changed any of them."""
        kept = plain_state(name, state)
        with self._turn():
            told = self._load_messages()
            oldest = messages_from_dict(told[: len(messages)])
            if (self._states_told().get(name) or {}) != before or oldest != list(messages):
                return False
            self._write_state(name, kept)
            if messages:
                self._save_messages(told[len(messages) :])
            return True

    def clear(self) -> None:
        """Forget all, and remove the files."""
        with self._turn():
            self._path.unlink(missing_ok=True)
            self._state_path.unlink(missing_ok=True)
            self._seen = None

    def _change(self, change: Callable[[_Told], _Told]) -> None:
        with self._turn():
            told = self._load_messages()
            new = change(told)
            if len(new) != len(told) or new != told:
                self._save_messages(new)

    def _load_messages(self) -> _Told:
        """What the file tells; read again only when it is another than the one seen last."""
        with self._translated():
            mark = _mark(self._path)
            if mark is None:
                return []
            if self._seen is not None and self._seen[0] == mark:
                return self._seen[1]
            told: _Told = _read(self._path, list)
            try:
                messages_from_dict(told)
            except ValueError as error:
                raise StoreError(f"{self.file_path} is not a list of messages: {error}") from error
            self._seen = (mark, told)
            return told

    def _save_messages(self, told: _Told) -> None:
        _write(self._path, spelled(told, indent=2))
        mark = _mark(self._path)
        self._seen = None if mark is None else (mark, told)

    def _states_told(self) -> dict[str, dict[str, Any]]:
        return {} if _mark(self._state_path) is None else _read(self._state_path, dict)

    def _write_state(self, name: str, state: dict[str, Any]) -> None:
        _write(self._state_path, spelled({**self._states_told(), name: state}, indent=2))

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


def _mark(path: Path) -> tuple[int, int, int] | None:
    """What tells one state of a file from another, or None when there is no file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size)


def _read(path: Path, kind: type) -> Any:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # no UTF-8, or no JSON
        raise StoreError(f"{path} is not JSON: {error}; mend it or move it away") from error
    if not isinstance(told, kind):
        raise StoreError(
            f"{path} holds no JSON {'array' if kind is list else 'object'}; mend it or move it away"
        )
    return told


def _write(path: Path, text: str) -> None:
    """Put a file in the place of another, whole or not at all."""
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
