"""The files of one slot: appended to, numbered when they are full, removed when everything in them is done.

Why nothing is lost, and nothing is done in the wrong order, whoever is killed when:

1. A write is one line, so it is there whole or not at all; what is torn fails its checksum and is set aside.
2. What was done is a line too. Killed before that line is on disk, some writes are done again: all of them still stand
   in the log in their order, with everything that came after them, so that doing them again ends in the same state.
3. When nothing waits the log is cut to nothing, which needs no room. Only then may a write pass by the queue.
4. A full file gets a number and a new one is begun. Files are removed from the oldest on and only when every write in
   them is done: a younger one may hold the lines that say so of an older one.
"""

import contextlib
import errno
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from octavo.stores.file.lock import Lock
from octavo.util.disk import sync_folder, write_all
from octavo.util.file_modes import make_folder, open_file
from octavo.wraps.spool import lines
from octavo.wraps.spool.entries import Layout, Waiting
from octavo.wraps.spool.lines import Done, Number, Piece, Tried
from octavo.wraps.spool.names import Names
from octavo.wraps.spool.segment import Segment
from octavo.wraps.spool.shared import Guard, SharedFile

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_CHECKED_BYTES = 16 * 2**10  # more than the block of a file may still have room for on a full disk
_log = logging.getLogger("octavo.spool")


class Place(NamedTuple):
    """A position between two lines."""

    segment: Segment
    offset: int


