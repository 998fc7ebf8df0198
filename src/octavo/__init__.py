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
from octavo.ids import new_id
from octavo.model import START, Add, Change, Cursor, Op, Query, Record, Remove, Scope, Tally
from octavo.ports import Store, walk
from octavo.stores import open_store

if TYPE_CHECKING:
    from octavo.models import open_embedder
    from octavo.search.hits import Hit
    from octavo.search.recall import Recall
    from octavo.vectors import open_vectors
    from octavo.wraps.indexed import Indexed

__version__ = "0.1.0"

# Loaded on first use: `import octavo` stays light, and what needs an extra does not ask for it before.
_LAZY = {
    "Hit": "octavo.search.hits",
    "Indexed": "octavo.wraps.indexed",
    "Recall": "octavo.search.recall",
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
    "Change",
    "ConfigError",
    "Conflict",
    "Cursor",
    "Hit",
    "Indexed",
    "InvalidQuery",
    "InvalidRecord",
    "ModelError",
    "NotFound",
    "OctavoError",
    "Op",
    "Query",
    "Recall",
    "Record",
    "Remove",
    "Scope",
    "Store",
    "StoreClosed",
    "StoreError",
    "StoreUnavailable",
    "Tally",
    "new_id",
    "open_embedder",
    "open_store",
    "open_vectors",
    "walk",
]
