"""Records in order: sorted runs of ranks, so that neither an append nor a removal moves all of them."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import Any

from octavo.kernel.codec import Sealed
from octavo.kernel.model import Rank

CHUNK = 1024


class Ranks:
    """Ranks in order, counted by kind. Appends gather and are put in order together, before anybody looks."""

    __slots__ = ("_by_kind", "_chunks", "_total", "recent")

    def __init__(self) -> None:
        self.recent: list[Sealed] = []  # appended but not yet in order
        self._chunks: list[list[Rank]] = [[]]
        self._by_kind: dict[str, int] = {}
        self._total = 0

    @property
    def total(self) -> int:
        return self._total + len(self.recent)

    @property
    def by_kind(self) -> dict[str, int]:
        self.settle()
        return self._by_kind

    def add(self, sealed: Sealed) -> None:
        self.recent.append(sealed)
        if len(self.recent) >= CHUNK:
            self.settle()

    def settle(self) -> None:
        """Put what was appended where it belongs; at most `CHUNK` ranks wait, so nobody waits long for this."""
        if not self.recent:
            return
        by_kind = self._by_kind
        for kind, n in Counter([sealed.kind for sealed in self.recent]).items():
            by_kind[kind] = by_kind.get(kind, 0) + n
        ranks = sorted([sealed.rank for sealed in self.recent])
        self._total += len(ranks)
        self.recent.clear()
        last = self._chunks[-1]
        if not last or ranks[0] > last[-1]:
            room = CHUNK - len(last)
            last.extend(ranks[:room])
            if len(ranks) > room:
                self._chunks.append(ranks[room:])
        else:
            for rank in ranks:
                self._insert(rank)

    def _insert(self, rank: Rank) -> None:
        index = self._chunk_of(rank)
        chunk = self._chunks[index]
        chunk.insert(bisect_left(chunk, rank), rank)
        if len(chunk) > 2 * CHUNK:
            self._chunks[index : index + 1] = [chunk[:CHUNK], chunk[CHUNK:]]

    def discard(self, rank: Rank, kind: str) -> None:
        self.recount(kind, None)
        self._total -= 1
        index = self._chunk_of(rank)
        chunk = self._chunks[index]
        del chunk[bisect_left(chunk, rank)]
        if not chunk and len(self._chunks) > 1:
            del self._chunks[index]

    def recount(self, old: str, new: str | None) -> None:
        """Move one record from a kind to another, or to none."""
        by_kind = self.by_kind
        by_kind[old] -= 1
        if not by_kind[old]:
            del by_kind[old]
        if new is not None:
            by_kind[new] = by_kind.get(new, 0) + 1

    def between(self, low: Any, high: Any, *, past_low: bool, newest_first: bool) -> Iterator[Rank]:
        """Ranks from low (or just past it) up to but not including high, in either direction; None has no bound."""
        self.settle()
        chunks = self._chunks
        start = self._chunk_of(low) if low is not None else 0
        stop = self._chunk_of(high) if high is not None else len(chunks) - 1
        order = range(stop, start - 1, -1) if newest_first else range(start, stop + 1)
        for index in order:
            chunk = chunks[index]
            left = (
                0 if low is None or index > start else (bisect_right if past_low else bisect_left)(chunk, low)
            )
            right = len(chunk) if high is None or index < stop else bisect_left(chunk, high)
            yield from reversed(chunk[left:right]) if newest_first else chunk[left:right]

    def _chunk_of(self, rank: Any) -> int:
        """The first chunk that ends at or after the rank, or the last one."""
        index = bisect_left(self._chunks, rank, key=lambda chunk: chunk[-1] if chunk else ())
        return min(index, len(self._chunks) - 1)
