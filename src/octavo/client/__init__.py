"""A typed client of the server, blocking and awaited, with one implementation of both."""

from octavo.client.client import AsyncClient, Client
from octavo.client.exchange import (
    BatchAnswer,
    Counted,
    Event,
    Health,
    MemoryWithHistory,
    Remembered,
    Replayed,
    Session,
    Stats,
    Turn,
    User,
)

__all__ = [
    "AsyncClient",
    "BatchAnswer",
    "Client",
    "Counted",
    "Event",
    "Health",
    "MemoryWithHistory",
    "Remembered",
    "Replayed",
    "Session",
    "Stats",
    "Turn",
    "User",
]