class Log:
    """The log of one slot, whose lock is held; `held` answers what of it stands in memory too."""

    def __init__(
        self,
        names: Names,
        slot: int,
        lock: Lock,
        aside: SharedFile,
        guard: Guard,
        layout: Layout,
        held: Callable[[], Mapping[int, Waiting]],
    ) -> None:
        self.slot = slot
        self.next = 1  # the number of the next write
        self.unkept = 0  # damaged lines that could not be set aside and still stand here
        self.segments: list[Segment] = []  # oldest first; the last one is written to
        self._names = names
        self._lock = lock
        self._aside = aside
        self._guard = guard
        self._layout = layout
        self._held = held
        self._fd = -1
        self._tried: dict[int, tuple[int, str]] = {}
        self._owed: list[tuple[int, int]] = []  # done, but the disk had no room to say so

    @property
    def waiting(self) -> int:
        return sum(segment.waiting for segment in self.segments)

    # --- reading

    def open(self) -> None:
        """Read what is there; damage is set aside, never fatal."""
        active = self._names.active(self.slot)
        for path in self._names.slots().get(self.slot, []):
            self.segments.append(Segment(path))
            with contextlib.suppress(FileNotFoundError):
                self._scan(self.segments[-1])
        if not self.segments or self.segments[-1].path != active:
            self.segments.append(Segment(active))
        self._tried = {n: tried for n, tried in self._tried.items() if self._waits(n)}
        self.settle()

    def walk(self, place: Place | None) -> Iterator[tuple[Place, int, Waiting]]:
        """What waits from a place on: the place behind it, its number, and itself."""
        at, offset = 0, 0
        if place is not None and place.segment in self.segments:
            at, offset = self.segments.index(place.segment), place.offset
        for segment in self.segments[at:]:
            if segment.waiting:
                yield from self._walk_file(segment, offset)
            offset = 0

    def _walk_file(self, segment: Segment, offset: int) -> Iterator[tuple[Place, int, Waiting]]:
        try:
            file = segment.path.open("rb")
        except FileNotFoundError:
            self._lost(segment)
            return
        with file:
            for piece in lines.read(file, offset):
                if not piece.sound or not lines.is_queued(piece.data):
                    continue
                line = lines.log_line(piece.data)
                if not isinstance(line, Number) or not segment.has(line.n):
                    continue
                entry = lines.waiting(piece.data)
                if entry is None:  # its checksum holds, but what it says is not known here
                    segment.done(line.n, line.n)
                    self._set_aside(segment, [piece])
                    continue
                if tried := self._tried.get(line.n):
                    entry = msgspec.structs.replace(entry, attempts=tried[0], error=tried[1])
                yield Place(segment, piece.start + len(piece.data)), line.n, entry

    def _scan(self, segment: Segment) -> None:
        junk: list[Piece] = []
        with segment.path.open("rb") as file:
            segment.size = os.fstat(file.fileno()).st_size
            for piece in lines.read(file):
                segment.ragged = not piece.ended
                line = lines.log_line(piece.data) if piece.sound else None
                if isinstance(line, Number) and line.n >= self.next:
                    segment.add(line.n)
                    self.next = line.n + 1
                elif isinstance(line, Done):
                    for first, last in line.n:
                        self._mark(first, last)
                        self.next = max(self.next, last + 1)
                elif isinstance(line, Tried):
                    if self._waits(line.n):
                        self._tried[line.n] = (line.attempts, line.error)
                    self.next = max(self.next, line.n + 1)
                else:
                    junk.append(piece)
        if junk:
            self._set_aside(segment, junk)

    def recount(self) -> None:
        """Read again what waits, without what can no longer be read; damage is set aside."""
        for segment in [segment for segment in self.segments if segment.waiting]:
            there = set(self._held())
            junk: list[Piece] = []
            with contextlib.suppress(FileNotFoundError), segment.path.open("rb") as file:
                for piece in lines.read(file):
                    line = lines.log_line(piece.data) if piece.sound else None
                    if isinstance(line, Number):
                        there.add(line.n)
                    elif line is None:
                        junk.append(piece)
            if junk:
                self._set_aside(segment, junk)
            for n in range(segment.first, segment.last + 1):
                if n not in there:
                    segment.done(n, n)
        self.settle()

    def _waits(self, n: int) -> bool:
        return any(segment.has(n) for segment in self.segments)

    def _mark(self, first: int, last: int) -> None:
        for segment in self.segments:
            segment.done(first, last)

    def _set_aside(self, segment: Segment, junk: list[Piece]) -> None:
        """Copy damaged stretches to where all of them go, then take them out of the log, so that each is counted once."""
        _log.warning("%d damaged lines of %s are set aside in %s", len(junk), segment.path, self._aside.path)
        try:
            with self._guard:
                self._aside.append([piece.data + b"\n" for piece in junk])
            for piece in junk:
                if piece.ended:
                    segment.blank(piece.start, len(piece.data), sync=self._layout.synced)
                else:
                    segment.cut(piece.start)
        except OSError as error:
            self.unkept += len(junk)
            segment.damaged = True
            _log.warning("damaged lines stay in %s: %s", segment.path, error)

    def _lost(self, segment: Segment) -> None:
        """Somebody has deleted a file: what stood in it and is not held in memory is gone."""
        held = self._held()
        gone = [n for n in range(segment.first, segment.last + 1) if segment.has(n) and n not in held]
        _log.error("%s was deleted; %d writes that were waiting in it are lost", segment.path, len(gone))
        for n in gone:
            segment.done(n, n)

    # --- writing; OSError leaves everything as it was

    def put(self, numbered: Iterable[tuple[int, Waiting]]) -> list[Place]:
        """Write these with one write; answer the place behind each."""
        numbered = list(numbered)
        written = [lines.queued(n, entry) for n, entry in numbered]
        segment, at = self._append(b"".join(written))
        places = []
        for (n, _), line in zip(numbered, written, strict=True):
            segment.add(n)
            at += len(line)
            places.append(Place(segment, at))
        return places

    def check(self) -> None:
        """Write as much as a small write takes, and take it back: OSError when there is no room for it."""
        line = lines.sealed(Done(n=[]))  # which says nothing, should the process end before it is taken back
        segment, at = self._append(line * (_CHECKED_BYTES // len(line)))
        os.ftruncate(self._fd, at)
        segment.size = at

    def tried(self, n: int, attempts: int, error: str) -> None:
        """Note a failed attempt."""
        self._tried[n] = (attempts, error)
        with self._unless_full():
            self._append(lines.sealed(Tried(n=n, attempts=attempts, error=error)))

    def done(self, numbers: Iterable[int]) -> None:
        """Note that these need not wait any more."""
        runs = lines.ranges((n, n) for n in numbers)
        self._owed = lines.ranges([*self._owed, *runs])
        for first, last in runs:
            self._mark(first, last)
            for n in range(first, last + 1):
                self._tried.pop(n, None)
        self.settle()

    def settle(self) -> None:
        """Say on disk what is done and remove what is recovered; on a full disk that is left for later."""
        if not self.waiting:
            self._clear()
            return
        with self._unless_full():
            if self._owed:
                self._append(b"")
        self._retire_recovered()

    def close(self) -> None:
        """Let go of the files and the lock; what is empty is removed."""
        self._close_active()
        if not self.waiting:
            with contextlib.suppress(OSError):  # an empty file that stays is in nobody's way
                for segment in self.segments:
                    self._retire(segment)
                # Removed while it is held: whoever waits for it notices that it is gone and makes a new one.
                self._names.lock(self.slot).unlink(missing_ok=True)
        self._lock.close()

    def __del__(self) -> None:
        self._close_active()  # a queue that nobody closed must not keep descriptors for ever

    def _append(self, data: bytes) -> tuple[Segment, int]:
        """Write this behind what is owed; answer where it begins."""
        owed = lines.sealed(Done(n=self._owed)) if self._owed else b""
        segment = self._writable(len(owed) + len(data))
        before = b"\n" + owed if segment.ragged else owed
        try:
            write_all(self._fd, before + data, segment.path)
            if self._layout.synced:
                os.fsync(self._fd)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, segment.size)
            if (left := os.fstat(self._fd).st_size) != segment.size:
                segment.size, segment.ragged = left, True
            raise
        at = segment.size + len(before)
        segment.size = at + len(data)
        segment.ragged = False
        self._owed = []
        return segment, at

    def _writable(self, more: int) -> Segment:
        """The file to write to, a new one when the old one is full or was deleted."""
        segment = self.segments[-1]
        if self._fd >= 0 and not self._current():
            self._begin_again()
        elif segment.size and segment.size + more > self._layout.max_file_bytes:
            with contextlib.suppress(OSError):  # one that is too large is better than none
                part = self._names.next_part(self.slot)
                segment.path.rename(part)
                segment.path = part
                self._close_active()
                self.segments.append(Segment(self._names.active(self.slot)))
                self._retire_recovered()
        if self._fd < 0:
            self._open_active()
        return self.segments[-1]

    def _current(self) -> bool:
        try:
            return os.path.samestat(self.segments[-1].path.stat(), os.fstat(self._fd))
        except FileNotFoundError:
            return False

    def _begin_again(self) -> None:
        """The file written to was deleted: what is held in memory of it is written to a new one."""
        old = self.segments[-1]
        self._lost(old)
        self._close_active()
        make_folder(self._names.directory)
        if not self._lock.take():  # its lock was deleted too, and is another process's now
            self.slot, self._lock = claimed(self._names)
        new = Segment(self._names.active(self.slot))
        self.segments[-1] = new
        held = [(n, entry) for n, entry in self._held().items() if old.has(n)]
        data = b"".join(lines.queued(n, entry) for n, entry in held)
        self._open_active()
        write_all(self._fd, data, new.path)
        new.size = len(data)
        for n, _ in held:
            new.add(n)

    def _open_active(self) -> None:
        path = self._names.active(self.slot)
        self._fd = open_file(path, os.O_WRONLY | os.O_APPEND)
        if self._layout.synced:
            sync_folder(path.parent)

    def _close_active(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    # --- removing what is recovered

    def _clear(self) -> None:
        """Nothing waits on disk: cut the log to nothing, the oldest file first."""
        self._retire_recovered()
        active = self.segments[-1]
        if active.damaged:
            self._retire(active)
            self._close_active()
        elif active.size:
            if self._fd < 0:
                self._open_active()
            os.ftruncate(self._fd, 0)
            if self._layout.synced:
                os.fsync(self._fd)
        self.segments[-1] = Segment(active.path)
        self._owed = []
        self._tried.clear()

    def _retire_recovered(self) -> None:
        retired = False
        while len(self.segments) > 1 and not self.segments[0].waiting:
            self._retire(self.segments[0])
            del self.segments[0]
            retired = True
        if retired and self._layout.synced:
            sync_folder(self._names.directory)

    def _retire(self, segment: Segment) -> None:
        """Remove a file whose every write is done, or keep it as one of a few backups."""
        active = segment.path == self._names.active(self.slot)
        if segment.damaged:
            # What is bad in it could not be set aside on its own, so the file is; a rename needs no room.
            part = self._names.next_part(self.slot) if active else segment.path
            segment.path.rename(f"{part}.damaged")
        elif active or not self._layout.max_backups:
            segment.path.unlink(missing_ok=True)
        else:
            with contextlib.suppress(FileNotFoundError):
                segment.path.rename(f"{segment.path}.bak")
            for old in self._names.backups(self.slot)[: -self._layout.max_backups]:
                old.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _unless_full(self) -> Iterator[None]:
        """On a full disk, leave it for later: what is in memory is right, and the log is as it was."""
        try:
            yield
        except OSError as error:
            if error.errno not in _FULL:
                raise
            _log.warning("no room for a note in %s: %s", self._names.directory, error)


def claimed(names: Names) -> tuple[int, Lock]:
    """The first slot that no process holds, and its lock, which now is held."""
    slot = 1
    while not (lock := Lock(names.lock(slot))).take():
        slot += 1
    return slot, lock
