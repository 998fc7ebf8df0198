"""The queue of a directory that several processes may share: one slot each, and the slots of those that have died."""

import logging
import os
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from heapq import merge
from itertools import accumulate, islice, takewhile
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO, Self, get_args

from msgspec.structs import asdict, replace

from octavo.errors import ConfigError, NotFound, StoreClosed
from octavo.kernel.ids import now
from octavo.kernel.text import folder_name
from octavo.util.disk import FileLock, make_folder, replace_file, sync_folder
from octavo.wraps.journal.files import (
    DeadLetter,
    DeadLetters,
    Durability,
    Erased,
    Left,
    LogScan,
    QueueNames,
    SharedFile,
    Slot,
    SpoolStatus,
    Waiting,
    read_writes,
    translate_errors,
)
from octavo.wraps.journal.log import Limits, Log, claim

_log = logging.getLogger("octavo.journal")
_LOCK_SECONDS = 10.0  # whoever holds the folder's lock looks at a few files; longer than this it is stuck
_LONGEST_ERROR = 2000  # characters of an error that are kept with a write


class Spool:
    """Writes that wait for their store, in order, on disk. Its methods block.

    Where the store is named, a folder that holds writes for another one is left alone, and a subfolder used.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        store: str = "",
        max_in_memory: int = 1000,
        spill_batch_size: int = 200,
        max_file_bytes: int = 10 * 2**20,
        max_backups: int = 0,
        durability: Durability = "fsync",
    ) -> None:
        given = {
            "max_in_memory": max_in_memory,
            "spill_batch_size": spill_batch_size,
            "max_file_bytes": max_file_bytes,
        }
        for setting, value, least in (
            *((*each, 1) for each in given.items()),
            ("max_backups", max_backups, 0),
        ):
            if value < least:
                raise ConfigError(f"{setting} must be at least {least}; got {value!r}")
        if durability not in get_args(Durability):
            raise ConfigError(f'durability must be "fsync", "flush" or "memory"; got {durability!r}')
        self._limits = Limits(**given, max_backups=max_backups, durability=durability)
        self._root = Path(directory)
        self._store = store
        self._use_folder()
        self._logs: list[Log] = []  # the first is this process's own
        self._mutex = threading.RLock()
        self._process = 0  # that has opened it
        self._closed = False

    def open(self) -> None:
        """Claim a slot and read what waits in it and in those of processes that have died; damage is never fatal."""
        with self._mutex:
            if self._closed:
                raise StoreClosed(f"the queue in {self.directory} was closed; open another")
            if self._process:
                return
            with translate_errors(self.directory):
                try:
                    make_folder(self._root)
                    self._logs = [self._open_log(*self._claim())]
                except (PermissionError, NotADirectoryError, FileExistsError) as error:
                    raise ConfigError(
                        f"the failure queue cannot use {self.directory}: {error.strerror}; "
                        "set failure_queue.directory to a folder that can be written to"
                    ) from error
            self._process = os.getpid()
            self.adopt()

    def put(self, entries: Sequence[Waiting]) -> None:
        """Keep these behind all others, with one write for all; on a full disk none of them is kept and it raises."""
        with self._ensure_open():
            if entries:
                self._logs[0].put(entries)

    def check(self) -> None:
        """Raise what `put` would raise now: a few bytes are written, and taken back."""
        with self._ensure_open():
            self._logs[0].check()

    def head(self, most: int, skip: Collection[str] = ()) -> list[Waiting]:
        """The oldest that wait, in order, without those whose ids are to be skipped, as far as they fit in memory."""
        with self._ensure_open():
            heads = [log.head(most, skip) for log in self._logs]
            # Ids sort by time. Where the clock was set back, a write comes no sooner than those before it in its log.
            dated = [zip(accumulate(map(_id, head), max), head, strict=True) for head in heads]
            # Behind the last that a log has in memory, the next one in order may be one that it has only on disk.
            ends = [max(log.loaded, default="") for log in self._logs if log.unread]
            found = takewhile(lambda one: not ends or one[0] <= min(ends), merge(*dated, key=itemgetter(0)))
            return [entry for _, entry in islice(found, most)]

    def mark_done(self, ids: Sequence[str]) -> None:
        """These were stored. When nothing waits any more, that is on disk when this returns; before, a full disk may delay it."""
        with self._ensure_open():
            for log in self._logs:
                if mine := [id_ for id_ in dict.fromkeys(ids) if id_ in log.loaded]:
                    log.mark_done(mine)
            self._leave_empty()

    def note_attempt(self, id: str, error: str) -> Waiting:  # noqa: A002 - the name the rest of Octavo uses
        """One more attempt to store this one has failed; answer it with its new count, which is known until the process ends."""
        with self._ensure_open():
            for log in self._logs:
                if (found := log.loaded.get(id)) is not None:
                    attempts = found.entry.attempts + 1
                    entry = replace(found.entry, attempts=attempts, error=error[:_LONGEST_ERROR])
                    log.loaded[id] = found._replace(entry=entry)
                    return entry
            raise NotFound(f"nothing with the id {id!r} waits in {self.directory}")

    def bury(self, ids: Sequence[str], error: str) -> None:
        """Give these up for one reason, with one write for all: they are dead letters, on disk, before they leave the queue."""
        with self._ensure_open():
            found = [log.loaded[id_].entry for id_ in ids for log in self._logs if id_ in log.loaded]
            why = {"error": error[:_LONGEST_ERROR], "died_at": now()}
            self.dead.add([DeadLetter(**{**asdict(each), **why}) for each in found])
            self.mark_done(ids)

    def revive(self, ids: Collection[str] | None = None) -> int:
        """Put these dead letters, or all, back into the queue as if they were new; answer how many there were."""
        with self._ensure_open():
            letters = (letter for letter in self.dead if ids is None or letter.id in ids)
            back: list[str] = []
            try:
                while batch := list(islice(letters, self._limits.spill_batch_size)):
                    # A new id and time: it comes after what waits now, and has its whole time again.
                    self._logs[0].put([Waiting(ops=letter.ops) for letter in batch])
                    back += [letter.id for letter in batch]
                self._logs[0].flush()
            finally:  # when there is no room for all, those that are in the queue are no longer dead
                self.dead.discard(back)
            return len(back)

    def adopt(self) -> int:
        """Take over the slots of processes that have died; answer how many writes came with them."""
        with self._ensure_open():
            own = {log.slot for log in self._logs}
            came = 0
            for slot in self._names.slots():
                if slot not in own and (lock := FileLock(self._names.lock(slot))).take():
                    self._logs.append(self._open_log(slot, lock))
                    came += self._logs[-1].waiting
            self._leave_empty()
            return came

    def erase(self, left: Left, names: Collection[bytes] = ()) -> Erased:
        """Keep of each write, waiting or given up, what is `left` of it, and of damaged lines those that hold none of the names.

        Slots of processes that run are theirs alone: what they hold of it is only counted.
        """
        with self._ensure_open():
            self.adopt()
            waiting = sum(log.erase(left) for log in self._logs)
            self._leave_empty()
            dead = self.dead.erase(left)
            damaged = self._quarantine.drop_holding(names) if self._quarantine.path.exists() else 0
            own = {id_ for log in self._logs for id_ in log.ids()}
            others = [entry for entry in peek(self.directory) if entry.id not in own]
            held = sum(left(entry.ops) != entry.ops for entry in others)
            return Erased(waiting=waiting, dead=dead, damaged=damaged, elsewhere=held)

    def flush(self) -> None:
        """Bring to disk what is only in memory."""
        with self._ensure_open():
            self._logs[0].flush()

    @property
    def waiting(self) -> int:
        """How many wait in the slots of this process."""
        return sum(log.waiting for log in self._logs)

    @property
    def unread(self) -> int:
        """How many of them are not in memory."""
        return sum(log.unread for log in self._logs)

    @property
    def bad_lines(self) -> int:
        """How many damaged lines were found in this directory."""
        return self._quarantine.count + sum(log.damaged for log in self._logs)

    @property
    def oldest_at(self) -> datetime | None:
        """When the oldest of them was queued."""
        with self._mutex, translate_errors(self.directory):
            return min((at for log in self._logs if (at := log.oldest_at)), default=None)

    def close(self) -> None:
        """Bring everything to disk and let go of it; empty files are removed. A second call does nothing."""
        if self._process not in (0, os.getpid()):  # all of it is the parent's
            return
        with self._mutex:
            if self._process and not self._closed:
                with translate_errors(self.directory):
                    self._logs[0].flush()
                    for log in self._logs:
                        log.close()
            self._closed = True

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _use_folder(self) -> None:
        self.directory = find_folder(self._root, self._store)
        self._names = QueueNames(self.directory)
        self._quarantine = SharedFile(self._names.bad, sync=self._limits.durability == "fsync")
        self.dead = DeadLetters(self._names.dead, self._quarantine)

    def _claim(self) -> tuple[int, FileLock]:
        """A slot in the folder of this store, which says so from now on; one at a time decides whose a folder is."""
        if not self._store:
            return claim(self._names)
        with FileLock(self._root / ".failed_events.store.lock").hold(_LOCK_SECONDS):
            self._use_folder()
            if self.directory != self._root:
                make_folder(self.directory)
                if holds_writes(self._root):
                    _log.warning(
                        "%s holds writes for %s; those for %s wait in %s. If it has moved: octavo queue replay --redirect --dir %s",
                        self._root, named_store(self._root), self._store, self.directory, self._root,
                    )  # fmt: skip
            if named_store(self.directory) != self._store:
                replace_file(self._names.store, [self._store.encode()])
                sync_folder(self.directory)
            return claim(self._names)

    def _open_log(self, slot: int, lock: FileLock) -> Log:
        log = Log(self._names, slot, lock, self._quarantine, self._limits)
        log.open()
        return log

    def _leave_empty(self) -> None:
        """Let go of adopted slots once they are empty."""
        for log in [log for log in self._logs[1:] if not log.waiting]:
            self._logs.remove(log)
            log.close()

    @contextmanager
    def _ensure_open(self) -> Iterator[None]:
        if self._process not in (0, os.getpid()):
            raise StoreClosed(
                "this queue was opened before the process was forked; open another in the child"
            )
        with self._mutex:
            self.open()
            with translate_errors(self.directory):
                yield


def _id(entry: Waiting) -> str:
    return entry.id


# --- looking without touching, while services run


def named_store(directory: Path) -> str:
    """The store that a folder's writes are for; "" where nobody said."""
    try:
        return QueueNames(directory).store.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def find_folder(directory: Path, store: str) -> Path:
    """The folder for a store's writes: this one, unless it is another's. From then on that store has a subfolder of its own."""
    own = directory / folder_name(store, store)
    if os.path.isdir(own):  # noqa: PTH112 - which is False where nobody may look
        return own
    if not store or named_store(directory) in ("", store):
        return directory
    taken = holds_writes(directory) or any(map(_is_held, QueueNames(directory).locks))
    return own if taken else directory


