"""Any Python value as JSON that every store keeps: a record is never lost for what a tool happened to return."""

import math
import reprlib
from collections.abc import Mapping
from typing import Any

import msgspec

from octavo.codec import MAX_DEPTH

_repr = reprlib.Repr()  # never raises and never ends in a circle, as repr may
_repr.maxstring = _repr.maxother = _repr.maxlong = 1000
_SHORT = 100_000  # characters of a text in an event that is too large as a whole


def keepable(value: Any, depth: int = 1) -> Any:
    """The value with whatever JSON or a store has no word for spelled as text; nothing is shared with the original."""
    kind = type(value)
    if kind is str:
        return value if value.isascii() and "\0" not in value else _sound(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if -(2**63) <= value < 2**63 else f"{value:#x}"  # in decimals Python itself may refuse
    if kind is float:
        return value if math.isfinite(value) else str(value)
    if depth >= MAX_DEPTH:
        return _shown(value)
    if isinstance(value, Mapping):
        return {_key(key): keepable(one, depth + 1) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [keepable(one, depth + 1) for one in value]
    try:
        plain = msgspec.to_builtins(value, str_keys=True)  # times, enums, UUIDs, dataclasses …
    except (TypeError, ValueError, RecursionError):
        return _shown(value)
    return keepable(plain, depth + 1) if type(plain) is not kind else _shown(value)


def shortened(value: Any) -> Any:
    """A value that was too large to keep, with its long texts cut and their length told."""
    if isinstance(value, str):
        return value if len(value) <= _SHORT else f"{value[:_SHORT]}… ({len(value):,} characters in all)"
    if isinstance(value, dict):
        return {shortened(key): shortened(one) for key, one in value.items()}
    if isinstance(value, list):
        return [shortened(one) for one in value[:_SHORT]]
    return value


def _key(key: Any) -> str:
    if type(key) is str and key.isascii() and "\0" not in key:  # nearly every key there is
        return key
    return _sound(str(getattr(key, "value", key)))


def _sound(text: str) -> str:
    """Text without NUL and half surrogate pairs, which no store keeps."""
    text = str(text).replace("\0", "�")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-8", "replace").decode()
    return text


def _shown(value: Any) -> str:
    return _sound(_repr.repr(value))
