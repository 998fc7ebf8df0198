"""Any Python value as JSON that every store keeps: a record is never lost for what a tool happened to return."""

import dataclasses
import math
import reprlib
from collections.abc import Mapping
from typing import Any

import msgspec

from octavo.kernel.codec import MAX_DEPTH

_repr = reprlib.Repr()  # never raises and never ends in a circle, as repr may
_repr.maxstring = _repr.maxother = _repr.maxlong = 1000
#: Of an event that is too large as a whole: characters of one text, those of all of it, and what a value counts beside them.
_SHORT, _MOST, _EACH = 100_000, 1_000_000, 8


def keepable(value: Any) -> Any:
    """The value with whatever JSON or a store has no word for spelled as text; nothing is shared with the original."""
    return _plain(value, 1, {})


def _plain(value: Any, depth: int, seen: dict[tuple[int, int], tuple[Any, Any]]) -> Any:
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
    known = seen.get((id(value), depth))  # what stands in many places is looked at once
    if known is None:
        # With the value itself: its id is its own only as long as it is there.
        known = seen[id(value), depth] = value, _make_plain(value, depth, seen)
    return known[1]


def _make_plain(value: Any, depth: int, seen: dict[tuple[int, int], tuple[Any, Any]]) -> Any:
    if isinstance(value, Mapping):
        return {_key(key): _plain(one, depth + 1, seen) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one, depth + 1, seen) for one in value]
    try:
        if (fields := _fields(value)) is not None:
            return _plain(fields, depth, seen)
        plain = msgspec.to_builtins(value, str_keys=True)  # times, enums, UUIDs …
    except (TypeError, ValueError, AttributeError, RecursionError):
        return _shown(value)
    return _plain(plain, depth + 1, seen) if type(plain) is not type(value) else _shown(value)


def _fields(value: Any) -> dict[str, Any] | None:
    """What an object is written as, one level of it; None for what has no fields."""
    if isinstance(value, msgspec.Struct):
        tag = value.__struct_config__
        named = {} if tag.tag_field is None else {tag.tag_field: tag.tag}
        return {
            **named,
            **{one.encode_name: getattr(value, one.name) for one in msgspec.structs.fields(value)},
        }
    if isinstance(value, type):
        return None
    fields = (
        dataclasses.fields(value)
        if dataclasses.is_dataclass(value)
        else getattr(value, "__attrs_attrs__", None)
    )
    return None if fields is None else {one.name: getattr(value, one.name) for one in fields}


def shorten(value: Any) -> Any:
    """A value that was too large to keep, with its long texts and its later values cut, and what was cut told."""
    return _cut(value, _MOST)[0]


def _cut(value: Any, room: int) -> tuple[Any, int]:
    """The value in so much room, and how much of it that took."""
    if isinstance(value, str):
        most = min(_SHORT, room)
        kept = value if len(value) <= most else f"{value[:most]}… ({len(value):,} characters in all)"
        return kept, _EACH + min(len(value), most)
    if not isinstance(value, dict | list):
        return value, _EACH
    names = list(value) if isinstance(value, dict) else range(len(value))
    found: dict[Any, Any] = {}
    left = room - _EACH
    for name in names:
        if left <= _EACH:
            found[f"… ({len(names) - len(found):,} more)"] = None
            break
        key, taken = _cut(name, left // 2)
        found[key], more = _cut(
            value[name], left // 2
        )  # half of it: what stands beside a huge value is kept too
        left -= taken + more
    if isinstance(value, dict):
        return found, room - left
    return [name if isinstance(name, str) else one for name, one in found.items()], room - left


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
