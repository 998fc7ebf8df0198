"""When records end, in one heap: what has ended by a moment is found without looking at what has not."""

import heapq
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TypeAlias

from octavo.kernel.codec import Sealed
from octavo.kernel.model import Rank

Row: TypeAlias = Callable[[Rank], Sealed | None]
_FEW = 64


class Endings:
    """The ends of one tenant's records in one collection; `row` says what is kept under a rank now.

    An end that no longer holds stays in the heap until such ends are as many as the others.
    """

    __slots__ = ("_heap", "_row", "_stale")

    def __init__(self, row: Row) -> None:
        self._row = row
        self._heap: list[tuple[datetime, Rank]] = []
        self._stale = 0

    def add(self, at: datetime, rank: Rank) -> None:
        """Note that a record ends."""
        heapq.heappush(self._heap, (at, rank))

    def discard(self) -> None:
        """Note that a record that ended is gone, or ends at another time; called when it is so."""
        self._stale += 1
        if self._stale > _FEW and 2 * self._stale > len(self._heap):
            self._heap = sorted({end for end in self._heap if self._holds(*end)})
            self._stale = 0

    def by(self, at: datetime) -> Iterator[Sealed]:
        """The records that have ended by then, each once, in no order."""
        heap = self._heap
        seen: set[Rank] = set()
        below = [0]
        while below:  # what stands under an end in a heap is no earlier
            place = below.pop()
            if place >= len(heap) or heap[place][0] > at:
                continue
            end, rank = heap[place]
            below += (2 * place + 1, 2 * place + 2)
            if rank not in seen and (sealed := self._row(rank)) is not None and sealed.expires_at == end:
                seen.add(rank)
                yield sealed

    def _holds(self, at: datetime, rank: Rank) -> bool:
        sealed = self._row(rank)
        return sealed is not None and sealed.expires_at == at
