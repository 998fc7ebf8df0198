"""A lock between processes; the kernel lets go of it when its holder dies."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from octavo.errors import StoreUnavailable
from octavo.util.file_modes import make_folder, open_file


class Lock:
    """One lock file, held by one at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._spelled = str(path)
        self._fd = -1

    def take(self) -> bool:
        """Take the lock if nobody has it."""
        while True:
            if self._fd < 0:
                make_folder(self._path.parent)
                self._fd = open_file(self._path, os.O_RDWR)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            if self._current():
                return True
            # The file was deleted by hand: whoever comes now locks another one, so this lock excludes nobody.
            self.close()

    def release(self) -> None:
        """Let others in."""
        if self._fd >= 0:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go for good; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()  # a store that nobody closed must not keep descriptors and locks for ever

    def _current(self) -> bool:
        try:
            there = os.stat(self._spelled)  # noqa: PTH116 - once per write, where a Path costs more than the call
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._fd))


class IntentLock(Lock):
    """A lock whose file says what its holder is about to do, for whoever comes after one that was killed."""

    @contextlib.contextmanager
    def held(self, seconds: float) -> Iterator[None]:
        """Hold the lock, after waiting for it so long at most."""
        until, pause = time.monotonic() + seconds, 0.0002
        while not self.take():
            if time.monotonic() > until:
                raise StoreUnavailable(
                    f"another process has held the lock of this directory for {seconds:.0f} seconds"
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 0.005)
        try:
            yield
        finally:
            self.release()

    def read(self) -> bytes:
        """What the last holder was about to do; under the lock."""
        return os.pread(self._fd, os.fstat(self._fd).st_size, 0)

    def write(self, intent: bytes, *, sync: bool = False) -> None:
        """Say what this holder is about to do; one that is cut short is a beginning of it, and nothing was done."""
        os.ftruncate(self._fd, 0)
        written = 0
        while written < len(intent):  # a disk that is nearly full takes less
            written += os.pwrite(self._fd, intent[written:], written)
        if sync:
            os.fsync(self._fd)