def holds_writes(directory: Path) -> bool:
    """Whether something waits there, or was given up."""
    names = QueueNames(directory)
    for path in [names.dead, *(path for paths in names.slots().values() for path in paths)]:
        with suppress(FileNotFoundError):
            if path.stat().st_size:
                return True
    return False


def inspect(directory: str | Path) -> SpoolStatus:
    """What waits in all slots, what was given up, what was damaged; read only, safe while services run."""
    names = QueueNames(Path(directory))
    slots: list[Slot] = []
    oldest: list[datetime] = []
    with _open_files(names) as opened:
        for slot, files in opened.items():
            entries = _entries(files)
            first = next(entries, None)
            if first is not None:
                oldest.append(first.queued_at)
            waiting = 0 if first is None else 1 + sum(1 for _ in entries)
            slots.append(Slot(number=slot, waiting=waiting, alive=_is_held(names.lock(slot))))
        sizes = [os.fstat(file.fileno()).st_size for files in opened.values() for file in files]
    quarantine = SharedFile(names.bad)
    return SpoolStatus(
        directory=str(directory),
        store=named_store(Path(directory)),
        waiting=sum(slot.waiting for slot in slots),
        dead=DeadLetters(names.dead, quarantine).count,
        bad_lines=quarantine.count,
        bytes=sum(sizes),
        files=len(sizes),
        oldest_at=min(oldest, default=None),
        slots=tuple(slots),
    )


