"""One file of a log, and which of its writes still wait."""

import os
from pathlib import Path


class Segment:
    """A file, with one bit for each write in it: a million of them take an eighth of a megabyte."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.ragged = False  # the last line has no newline
        self.damaged = False  # something in it is bad and could not be set aside
        self.waiting = 0
        self.first = 0
        self.last = -1
        self._left = bytearray()

    def add(self, n: int) -> None:
        """A write was read or written here; its number is above all before it."""
        if self.last < 0:
            self.first = n
        self.last = n
        at, bit = divmod(n - self.first, 8)
        if at >= len(self._left):
            self._left.extend(bytes(at + 1 - len(self._left)))
        self._left[at] |= 1 << bit
        self.waiting += 1

    def has(self, n: int) -> bool:
        """Whether that write is here and waits."""
        if not self.first <= n <= self.last:
            return False
        at, bit = divmod(n - self.first, 8)
        return bool(self._left[at] & (1 << bit))

    def done(self, first: int, last: int) -> None:
        """These need not wait any more; numbers of other files are passed over."""
        for n in range(max(first, self.first), min(last, self.last) + 1):
            if self.has(n):
                at, bit = divmod(n - self.first, 8)
                self._left[at] &= ~(1 << bit)
                self.waiting -= 1

    def blank(self, start: int, length: int, *, sync: bool) -> None:
        """Overwrite a stretch that was set aside, so that it is not found again; this needs no room on the disk."""
        fd = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(fd, b" " * (length - 1) + b"\n", start)
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)

    def cut(self, size: int) -> None:
        """Cut off what comes after."""
        os.truncate(self.path, size)
        self.size, self.ragged = size, False
