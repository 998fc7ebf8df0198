"""Looking at a queue's directory without touching it, while services use it."""

import contextlib
import heapq
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from octavo.stores.file.lock import Lock
from octavo.wraps.spool import lines
from octavo.wraps.spool.entries import Slot, SpoolStatus, Waiting
from octavo.wraps.spool.lines import Done, Number, Tried
from octavo.wraps.spool.names import Names
from octavo.wraps.spool.segment import Segment
from octavo.wraps.spool.shared import bad_lines, dead_letters


def inspect(directory: str | Path, *, name: str = "failed_events") -> SpoolStatus:
    """What waits in all slots, what was given up, what was damaged; read only, safe while services run."""
    names = Names(Path(directory), name)
    slots: list[Slot] = []
    oldest = []
    size = files = 0
    with _opened(names) as views:
        for view in views:
            size += sum(segment.size for segment in view.segments)
            files += len(view.segments)
            slots.append(Slot(number=view.slot, waiting=view.waiting, alive=_alive(names, view.slot)))
            if (first := next(view.entries(), None)) is not None:
                oldest.append(first.queued_at)
    return SpoolStatus(
        directory=str(directory), waiting=sum(slot.waiting for slot in slots), dead=dead_letters(names.dead),
        bad_lines=bad_lines(names.bad), bytes=size, files=files, oldest_at=min(oldest, default=None), slots=tuple(slots),
    )  # fmt: skip


def peek(directory: str | Path, *, name: str = "failed_events") -> Iterator[Waiting]:
    """What waits in all slots, oldest first; read only, safe while services run."""
    with _opened(Names(Path(directory), name)) as views:
        yield from heapq.merge(*(view.entries() for view in views), key=lambda entry: entry.id)


class _View:
    """A slot's log as it stood when its files were opened."""

    def __init__(self, slot: int, files: list[tuple[Path, BinaryIO]]) -> None:
        self.slot = slot
        self.segments: list[Segment] = []
        self._files = [file for _, file in files]
        self._tried: dict[int, Tried] = {}
        last = 0
        for path, file in files:
            segment = Segment(path)
            segment.size = os.fstat(file.fileno()).st_size
            self.segments.append(segment)
            for piece in lines.read(file):
                line = lines.log_line(piece.data) if piece.sound else None
                if isinstance(line, Number) and line.n > last:
                    segment.add(line.n)
                    last = line.n
                elif isinstance(line, Done):
                    for first, end in line.n:
                        for each in self.segments:
                            each.done(first, end)
                elif isinstance(line, Tried):
                    self._tried[line.n] = line

    @property
    def waiting(self) -> int:
        return sum(segment.waiting for segment in self.segments)

    def entries(self) -> Iterator[Waiting]:
        for segment, file in zip(self.segments, self._files, strict=True):
            for piece in lines.read(file):
                line = lines.log_line(piece.data) if piece.sound else None
                if not isinstance(line, Number) or not segment.has(line.n):
                    continue
                entry = lines.waiting(piece.data)
                if entry is None:
                    continue
                tried = self._tried.get(line.n)
                yield (
                    entry
                    if tried is None
                    else msgspec.structs.replace(entry, attempts=tried.attempts, error=tried.error)
                )


@contextlib.contextmanager
def _opened(names: Names) -> Iterator[list[_View]]:
    """Every slot's files, opened at one moment: one that is renamed or removed meanwhile is still read as it was."""
    for last in (False, False, False, True):
        with contextlib.ExitStack() as stack:
            listed = names.slots()
            opened: dict[int, list[tuple[Path, BinaryIO]]] = {}
            for slot, paths in listed.items():
                for path in paths:
                    with contextlib.suppress(FileNotFoundError):
                        opened.setdefault(slot, []).append((path, stack.enter_context(path.open("rb"))))
            if last or names.slots() == listed:
                yield [_View(slot, files) for slot, files in opened.items()]
                return


def _alive(names: Names, slot: int) -> bool:
    """Whether a process holds the slot now."""
    path = names.lock(slot)
    if not path.exists():  # asking would make it
        return False
    lock = Lock(path)
    try:
        return not lock.take()
    except PermissionError:
        return True
    finally:
        lock.close()
