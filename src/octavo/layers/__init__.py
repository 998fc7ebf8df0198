"""Layered memory: who somebody is (the profile) and what happened (events), with a log of every change."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from octavo.layers.deciding import CATEGORIES, Decision, Extractor, Known, Layer, OwnerType
    from octavo.layers.memory import LayeredMemory
    from octavo.layers.values import Action, Extracted, Found, LogEntry, Memory, Outcome, State

# Loaded on first use: whoever needs only the values does not pay for the stores.
_LAZY = {
    **dict.fromkeys(
        ("CATEGORIES", "Decision", "Extractor", "Known", "Layer", "OwnerType"), "octavo.layers.deciding"
    ),
    **dict.fromkeys(
        ("Action", "Extracted", "Found", "LogEntry", "Memory", "Outcome", "State"), "octavo.layers.values"
    ),
    "LayeredMemory": "octavo.layers.memory",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'octavo.layers' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_LAZY[name]), name)
    return value


__all__ = [
    "CATEGORIES",
    "Action",
    "Decision",
    "Extracted",
    "Extractor",
    "Found",
    "Known",
    "Layer",
    "LayeredMemory",
    "LogEntry",
    "Memory",
    "Outcome",
    "OwnerType",
    "State",
]
