"""Which records of a shelf hold a term: late, since what comes is only noted, and brought up to date in short steps."""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TypeAlias, TypeVar, cast

from octavo.kernel.codec import Sealed
from octavo.kernel.model import Rank
from octavo.kernel.ports import Lexicon
from octavo.kernel.terms.matching import content, count_terms
from octavo.stores.image import Shelf

T = TypeVar("T")
#: Work in steps of a few milliseconds; each yields how much is done and how much there is.
Steps: TypeAlias = Generator[tuple[int, int], None, T]

#: What is done in one step, in terms. Counted, not timed: on a busy machine, time passes without any work.
STEP_WORK = 2000
_EACH = 8  # what a record costs beside its terms
_ENTRIES = 8  # entries of a posting that are looked through at the cost of one term
COUNT_BITS = 24  # of a posting's entry: document number above, how often it holds the term below
COUNT = (1 << COUNT_BITS) - 1
MANY = 255  # what a common term's table says of so many and of more
_DEAD = 1000  # fewer forgotten documents than this are not worth a new index
_COMMON = 16  # a term is common when one in so many records holds it
_NONE = array("Q")


class TermIndex:
    """Which records of a shelf hold a term: one sorted array of numbers for each term.

    Records are numbered in the order they are indexed, so that every array only grows at its end. A record that is gone
    or changed leaves its number behind, which then stands for nothing.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self.waiting: dict[Rank, None] = dict.fromkeys(shelf.ranks())
        self._postings: dict[str, array[int]] = {}
        self._common: dict[str, bytearray] = {}
        self._numbers: dict[Rank, int] = {}
        self._ranks: list[Rank | None] = []
        self._lengths = array("I")

    @property
    def indexed(self) -> int:
        """How many records are in the index."""
        return len(self._numbers)

    @property
    def worn(self) -> bool:
        """Whether more of it is about records that are gone than about those that are kept."""
        return len(self._ranks) > 2 * len(self._numbers) + _DEAD

    def forget(self, rank: Rank) -> None:
        """Have nothing to do with this record any more."""
        number = self._numbers.pop(rank, None)
        if number is None:
            self.waiting.pop(rank, None)
        else:
            self._ranks[number] = None

    def catch_up(self, left: int, work: int = STEP_WORK) -> int:
        """Index all that waits but `left`, and of those as many as the work allows; answer how many still wait."""
        waiting = self.waiting
        while waiting and (len(waiting) > left or work > 0):
            # What came meanwhile is not counted: or who writes as fast as this works would never let it end.
            counted = len(waiting) <= left
            # From the end: at the beginning of a dict, those taken out before would be passed over each time.
            rank, _ = waiting.popitem()
            try:
                length = self._add(rank)
            except BaseException:
                waiting[rank] = None
                raise
            if counted:
                work -= _EACH + length
        return len(waiting)

    def _add(self, rank: Rank) -> int:
        counted, length = count_terms(_content(self._shelf.row(rank)))
        number = len(self._ranks)
        self._ranks.append(None)  # if this is broken off, what was written below stands for nothing
        self._lengths.append(length)
        place = number << COUNT_BITS
        postings = self._postings
        for term, count in counted.items():
            posting = postings.get(term)
            if posting is None:
                postings[term] = array("Q", (place + count,))
            else:
                posting.append(place + count)
        self._ranks[number] = rank
        self._numbers[rank] = number
        return length

    # --- answers; nothing may be waiting

    def posting(self, term: str) -> "array[int]":
        """The entries of the records that hold the term, in the order of their numbers."""
        return self._postings.get(term, _NONE)

    def common(self, term: str) -> bytearray | None:
        """How often each record holds a common term, by number (255 for more), or None when the term is not common."""
        posting = self.posting(term)
        if len(posting) * _COMMON < len(self._ranks):
            return None
        counts = self._common.setdefault(term, bytearray())
        known = len(counts)
        if known < len(self._ranks):
            counts.extend(bytes(len(self._ranks) - known))
            for entry in posting[bisect_left(posting, known << COUNT_BITS) :]:
                counts[entry >> COUNT_BITS] = min(entry & COUNT, MANY)
        return counts

    def number(self, rank: Rank) -> int:
        return self._numbers[rank]

    def rank(self, number: int) -> Rank:
        """The rank of a record that is not gone."""
        return cast("Rank", self._ranks[number])

    def length(self, number: int) -> int:
        """How many terms the record of this number holds, each as often as it stands there."""
        return self._lengths[number]

    def kept(self, number: int) -> Sealed | None:
        """The record of this number, unless it is gone."""
        rank = self._ranks[number]
        return None if rank is None else self._shelf.row(rank)

    # --- being compared with the records

    def verified(self, collection: str) -> Steps[Lexicon]:
        """Compare every entry with the text it was made from."""
        known = len(self._ranks)
        entries = array("I", bytes(4 * known))
        terms = list(self._postings)
        total = len(terms) + known
        for done, term in _paced(terms, lambda term: len(self._postings[term]) // _ENTRIES):
            for entry in self._postings[term]:
                if (number := entry >> COUNT_BITS) < known:
                    entries[number] += 1
            if done:
                yield done, total
        missing: list[str] = []
        twice = 0
        for done, number in _paced(range(known), self._lengths.__getitem__):
            sealed = self.kept(number)
            if sealed is not None and self._numbers.get(sealed.rank) != number:
                twice += 1
            elif sealed is not None and not self._right(sealed, number, entries[number]):
                missing.append(sealed.id)
            if done:
                yield len(terms) + done, total
        records = set(self._shelf.ranks())
        missing += [rank[2] for rank in records if rank not in self._numbers and rank not in self.waiting]
        return Lexicon(
            collection=collection,
            records=len(records),
            waiting=len(self.waiting),
            missing=tuple(sorted(missing)),
            stray=len(self._numbers.keys() - records) + twice,
        )

    def _right(self, sealed: Sealed, number: int, entries: int) -> bool:
        counted, length = count_terms(_content(sealed))
        return (
            length == self._lengths[number]
            and len(counted) == entries
            and all(count_in(self._postings.get(t, _NONE), number) == n for t, n in counted.items())
        )


def count_in(posting: "array[int]", number: int) -> int:
    """How often the record of this number holds the posting's term."""
    low = number << COUNT_BITS
    at = bisect_left(posting, low)
    if at == len(posting):
        return 0
    over = posting[at] - low
    return over if over <= COUNT else 0


def _content(sealed: Sealed) -> str:
    return sealed.text or content("", sealed.data)


def _paced(things: Sequence[T], cost: Callable[[T], int]) -> Iterator[tuple[int, T]]:
    """Each thing, with how many are done when it is time to let others go, and else 0."""
    work = STEP_WORK
    for done, thing in enumerate(things, 1):
        work -= _EACH + cost(thing)
        yield (done if work <= 0 else 0), thing
        if work <= 0:
            work = STEP_WORK
