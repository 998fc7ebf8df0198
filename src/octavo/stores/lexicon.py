"""The index of terms of the memory and file stores: beside the records, made on the first search, late but never seen so.

A record that comes or changes is only noted; its terms are made in idle time and before a search answers. What takes
long is done in steps (`Steps`), so that whoever runs them can let others go in between.
"""

import heapq
import itertools
import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import msgspec

from octavo.codec import Sealed
from octavo.lexis.matches import MOST, Match, Matches, nominated
from octavo.lexis.matching import content, count_terms
from octavo.model import Query, Rank
from octavo.ports import Lexicon
from octavo.stores.image import Image, Shelf

T = TypeVar("T")
#: Work in steps of a few milliseconds; each yields how much is done and how much there is.
Steps: TypeAlias = Generator[tuple[int, int], None, T]

STEP_SECONDS = 0.003
_COUNT_BITS = 24  # of a posting's entry: document number above, how often it holds the term below
_COUNT = (1 << _COUNT_BITS) - 1
_FEW = 100  # for so few records no table of a common term is made
_SMALL = 5000  # a scope with fewer records is held as a set while it is searched
_DEAD = 1000  # fewer forgotten documents than this are not worth a new index
_COMMON = 16  # a term is common when one in so many records holds it
_MANY = 255
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

    def catch_up(self, left: int, seconds: float = STEP_SECONDS) -> int:
        """Index what waits until the time is over and no more than `left` are waiting; answer how many are."""
        until = time.perf_counter() + seconds
        waiting = self.waiting
        while waiting and (len(waiting) > left or time.perf_counter() < until):
            # From the end: at the beginning of a dict, those taken out before would be passed over each time.
            rank, _ = waiting.popitem()
            try:
                self._add(rank)
            except BaseException:
                waiting[rank] = None
                raise
        return len(waiting)

    def _add(self, rank: Rank) -> None:
        counted, length = count_terms(_content(self._shelf.row(rank)))
        number = len(self._ranks)
        self._ranks.append(None)  # if this is broken off, what was written below stands for nothing
        self._lengths.append(length)
        place = number << _COUNT_BITS
        postings = self._postings
        for term, count in counted.items():
            posting = postings.get(term)
            if posting is None:
                postings[term] = array("Q", (place + count,))
            else:
                posting.append(place + count)
        self._ranks[number] = rank
        self._numbers[rank] = number

    # --- answers; nothing may be waiting

    def search(self, query: Query, terms: Sequence[str]) -> Matches:
        """Answer as `matching` would from the records of the shelf."""
        looking = _Looking(self, self._shelf, query)
        asked = [_Term(self, term) for term in terms]
        holders = [looking.holders(term) for term in asked]
        held = tuple(len(holder) for holder in holders)
        union: set[int] = set().union(*(holder for holder in holders if len(holder) <= MOST))
        if max(held) > MOST or len(union) > MOST:
            places = [terms.index(term) for term in nominated(terms, held)]
            if held[places[0]] > MOST:
                union = looking.newest(asked[places[0]])
            else:
                union = set().union(*(holders[place] for place in places))
        # Of a term with more holders than were looked for, not all that hold it are known.
        counts = [
            holder.get if len(holder) <= MOST else term.count
            for holder, term in zip(holders, asked, strict=True)
        ]
        lengths, row, ranks = self._lengths, self._shelf.row, self._ranks
        found = []
        for number in looking.in_order(union):
            rank = cast("Rank", ranks[number])
            counted = tuple([count(number, 0) for count in counts])
            found.append(Match(rank[2], row(rank).scope, rank[0], rank[1], lengths[number], counted))
        return Matches(found, held)

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
            for entry in posting[bisect_left(posting, known << _COUNT_BITS) :]:
                counts[entry >> _COUNT_BITS] = min(entry & _COUNT, _MANY)
        return counts

    def number(self, rank: Rank) -> int:
        return self._numbers[rank]

    def rank(self, number: int) -> Rank:
        """The rank of a record that is not gone."""
        return cast("Rank", self._ranks[number])

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
        for done, term in _paced(terms):
            for entry in self._postings[term]:
                if (number := entry >> _COUNT_BITS) < known:
                    entries[number] += 1
            if done:
                yield done, total
        missing: list[str] = []
        twice = 0
        for done, number in _paced(range(known)):
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


