"""Files: who may read them, locks for those that processes share, writing that is whole, names that survive a power cut."""

import contextlib
import math
import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakSet

from octavo.errors import StoreUnavailable
from octavo.util.system import (
    BINARY,
    POSIX,
    call_after_fork,
    is_read_only,
    lock_file,
    open_folder,
    unlock_file,
)

_FILE, _SHARED_FILE = 0o600, 0o660
_FOLDER, _SHARED_FOLDER = 0o700, 0o770
_OTHERS = 0o007
_ROOM_BYTES = 2**16  # SQLite's shared memory takes half of that before anything is written

_shared = False


def share_with_group() -> None:
    """From now on this process makes files and folders that its group may read and write: `files.group_access`."""
    global _shared  # noqa: PLW0603 - like the umask, it belongs to the process
    _shared = True


def make_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing."""
    if not path.parent.exists():
        make_folder(path.parent)
    try:
        path.mkdir(_FOLDER)
    except FileExistsError:
        if not path.is_dir():
            raise
    else:
        _widen(path, path.stat().st_mode, _SHARED_FOLDER if _shared else _FOLDER)


def open_file(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file for writing, made if it is not there; the `opener` of Python's `open`.

    A new file is never there with more rights than it ends up with: whoever opened it in that moment would keep it open.
    """
    if not flags & os.O_EXCL:
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, (flags & ~os.O_CREAT) | BINARY)
    made = flags | os.O_CREAT | BINARY
    try:
        fd = os.open(path, made | os.O_EXCL, _FILE)
    except FileExistsError:
        if flags & os.O_EXCL:
            raise
        return os.open(path, made, _FILE)  # made by another meanwhile, or a link to what is not there
    _widen(fd, os.fstat(fd).st_mode, _SHARED_FILE if _shared else _FILE)
    return fd


def keep_mode(new: Path, old: Path) -> None:
    """Give a file the mode of the one it is about to replace, if there is one: that is its owner's business."""
    with contextlib.suppress(FileNotFoundError):
        new.chmod(stat.S_IMODE(old.stat().st_mode))


def describe_access(path: Path) -> tuple[str, str]:
    """Who may read a file or folder, in words, and the cure if everybody on this machine may."""
    if not POSIX:
        return "who may read it is in the system's own lists", ""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & _OTHERS and _is_reachable(path):
        return (
            f"{mode:04o}: every account of this machine",
            f"others can read what is kept; chmod -R o= {path}*",
        )
    return f"{mode:04o}: this account{' and its group' if mode & 0o070 else ''}", ""


def is_usable_folder(path: Path) -> bool:
    """Whether files can be made in this folder, or it can be made itself; nothing is made to find out."""
    while not os.path.lexists(path) and path != path.parent:
        path = path.parent
    return path.is_dir() and os.access(path, os.W_OK | os.X_OK)


def write_obstacle(path: str) -> str:
    """Why the system lets nobody, or not this account, read a file or write to it and its folder; nothing when it does."""
    there = next((each for each in (Path(path), *Path(path).absolute().parents) if each.exists()), Path())
    if Path(path).is_dir():
        return "that is a folder; name a file in it"
    if there == Path(path) and not os.access(path, os.R_OK):
        return "this account may not read it"
    if is_read_only(there):
        return "the file system is read-only; mount it for writing"
    with contextlib.suppress(AttributeError):  # a system that does not tell
        if shutil.disk_usage(there).free < _ROOM_BYTES:
            return "the disk is full; make room on it"
    writable = all(os.access(each, os.W_OK) for each in (there, there.absolute().parent))
    return "" if writable else "this account may not write there"


def _is_reachable(path: Path) -> bool:
    """Whether the folders above let other accounts in."""
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in path.resolve().parents)


def _widen(target: int | Path, mode: int, wanted: int) -> None:
    if POSIX and mode & 0o777 != wanted:  # for a group, or since the umask took away more than others' rights
        os.chmod(target, wanted | (mode & stat.S_ISGID))  # noqa: PTH101 - an open file has no path


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
