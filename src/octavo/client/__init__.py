"""A typed client of the server, blocking and awaited, with one implementation of both."""

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
from octavo.client.async_client import AsyncClient
from octavo.client.client import Client

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
