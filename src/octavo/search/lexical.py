"""One BM25 for every backend, over what a store found: by record, by session, and beside its neighbours."""

import math
from collections.abc import Sequence
from datetime import timedelta

import msgspec

from octavo.kernel.terms.matches import MOST, Match
from octavo.kernel.terms.terms import unspaced
from octavo.search.question import Question

K1, B = 0.9, 0.1  # memories are short: a long one is not padded, it says more
SESSION_K1, SESSION_B = 1.2, 0.75
SINGLE = 1.5  # of single characters beside pairs: said in other words, a thing keeps some of its characters
NEIGHBOUR_WITHIN = timedelta(hours=1)


class Grid(msgspec.Struct):
    """The candidates, oldest first, turned about: what ranking reads runs over a thousand of them per term."""

    found: list[Match]
    columns: list[tuple[int, ...]]  # for each term, how often each candidate holds it
    places: list[str]  # the sessions that candidates stand in
    slots: list[int]  # for each candidate the number of its session in `places`, or -1
    pairs: list[tuple[int, int]]  # neighbours: one right after the other in a session, not long apart

    @classmethod
    def of(cls, found: list[Match]) -> "Grid":
        places: dict[str, int] = {}
        known: dict[
            int, int
        ] = {}  # by identity: rows of one place share their scope, and hashing it takes longer
        slots: list[int] = []
        for match in found:
            scope = match.scope
            slot = known.get(id(scope))
            if slot is None:
                slot = places.setdefault(scope.place, len(places)) if scope.session else -1
                known[id(scope)] = slot
            slots.append(slot)
        columns = list(zip(*[match.counts for match in found], strict=True))
        return cls(found, columns, list(places), slots, _pairs(found, slots, len(places)))

    @property
    def several(self) -> bool:
        """Whether there are sessions to choose between; one says nothing about which of its records is meant."""
        return len(self.places) > 1

    def spread(self, scores: list[float], share: float) -> list[float]:
        """Each score with a share of its neighbours': in a conversation an answer stands next to its question."""
        out = list(scores)
        for first, second in self.pairs:
            out[first] += share * scores[second]
            out[second] += share * scores[first]
        return out

    def members(self) -> list[list[int]]:
        """The candidates of each session."""
        members: list[list[int]] = [[] for _ in self.places]
        for at, slot in enumerate(self.slots):
            if slot >= 0:
                members[slot].append(at)
        return members


def _pairs(found: list[Match], slots: list[int], places: int) -> list[tuple[int, int]]:
    """None where there is one session only: there may be no order in it that means anything."""
    if places < 2:
        return []
    pairs: list[tuple[int, int]] = []
    last: dict[int, int] = {}
    for at, slot in enumerate(slots):
        if slot < 0:
            continue
        before = last.get(slot)
        if before is not None and found[at].created_at - found[before].created_at <= NEIGHBOUR_WITHIN:
            pairs.append((before, at))
        last[slot] = at
    return pairs


class Lexical(msgspec.Struct):
    """The scores of every candidate, and of every session in the order of the grid's places (none if just one)."""

    records: list[float]
    sessions: list[float]


def score(question: Question, grid: Grid, held: Sequence[int]) -> Lexical:
    """Score what a store found; the statistics are those of the candidates themselves.

    So nothing but the candidates has to be read, whatever the store: taking all records of the scope into the counts
    moved no figure of the benchmarks by more than two thousandths.
    """
    if not grid.found:
        return Lexical([], [])
    holding = [any(match.counts) for match in grid.found]  # those that only the vectors named hold no term
    total = MOST + 1 if max(held, default=0) > MOST else sum(holding)
    weights = [
        weight(n, total) * (SINGLE if unspaced(term) and len(term) == 1 else 1.0)
        for n, term in zip(held, question.terms, strict=True)
    ]
    lengths = [match.length if holds else 0 for match, holds in zip(grid.found, holding, strict=True)]
    records = _by_record(question, grid, weights, lengths, sum(lengths) / (total or 1) or 1.0)
    return Lexical(records, _by_session(grid, lengths) if grid.several else [])


def weight(held: int, total: int) -> float:
    """What a term says that stands in `held` of `total` records: a rare one says more."""
    return math.log(1 + (total - min(held, total) + 0.5) / (held + 0.5))


def _by_record(
    question: Question, grid: Grid, weights: list[float], lengths: list[int], mean: float
) -> list[float]:
    norms = [K1 * (1 - B + B * length / mean) for length in lengths]
    gains = [
        _gain(column, norms, says * (K1 + 1)) for column, says in zip(grid.columns, weights, strict=True)
    ]
    whole = _sum(gains, len(norms))
    if not question.parts:
        return whole
    # Each sentence of a long question counts as much as the whole: otherwise the longest one takes every place.
    parts = [_relative(_sum([gains[at] for at in part], len(norms))) for part in question.parts]
    return [all_of_it + max(scores) for all_of_it, *scores in zip(_relative(whole), *parts, strict=True)]


def _gain(column: Sequence[int], norms: list[float], says: float) -> list[float]:
    return [says * n / (n + norm) if n else 0.0 for n, norm in zip(column, norms, strict=True)]


def _sum(rows: list[list[float]], width: int) -> list[float]:
    return [sum(column) for column in zip(*rows, strict=True)] if rows else [0.0] * width


def _relative(scores: list[float]) -> list[float]:
    best = max(scores) or 1.0
    return [score / best for score in scores]


def _by_session(grid: Grid, lengths: list[int]) -> list[float]:
    """BM25 over sessions as documents; a session is as long as what was found of it."""
    size = len(grid.places)
    sizes = _per_session(lengths, grid.slots, size)
    mean = sum(sizes) / size or 1.0
    norms = [SESSION_K1 * (1 - SESSION_B + SESSION_B * length / mean) for length in sizes]
    gains = []
    for column in grid.columns:
        counts = _per_session(column, grid.slots, size)
        says = weight(size - counts.count(0), size) * (SESSION_K1 + 1)
        gains.append(_gain(counts, norms, says))
    return _sum(gains, size)


def _per_session(values: Sequence[int], slots: list[int], size: int) -> list[int]:
    sums = [0] * (size + 1)  # the last is for records without a session, whose slot is -1
    for value, slot in zip(values, slots, strict=True):
        sums[slot] += value
    return sums[:size]
