"""What LangGraph's searches may ask of a value."""

import operator
from collections.abc import Mapping
from typing import Any

_OPERATORS = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def passes(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether each key is as wanted: equal, or as operators such as `{"$gt": 4}` say."""
    return all(_is_as(value.get(key), each) for key, each in wanted.items())


def _is_as(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if any(str(key).startswith("$") for key in wanted):
            return all(_compare(key, value, each) for key, each in wanted.items())
        return isinstance(value, Mapping) and passes(value, wanted)
    if isinstance(wanted, list | tuple):
        same = isinstance(value, list | tuple) and len(value) == len(wanted)
        return same and all(map(_is_as, value, wanted))
    return bool(value == wanted)


def _compare(name: str, value: Any, wanted: Any) -> bool:
    compare = _OPERATORS.get(name)
    if compare is None:
        raise ValueError(f"Unsupported operator: {name}; known: {', '.join(_OPERATORS)}")
    try:
        return bool(compare(value, wanted))
    except TypeError:  # a text and a number, or nothing at all: neither is more
        return False
