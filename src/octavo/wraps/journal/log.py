"""The files of one process: appended to, numbered when they are full, removed when everything in them is done.

In memory is only a cursor: up to which write all are done, and which are left of those before it. What waits is read from there
on, as far as somebody asks for it. Why nothing is lost, and nothing is done in the wrong order, whoever is killed when:

1. A write is one line, so it is there whole or not at all; what is torn fails its checksum and is quarantined.
2. What is done is a line too. Killed before that line is on disk, some writes are done again: all of them still stand in
   the log in their order, with everything that came after them, so that doing them again ends in the same state.
3. When nothing waits the log is cut to nothing, which needs no room. Only then may a write pass by the queue.
4. A full file gets a number, and the new one begins with a line that says what is done. Files are removed from the oldest
   on, and only when every write in them is done.
"""

import contextlib
import errno
import io
import logging
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from octavo.util.disk import FileLock, is_current, sync_folder
from octavo.util.file_modes import make_folder, open_file
from octavo.util.system import read_at
from octavo.util.words import pluralize
from octavo.wraps.journal.files import (
    DoneUpTo,
    Durability,
    Left,
    LogScan,
    QueueNames,
    SharedFile,
    Waiting,
    append_lines,
    done_line,
    queued_line,
    read_writes,
    replace_lines,
)

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_CHECKED_BYTES = 16 * 2**10  # more than the block of a file may still have room for on a full disk
_log = logging.getLogger("octavo.journal")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much is held in memory, how the files are cut, and when they count as written."""

    max_in_memory: int
    spill_batch_size: int
    max_file_bytes: int
    max_backups: int
    durability: Durability


class LogFile(msgspec.Struct, eq=False):
    """One file of a log."""

    path: Path
    last: int = 0  # the highest number that was given when it was written
    start: int = 0  # everything before this offset is done, or known to be left
    damaged: int = 0  # lines that are bad and could not be quarantined


class Place(NamedTuple):
    """Where a write stands: its number, and in which file its line ends where."""

    n: int
    file: LogFile | None  # None while it is only in memory
    end: int


class Log:
    """The log of one slot, whose lock is held."""

    def __init__(
        self, names: QueueNames, slot: int, lock: FileLock, quarantine: SharedFile, limits: Limits
    ) -> None:
        self.slot = slot
        self.waiting = 0  # how many writes are not done
        self._names = names
        self._lock = lock
        self._quarantine = quarantine
        self._limits = limits
        self._sync = limits.durability == "fsync"
        self._files: list[LogFile] = []  # oldest first; the last one is written to
        self._fd = -1
        self._next = 1  # the number of the next write
        self._unwritten: list[bytes] = []  # lines that need not be on disk yet
        self._handed: dict[str, Place] = {}  # what was read and is not done, by id
        self._done = DoneUpTo()
        self._noted = True  # the disk says what is done

    @property
    def damaged(self) -> int:
        """How many lines could not be quarantined and still stand here."""
        return sum(file.damaged for file in self._files)

    @property
    def oldest_at(self) -> datetime | None:
        """When the oldest that waits was queued."""
        return next((entry.queued_at for entry, _ in self.read()), None)

    def holds(self, id_: str) -> bool:
        """Whether a write that was read still waits."""
        return id_ in self._handed

    # --- reading

    def open(self) -> None:
        """Read what is there; damage is quarantined, never fatal."""
        scan = LogScan()
        self._files, self._handed = [], {}
        for path in self._names.slots().get(self.slot, []):
            with contextlib.suppress(FileNotFoundError):
                with path.open("rb") as opened:
                    damaged = scan.read(opened)
                self._files.append(LogFile(path, last=scan.last))
                if damaged:
                    self._set_apart(self._files[-1], damaged)
        active = self._names.active(self.slot)
        if not self._files or self._files[-1].path != active:
            self._files.append(LogFile(active))
        self._done, self.waiting, self._next = scan.done, scan.waiting, scan.last + 1
        if not self.waiting:
            self._clear()

    def _set_apart(self, file: LogFile, damaged: list[bytes]) -> None:
        """Move damaged lines to the quarantine, so that each is counted once; where that cannot be done they stay."""
        bad, told = set(damaged), pluralize(len(damaged), "damaged line")
        self._close_active()  # which is written anew, if it is that one
        file.start = 0
        for id_, place in self._handed.items():
            if place.file is file:  # its line is not where it was
                self._handed[id_] = place._replace(file=None)
        try:
            self._quarantine.append(damaged)
            replace_lines(file.path, _lines_without(file.path, bad), sync=self._sync)
        except OSError as error:
            file.damaged += len(damaged)
            _log.warning("%s cannot be moved from %s: %s", told, file.path, error)
        else:
            _log.warning("moved from %s to %s: %s", file.path, self._quarantine.path, told)

    def read(self, skip: Collection[str] = ()) -> Iterator[tuple[Waiting, int]]:
        """What waits, oldest first, without those to be skipped, each with its size; read as far as it is asked for."""
        if self.waiting:
            # Those to be skipped that were read before need not be read again.
            yield from self._read({self._handed[id_].n for id_ in skip if id_ in self._handed}, skip)

    def _read(self, passed: set[int], skip: Collection[str]) -> Iterator[tuple[Waiting, int]]:
        self._restore_deleted()
        only_behind = passed >= self._done.left  # nothing is asked for that was left
        for file in [*self._files, None]:
            bad = b""
            with self._open_readable(file) as lines:
                start = file.start if file is not None and only_behind else 0
                for line, entry in read_writes(lines, lambda n: n in passed or self._done.covers(n), start):
                    if entry is not None:
                        self._handed[entry.id] = Place(line.n, file, line.end)
                        passed.add(line.n)
                        if entry.id not in skip:
                            yield entry, len(line.data)
                    elif file is not None and not file.damaged:
                        bad = line.data
                        break
            if file is not None and bad:  # it has gone bad since the file was opened
                self._set_apart(file, [bad])
                yield from self._read(passed, skip)
                return
        self.waiting = len(passed)  # what else was counted can no longer be read
        if not passed:
            self._clear()

    def _open_readable(self, file: LogFile | None) -> BinaryIO:
        """The lines of a file, or those that are only in memory."""
        if file is None:
            return io.BytesIO(b"".join(self._unwritten))
        try:
            return file.path.open("rb")
        except FileNotFoundError:
            if file.last:
                _log.error("%s was deleted; what was waiting in it is lost", file.path)
            if file is not self._files[-1]:
                self._files.remove(file)
            return io.BytesIO()

    # --- writing; OSError leaves everything as it was

    def put(self, entries: Sequence[Waiting]) -> None:
        """Add these behind all others with one write; OSError when that is not possible, and then none of them is kept."""
        lines = [queued_line(n, entry) for n, entry in enumerate(entries, self._next)]
        self._next += len(entries)  # never given twice, not even if what is written now cannot be taken back
        self._unwritten += lines
        try:
            self.flush(self._limits.max_in_memory if self._limits.durability == "memory" else 0)
        except OSError:
            del self._unwritten[-len(lines) :]
            raise
        self.waiting += len(entries)

    def flush(self, most: int = 0) -> None:
        """Bring to disk what is only in memory, in whole batches, so that no more than `most` lines are left."""
        batch = self._limits.spill_batch_size if most else 1
        over = min(len(self._unwritten), -(-(len(self._unwritten) - most) // batch) * batch)
        if over > 0:
            self._append(b"".join(self._unwritten[:over]))
            del self._unwritten[:over]
            self._files[-1].last = self._next - 1 - len(self._unwritten)

    def mark_done(self, ids: Iterable[str]) -> None:
        """Those of these that were read here need not wait any more; on a full disk that is written down later."""
        finished = [self._handed.pop(id_) for id_ in ids if id_ in self._handed]
        if not finished:
            return
        numbers = {place.n for place in finished}
        upto = max(self._done.upto, *numbers)
        passed = {place.n for place in self._handed.values() if place.n < upto}
        # Some that were left before may not have been read yet.
        self._done, self._noted = DoneUpTo(upto, frozenset(passed | self._done.left) - numbers), False
        self.waiting -= len(finished)
        if not self.waiting:
            self._clear()
            return
        for place in finished:
            if place.file is not None:
                place.file.start = max(place.file.start, place.end)
        try:
            self._append(b"")
        except OSError as error:
            if error.errno not in _FULL:
                raise
            _log.warning("no room to say in %s what is done: %s", self._names.directory, error)
        self._remove_recovered()

    def erase(self, left: Left) -> int:
        """Keep of each write only what is `left` of it, in files written anew; answer how many writes were touched."""
        self.flush()
        self._close_active()
        active, touched = self._names.active(self.slot), 0
        backups = self._names.backups(self.slot)
        # The newest first: it says what is done, and no other does so any more.
        for path in [*(file.path for file in reversed(self._files)), *backups]:
            if not path.exists():
                continue
            lines = [done_line(self._done)] if path == active and self._done.upto else []
            with path.open("rb") as opened:
                is_passed = (lambda _: False) if path in backups else self._done.covers
                for line, entry in read_writes(opened, is_passed):
                    if entry is not None:
                        kept = msgspec.structs.replace(entry, ops=left(entry.ops))
                        touched += kept.ops != entry.ops and path not in backups
                        lines += [queued_line(line.n, kept)] if kept.ops else []
            replace_lines(path, lines, sync=self._sync)
        self._noted = True
        self.open()
        return touched

    def check(self) -> None:
        """Write as much as a small write takes, and take it back: OSError when there is no room for it."""
        if self._limits.durability != "memory":
            self._open_writable(_CHECKED_BYTES)
            size = os.fstat(self._fd).st_size
            append_lines(self._fd, b" " * _CHECKED_BYTES + b"\n", self._files[-1].path, sync=self._sync)
            os.ftruncate(self._fd, size)

    def close(self) -> None:
        """Let go of the files and the lock; what is empty is removed."""
        self._close_active()
        if not self.waiting:
            with contextlib.suppress(OSError):  # an empty file that stays is in nobody's way
                for file in self._files:
                    self._remove(file)
                # Removed while it is held: whoever waits for it notices that it is gone and makes a new one.
                self._names.lock(self.slot).unlink(missing_ok=True)
        self._lock.close()

    def __del__(self) -> None:
        self._close_active()  # a queue that nobody closed must not keep descriptors for ever

    def _append(self, data: bytes) -> None:
        """Write this behind what is there, and before it what is done unless the disk says so."""
        self._open_writable(len(data))
        note = b"" if self._noted else done_line(self._done)
        append_lines(self._fd, note + data, self._files[-1].path, sync=self._sync)
        self._noted = True

    def _open_writable(self, more: int) -> None:
        """Have the file open that is written to: a new one when the old one is full or was deleted."""
        self._restore_deleted()
        if self._fd < 0:
            self._open_active()
        file, size = self._files[-1], os.fstat(self._fd).st_size
        if size and size + more > self._limits.max_file_bytes:
            with contextlib.suppress(OSError):  # one that is too large is better than none
                part = self._names.next_part(self.slot)
                file.path.rename(part)
                file.path = part
                self._close_active()
                self._files.append(LogFile(self._names.active(self.slot)))
                self._noted = not self._done.upto
                self._remove_recovered()
            if self._fd < 0:
                self._open_active()

    def _open_active(self) -> None:
        self._fd = open_file(self._files[-1].path, os.O_RDWR | os.O_APPEND)
        self._sync_names()

    def _restore_deleted(self) -> None:
        """Write what the file held that is written to to a new one, if it was deleted."""
        file = self._files[-1]
        if self._fd < 0 or is_current(self._fd, file.path):
            return
        _log.error("%s was deleted; what was waiting in it is written again", file.path)
        if not self._lock.take():  # its lock was deleted too, and is another process's now
            self.slot, self._lock = claim(self._names, empty=True)
            file.path = self._names.active(self.slot)
        make_folder(self._names.directory)
        replace_lines(file.path, [read_at(self._fd, os.fstat(self._fd).st_size, 0)])
        self._close_active()

    def _close_active(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    # --- removing what is recovered

    def _clear(self) -> None:
        """Nothing waits: cut the log to nothing, the oldest file first."""
        self._done = DoneUpTo(self._next - 1)
        self._remove_recovered()
        active = self._files[-1]
        if active.damaged:
            self._close_active()
            self._remove(active)
        elif active.path.exists():
            if self._fd < 0:
                self._open_active()
            os.ftruncate(self._fd, 0)
            if self._sync:
                os.fsync(self._fd)
        self._files = [LogFile(active.path)]
        self._unwritten.clear()
        self._handed.clear()
        self._noted = True

    def _remove_recovered(self) -> None:
        """Remove the oldest files, up to the first in which something waits."""
        first = min(self._done.left, default=self._done.upto + 1)
        recovered = [file for file in self._files[:-1] if file.last < first]
        for file in recovered:
            self._remove(file)
            self._files.remove(file)
        if recovered:
            self._sync_names()

    def _remove(self, file: LogFile) -> None:
        """Remove a file whose every write is done, or keep it as one of a few backups."""
        active = file.path == self._names.active(self.slot)
        if file.damaged:
            # What is bad in it could not be quarantined on its own, so the file is; a rename needs no room.
            part = self._names.next_part(self.slot) if active else file.path
            file.path.rename(f"{part}.damaged")
        elif active or not self._limits.max_backups:
            file.path.unlink(missing_ok=True)
        else:
            with contextlib.suppress(FileNotFoundError):
                file.path.rename(f"{file.path}.bak")
            for old in self._names.backups(self.slot)[: -self._limits.max_backups]:
                old.unlink(missing_ok=True)

    def _sync_names(self) -> None:
        if self._sync:
            sync_folder(self._names.directory)


def _lines_without(path: Path, bad: Collection[bytes]) -> Iterator[bytes]:
    with path.open("rb") as opened:
        yield from (line.removesuffix(b"\n") + b"\n" for line in opened if line not in bad)


def claim(names: QueueNames, *, empty: bool = False) -> tuple[int, FileLock]:
    """The first slot that no process holds, and its lock, which now is held; an empty one if that is asked for."""
    slot = 1
    while True:
        lock = FileLock(names.lock(slot))
        if lock.take() and not (empty and slot in names.slots()):
            return slot, lock
        lock.close()
        slot += 1
