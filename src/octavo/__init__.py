"""Octavo: memory for AI agents. One record, many faces."""

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

__version__ = "0.1.0"

__all__ = [
    "START",
    "Add",
    "Change",
    "ConfigError",
    "Conflict",
    "Cursor",
    "InvalidQuery",
    "InvalidRecord",
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
]
