"""Marks as callers give them, and names as they are kept.

A few names are ours: the second copy of a message has an id of its own, and a mark that says whose copy it is. Ours begin
with U+001F and "="; whatever a caller names with U+001F in front is kept with another one before it. So they never meet.
"""

import hashlib
from collections.abc import Iterable
from enum import Enum
from typing import Any

from octavo.kernel.ids import new_id

_GUARD = "\x1f"
_OURS = _GUARD + "="


def mark_of(mark: Any) -> str:
    """A mark as plain text: a string, or the value of a string enum."""
    if not isinstance(mark, str):
        raise TypeError(f"a mark is a string or a member of a string enum; got {mark!r}"[:300])
    return str(mark.value) if isinstance(mark, Enum) else str.__str__(mark)


def marks_of(marks: Any) -> tuple[str, ...]:
    """One mark, several or none, each once."""
    if marks is None:
        return ()
    if isinstance(marks, str):
        return (mark_of(marks),)
    if not isinstance(marks, list | tuple | set | frozenset):
        raise TypeError(f"marks are a string, a list of strings or None; got {marks!r}"[:300])
    given = [mark_of(mark) for mark in marks]
    # A set has no order of its own, and the one it happens to have differs between processes.
    return tuple(dict.fromkeys(given if isinstance(marks, list | tuple) else sorted(given)))


def ids_of(msg_ids: Any) -> tuple[str, ...]:
    """The ids of messages, each once."""
    if isinstance(msg_ids, str) or not isinstance(msg_ids, Iterable):
        raise TypeError(f"msg_ids is a list of ids; got {msg_ids!r}"[:300])
    given = tuple(dict.fromkeys(msg_ids))
    for one in given:
        if not isinstance(one, str):
            raise TypeError(f"the id of a message is a string; got {one!r}"[:300])
    return given


def kept(name: str) -> str:
    """A caller's id or mark as the store keeps it."""
    return _GUARD + name if name.startswith(_GUARD) else name


def told(name: str) -> str:
    """An id or mark out of the store as the caller gave it."""
    return name.removeprefix(_GUARD)


def ours(name: str) -> bool:
    """Whether no caller gave this name."""
    return name.startswith(_OURS)


def copy_id() -> str:
    """An id for one more copy of a message that is kept already."""
    return _OURS + new_id()


def copy_mark(message_id: str) -> str:
    """What all further copies of a message are marked with, so that they are found as quickly as the first."""
    return _OURS + hashlib.blake2b(message_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
