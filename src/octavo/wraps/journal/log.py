"""The files of one process: appended to, numbered when they are full, removed when everything in them is done.

Why nothing is lost, and nothing is done in the wrong order, whoever is killed when:

1. A write is one line, so it is there whole or not at all; what is torn fails its checksum and is quarantined.
2. What is done is a line too. Killed before that line is on disk, some writes are done again: all of them still stand in
   the log in their order, with everything that came after them, so that doing them again ends in the same state.
3. When nothing waits the log is cut to nothing, which needs no room. Only then may a write pass by the queue.
4. A full file gets a number, and the new one begins with a line that says what is done. Files are removed from the oldest
   on, and only when every write in them is done.
"""

import contextlib
import errno
import logging
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from octavo.kernel.text import pluralize
from octavo.util.disk import FileLock, is_current, make_folder, open_file, sync_folder, write_all
from octavo.util.system import read_at
from octavo.wraps.journal.files import (
    DoneUpTo,
    Durability,
    Left,
    LogScan,
    QueueNames,
    SharedFile,
    Waiting,
    done_line,
    queued_line,
    read_lines,
    read_waiting,
    read_writes,
    replace_lines,
)

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_CHECKED_BYTES = 16 * 2**10  # more than the block of a file may still have room for on a full disk
_MOST_BYTES = 64 * 2**20  # of the lines whose writes are in memory
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
    size: int = 0
    read_to: int = 0  # where reading goes on
    last: int = 0  # the highest number that was given when it was written
    damaged: bool = False  # something in it is bad and could not be quarantined


class Loaded(NamedTuple):
    """A write that was read from disk and is not done."""

    n: int
    entry: Waiting
    size: int


