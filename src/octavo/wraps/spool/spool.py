"""The queue of a directory that several processes may share: one slot each, and the slots of those that have died."""

import os
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import Self
from weakref import WeakSet

from octavo.errors import ConfigError, NotFound, StoreClosed
from octavo.kernel.ids import now
from octavo.stores.file.lock import Lock
from octavo.util.file_modes import make_folder
from octavo.wraps.spool.dead import DeadLetters
from octavo.wraps.spool.entries import DeadLetter, Durability, Layout, Slot, SpoolStatus, Waiting
from octavo.wraps.spool.lane import Lane
from octavo.wraps.spool.log import claimed
from octavo.wraps.spool.names import Names
from octavo.wraps.spool.shared import Guard, SharedFile, bad_lines, dead_letters, speaking

_LONGEST_ERROR = 2000  # characters of an error that are kept with an entry


class Spool:
    """Writes that wait for their store, in order, on disk. Its methods block; `status` and the counts do not."""

    def __init__(
        self,
        directory: str | Path,
        *,
        name: str = "failed_events",
        max_in_memory: int = 1000,
        spill_batch_size: int = 200,
        max_file_bytes: int = 10 * 2**20,
        max_backups: int = 0,
        durability: Durability = "fsync",
    ) -> None:
        least = {"max_in_memory": 1, "spill_batch_size": 1, "max_file_bytes": 1, "max_backups": 0}
        given = {
            "max_in_memory": max_in_memory, "spill_batch_size": spill_batch_size, "max_file_bytes": max_file_bytes,
            "max_backups": max_backups,
        }  # fmt: skip
        for setting, value in given.items():
            if value < least[setting]:
                raise ConfigError(f"{setting} must be at least {least[setting]}; got {value!r}")
        if durability not in ("fsync", "flush", "memory"):
            raise ConfigError(f'durability must be "fsync", "flush" or "memory"; got {durability!r}')
        if not name or "/" in name or "\0" in name:
            raise ConfigError(f"name must be that of a file, without its folder; got {name!r}")
        self.directory = Path(directory)
        self._layout = Layout(durability=durability, **given)
        self._names = Names(self.directory, name)
        self._guard = Guard(self._names.guard)
        self._aside = SharedFile(self._names.bad, bad_lines, sync=self._layout.synced)
        self.dead = DeadLetters(SharedFile(self._names.dead, dead_letters), self._aside, self._guard)
        self._lanes: list[Lane] = []  # the first is this process's own
        self._mutex = threading.RLock()
        self._opened = self._closed = False

    def open(self) -> None:
        """Claim a slot and read what waits in it and in those of processes that have died; damage is never fatal."""
        with self._mutex:
            if self._closed:
                raise StoreClosed(f"the queue in {self.directory} was closed; open another")
            if self._opened:
                return
            with speaking(self.directory):
                try:
                    make_folder(self.directory)
                    self._lanes = [self._lane(*claimed(self._names))]
                except (PermissionError, NotADirectoryError, FileExistsError) as error:
                    raise ConfigError(
                        f"the failure queue cannot use {self.directory}: {error.strerror}; name a folder that can be written to"
                    ) from error
            self._opened = True
            _opened.add(self)
            self.adopt()

    def put(self, entries: Sequence[Waiting]) -> None:
        """Keep these behind all others, with one write for all; on a full disk none of them is kept and it raises."""
        with self._ready():
            if entries:
                self._lanes[0].put(entries)

    def check(self) -> None:
        """Raise what `put` would raise now: a few bytes are written, and taken back."""
        with self._ready():
            self._lanes[0].check()

    def head(self, most: int, skip: Collection[str] = ()) -> list[Waiting]:
        """The oldest that wait, in order, without those whose ids are to be skipped."""
        with self._ready():
            skip = skip if isinstance(skip, set | frozenset | dict) else frozenset(skip)
            heads = [lane.head(most, skip) for lane in self._lanes]
            return heads[0] if len(heads) == 1 else list(islice(merge(*heads, key=_id), most))

    def done(self, ids: Sequence[str]) -> None:
        """These were stored. When nothing waits any more, that is on disk when this returns; before, a full disk may delay it."""
        with self._ready():
            numbers: dict[Lane, set[int]] = {}
            for lane, n, _ in self._found(ids).values():
                numbers.setdefault(lane, set()).add(n)
            for lane, finished in numbers.items():
                lane.done(finished)
            self._leave_empty()

    def tried(self, id: str, error: str) -> Waiting:  # noqa: A002 - the name the rest of Octavo uses
        """One more attempt to store this one has failed; answer it with its new count."""
        with self._ready():
            lane, n, entry = self._one(id)
            return lane.tried(n, entry, error[:_LONGEST_ERROR])

    def bury(self, ids: Sequence[str], error: str) -> None:
        """Give these up for one reason, with one write for all: they are dead letters, on disk, before they leave the queue."""
        with self._ready():
            died_at = now()
            entries = [entry for _, _, entry in self._found(ids).values()]
            self.dead.add(
                [
                    DeadLetter(
                        id=each.id, queued_at=each.queued_at, ops=each.ops, attempts=each.attempts,
                        error=error[:_LONGEST_ERROR], died_at=died_at,
                    )
                    for each in entries
                ]
            )  # fmt: skip
            self.done(ids)

    def revive(self, ids: Collection[str] | None = None) -> int:
        """Put these dead letters, or all, back into the queue as if they were new; answer how many there were."""
        with self._ready():
            wanted = None if ids is None else frozenset(ids)
            letters = (letter for letter in self.dead if wanted is None or letter.id in wanted)
            back: list[str] = []
            try:
                while batch := list(islice(letters, self._layout.spill_batch_size)):
                    # A new id and time: it comes after what waits now, and has its whole time again.
                    self._lanes[0].put([Waiting(ops=letter.ops) for letter in batch])
                    back += [letter.id for letter in batch]
                self._lanes[0].flush()
            finally:  # when there is no room for all, those that are in the queue are no longer dead
                self.dead.discard(back)
            return len(back)

    def adopt(self) -> int:
        """Take over the slots of processes that have died; answer how many entries came with them."""
        with self._ready():
            own = {lane.slot for lane in self._lanes}
            came = 0
            for slot in self._names.slots():
                if slot in own or not (lock := Lock(self._names.lock(slot))).take():
                    continue
                lane = self._lane(slot, lock)
                self._lanes.append(lane)
                came += lane.waiting
            self._leave_empty()
            return came

    def flush(self) -> None:
        """Bring to disk what is only in memory."""
        with self._ready():
            self._lanes[0].flush()

    @property
    def waiting(self) -> int:
        """How many wait in the slots of this process."""
        return sum(lane.waiting for lane in self._lanes)

    @property
    def bad_lines(self) -> int:
        """How many damaged lines were found in this directory and set aside."""
        return self._aside.count + sum(lane.unkept for lane in self._lanes)

    def status(self) -> SpoolStatus:
        """What waits in the slots of this process, and what all share."""
        lanes = list(self._lanes)
        files = [segment for lane in lanes for segment in lane.files]
        return SpoolStatus(
            directory=str(self.directory),
            waiting=sum(lane.waiting for lane in lanes),
            dead=self.dead.count,
            bad_lines=self.bad_lines,
            bytes=sum(segment.size for segment in files),
            files=len(files),
            oldest_at=min((lane.oldest_at for lane in lanes if lane.oldest_at), default=None),
            slots=tuple(Slot(number=lane.slot, waiting=lane.waiting, alive=True) for lane in lanes),
        )

    def close(self) -> None:
        """Bring everything to disk and let go of it; empty files are removed. A second call does nothing."""
        with self._mutex:
            if self._opened and not self._closed:
                with speaking(self.directory):
                    self._lanes[0].flush()
                    for lane in self._lanes:
                        lane.close()
            self._closed = True

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def forget(self) -> None:
        """In a child of a process that had this open: the slots are the parent's, and this one claims its own."""
        self._mutex = threading.RLock()  # some thread of the parent may have held the old one
        self._guard.forget()
        self._lanes = []
        self._opened = False

    def _lane(self, slot: int, lock: Lock) -> Lane:
        lane = Lane(self._names, slot, lock, self._aside, self._guard, self._layout)
        lane.open()
        return lane

    def _leave_empty(self) -> None:
        """Let go of adopted slots once they are empty."""
        for lane in [lane for lane in self._lanes[1:] if not lane.waiting]:
            self._lanes.remove(lane)
            lane.close()

    def _found(self, ids: Collection[str]) -> dict[str, tuple[Lane, int, Waiting]]:
        """Those of the ids that wait, in the order given."""
        found: dict[str, tuple[Lane, int, Waiting]] = {}
        for search in (False, True):  # the files are searched only for what no slot holds in memory
            for lane in self._lanes:
                if left := {id_ for id_ in ids if id_ not in found}:
                    found |= {id_: (lane, *each) for id_, each in lane.find(left, search=search).items()}
        return {id_: found[id_] for id_ in ids if id_ in found}

    def _one(self, id_: str) -> tuple[Lane, int, Waiting]:
        try:
            return self._found([id_])[id_]
        except KeyError:
            raise NotFound(f"nothing with the id {id_!r} waits in {self.directory}") from None

    @contextmanager
    def _ready(self) -> Iterator[None]:
        with self._mutex:
            if not self._opened or self._closed:
                self.open()
            with speaking(self.directory):
                yield


def _id(entry: Waiting) -> str:
    return entry.id


_opened: WeakSet[Spool] = WeakSet()


def _after_fork() -> None:
    # Two processes in one slot would write over each other, and a child that lives on would keep the parent's slot locked.
    for spool in list(_opened):
        spool.forget()
    _opened.clear()


os.register_at_fork(after_in_child=_after_fork)
