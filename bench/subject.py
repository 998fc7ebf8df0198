"""What can be timed: anything that appends, reads back and counts rows."""

import json
import random
from itertools import cycle, islice
from time import perf_counter
from typing import Any

from bench.rows import Row, few, rows, sample, sessions_of

CROWD = 50
LAST = 50


class Subject:
    """A contestant. Each job takes all of its input at once, so that a direct driver is called in a plain loop."""

    does = ""  # how it does it, for the footnotes

    def __init__(self, total: int) -> None:
        self.sessions = sessions_of(total)
        self.in_turn = False  # sessions one after the other rather than side by side
        self.beside_peer = False  # reads the few sessions that peers read, rather than all
        self._written = 0
        self._dice = random.Random(7)

    async def timed(self, job: str, count: int) -> float:
        """Seconds that one job takes; drawing the rows is not part of it."""
        given: Any
        if job == "last":
            given = (
                list(islice(cycle(few(self.sessions)), count))
                if self.beside_peer
                else sample(self.sessions, count, self._dice)
            )
        elif job == "tally":
            given = count
        else:
            given = rows(self._written, count, self.sessions, in_turn=self.in_turn)
            self._written += count
        work = getattr(self, job)
        began = perf_counter()
        await work(given)
        return perf_counter() - began

    async def open(self) -> None:
        """Connect and create what is missing."""

    async def append(self, given: list[Row]) -> None:
        """Append one at a time, each acknowledged before the next."""
        raise NotImplementedError

    async def crowd(self, given: list[Row]) -> None:
        """Append from 50 tasks at once, each row acknowledged on its own."""
        # A synchronous driver in one thread has no other way than one row after the other.
        await self.append(given)

    async def batch(self, given: list[Row]) -> None:
        """Append all of it as one unit."""
        raise NotImplementedError

    async def last(self, given: list[str]) -> None:
        """Read the last 50 of each session."""
        raise NotImplementedError

    async def tally(self, given: int) -> None:
        """Count everything by kind, with the first and last time."""
        raise NotImplementedError

    async def close(self) -> None:
        """Let go."""


def spelled(row: Row) -> tuple[str, str]:
    """Both JSON columns of a row, as a hand-written program spells them."""
    return json.dumps(row.data), json.dumps(row.metadata)


def expect(found: int, wanted: int, who: object) -> None:
    """Refuse to time a contestant that answers something else than it was asked."""
    if found != wanted:
        raise AssertionError(f"{type(who).__name__} answered {found} rows instead of {wanted}")
