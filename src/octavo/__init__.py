"""Octavo: memory for AI agents. One record, many faces."""

from typing import TYPE_CHECKING

from octavo.util.importing import names_on_use

if TYPE_CHECKING:
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
    from octavo.kernel.pages import walk
    from octavo.kernel.ports import Store
    from octavo.stores import open_store
    from octavo.agent import (
        Agent as Agent,
        AgentContext as AgentContext,
        MockAdapter as MockAdapter,
        ModelConfig as ModelConfig,
        OpenAIAdapter as OpenAIAdapter,
    )
    from octavo.chat import (
        AsyncSQLAlchemyMemory as AsyncSQLAlchemyMemory,
        ChatMemory as ChatMemory,
        InMemoryMemory as InMemoryMemory,
        Msg as Msg,
        RedisMemory as RedisMemory,
    )
    from octavo.events import (
        AgentEvent as AgentEvent,
        BaseMemoryStore as BaseMemoryStore,
        EventStore as EventStore,
        EventType as EventType,
        FileMemoryStore as FileMemoryStore,
        InMemoryMemoryStore as InMemoryMemoryStore,
        Migrated as Migrated,
        MySQLMemoryStore as MySQLMemoryStore,
        PostgreSQLMemoryStore as PostgreSQLMemoryStore,
        RedisMemoryStore as RedisMemoryStore,
        Retention as Retention,
        SQLiteMemoryStore as SQLiteMemoryStore,
        as_store as as_store,
        migrate as migrate,
    )
    from octavo.layers.memory import LayeredMemory as LayeredMemory
    from octavo.memory import (
        AsyncMemory as AsyncMemory,
        Memory as Memory,
        with_memory as with_memory,
    )
    from octavo.models import open_embedder as open_embedder
    from octavo.search.hits import Hit as Hit
    from octavo.search.recall import Recall as Recall
    from octavo.service import (
        Core as Core,
        EventRecord as EventRecord,
        GateAction as GateAction,
        GateResult as GateResult,
        MemoryService as MemoryService,
        MessagePayload as MessagePayload,
        Observation as Observation,
        ObservationType as ObservationType,
        TurnRecord as TurnRecord,
    )
    from octavo.vectors import open_vectors as open_vectors
    from octavo.wraps.deduped import Deduped as Deduped
    from octavo.wraps.vectors import Indexed as Indexed
    from octavo.wraps.journal import Journal as Journal
    from octavo.wraps.metered import Metered as Metered

__version__ = "0.1.0"

#: Where the names live; each is loaded on first use, so that `import octavo` stays light, Ctrl-C ends the command while it
#: is still loading, and what needs an extra does not ask for it before.
_HOMES = {
    "octavo.agent": "Agent AgentContext MockAdapter ModelConfig OpenAIAdapter",
    "octavo.chat": "AsyncSQLAlchemyMemory ChatMemory InMemoryMemory Msg RedisMemory",
    "octavo.errors": "ConfigError Conflict InvalidQuery InvalidRecord ModelError NotFound OctavoError "
    "StoreClosed StoreError StoreUnavailable",
    "octavo.events": "AgentEvent BaseMemoryStore EventStore EventType FileMemoryStore InMemoryMemoryStore Migrated "
    "MySQLMemoryStore PostgreSQLMemoryStore RedisMemoryStore Retention SQLiteMemoryStore as_store migrate",
    "octavo.kernel.ids": "new_id",
    "octavo.kernel.model": "START Add Change Cursor Op Query Record Remove Scope Tally",
    "octavo.kernel.pages": "walk",
    "octavo.kernel.ports": "Store",
    "octavo.layers.memory": "LayeredMemory",
    "octavo.memory": "AsyncMemory Memory with_memory",
    "octavo.models": "open_embedder",
    "octavo.search.hits": "Hit",
    "octavo.search.recall": "Recall",
    "octavo.service": "Core EventRecord GateAction GateResult MemoryService MessagePayload Observation ObservationType "
    "TurnRecord",
    "octavo.stores": "open_store",
    "octavo.vectors": "open_vectors",
    "octavo.wraps.deduped": "Deduped",
    "octavo.wraps.journal": "Journal",
    "octavo.wraps.metered": "Metered",
    "octavo.wraps.vectors": "Indexed",
}
__getattr__ = names_on_use(__name__, _HOMES)

__all__ = [
    "START",
    "Add",
    "AsyncMemory",
    "Change",
    "ConfigError",
    "Conflict",
    "Cursor",
    "InvalidQuery",
    "InvalidRecord",
    "Memory",
    "ModelError",
    "NotFound",
    "OctavoError",
    "Op",
    "Query",
    "Record",
    "Remove",
    "Scope",
    "Store",
    "StoreClosed",
    "StoreError",
    "StoreUnavailable",
    "Tally",
    "new_id",
    "open_store",
    "walk",
    "with_memory",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
