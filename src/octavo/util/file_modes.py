"""Who may read what is kept on disk: this account, or its group as well. What is there already keeps its mode."""

import contextlib
import os
import shutil
import stat
from pathlib import Path

from octavo.util.system import BINARY, POSIX, is_read_only

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
    """Why the system lets nobody, or not this account, write to a file and its folder; nothing when it does."""
    there = next((each for each in (Path(path), *Path(path).absolute().parents) if each.exists()), Path())
    if Path(path).is_dir():
        return "that is a folder; name a file in it"
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