def peek(directory: str | Path) -> Iterator[Waiting]:
    """What waits in all slots, oldest first; read only, safe while services run."""
    with _open_files(QueueNames(Path(directory))) as opened:
        yield from merge(*map(_entries, opened.values()), key=_id)


def _entries(files: list[BinaryIO]) -> Iterator[Waiting]:
    """What waits in the files of one slot."""
    scan = LogScan()
    for file in files:
        scan.read(file)
    for file in files:
        yield from (entry for _, entry in read_writes(file, scan.done) if entry is not None)


@contextmanager
def _open_files(names: QueueNames) -> Iterator[dict[int, list[BinaryIO]]]:
    """Every slot's files, opened at one moment: one that is renamed or removed meanwhile is still read as it was."""
    for last in (False, False, False, True):
        with ExitStack() as stack:
            listed = names.slots()
            opened: dict[int, list[BinaryIO]] = {}
            for slot, paths in listed.items():
                for path in paths:
                    with suppress(FileNotFoundError):
                        opened.setdefault(slot, []).append(stack.enter_context(path.open("rb")))
            if last or names.slots() == listed:
                yield opened
                return


def _is_held(path: Path) -> bool:
    """Whether a process holds that lock now."""
    if not path.exists():  # asking would make it
        return False
    lock = FileLock(path)
    try:
        return not lock.take()
    except PermissionError:
        return True
    finally:
        lock.close()