class Log:
    """The log of one slot, whose lock is held: everything is on disk, and only the oldest writes are in memory."""

    def __init__(
        self, names: QueueNames, slot: int, lock: FileLock, quarantine: SharedFile, limits: Limits
    ) -> None:
        self.slot = slot
        self.damaged = 0  # lines that could not be quarantined and still stand here
        self.unread = 0  # writes that wait and are not in memory, or not yet on disk
        self.loaded: dict[str, Loaded] = {}  # those that are in memory, by id, oldest first
        self._names = names
        self._lock = lock
        self._quarantine = quarantine
        self._limits = limits
        self._files: list[LogFile] = []  # oldest first; the last one is written to
        self._fd = -1
        self._ragged = False  # the file written to does not end with a newline
        self._next = 1  # the number of the next write
        self._unwritten: list[bytes] = []  # lines that need not be on disk yet
        self._taken = 0  # how many of these have been loaded already
        self._done = DoneUpTo()
        self._noted = True  # the disk says what is done

    @property
    def waiting(self) -> int:
        """How many writes are not done."""
        return len(self.loaded) + self.unread

    def ids(self) -> set[str]:
        """The ids of all that wait on disk."""
        return {entry.id for entry in self._read_waiting()}

    def _read_waiting(self) -> Iterator[Waiting]:
        """All that wait on disk; those in memory with their attempts."""
        for file in self._files:
            with contextlib.suppress(FileNotFoundError), file.path.open("rb") as opened:
                for _, entry in read_writes(opened, self._done):
                    if entry is not None:
                        yield self.loaded[entry.id].entry if entry.id in self.loaded else entry

    @property
    def oldest_at(self) -> datetime | None:
        """When the oldest that waits was queued."""
        if not self.loaded and self.unread:
            self._load()
        return next(iter(self.loaded.values())).entry.queued_at if self.loaded else None

    # --- reading

    def open(self) -> None:
        """Read what is there; damage is quarantined, never fatal."""
        scan = LogScan()
        for path in self._names.slots().get(self.slot, []):
            with contextlib.suppress(FileNotFoundError):
                damaged = self._scan(path, scan)
                self._files.append(LogFile(path, path.stat().st_size, last=scan.last, damaged=damaged))
        active = self._names.active(self.slot)
        if not self._files or self._files[-1].path != active:
            self._files.append(LogFile(active))
        self._done, self.unread, self._next = scan.done, scan.waiting, scan.last + 1
        if not self.unread:
            self._clear()

    def _scan(self, path: Path, scan: LogScan) -> bool:
        """Read a file and move its damaged lines to the quarantine, so that each is counted once; whether they stay."""
        with path.open("rb") as file:
            damaged = scan.read(file)
        if not damaged:
            return False
        _log.warning(
            "moved from %s to %s: %s", path, self._quarantine.path, pluralize(len(damaged), "damaged line")
        )
        try:
            self._quarantine.append(damaged)
            replace_lines(path, _whole_lines(path), sync=self._limits.durability == "fsync")
        except OSError as error:
            self.damaged += len(damaged)
            _log.warning("damaged lines stay in %s: %s", path, error)
            return True
        return False

    def head(self, most: int, skip: Collection[str]) -> list[Waiting]:
        """The oldest that wait, without those to be skipped: as many as there is room for in memory."""
        while True:
            waiting = (each.entry for id_, each in self.loaded.items() if id_ not in skip)
            found = list(islice(waiting, most))
            if len(found) == most or not self._load():
                return found

    def _load(self) -> bool:
        """Read the next batch into memory; whether there was one, and room for it."""
        room = min(self._limits.spill_batch_size, self._limits.max_in_memory - len(self.loaded))
        size = sum(each.size for each in self.loaded.values())
        if room <= 0 or not self.unread or size > _MOST_BYTES:
            return False
        for loaded in chain(self._read_on(), self._take_unwritten()):
            self.loaded[loaded.entry.id] = loaded
            self.unread -= 1
            room -= 1
            size += loaded.size
            if not room or size > _MOST_BYTES:
                return True
        self.unread = len(self._unwritten) - self._taken  # what else was counted can no longer be read
        if not self.waiting:
            self._clear()
        return room < self._limits.spill_batch_size

    def _read_on(self) -> Iterator[Loaded]:
        """What waits, from where reading has stopped."""
        for file in self._files:
            if file.read_to >= file.size:
                continue
            try:
                opened = file.path.open("rb")
            except FileNotFoundError:
                _log.error("%s was deleted; what was waiting in it is lost", file.path)
                file.read_to = file.size
                continue
            with opened:
                for line, entry in read_writes(opened, self._done, file.read_to):
                    file.read_to = line.start + len(line.data)
                    if entry is not None:
                        yield Loaded(line.n, entry, len(line.data))
                    elif not file.damaged:  # it has gone bad since the file was opened
                        self._quarantine.append([line.data])
            file.read_to = file.size

    def _take_unwritten(self) -> Iterator[Loaded]:
        """What waits and is not on disk, once all that is there has been read."""
        for line in self._unwritten[self._taken :]:
            self._taken += 1
            entry = read_waiting(line)
            if entry is not None:
                yield Loaded(self._next - len(self._unwritten) + self._taken - 1, entry, len(line))

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
        self.unread += len(entries)

    def flush(self, most: int = 0) -> None:
        """Bring to disk what is only in memory, in whole batches, so that no more than `most` lines are left."""
        batch = self._limits.spill_batch_size if most else 1
        over = min(len(self._unwritten), -(-(len(self._unwritten) - most) // batch) * batch)
        if over > 0:
            self._append(b"".join(self._unwritten[:over]))
            active = self._files[-1]
            if self._taken:  # then all before it has been read: go on behind what is loaded already
                active.read_to = active.size - sum(map(len, self._unwritten[self._taken : over]))
                self._taken = max(0, self._taken - over)
            del self._unwritten[:over]
            active.last = self._next - 1 - len(self._unwritten)

    def mark_done(self, ids: Iterable[str]) -> None:
        """These need not wait any more; on a full disk that is written down later."""
        finished = {self.loaded.pop(id_).n for id_ in ids}
        upto = max(self._done.upto, *finished)
        passed = {each.n for each in self.loaded.values() if each.n < upto}
        # Some that were left before may not be in memory yet.
        left = frozenset(passed | self._done.left) - finished
        self._done, self._noted = DoneUpTo(upto, left), False
        if not self.waiting:
            self._clear()
            return
        try:
            self._append(b"")
        except OSError as error:
            if error.errno not in _FULL:
                raise
            _log.warning("no room to say in %s what is done: %s", self._names.directory, error)
        self._remove_recovered()

    def erase(self, left: Left) -> int:
        """Keep of each write only what is `left` of it, in files written anew; answer how many writes were touched.

        The new file begins by saying that all before it is done. Killed before it is there, nothing was touched; after that,
        what the older files hold is not read again.
        """
        self.flush()
        touched, kept = 0, []
        for entry in self._read_waiting():
            ops = left(entry.ops)
            touched += ops != entry.ops
            kept += [msgspec.structs.replace(entry, ops=ops)] if ops else []
        for path in self._names.backups(self.slot):
            with path.open("rb") as opened:
                backup = [
                    (line.n, entry) for line, entry in read_writes(opened, DoneUpTo()) if entry is not None
                ]
            left_of = [(n, msgspec.structs.replace(entry, ops=left(entry.ops))) for n, entry in backup]
            replace_lines(path, [queued_line(n, entry) for n, entry in left_of if entry.ops])
        lines = [done_line(DoneUpTo(self._next - 1))] if kept else []
        lines += [queued_line(n, entry) for n, entry in enumerate(kept, self._next)]
        self._close_active()
        replace_lines(self._names.active(self.slot), lines, sync=self._limits.durability == "fsync")
        for file in self._files[:-1]:
            file.path.unlink(missing_ok=True)
        self._files, self._ragged, self._noted, self._taken = [], False, True, 0
        self.loaded.clear()
        self.open()
        return touched

    def check(self) -> None:
        """Write as much as a small write takes, and take it back: OSError when there is no room for it."""
        if self._limits.durability != "memory":
            start = self._append(b" " * _CHECKED_BYTES + b"\n")
            os.ftruncate(self._fd, start)
            self._files[-1].size = start
            self._noted = not self._done.upto

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

    def _append(self, data: bytes) -> int:
        """Write this behind what is there, and before it what is done unless the disk says so; answer where it begins."""
        file = self._open_writable(len(data))
        start = file.size
        note = b"" if self._noted else done_line(self._done)
        data = b"\n" * self._ragged + note + data
        try:
            write_all(self._fd, data, file.path)
            if self._limits.durability == "fsync":
                os.fsync(self._fd)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, start)
            file.size = os.fstat(self._fd).st_size
            self._ragged = self._ragged or file.size > start
            raise
        file.size += len(data)
        self._ragged = False
        self._noted = True
        return start

    def _open_writable(self, more: int) -> LogFile:
        """The file to write to: a new one when the old one is full or was deleted."""
        file = self._files[-1]
        if self._fd >= 0 and not is_current(self._fd, file.path):
            self._restore(file)
        elif file.size and file.size + more > self._limits.max_file_bytes:
            with contextlib.suppress(OSError):  # one that is too large is better than none
                part = self._names.next_part(self.slot)
                self._close_active()
                file.path.rename(part)
                file.path = part
                self._files.append(LogFile(self._names.active(self.slot)))
                self._noted = not self._done.upto
                self._remove_recovered()
        if self._fd < 0:
            self._open_active()
        return self._files[-1]

    def _open_active(self) -> None:
        file = self._files[-1]
        self._fd = open_file(file.path, os.O_RDWR | os.O_APPEND)
        file.size = os.fstat(self._fd).st_size
        self._ragged = file.size > 0 and read_at(self._fd, 1, file.size - 1) != b"\n"
        self._sync_names()

    def _restore(self, file: LogFile) -> None:
        """The file written to was deleted: what it held is written to a new one."""
        _log.error("%s was deleted; what was waiting in it is written again", file.path)
        if not self._lock.take():  # its lock was deleted too, and is another process's now
            self.slot, self._lock = claim(self._names, empty=True)
            file.path = self._names.active(self.slot)
        make_folder(self._names.directory)
        replace_lines(file.path, [read_at(self._fd, file.size, 0)])
        self._close_active()

    def _close_active(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    # --- removing what is recovered

    def _clear(self) -> None:
        """Nothing waits: cut the log to nothing, the oldest file first."""
        self._remove_recovered()
        active = self._files[-1]
        if active.damaged:
            self._close_active()
            self._remove(active)
        elif active.size:
            if self._fd < 0:
                self._open_active()
            os.ftruncate(self._fd, 0)
            if self._limits.durability == "fsync":
                os.fsync(self._fd)
        self._files[-1] = LogFile(active.path)
        self._unwritten.clear()
        self._taken = 0
        self._ragged = False
        self._noted = True

    def _remove_recovered(self) -> None:
        """Remove the oldest files, up to the first in which something waits."""
        first = next(iter(self.loaded.values())).n if self.loaded else self._next
        removed = False
        while len(self._files) > 1:
            oldest = self._files[0]
            if oldest.last >= first or (self.unread and oldest.read_to < oldest.size):
                break
            self._remove(self._files.pop(0))
            removed = True
        if removed:
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
        if self._limits.durability == "fsync":
            sync_folder(self._names.directory)


def _whole_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        for line in read_lines(file):
            if not line.damaged:
                yield line.data.removesuffix(b"\n") + b"\n"


def claim(names: QueueNames, *, empty: bool = False) -> tuple[int, FileLock]:
    """The first slot that no process holds, and its lock, which now is held; an empty one if that is asked for."""
    slot = 1
    while True:
        lock = FileLock(names.lock(slot))
        if lock.take() and not (empty and slot in names.slots()):
            return slot, lock
        lock.close()
        slot += 1
