"""One slot's queue: its log on disk, of which only the beginning is held in memory."""

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice

import msgspec

from octavo.stores.file.lock import Lock
from octavo.wraps.spool.entries import Layout, Waiting
from octavo.wraps.spool.lines import queued
from octavo.wraps.spool.log import Log, Place
from octavo.wraps.spool.names import Names
from octavo.wraps.spool.segment import Segment
from octavo.wraps.spool.shared import Guard, SharedFile


class Lane:
    """What waits in one slot, in order: the window in memory, then what is on disk only, then what is not written yet."""

    def __init__(
        self, names: Names, slot: int, lock: Lock, aside: SharedFile, guard: Guard, layout: Layout
    ) -> None:
        self.oldest_at: datetime | None = None
        self._window: dict[int, Waiting] = {}  # the oldest on disk, as far as they are held in memory
        self._unwritten: dict[int, Waiting] = {}  # the newest, where they need not be on disk at once
        self._numbers: dict[str, int] = {}  # of both
        self._lent: dict[str, tuple[int, Waiting]] = {}  # handed out last, from beyond the window
        self._unread: Place | None = None  # everything before it is in the window
        self._layout = layout
        window = self._window  # not self: a cycle would keep the files open until the collector comes by
        self._log = Log(names, slot, lock, aside, guard, layout, held=lambda: window)

    @property
    def slot(self) -> int:
        return self._log.slot

    @property
    def waiting(self) -> int:
        return self._log.waiting + len(self._unwritten)

    @property
    def unkept(self) -> int:
        """Damaged lines that could not be set aside."""
        return self._log.unkept

    @property
    def files(self) -> list[Segment]:
        return [segment for segment in self._log.segments if segment.size]

    @property
    def held(self) -> int:
        """How many writes are held in memory."""
        return len(self._window) + len(self._unwritten)

    def open(self) -> None:
        """Read what is there; damage is set aside, never fatal."""
        self._log.open()
        self._look()

    def head(self, most: int, skip: Collection[str]) -> list[Waiting]:
        """The oldest that wait and are not to be skipped."""
        found = list(islice((each for each in self._window.values() if each.id not in skip), most))
        while len(found) < most and (new := self._load()):
            found += islice((each for each in new if each.id not in skip), most - len(found))
        if len(found) < most and self._beyond:
            for _, n, entry in self._walk():
                if entry.id not in skip:
                    self._lend(n, entry)
                    found.append(entry)
                    if len(found) == most:
                        break
        found += islice((each for each in self._unwritten.values() if each.id not in skip), most - len(found))
        return found

    def find(self, ids: Collection[str], *, search: bool) -> Mapping[str, tuple[int, Waiting]]:
        """Those of the ids that wait here, with their numbers; only a search looks at what is not held in memory."""
        found: dict[str, tuple[int, Waiting]] = {}
        for id_ in ids:
            if (n := self._numbers.get(id_)) is not None:
                found[id_] = (n, self._window[n] if n in self._window else self._unwritten[n])
            elif id_ in self._lent:
                found[id_] = self._lent[id_]
        if search and self._beyond:
            found |= {entry.id: (n, entry) for _, n, entry in self._walk() if entry.id in ids}
        return found

    def put(self, entries: Sequence[Waiting]) -> None:
        """Add these behind all others; OSError when that is not possible, and then none of them is kept."""
        numbered = dict(enumerate(entries, self._log.next))
        # Never given twice: what could not be cut back must not be taken for another write.
        self._log.next += len(entries)
        if self._layout.durability == "memory":
            self._put_in_memory(numbered)
        else:
            beyond = self._beyond
            for (n, entry), place in zip(numbered.items(), self._log.put(numbered.items()), strict=True):
                if beyond or self.held >= self._layout.max_in_memory:
                    break
                self._hold(n, entry, place)
        self._look()

    def check(self) -> None:
        """OSError when nothing could be put."""
        if self._layout.durability != "memory":
            self._log.check()

    def done(self, numbers: Collection[int]) -> None:
        """These need not wait any more."""
        on_disk = [n for n in numbers if n not in self._unwritten]
        for n in numbers:
            entry = self._window.pop(n, None) or self._unwritten.pop(n, None)
            if entry is not None:
                self._numbers.pop(entry.id, None)
        self._lent = {id_: lent for id_, lent in self._lent.items() if lent[0] not in numbers}
        if on_disk:
            self._log.done(on_disk)
        self._look()

    def tried(self, n: int, entry: Waiting, error: str) -> Waiting:
        """One more attempt of this one failed."""
        entry = msgspec.structs.replace(entry, attempts=entry.attempts + 1, error=error)
        if n in self._unwritten:
            self._unwritten[n] = entry
            return entry
        if n in self._window:
            self._window[n] = entry
        if entry.id in self._lent:
            self._lent[entry.id] = (n, entry)
        self._log.tried(n, entry.attempts, error)
        return entry

    def flush(self) -> None:
        """Bring to disk what is only in memory."""
        if self._unwritten:
            self._bring_to_disk(len(self._unwritten))
            self._look()

    def close(self) -> None:
        """Let go of the files and the lock; what is empty is removed."""
        self._log.close()

    @property
    def _beyond(self) -> int:
        """How many wait on disk only."""
        return self._log.waiting - len(self._window)

    def _walk(self) -> Iterator[tuple[Place, int, Waiting]]:
        walked = 0
        for found in self._log.walk(self._unread):
            if found[1] not in self._window:
                walked += 1
                yield found
        if (
            walked < self._beyond
        ):  # something was damaged since it was counted: nobody may wait for it for ever
            self._log.recount()

    def _load(self) -> list[Waiting]:
        """Read the next batch into the window, if there is room for it."""
        batch = self._layout.spill_batch_size
        # One batch is always read, or whatever is not written yet could crowd out what is older.
        room = min(batch, max(self._layout.max_in_memory - self.held, batch - len(self._window)))
        if room <= 0 or not self._beyond:
            return []
        new = list(islice(self._walk(), room))
        for place, n, entry in new:
            self._hold(n, entry, place)
        return [entry for _, _, entry in new]

    def _hold(self, n: int, entry: Waiting, place: Place) -> None:
        self._window[n] = entry
        self._numbers[entry.id] = n
        self._unread = place

    def _lend(self, n: int, entry: Waiting) -> None:
        """Remember what was handed out last, so that it need not be searched for when it is done."""
        self._lent.pop(entry.id, None)
        self._lent[entry.id] = (n, entry)
        if len(self._lent) > self._layout.spill_batch_size:
            del self._lent[next(iter(self._lent))]

    def _look(self) -> None:
        """Keep the beginning in memory, so that how old it is can be told without reading."""
        if not self._window:
            self._load()
        first = next(iter(self._window.values()), None) or next(iter(self._unwritten.values()), None)
        self.oldest_at = None if first is None else first.queued_at

    def _put_in_memory(self, numbered: dict[int, Waiting]) -> None:
        for n, entry in numbered.items():
            queued(n, entry)  # what could not be written later must be refused now
        self._unwritten.update(numbered)
        self._numbers.update((entry.id, n) for n, entry in numbered.items())
        try:
            while len(self._unwritten) > self._layout.max_in_memory:
                self._bring_to_disk(self._layout.spill_batch_size)
        except OSError:
            with contextlib.suppress(OSError):  # some may have come to disk before there was no room
                self.done(numbered.keys())
            raise

    def _bring_to_disk(self, most: int) -> None:
        """Write the oldest of what is only in memory; from then on they are on disk only."""
        batch = dict(islice(self._unwritten.items(), most))
        self._log.put(batch.items())
        for n, entry in batch.items():
            del self._unwritten[n]
            del self._numbers[entry.id]
