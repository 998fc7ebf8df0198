"""What may be missing: what only some operating systems have, with what is done on the others, and packages of extras."""

import ctypes
import errno
import importlib
import importlib.util
import os
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from octavo.errors import ConfigError, StoreError


def import_optional(name: str) -> Any:
    """A module of Python's library, or None where this system has none of that name."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


_fcntl, _msvcrt = import_optional("fcntl"), import_optional("msvcrt")

#: Files have modes, and one that is open can be renamed and replaced. Neither is so on Windows.
POSIX = _fcntl is not None
#: To add to the flags of every `os.open`: Windows would write a carriage return before each newline.
BINARY: int = getattr(os, "O_BINARY", 0)
#: To read what somebody else may have put there: no link is followed, and a pipe without a writer is not waited for.
WARY: int = BINARY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

# Of Linux's renameat2: paths from the current folder on, and the flag for an exchange.
_HERE, _EXCHANGE = -100, 2

# Windows lets nobody else read or write the byte that is locked, so it is one that no lock file reaches.
_LOCKED_BYTE = 2**30


def call_after_fork(function: Callable[[], None]) -> None:
    """Have this called in the child of every fork; where nothing forks, never."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


def lock_file(fd: int, *, wait: bool = False) -> bool:
    """Lock an open file that is not locked through `fd` yet; False when somebody has it and `wait` is not asked for.

    The system lets go of the lock when the file is closed, and when its holder dies.
    """
    try:
        if _fcntl is not None:
            _fcntl.flock(fd, _fcntl.LOCK_EX | (0 if wait else _fcntl.LOCK_NB))
        else:
            _move_lock(fd, "LK_LOCK" if wait else "LK_NBLCK")
    except (BlockingIOError, PermissionError):  # by flock, and by Windows
        return False
    return True


def unlock_file(fd: int) -> None:
    """Let go of the lock, and keep the file open."""
    if _fcntl is not None:
        _fcntl.flock(fd, _fcntl.LOCK_UN)
    else:
        _move_lock(fd, "LK_UNLCK")


def _move_lock(fd: int, action: str) -> None:
    if _msvcrt is None:
        raise StoreError(
            "this system has no locks of files, without which processes would overwrite each other; use memory://"
        )
    at = os.lseek(fd, 0, os.SEEK_CUR)
    os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
    try:
        _msvcrt.locking(fd, getattr(_msvcrt, action), 1)
    finally:
        os.lseek(fd, at, os.SEEK_SET)


def read_at(fd: int, size: int, offset: int) -> bytes:
    """So many bytes from there; without `pread` it moves where the file is read and written next."""
    if hasattr(os, "pread"):
        found: bytes = os.pread(fd, size, offset)
        return found
    os.lseek(fd, offset, os.SEEK_SET)
    return os.read(fd, size)


def write_at(fd: int, data: bytes, offset: int) -> int:
    """Write there, and answer how much of it was; without `pwrite` it moves where the file is read and written next."""
    if hasattr(os, "pwrite"):
        written: int = os.pwrite(fd, data, offset)
        return written
    os.lseek(fd, offset, os.SEEK_SET)
    return os.write(fd, data)


def open_folder(path: str | os.PathLike[str]) -> int | None:
    """A folder as an open file, to sync or lock; None where a folder cannot be opened."""
    if not hasattr(os, "O_DIRECTORY"):
        return None
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY)


def swap_files(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Put two files in each other's place, in one step; False where the system or its file system cannot."""
    try:
        swap = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # only Linux has it
        return False
    if not swap(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE):
        return True
    number = ctypes.get_errno()
    if number in {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM}:
        return False
    raise OSError(number, os.strerror(number), str(other))


def is_read_only(path: str | os.PathLike[str]) -> bool:
    """Whether the file system there takes no writes from anybody; False where the system cannot tell."""
    flag: int = getattr(os, "ST_RDONLY", 0)
    return hasattr(os, "statvfs") and bool(os.statvfs(path).f_flag & flag)


#: extra → its packages, as Python imports them.
PACKAGES = MappingProxyType({
    "cli": ("click",),
    "mcp": ("click", "mcp"),
    "server": ("click", "fastapi", "uvicorn", "yaml", "jinja2", "prometheus_client"),
    "postgres": ("asyncpg",),
    "mysql": ("asyncmy",),
    "redis": ("redis",),
    "otel": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
})  # fmt: skip
_STORES = {
    **dict.fromkeys(("postgresql", "postgres"), "postgres"),
    **dict.fromkeys(("mysql", "mariadb"), "mysql"),
    **dict.fromkeys(("redis", "rediss", "unix"), "redis"),
}


def store_extra(url: str) -> tuple[str, ...]:
    """The extra that the store of a URL needs, if any: `()` or one."""
    scheme = url.partition("://")[0].partition("+")[0].lower()
    return (_STORES[scheme],) if "://" in url and scheme in _STORES else ()


def missing_packages(*extras: str) -> str:
    """What has to be installed for all of these: `click and fastapi: pip install 'octavo[server]'`, or nothing."""
    lacking = {extra: [name for name in PACKAGES[extra] if _is_missing(name)] for extra in extras}
    names = [*dict.fromkeys(name for packages in lacking.values() for name in packages)]
    if not names:
        return ""
    wanted = ",".join(extra for extra, packages in lacking.items() if packages)
    listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    return f"{listed}: pip install 'octavo[{wanted}]'"


def import_extra(package: str, extra: str, who: str = "this model") -> Any:
    """A package that may be missing, imported; without it, ConfigError says who needs it and what brings it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise _needs(who, package, extra) from error


def require_extra(package: str, extra: str, who: str = "this model") -> None:
    """Fail at once where the package is missing, without paying for its import."""
    if _is_missing(package):
        raise _needs(who, package, extra)


def _needs(who: str, package: str, extra: str) -> ConfigError:
    return ConfigError(f"{who} needs the package {package}: pip install 'octavo[{extra}]'")


def _is_missing(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is None
    except (ModuleNotFoundError, ValueError):  # not even what it is a part of; or None in sys.modules
        return True
