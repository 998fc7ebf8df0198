"""The lock of a folder, and what its holder is about to do."""

import os

from octavo.util.disk import FileLock


class IntentLock(FileLock):
    """A lock whose file says what its holder is about to do, for whoever comes after one that was killed."""

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
