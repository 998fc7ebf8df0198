"""LightAgent's own `Agent` on Octavo's event stores: importing this lets it take them as stores of its own.

    from octavo.integrations.lightagent import SQLiteMemoryStore

    agent = Agent.create(name="assistant", model_adapter=adapter, memory_store=SQLiteMemoryStore())

LightAgent checks that a store is a `BaseMemoryStore` of its own; Octavo's are registered as such. They keep LightAgent's
events, answer to its event types, and give back events of Octavo's with the same fields.
"""

from octavo.errors import ConfigError
from octavo.events import (
    EventStore,
    FileMemoryStore,
    InMemoryMemoryStore,
    MySQLMemoryStore,
    PostgreSQLMemoryStore,
    RedisMemoryStore,
    SQLiteMemoryStore,
)

try:
    from lightagent import BaseMemoryStore  # type: ignore[import-not-found]
except ImportError as error:
    raise ConfigError(
        f"octavo.integrations.lightagent needs the LightAgent that has BaseMemoryStore ({error}): install it from its "
        "repository; `pip install lightagent` brings another package of that name"
    ) from error

__all__ = [
    "EventStore",
    "FileMemoryStore",
    "InMemoryMemoryStore",
    "MySQLMemoryStore",
    "PostgreSQLMemoryStore",
    "RedisMemoryStore",
    "SQLiteMemoryStore",
]

BaseMemoryStore.register(EventStore)
