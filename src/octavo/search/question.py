"""A question as it is asked of memory: its terms, its parts and the times it names."""

import re
from datetime import datetime
from functools import cache

import msgspec

from octavo.lexis.english import STOP_WORDS
from octavo.lexis.terms import terms
from octavo.search.times import Span, spans

MOST_TERMS = 600  # of one question; what comes after a thousand characters seldom changes what is meant
MOST_CHARACTERS = 10_000
_ENDS = re.compile(r"[。！？!?；;\n]+|\.(?=\s|$)|另外|还有，|此外|\balso,", re.IGNORECASE)
# Words that shape a question rather than name what it is about.
_ASKING = (
    "kind kinds type types sort sorts many much often ever also likely might may one ones someone something anyone "
    "anything everyone everything"
)
# What is left of she'll, I'll, I'd when the apostrophe is gone, but is also what a question may be about.
_ALSO_WORDS = frozenset(("shell", "hell", "ill", "id", "shed", "wed"))
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
        return cls(
            text=text,
            terms=distinct,
            parts=tuple(parts) if len(parts) > 1 else (),
            spans=spans(text, at),
        )


def _matter(text: str) -> list[str]:
    """The terms of a text without those that only carry its sentences, unless it has no others."""
    found = terms(text)
    return [term for term in found if term not in _carriers()] or found


@cache
def _carriers() -> frozenset[str]:
    return frozenset(term for word in (*STOP_WORDS, *_ASKING.split()) for term in terms(word)) - _ALSO_WORDS