class _Looking:
    """One search: which records it may find, each looked at once however many terms it holds."""

    def __init__(self, index: TermIndex, shelf: Shelf, query: Query) -> None:
        self._index = index
        self._shelf = shelf
        self._settled = False
        self._verdicts: dict[int, bool] = {}
        self._seen: list[int] = []  # numbers from the newest record on, as far as anybody has walked
        self._walk: Iterator[Rank] = iter(())
        if query.ids is not None:
            query = msgspec.structs.replace(query, ids=frozenset(query.ids))
            named = sorted({sealed.rank for sealed in shelf.named(query)}, reverse=True)
            self._breadth, self._walk = len(named), iter(named)
        else:
            self._breadth, self._settled = shelf.breadth(query), shelf.settles(query)
            self._walk = shelf.walk(query, newest_first=True)
        self._query = query
        self._answers: Callable[[int], bool] = self._fits
        if self._breadth < _SMALL:
            inside = frozenset(self._order()).__contains__
            self._answers = inside if self._settled else lambda number: inside(number) and self._fits(number)

    def _order(self) -> Iterator[int]:
        """The numbers of the records inside the scope, from the newest on."""
        yield from self._seen
        for rank in self._walk:
            number = self._index.number(rank)
            self._seen.append(number)
            yield number

    def _fits(self, number: int) -> bool:
        """Whether the record of this number is kept and answers the query."""
        known = self._verdicts.get(number)
        if known is None:
            sealed = self._index.kept(number)
            known = sealed is not None and self._query.matches(sealed)  # type: ignore[arg-type] # Sealed answers to Record's names
            self._verdicts[number] = known
        return known

    def holders(self, term: "_Term") -> dict[int, int]:
        """The records that answer the query and hold the term, with how often; no more than MOST + 1 are looked for."""
        # On the walk of a query that asks for nothing more, a look at a common term's table is all it takes.
        if self._breadth <= len(term.posting) or (self._settled and term.common is not None):
            return dict(itertools.islice(self._on_the_walk(term), MOST + 1))
        found: dict[int, int] = {}
        answers = self._answers
        for entry in reversed(term.posting):
            if answers(number := entry >> _COUNT_BITS):
                found[number] = entry & _COUNT
                if len(found) > MOST:
                    break
        return found

    def _on_the_walk(self, term: "_Term") -> Iterator[tuple[int, int]]:
        settled, fits, count_of = self._settled, self._fits, term.count
        common = term.common if self._breadth > _FEW else None
        if common is None:
            for number in self._order():
                if (count := count_of(number)) and (settled or fits(number)):
                    yield number, count
            return
        for number in self._order():
            if (count := common[number]) and (settled or fits(number)):
                yield number, count if count < _MANY else count_of(number)

    def newest(self, term: "_Term") -> set[int]:
        """The newest MOST of the records that answer the query and hold the term."""
        # A walk meets a holder in every (breadth / holders) steps.
        if MOST * self._breadth < len(term.posting) ** 2:
            return {number for number, _ in itertools.islice(self._on_the_walk(term), MOST)}
        numbers = [number for entry in term.posting if self._answers(number := entry >> _COUNT_BITS)]
        return set(heapq.nlargest(MOST, numbers, key=self._index.rank))

    def in_order(self, numbers: set[int]) -> list[int]:
        """Numbers of records inside the scope by the age of their records, the oldest first."""
        if self._breadth < _SMALL:
            return [number for number in reversed(self._seen) if number in numbers]
        return sorted(numbers, key=self._index.rank)


