"""Layered memory: who somebody is (the profile) and what happened (events), with a log of every change."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from octavo.layers.memory import LayeredMemory
    from octavo.layers.values import (
        CATEGORIES,
        Action,
        Decision,
        Extracted,
        Extractor,
        Fact,
        Found,
        Known,
        Layer,
        LogEntry,
        Outcome,
        OwnerType,
        Page,
        State,
    )

__all__ = [
    "CATEGORIES",
    "Action",
    "Decision",
    "Extracted",
    "Extractor",
    "Fact",
    "Found",
    "Known",
    "Layer",
    "LayeredMemory",
    "LogEntry",
    "Outcome",
    "OwnerType",
    "Page",
    "State",
]


def __getattr__(name: str) -> Any:
    # Loaded on first use: whoever needs only the values does not pay for the stores.
    if name not in __all__:
        raise AttributeError(f"module 'octavo.layers' has no attribute {name!r}")
    module = importlib.import_module(f"octavo.layers.{'memory' if name == 'LayeredMemory' else 'values'}")
    value = globals()[name] = getattr(module, name)
    return value
