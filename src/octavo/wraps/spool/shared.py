"""Files that all processes of a directory write to: appended to and rewritten under one lock."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from octavo.errors import StoreUnavailable
from octavo.stores.file.lock import Lock
from octavo.util.disk import sync_folder, write_all
from octavo.util.file_modes import keep_mode, open_file
from octavo.wraps.spool import lines
from octavo.wraps.spool.lines import Piece

_LOCK_SECONDS = 10.0  # whoever holds the lock writes a few lines; longer than this it is stuck


@contextmanager
def speaking(folder: Path) -> Iterator[None]:
    """The system's errors as Octavo's, naming the path."""
    try:
        yield
    except OSError as error:
        path = error.filename or folder
        raise StoreUnavailable(f"the failure queue cannot use {path}: {error.strerror or error}") from error


class Guard:
    """Keeps other processes, and other threads of this one, from writing to the shared files meanwhile."""

    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        self._lock = Lock(path)
        self._mutex = threading.Lock()  # the lock of a process keeps its own threads out of nothing

    def __enter__(self) -> None:
        self._mutex.acquire()
        try:
            until = time.monotonic() + _LOCK_SECONDS
            while not self._lock.take():
                if time.monotonic() > until:
                    raise StoreUnavailable(f"another process has held the lock of {self._folder} too long")
                time.sleep(0.002)
        except BaseException:
            self._mutex.release()
            raise

    def forget(self) -> None:
        """In a child of a process: whoever held this was the parent."""
        self._mutex = threading.Lock()
        self._lock.close()

    def __exit__(self, *exc: object) -> None:
        self._lock.close()  # a descriptor that stays open would keep the disk from being unmounted
        self._mutex.release()


class SharedFile:
    """Lines that any process may write while it holds the guard; they are counted again only when the file has changed."""

    def __init__(self, path: Path, counts: Callable[[Path], int], *, sync: bool = True) -> None:
        self.path = path
        self._sync = sync
        self._counts = counts
        self._counted: tuple[tuple[int, ...], int] = ((), 0)

    @property
    def count(self) -> int:
        """How many lines it has now; as many as before while it cannot be read."""
        known, count = self._counted
        with contextlib.suppress(OSError):
            signature = self._signature()
            if signature != known:
                count = self._counts(self.path) if signature else 0
                self._counted = (signature, count)
        return count

    def append(self, added: Sequence[bytes]) -> None:
        """Add lines, all or none."""
        count = self.count
        fd = open_file(self.path, os.O_RDWR | os.O_APPEND)
        try:
            size = os.fstat(fd).st_size
            torn = size and os.pread(fd, 1, size - 1) != b"\n"
            try:
                write_all(fd, b"".join([b"\n" if torn else b"", *added]), self.path)
                if self._sync:
                    os.fsync(fd)
            except OSError:
                os.ftruncate(fd, size)
                raise
        finally:
            os.close(fd)
        if self._sync and not size:
            sync_folder(self.path.parent)
        self._counted = (self._signature(), count + len(added))

    def rewrite(self, kept: Iterator[bytes]) -> None:
        """Put these lines in place of all; without any, the file is removed."""
        new = self.path.with_name(f"{self.path.name}.new")
        fd = open_file(new, os.O_WRONLY | os.O_TRUNC)
        try:
            size = 0
            for line in kept:
                write_all(fd, line, new)
                size += len(line)
            os.fsync(fd)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)
        if size:
            keep_mode(new, self.path)
            new.replace(self.path)
        else:
            self.path.unlink(missing_ok=True)
            new.unlink()
        sync_folder(self.path.parent)

    def pieces(self) -> Iterator[Piece]:
        """What the file holds now, line by line."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            yield from lines.read(file)

    def _signature(self) -> tuple[int, ...]:
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return ()
        return (there.st_ino, there.st_size, there.st_mtime_ns)


def bad_lines(path: Path) -> int:
    """How many lines were set aside in a file."""
    try:
        with path.open("rb") as file:
            return sum(1 for _ in file)
    except FileNotFoundError:
        return 0


def dead_letters(path: Path) -> int:
    """How many dead letters a file holds."""
    try:
        with path.open("rb") as file:
            return sum(1 for piece in lines.read(file) if piece.sound)
    except FileNotFoundError:
        return 0
