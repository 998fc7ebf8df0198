"""Ids that sort by time and never collide, and the sequence that breaks ties between equal times."""

import os
import threading
import time
from datetime import UTC, datetime

from octavo.util.system import call_after_fork

_lock = threading.Lock()
_last = 0


def now() -> datetime:
    """The current time, aware and in UTC."""
    return datetime.now(UTC)


def next_seq() -> int:
    """An integer above all that this process has handed out; below 2**53 until the year 2255."""
    global _last  # noqa: PLW0603 - one sequence per process is the point
    with _lock:
        # The clock alone ties within a microsecond and may step back; a bare counter would restart with the process.
        at = time.time_ns() // 1000
        _last = at if at > _last else _last + 1
        return _last


def new_id(prefix: str = "") -> str:
    """A fresh id: 56 bits of time in microseconds, then 72 random bits, so ids sort by birth."""
    try:
        chance = _chances.pop()
    except IndexError:
        _draw()
        chance = _chances.pop()
    return f"{prefix}{time.time_ns() // 1000:014x}{chance}"


_chances: list[str] = []


def _draw() -> None:
    """Draw the random parts of the next ids in one go: one at a time, the system call is most of an id's cost."""
    drawn = os.urandom(9 * 256).hex()
    _chances.extend([drawn[at : at + 18] for at in range(0, len(drawn), 18)])


call_after_fork(_chances.clear)  # or parent and child would draw the same ones
