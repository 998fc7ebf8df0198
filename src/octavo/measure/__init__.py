"""How well recall finds: questions with known answers are asked of a store, and what comes back is scored."""

from octavo.measure.asking import (
    Asked,
    Compared,
    Figures,
    Run,
    Summary,
    Trial,
    compared,
    measure,
    new_tenant,
    summary,
)
from octavo.measure.formats import FORMATS, Case, Data, Talk, load

__all__ = [
    "FORMATS",
    "Asked",
    "Case",
    "Compared",
    "Data",
    "Figures",
    "Run",
    "Summary",
    "Talk",
    "Trial",
    "compared",
    "load",
    "measure",
    "new_tenant",
    "summary",
]
