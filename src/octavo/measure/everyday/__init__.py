"""Everyday questions: what people say to an assistant, what is asked about it afterwards, and how often it is found."""

from octavo.measure.everyday.asking import PATHS, Answered, Figures, Path, ask_people, figures_of
from octavo.measure.everyday.data import (
    LANGUAGES,
    PARTS,
    Language,
    Pair,
    Part,
    Person,
    Statement,
    load_people,
)

__all__ = [
    "LANGUAGES",
    "PARTS",
    "PATHS",
    "Answered",
    "Figures",
    "Language",
    "Pair",
    "Part",
    "Path",
    "Person",
    "Statement",
    "ask_people",
    "figures_of",
    "load_people",
]
