"""How well recall finds: questions with known answers are asked of a store, and what comes back is scored."""

from octavo.measure.asking import Asked, Run, Trial, measure, new_tenant
from octavo.measure.data import Case, Data, Talk
from octavo.measure.figures import Compared, Figures, Summary, compared, summary
from octavo.measure.formats import FORMATS, load

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
