"""What a move came to, and the count kept while it goes on."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec

from octavo.kernel.model import Record

#: Called after each batch with the records done so far and how many there are, or None when nobody knows.
Progress: TypeAlias = Callable[[int, int | None], None]


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """What a move came to: nothing is counted before the target has acknowledged it."""

    read: int = 0  # in this run
    added: int = 0  # of those, new to the target
    resumed: int = 0  # moved by an interrupted run before this one, and not read again
    bad: int = 0  # lines that hold no record; only an import has any
    tenants: int = 0  # looked through; only known when a store was read
    collections: dict[str, int] = {}  # read in this run, by collection


class Count:
    """The numbers of a move while it goes on."""

    def __init__(self, progress: Progress | None, total: int | None = None) -> None:
        self._progress = progress
        self.total = total
        self.read = self.added = self.resumed = self.bad = self.tenants = 0
        self.collections: dict[str, int] = {}

    def batch(self, records: Iterable[Record], added: int) -> None:
        """Count what the target has acknowledged and tell whoever watches."""
        for record in records:
            self.read += 1
            self.collections[record.collection] = self.collections.get(record.collection, 0) + 1
        self.added += added
        self.tell()

    def tell(self) -> None:
        if self._progress is not None:
            done = self.resumed + self.read
            # A source that is written to while it is read can outgrow what it was counted as.
            self._progress(done, None if self.total is None else max(done, self.total))

    def moved(self) -> Moved:
        return Moved(
            read=self.read, added=self.added, resumed=self.resumed, bad=self.bad, tenants=self.tenants,
            collections=self.collections,
        )  # fmt: skip
