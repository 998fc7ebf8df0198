"""Octavo: memory for AI agents. One record, many faces."""

import importlib
from typing import TYPE_CHECKING, Any

from octavo.errors import (
    ConfigError,
    Conflict,
    InvalidQuery,
    InvalidRecord,
    ModelError,
    NotFound,
    OctavoError,
    StoreClosed,
    StoreError,
    StoreUnavailable,
)
from octavo.kernel.ids import new_id
from octavo.kernel.model import START, Add, Change, Cursor, Op, Query, Record, Remove, Scope, Tally
from octavo.kernel.ports import Store, walk
from octavo.stores import open_store

if TYPE_CHECKING:
    from octavo.agent.adapters import MockAdapter, ModelConfig, OpenAIAdapter
    from octavo.agent.agent import Agent
    from octavo.agent.context import AgentContext
    from octavo.chat.memory import ChatMemory
    from octavo.chat.messages import Msg
    from octavo.chat.named import AsyncSQLAlchemyMemory, InMemoryMemory, RedisMemory
    from octavo.events.adapting import as_store
    from octavo.events.base import BaseMemoryStore
    from octavo.events.migrating import Migrated, migrate
    from octavo.events.records import AgentEvent, EventType
    from octavo.events.retention import Retention
    from octavo.events.store import EventStore
    from octavo.events.stores import (
        FileMemoryStore,
        InMemoryMemoryStore,
        MySQLMemoryStore,
        PostgreSQLMemoryStore,
        RedisMemoryStore,
        SQLiteMemoryStore,
    )
    from octavo.layers.memory import LayeredMemory
    from octavo.models import open_embedder
    from octavo.search.hits import Hit
    from octavo.search.recall import Recall
    from octavo.service import (
        Core,
        EventRecord,
        GateAction,
        GateResult,
        MemoryService,
        MessagePayload,
        Observation,
        ObservationType,
        TurnRecord,
    )
    from octavo.vectors import open_vectors
    from octavo.wraps.deduped import Deduped
    from octavo.wraps.journal import Journal
    from octavo.wraps.vectors import Indexed

__version__ = "0.1.0"

# Loaded on first use: `import octavo` stays light, and what needs an extra does not ask for it before.
_LAZY = {
    "Agent": "octavo.agent.agent",
    "AgentContext": "octavo.agent.context",
    "AgentEvent": "octavo.events.records",
    "AsyncSQLAlchemyMemory": "octavo.chat.named",
    "BaseMemoryStore": "octavo.events.base",
    "ChatMemory": "octavo.chat.memory",
    "Core": "octavo.service",
    "EventRecord": "octavo.service",
    "Deduped": "octavo.wraps.deduped",
    "EventStore": "octavo.events.store",
    "EventType": "octavo.events.records",
    "FileMemoryStore": "octavo.events.stores",
    "GateAction": "octavo.service",
    "GateResult": "octavo.service",
    "Hit": "octavo.search.hits",
    "InMemoryMemory": "octavo.chat.named",
    "InMemoryMemoryStore": "octavo.events.stores",
    "Indexed": "octavo.wraps.vectors",
    "Journal": "octavo.wraps.journal",
    "LayeredMemory": "octavo.layers.memory",
    "MemoryService": "octavo.service",
    "MessagePayload": "octavo.service",
    "Migrated": "octavo.events.migrating",
    "MockAdapter": "octavo.agent.adapters",
    "ModelConfig": "octavo.agent.adapters",
    "Msg": "octavo.chat.messages",
    "MySQLMemoryStore": "octavo.events.stores",
    "Observation": "octavo.service",
    "ObservationType": "octavo.service",
    "OpenAIAdapter": "octavo.agent.adapters",
    "PostgreSQLMemoryStore": "octavo.events.stores",
    "Recall": "octavo.search.recall",
    "RedisMemory": "octavo.chat.named",
    "RedisMemoryStore": "octavo.events.stores",
    "Retention": "octavo.events.retention",
    "SQLiteMemoryStore": "octavo.events.stores",
    "TurnRecord": "octavo.service",
    "as_store": "octavo.events.adapting",
    "migrate": "octavo.events.migrating",
    "open_embedder": "octavo.models",
    "open_vectors": "octavo.vectors",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'octavo' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_LAZY[name]), name)
    return value


__all__ = [
    "START",
    "Add",
    "Agent",
    "AgentContext",
    "AgentEvent",
    "AsyncSQLAlchemyMemory",
    "BaseMemoryStore",
    "Change",
    "ChatMemory",
    "ConfigError",
    "Conflict",
    "Core",
    "Cursor",
    "Deduped",
    "EventRecord",
    "EventStore",
    "EventType",
    "FileMemoryStore",
    "GateAction",
    "GateResult",
    "Hit",
    "InMemoryMemory",
    "InMemoryMemoryStore",
    "Indexed",
    "InvalidQuery",
    "InvalidRecord",
    "Journal",
    "LayeredMemory",
    "MemoryService",
    "MessagePayload",
    "Migrated",
    "MockAdapter",
    "ModelConfig",
    "ModelError",
    "Msg",
    "MySQLMemoryStore",
    "NotFound",
    "Observation",
    "ObservationType",
    "OctavoError",
    "Op",
    "OpenAIAdapter",
    "PostgreSQLMemoryStore",
    "Query",
    "Recall",
    "Record",
    "RedisMemory",
    "RedisMemoryStore",
    "Remove",
    "Retention",
    "SQLiteMemoryStore",
    "Scope",
    "Store",
    "StoreClosed",
    "StoreError",
    "StoreUnavailable",
    "Tally",
    "TurnRecord",
    "as_store",
    "migrate",
    "new_id",
    "open_embedder",
    "open_store",
    "open_vectors",
    "walk",
]
