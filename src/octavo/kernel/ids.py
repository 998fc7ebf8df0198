"""Ids that sort by time and never collide, and the sequence that breaks ties between equal times."""

import base64
import hashlib
import os
import threading
import time
from datetime import UTC, datetime

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
    return f"{prefix}{time.time_ns() // 1000:014x}{os.urandom(9).hex()}"


def short_name(*parts: str) -> str:
    """A short fixed-length name for these parts, of letters, digits, - and _."""
    # Lengths in front keep ("ab", "c") and ("a", "bc") apart, whatever characters the names hold.
    spelled = "".join([f"{len(part)}:{part}" for part in parts])
    digest = hashlib.blake2b(spelled.encode("utf-8", "surrogatepass"), digest_size=15).digest()
    return base64.urlsafe_b64encode(digest).decode()
