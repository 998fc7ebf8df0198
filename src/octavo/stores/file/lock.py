"""Locks between processes; the kernel lets go of them when their holder dies."""

import fcntl
import os
from pathlib import Path

from octavo.util.file_modes import make_folder, open_file


class Lock:
    """One lock file. `take` is exclusive; `share` is held side by side by everyone who has the store open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._spelled = str(path)
        self._fd = -1

    def take(self) -> bool:
        """Take the lock if nobody has it."""
        while True:
            self._open()
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            if self._current():
                return True
            # The file was deleted by hand: whoever comes now locks another one, so this lock excludes nobody.
            self.close()

    def share(self) -> None:
        """Hold the lock together with others."""
        self._open()
        fcntl.flock(self._fd, fcntl.LOCK_SH)

    def alone(self) -> bool:
        """Whether nobody else shares the lock; only meaningful while a second lock keeps newcomers out."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_SH)
        return True

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

    def _open(self) -> None:
        if self._fd < 0:
            make_folder(self._path.parent)
            self._fd = open_file(self._path, os.O_RDWR)

    def _current(self) -> bool:
        try:
            there = os.stat(self._spelled)  # noqa: PTH116 - once per write, where a Path costs more than the call
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._fd))
