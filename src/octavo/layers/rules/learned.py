"""Whether a clause tells something of its writer, and of which category, as learned from labelled sentences.

Rules know shapes; people find others. Each clause is a set of short pieces (words, pairs of words, runs of characters), each
piece has a weight, and their sum says how likely it is that the clause tells a fact. `python -m bench.learn_clauses` makes the weights.
"""

import math
import re
import zlib
from functools import cache, cached_property
from importlib import resources
from itertools import pairwise
from typing import NamedTuple

BITS = 16  # of a piece's hash: how many weights there are
SCALE = 16  # a weight is a byte, in sixteenths
#: The columns of weights: whether anything is told, whether that lasts, and its category, if it is not `preference`.
COLUMNS = ("told", "lasting", "career", "education", "ability", "personality", "value")
_MASK = (1 << BITS) - 1
_CLAUSES = {
    "en": re.compile(
        r"[,;] +| [-–—]+ | (?=(?:and|but|so|because|since|cos|though|while|which|who|where) (?:i|i'm|i've|im|ive|my|we|we're|our|he|she|they|it|is|was|has|had|have|am|are|now|then|live|work)\b)",
        re.IGNORECASE,
    ),
    "zh": re.compile(r"[，,；;]|(?<=[\u3400-\u9fff])\s+(?=[\u3400-\u9fff])"),
}
_WORD = re.compile(r"[\w']+|[^\w\s]")
_DIGIT = re.compile(r"\d")


class Clause(NamedTuple):
    """A clause as it was typed, the first one of its text, those beside it, and whether its sentence asks something."""

    text: str
    first: str
    before: str
    after: str
    asks: bool
    alone: bool  # it is the whole sentence


def split(sentence: str, last: Clause | None, *, asks: bool, language: str) -> list[Clause]:
    """The clauses of a sentence; `last` is the last one of the sentence before it."""
    parts = [part for part in map(str.strip, _CLAUSES[language].split(sentence)) if len(part) > 1]
    found: list[Clause] = []
    for part, after in zip(parts, [*parts[1:], ""], strict=False):
        first, before = (last.first or last.text, last.text) if last else ("", "")
        last = Clause(part, first, before, after, asks, alone=len(parts) == 1)
        found.append(last)
    return found


def pieces(clause: Clause, language: str) -> set[str]:
    """What a clause is weighed by."""
    text, first, before, after = (_DIGIT.sub("0", one.casefold()) for one in clause[:4])
    if language == "zh":
        found = _runs(f"^{text}$", 1, 3)
        around = [before[:1], before[-1:], first[:1], first[:2], after[:1], after[:2], after[-1:]]
    else:
        words = ["^", *_WORD.findall(text), "$"]
        found = {f"w{word}" for word in words}
        found.update(f"{one} {other}" for one, other in pairwise(words))
        for word in words[1:-1]:
            found |= _runs(f"<{word}>", 2, 4)
        beside = [_WORD.findall(one) for one in (first, before, after)]
        around = [" ".join(some) for one in beside for some in (one[:1], one[:2], one[-1:])]
    found.update(f"{at} {piece}" for at, piece in enumerate(around))
    found.update((f"asks {clause.asks} {clause.alone}", "any"))
    return found


def _runs(text: str, shortest: int, longest: int) -> set[str]:
    return {
        text[at : at + size] for size in range(shortest, longest + 1) for at in range(len(text) - size + 1)
    }


def positions(clause: Clause, language: str) -> list[int]:
    """Where the weights of a clause's pieces are, in any column."""
    return sorted({zlib.crc32(piece.encode()) & _MASK for piece in pieces(clause, language)})


@cache
def _weights(language: str) -> list[memoryview]:
    data = memoryview(resources.files(__package__).joinpath(f"learned_{language}.bin").read_bytes()).cast("b")
    return [data[at : at + _MASK + 1] for at in range(0, len(data), _MASK + 1)]


class WeighedClause:
    """A clause with what the weights say of it."""

    def __init__(self, clause: Clause, language: str) -> None:
        self.text = clause.text
        self._at = positions(clause, language)
        self._columns = _weights(language)

    @cached_property
    def told(self) -> float:
        """How likely it is that the clause tells something of its writer, from 0 to 1."""
        return self._chance(0)

    @property
    def lasting(self) -> float:
        """How likely it is that what it tells is so for long, and is no happening."""
        return self._chance(1)

    @property
    def category(self) -> str:
        """The category of what it tells, if that lasts; `preference` is what is none of the others."""
        chance, name = max((self._chance(at), name) for at, name in enumerate(COLUMNS) if at > 1)
        return name if chance > 0.5 else "preference"

    def _chance(self, column: int) -> float:
        weight = sum(map(self._columns[column].__getitem__, self._at)) / SCALE / math.sqrt(len(self._at))
        return 1 / (1 + math.exp(-weight))
