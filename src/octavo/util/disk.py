"""Files that several processes share: locks, writing that is whole or named in its error, names that survive a power cut."""

import math
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakSet

from octavo.errors import StoreUnavailable
from octavo.util.file_modes import keep_mode, make_folder, open_file
from octavo.util.system import call_after_fork, lock_file, open_folder, unlock_file


class FileLock:
    """A lock file, held by one at a time. The system lets go of it when its holder dies; a forked child does not keep it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._spelled = str(path)
        self._fd = -1
        self._held = False

    def take(self) -> bool:
        """Take the lock if nobody has it."""
        while True:
            if self._fd < 0:
                make_folder(self._path.parent)
                self._fd = open_file(self._path, os.O_RDWR)
                _locks.add(self)
            self._held = self._held or lock_file(self._fd)
            if not self._held:
                return False
            if is_current(self._fd, self._spelled):
                return True
            # The file was deleted by hand: whoever comes now locks another one, so this lock excludes nobody.
            self.close()

    @contextmanager
    def hold(self, seconds: float) -> Iterator[None]:
        """Hold the lock, after waiting for it so long at most; StoreUnavailable when that is not enough."""
        until, pause = time.monotonic() + seconds, 0.0002
        while not self.take():
            if time.monotonic() > until:
                raise StoreUnavailable(
                    f"another process has held the lock of {self._path.parent} for {seconds:.0f} seconds"
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 0.005)
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        """Let others in, and keep the file open for the next time."""
        if self._held:
            unlock_file(self._fd)
            self._held = False

    def close(self) -> None:
        """Let go for good; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd, self._held = -1, False

    def __del__(self) -> None:
        self.close()  # what nobody closed must not keep descriptors and locks for ever


_locks: WeakSet[FileLock] = WeakSet()


def _close_locks() -> None:
    # A child shares its parent's locks as long as it has the files open, and would keep them when the parent is gone.
    for lock in list(_locks):
        lock.close()


call_after_fork(_close_locks)


def is_current(fd: int, path: str | Path) -> bool:
    """Whether the open file is still the one of that name."""
    try:
        there = os.stat(path)  # noqa: PTH116 - once per write, where a Path costs more than the call
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(fd))


def write_all(fd: int, data: bytes, path: Path | str) -> None:
    """Write everything, in one call unless the system takes less; an error names the path."""
    try:
        written = os.write(fd, data)
        while written < len(data):
            written += os.write(fd, data[written:])
    except OSError as error:
        if error.filename is None:  # calls on descriptors do not know it
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def stage_file(staged: Path, content: Iterable[bytes], path: Path, *, sync: bool = True) -> None:
    """Write under another name what is to become the file `path`, with the mode of the one there; all of it, or nothing is left.

    With `sync` it is on the disk afterwards: otherwise a power cut could keep the rename and lose the bytes.
    """
    fd = open_file(staged, os.O_WRONLY | os.O_TRUNC)
    try:
        try:
            for piece in content:
                write_all(fd, piece, staged)
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        keep_mode(staged, path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise


def replace_file(path: Path, content: Iterable[bytes], *, sync: bool = True) -> None:
    """Write a file anew in one step: whoever reads it finds the old content or the new, whole. One at a time may do so."""
    staged = path.with_name(f".{path.name}.new")
    stage_file(staged, content, path, sync=sync)
    try:
        staged.replace(path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise


def sync_folder(path: Path) -> None:
    """Make the names in a folder survive a power cut, where the system lets a program see to that."""
    fd = open_folder(path)
    if fd is not None:
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


@contextmanager
def folder_turn(path: Path) -> Iterator[None]:
    """One at a time has the turn of a folder, in this process or another; who comes meanwhile waits."""
    fd = open_folder(path)
    if fd is None:
        with FileLock(path / ".octavo.lock").hold(math.inf):
            yield
        return
    try:
        lock_file(fd, wait=True)
        yield
    finally:
        os.close(fd)