class _Term:
    """One term asked for."""

    __slots__ = ("_common", "_index", "_term", "posting")

    def __init__(self, index: TermIndex, term: str) -> None:
        self._index = index
        self._term = term
        self._common: bytearray | None = None
        self.posting = index.posting(term)

    @property
    def common(self) -> bytearray | None:
        if self._common is None:
            self._common = self._index.common(self._term)
        return self._common

    def counter(self) -> Callable[[int, int], int]:
        """A function that counts, quickly for many records."""
        self._common = self.common
        return self.count

    def count(self, number: int, nothing: int = 0) -> int:
        """How often the record of this number holds the term."""
        if self._common is not None and (count := self._common[number]) < _MANY:
            return count
        return count_in(self.posting, number) or nothing


def count_in(posting: "array[int]", number: int) -> int:
    """How often the record of this number holds the posting's term."""
    low = number << _COUNT_BITS
    at = bisect_left(posting, low)
    if at == len(posting):
        return 0
    over = posting[at] - low
    return over if over <= _COUNT else 0


def _content(sealed: Sealed) -> str:
    return sealed.text or content("", sealed.data)


def _paced(things: Sequence[T]) -> Iterator[tuple[int, T]]:
    """Each thing, with how many are done when it is time to let others go, and else 0."""
    until = time.perf_counter() + STEP_SECONDS
    for done, thing in enumerate(things, 1):
        if time.perf_counter() < until:
            yield 0, thing
        else:
            yield done, thing
            until = time.perf_counter() + STEP_SECONDS


# --- in steps; between two of them records may come and go, and the whole image may be read anew


def searched(image: Image, query: Query, terms: Sequence[str]) -> Steps[Matches]:
    """Bring the index up to date and answer as `matching` would from all records, in the same step."""
    index, left = None, 0
    while True:
        shelf = image.shelf(query.collection)
        if not shelf.indexes:
            shelf.indexes.append(TermIndex(shelf))
        if index is not shelf.indexes[0]:
            index = shelf.indexes[0]
            left = len(index.waiting)
        # One fewer with every step: however fast others write, this comes to an end.
        left = index.catch_up(max(left - 1, 0))
        if not left:
            return index.search(query, terms)
        yield index.indexed, index.indexed + left


def reindexed(image: Image, collection: str) -> Steps[int]:
    """Build the index anew while the old one serves; answer how many records are in it."""
    index, left = None, 0
    while True:
        shelf = image.shelf(collection)
        if index is None or index not in shelf.indexes:
            if len(shelf.indexes) < 2:  # else somebody has begun already
                shelf.indexes.append(TermIndex(shelf))
            index = shelf.indexes[-1]
            left = len(index.waiting)
        left = index.catch_up(max(left - 1, 0))
        if not left:
            shelf.indexes[:] = [index]
            return index.indexed
        yield index.indexed, index.indexed + left


def verified(image: Image, collection: str) -> Steps[Lexicon]:
    """Compare the index with the records; one that was never searched waits as a whole."""
    shelf = image.shelf(collection)
    if not shelf.indexes:
        total = shelf.total()
        return Lexicon(collection=collection, records=total, waiting=total)
    return (yield from shelf.indexes[0].verified(collection))


def idle(image: Image, seconds: float = STEP_SECONDS) -> bool:
    """Use idle time for what waits in collections that are searched; answer whether anything still does."""
    until = time.perf_counter() + seconds
    more = False
    for shelf in list(image.shelves.values()):
        for index in tuple(shelf.indexes):
            index.catch_up(len(index.waiting), until - time.perf_counter())
            more = more or bool(index.waiting)
        if len(shelf.indexes) > 1 and not shelf.indexes[1].waiting:
            del shelf.indexes[0]
        elif len(shelf.indexes) == 1 and shelf.indexes[0].worn:
            shelf.indexes.append(TermIndex(shelf))
            more = True
    return more


class Step(msgspec.Struct, frozen=True):
    """What came of one step: how far the work is, or its result."""

    done: tuple[int, int] | None = None
    result: Any = None


def advance(steps: Steps[Any]) -> Step:
    """Take one step of a work."""
    try:
        return Step(done=next(steps))
    except StopIteration as end:
        return Step(result=end.value)
