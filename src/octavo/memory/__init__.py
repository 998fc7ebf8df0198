"""The front door: remember what was said, find it again, and put it into a prompt; over the layers, the chat and recall."""

from octavo.layers.values import DEFAULT_USER
from octavo.memory.memory import AsyncMemory, Memory
from octavo.memory.messages import Added
from octavo.memory.searching import SOURCES
from octavo.memory.wrapping import MemoryClient, with_memory
from octavo.search.hits import Hits, MemoryHit

__all__ = [
    "DEFAULT_USER",
    "SOURCES",
    "Added",
    "AsyncMemory",
    "Hits",
    "Memory",
    "MemoryClient",
    "MemoryHit",
    "with_memory",
]
