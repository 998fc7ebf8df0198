"""What agents live through: events, the stores that keep them, and moving them between stores."""

from octavo.events.moving import Migrated, as_store, migrate
from octavo.events.records import AgentEvent, BaseMemoryStore, EventType, TypeCounts, to_event, to_record
from octavo.events.retention import Retention
from octavo.events.store import (
    EventStore,
    FileMemoryStore,
    InMemoryMemoryStore,
    MySQLMemoryStore,
    PostgreSQLMemoryStore,
    RedisMemoryStore,
    SQLiteMemoryStore,
)

__all__ = [
    "AgentEvent",
    "BaseMemoryStore",
    "EventStore",
    "EventType",
    "FileMemoryStore",
    "InMemoryMemoryStore",
    "Migrated",
    "MySQLMemoryStore",
    "PostgreSQLMemoryStore",
    "RedisMemoryStore",
    "Retention",
    "SQLiteMemoryStore",
    "TypeCounts",
    "as_store",
    "migrate",
    "to_event",
    "to_record",
]
