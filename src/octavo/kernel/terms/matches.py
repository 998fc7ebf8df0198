"""What a search by terms answers, and which terms choose the records it looks at."""

from collections.abc import Callable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import TypeVar

import msgspec

from octavo.kernel.model import Query, Rank, Scope
from octavo.kernel.terms import LONGEST_TERM, is_topic

#: No search looks at more records than this; what a question's rarest terms find comes first.
MOST = 1000
#: Where even the rarest term stands in more records than this, to find the newest of those takes long:
COMMON = 5 * MOST
#: so many of the newest records are looked at instead, whatever they hold,
LOOKED = 4 * MOST
#: if no fewer than this hold it there. So many must hold all words that choose together.
ENOUGH = MOST // 20
T = TypeVar("T")


class Match(msgspec.Struct, frozen=True, gc=False):
    """A record that holds at least one of the terms asked for: how often it holds each, and how long it is."""

    id: str
    scope: Scope
    created_at: datetime
    seq: int
    length: int  # its terms, all counted
    counts: tuple[int, ...]  # one for each term asked for

    @property
    def rank(self) -> Rank:
        """Where its record stands in the order of all."""
        return (self.created_at, self.seq, self.id, self.scope.key)


class Matches(msgspec.Struct, frozen=True):
    """What was found, oldest first, and in how many records each term stands (counted up to MOST + 1)."""

    found: list[Match] = []
    held: tuple[int, ...] = ()

    def spread(self, distinct: Sequence[str], terms: Sequence[str]) -> "Matches":
        """This answer about distinct terms as one about all terms given: repeated ones, and ones nothing can hold."""
        positions = {term: at for at, term in enumerate(distinct)}
        chosen = [positions.get(term, -1) for term in terms]

        def spread(counts: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(0 if at < 0 else counts[at] for at in chosen)

        return Matches(
            [msgspec.structs.replace(match, counts=spread(match.counts)) for match in self.found],
            spread(self.held),
        )


def holdable(term: str) -> bool:
    """Whether any text could hold this term: it is not empty or too long, and no engine could stumble over it."""
    if term.isascii():
        return term.isalnum() and len(term) <= LONGEST_TERM
    return len(term) <= LONGEST_TERM and all(
        c.isalnum() if c.isascii() else not (c.isspace() or "\ud800" <= c <= "\udfff") for c in term
    )


def nominate(terms: Sequence[str], held: Sequence[int]) -> list[str]:
    """The terms that choose the records to look at: from the rarest on, as many as find no more than MOST together.

    `held` says in how many records each term stands. A term nobody holds is left out; the rarest one is always in; one
    that is given twice counts once. Where all are in more than MOST, a word says more than a topic.
    """
    chosen: list[str] = []
    total = 0
    asked = {(n, n > MOST and is_topic(term), term) for n, term in zip(held, terms, strict=True) if n}
    for n, _, term in sorted(asked):
        total += n
        if chosen and total > MOST:
            break
        chosen.append(term)
    return chosen


def order_words(terms: Sequence[str], held: Sequence[int]) -> list[int]:
    """Where even the rarest term stands in more than MOST records: its position, then those of the other words.

    They choose together: from the first on, as many as ENOUGH records hold all of.
    """
    first, *_ = nominate(terms, held)
    words = {term for term, n in zip(terms, held, strict=True) if n and term != first and not is_topic(term)}
    return [terms.index(term) for term in (first, *sorted(words))]


def choose(
    found: Sequence[T], terms: Sequence[str], held: Sequence[int], counts: Callable[[T], Sequence[int]]
) -> list[T]:
    """Of more than MOST records, which hold the terms so often each, those that the terms choose."""
    positions = [terms.index(term) for term in nominate(terms, held)]
    chosen = [one for one in found if any(counts(one)[at] for at in positions)]
    for at in order_words(terms, held)[1:] if len(chosen) > MOST else ():
        both = [one for one in chosen if counts(one)[at]]
        if len(both) < ENOUGH:
            break
        chosen = both
    return chosen


def narrow(found: Sequence[Match], terms: Sequence[str]) -> Matches:
    """Of more than MOST matches those that the terms choose; and in how many each term stands."""
    held = tuple(min(sum(1 for match in found if match.counts[at]), MOST + 1) for at in range(len(terms)))
    if len(found) > MOST:
        found = choose(found, terms, held, attrgetter("counts"))
    return Matches(list(found), held)


def newest(found: list[Match], edge: Rank | None) -> list[Match]:
    """The newest MOST; none that is older than the `edge`, if there is one and ENOUGH are not."""
    latest = [match for match in found if edge is not None and match.rank >= edge]
    return (latest if len(latest) >= ENOUGH else found)[-MOST:]


def is_unfiltered(query: Query) -> bool:
    """Whether a query asks for no more than whose a record is and when it was."""
    lists = query.ids, query.kinds, query.marks
    return not (any(one is not None for one in lists) or query.without or query.where or query.expired_at)
