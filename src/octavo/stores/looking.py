"""One search in an index of terms: which records it may find, and which of them hold what was asked for."""

import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence

import msgspec

from octavo.kernel.model import Query, Rank
from octavo.kernel.terms.matches import MOST, Match, Matches, nominated
from octavo.stores.image import Shelf
from octavo.stores.term_index import COUNT, COUNT_BITS, MANY, TermIndex, count_in

_FEW = 100  # for so few records no table of a common term is made
_SMALL = 5000  # a scope with fewer records is held as a set while it is searched


def look(index: TermIndex, shelf: Shelf, query: Query, terms: Sequence[str]) -> Matches:
    """Answer as `matching` would from the records of the shelf; nothing may be waiting to be indexed."""
    looking = _Looking(index, shelf, query)
    asked = [_Term(index, term) for term in terms]
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
        holder.get if len(holder) <= MOST else term.count for holder, term in zip(holders, asked, strict=True)
    ]
    found = []
    for number in looking.in_order(union):
        rank = index.rank(number)
        counted = tuple([count(number, 0) for count in counts])
        found.append(Match(rank[2], shelf.row(rank).scope, rank[0], rank[1], index.length(number), counted))
    return Matches(found, held)


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
            if answers(number := entry >> COUNT_BITS):
                found[number] = entry & COUNT
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
                yield number, count if count < MANY else count_of(number)

    def newest(self, term: "_Term") -> set[int]:
        """The newest MOST of the records that answer the query and hold the term."""
        # A walk meets a holder in every (breadth / holders) steps.
        if MOST * self._breadth < len(term.posting) ** 2:
            return {number for number, _ in itertools.islice(self._on_the_walk(term), MOST)}
        numbers = [number for entry in term.posting if self._answers(number := entry >> COUNT_BITS)]
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

    def count(self, number: int, nothing: int = 0) -> int:
        """How often the record of this number holds the term."""
        if self._common is not None and (count := self._common[number]) < MANY:
            return count
        return count_in(self.posting, number) or nothing
