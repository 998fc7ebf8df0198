"""Layered memory: who somebody is (the profile) and what happened (events), with a log of every change."""

from typing import TYPE_CHECKING

from octavo.util.importing import names_on_use

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

# Whoever needs only the values does not pay for the stores.
_HOMES = {
    "octavo.layers.memory": "LayeredMemory",
    "octavo.layers.values": "CATEGORIES Action Decision Extracted Extractor Fact Found Known Layer LogEntry Outcome OwnerType "
    "Page State",
}
__getattr__ = names_on_use(__name__, _HOMES)

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
