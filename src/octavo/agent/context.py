"""The conversation an agent is in: its session, its user and what was said so far."""

import uuid
from datetime import datetime
from typing import Any

import msgspec

from octavo.errors import InvalidRecord
from octavo.kernel.ids import now

MAX_SESSION_BYTES = 255  # what every store keeps


class AgentContext(msgspec.Struct, kw_only=True):
    """One conversation. `messages` are what the model is shown before the next one, without the system prompt."""

    session_id: str = msgspec.field(default_factory=lambda: str(uuid.uuid4()))
    user_id: str | None = None
    messages: list[dict[str, Any]] = msgspec.field(default_factory=list)
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    created_at: datetime = msgspec.field(default_factory=now)

    def __post_init__(self) -> None:
        checked_name("session_id", self.session_id)
        if self.user_id is not None:
            checked_name("user_id", self.user_id)


def checked_name(what: str, name: str) -> str:
    """A name that every store can keep, or InvalidRecord: found out here, it does not cost the events of a whole run."""
    if not isinstance(name, str) or not name:
        raise InvalidRecord(f"{what} must be a text that is not empty; got {name!r}")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidRecord(f"{what} holds half a surrogate pair: {name[:40]!r}") from None
    if "\0" in name or size > MAX_SESSION_BYTES:
        raise InvalidRecord(
            f"{what} must have at most {MAX_SESSION_BYTES} bytes and no NUL character; got {name[:40]!r}"
        )
    return name
