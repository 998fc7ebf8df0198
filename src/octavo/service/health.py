"""How the memory is."""

from typing import Any, Literal

import msgspec


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """What a monitor wants to know, without secrets."""

    state: Literal["up", "down", "recovering", "closed"]
    backend: str  # the store's URL without its password
    queue: dict[str, Any] | None = None  # what waits and what died, when there is a failure queue
    vault: dict[str, Any] | None = None  # the documents, when there is a vault
    error: str = ""  # why it is not up
    accepts_writes: bool = True  # a write would be stored or queued now
