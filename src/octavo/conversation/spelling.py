"""Messages and states as JSON that any store keeps, or a verdict on why not."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from octavo.conversation.messages import BaseMessage, message_to_dict
from octavo.errors import InvalidRecord


def spelled(value: Any, *, indent: int | None = None) -> str:
    """A value as JSON in readable UTF-8; what JSON cannot say is InvalidRecord."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:  # UnicodeEncodeError is a ValueError
        raise InvalidRecord(f"this cannot be kept as JSON: {error}") from error
    return text


def plain(messages: Iterable[BaseMessage]) -> list[dict[str, Any]]:
    """Messages as plain values that JSON can say."""
    told = [message_to_dict(message) for message in messages]
    spelled(told)
    return told


def plain_state(name: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """A state as plain values that share nothing with it."""
    if not isinstance(state, Mapping):
        raise InvalidRecord(f"the state {name!r} is a dict; got {state!r}"[:300])
    read: dict[str, Any] = json.loads(spelled(dict(state)))
    return read
