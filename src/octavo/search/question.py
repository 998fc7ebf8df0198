"""A question as it is asked of memory: its terms, its parts and the times it names."""

import re
from datetime import datetime

import msgspec

from octavo.kernel.terms.dates import Span, relative_spans, spans
from octavo.kernel.terms.english import STOP_WORDS
from octavo.kernel.terms.terms import terms

MOST_TERMS = 600  # of one question; what comes after a thousand characters seldom changes what is meant
MOST_CHARACTERS = 4000
_ENDS = re.compile(r"[。！？!?；;\n]+|\.(?=\s|$)|另外|还有，|此外|\balso,", re.IGNORECASE)
# Words that shape a question rather than name what it is about.
_ASKING = (
    "kind kinds type types sort sorts many much often ever also likely might may one ones someone something anyone "
    "anything everyone everything"
)
_CARRIERS = re.compile(
    rf"(?<![\w'])(?:{'|'.join(sorted((*STOP_WORDS, *_ASKING.split()), key=len, reverse=True))})(?![\w'])",
    re.IGNORECASE,
)
_DATE_SIGNS = re.compile(r"(?<=\d)\s*[年月日号]")  # every date has them
_FEWEST = 3  # terms of a part that is asked by itself


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for. A question of several sentences is also asked part by part, so that each is answered."""

    text: str
    terms: tuple[str, ...]
    parts: tuple[tuple[int, ...], ...] = ()  # where the terms of each part stand among all terms
    spans: tuple[Span, ...] = ()  # the times it names

    @classmethod
    def of(cls, text: str, at: datetime) -> "Question":
        """Read a question asked at that moment."""
        # No model, and no server, takes half of a surrogate pair.
        text = text[:MOST_CHARACTERS].encode("utf-8", "replace").decode()
        distinct = tuple(dict.fromkeys(_matter(text)))[:MOST_TERMS]
        numbers = {term: number for number, term in enumerate(distinct)}
        parts = [
            tuple(dict.fromkeys(numbers[term] for term in _matter(part) if term in numbers))
            for part in _ENDS.split(text)
        ]
        parts = [part for part in parts if len(part) >= _FEWEST]
        several = len(parts) > 1
        # Today and yesterday in the small talk around a question do not say when its answer was told.
        counted = () if several else relative_spans(text, at)
        return cls(
            text=text,
            terms=distinct,
            parts=tuple(parts) if several else (),
            spans=(*spans(text, at), *counted),
        )


def _matter(text: str) -> list[str]:
    """The terms of a text without words that only carry its sentences, unless it has no others."""
    # Words, not their stems: "likely" carries a question, what somebody likes is what it is about.
    matter = _DATE_SIGNS.sub(" ", _CARRIERS.sub(" ", text.replace("’", "'")))
    return terms(matter) or terms(text)
