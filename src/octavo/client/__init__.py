"""A typed client of the server, blocking and awaited, with one implementation of both."""

from octavo.client.answers import (
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
from octavo.client.client import AsyncClient, Client

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
