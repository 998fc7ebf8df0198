"""Writing that is whole or named in its error, and names that survive a power cut."""

import os
from pathlib import Path


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


def sync_folder(path: Path) -> None:
    """Make the names in a folder survive a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
