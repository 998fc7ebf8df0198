"""A typed client of the server, blocking and async, with one implementation of both."""

from octavo.client.answers import (
    Counted,
    Event,
    Health,
    MemoryWithHistory,
    Remembered,
    Replayed,
    Session,
    Stats,
    Turn,
)
from octavo.client.client import AsyncClient, Client

__all__ = [
    "AsyncClient",
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
]
