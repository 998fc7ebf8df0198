"""The vault on disk: reading and writing files below a root that nothing leads out of. Blocking code."""

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import msgspec

from octavo.errors import StoreError
from octavo.kernel.ids import new_id
from octavo.kernel.text import fold
from octavo.service.vault.keys import SUFFIX, TOPS, Place, key_of, summed
from octavo.service.vault.keys import place as place_of
from octavo.util.disk import sync_folder
from octavo.util.file_modes import make_folder, open_file

_MADE = ("md", "md/users", "knowledge", "knowledge/experiences", "knowledge/facts")
_TEMPORARY = ".octavo-"
_STALE_SECONDS = 3600.0
_DEEPEST = 32  # folders in folders; a loop of mounts must end
MOST_BYTES = 16 * 2**20  # no store keeps more in one record


class Stamp(msgspec.Struct, frozen=True):
    """What tells a file from an edited one without reading it."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> "Stamp":
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


class Problem(msgspec.Struct, frozen=True):
    """Something in the vault that is left alone, and why."""

    path: str
    reason: str


#: The names in each folder, by what they have in common where case is not told apart.
Taken: TypeAlias = dict[str, dict[str, set[str]]]


class Unusable(Exception):  # noqa: N818 - it never leaves the package
    """What stands at a path is not a document anyone may read; `passing` says that it may be one in a moment."""

    def __init__(self, reason: str, *, passing: bool = False) -> None:
        super().__init__(reason)
        self.passing = passing


class Scan(msgspec.Struct):
    """What is in the vault: documents by key, what is wrong, and where nothing can be said of what is there."""

    found: dict[str, tuple[str, Stamp]] = msgspec.field(default_factory=dict)
    problems: list[Problem] = msgspec.field(default_factory=list)
    blocked: set[str] = msgspec.field(default_factory=set)  # keys whose files cannot be read
    unlisted: list[str] = msgspec.field(default_factory=list)  # folders that cannot be

    def hides(self, key: str, path: str) -> bool:
        """Whether a document may be there although it was not found."""
        return key in self.blocked or any(path.startswith(f"{folder}/") for folder in self.unlisted)


class Folder:
    """The files of one vault, by their paths below its root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._real = ""
        self._caseless: bool | None = None

    def prepare(self) -> set[str]:
        """Make the folders that are missing; answer which of the two at the top were."""
        missing = {top for top in TOPS if not os.path.lexists(self.root / top)}
        try:
            for name in ("", *_MADE):
                if not (self.root / name).parent.is_symlink() or not name.count(
                    "/"
                ):  # or it would be made elsewhere
                    make_folder(self.root / name)
            self._real = os.path.realpath(self.root)
        except OSError as error:
            raise _failed(self.root, error) from error
        return missing

    def scan(self, known: dict[str, str]) -> Scan:
        """All documents, with their stamps, unread; of two files with one key, the `known` or the proper one counts."""
        self._real = os.path.realpath(self.root)
        scan = Scan()
        for top in TOPS:
            self._walk(top, scan, known, 0)
        return scan

    def _walk(self, folder: str, scan: Scan, known: dict[str, str], depth: int) -> None:
        try:
            with os.scandir(self.root / folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
            linked = os.path.realpath(self.root / folder) != os.path.join(self._real, folder)  # noqa: PTH118
        except FileNotFoundError:
            if depth == 0:  # made or restored by the next sync; what was in it was not deleted one by one
                scan.unlisted.append(folder)
            return
        except OSError as error:
            scan.problems.append(Problem(folder, f"cannot be listed: {error.strerror}"))
            scan.unlisted.append(folder)
            return
        if linked or depth > _DEEPEST:
            reason = "a link to another folder is not followed" if linked else "too deep"
            scan.problems.append(Problem(folder, reason))
            scan.unlisted.append(folder)
            return
        for entry in entries:
            # Hidden files, vim's swap files, emacs' locks and our own temporaries; `~$` is a word processor's lock.
            if entry.name.startswith((".", "~$")):
                continue
            path = f"{folder}/{entry.name}"
            if entry.name.endswith(SUFFIX):
                self._note(path, entry, scan, known)
            elif entry.is_dir():
                self._walk(path, scan, known, depth + 1)

    def _note(self, path: str, entry: "os.DirEntry[str]", scan: Scan, known: dict[str, str]) -> None:
        key = key_of(path)
        try:
            if not _sayable(entry.name):
                raise Unusable("the name is not UTF-8")
            if key is None:
                raise Unusable(_misplaced(path))
            stamp = Stamp.of(entry.stat() if not entry.is_symlink() else os.stat(self._target(path)))  # noqa: PTH116
            self._plain(path, entry.stat())
        except (Unusable, OSError) as error:
            if isinstance(error, FileNotFoundError) and not entry.is_symlink():
                return  # removed since it was listed
            shown = path.encode("utf-8", "replace").decode()
            scan.problems.append(Problem(shown, _reason(error)))
            if key is not None:
                scan.blocked.add(key)
            return
        if key in scan.found:
            other = scan.found[key][0]
            proper = (known.get(key), "/".join(self._proper(key)))
            if path not in proper or other == proper[0]:
                scan.problems.append(Problem(path, f"{other} is the same document, {key!r}; rename one"))
                return
            scan.problems.append(Problem(other, f"{path} is the same document, {key!r}; rename one"))
        scan.found[key] = (path, stamp)

    @staticmethod
    def _proper(key: str) -> tuple[str, ...]:
        names = place_of(key).names
        return (*names[:-1], names[-1] + SUFFIX)

    def locate(self, place: Place) -> str | None:
        """The path of the document's file, None when it has none."""
        at = place.names[0]
        for name, suffix in _steps(place):
            for spelled in (name + suffix, summed(name) + suffix):
                if os.path.lexists(self.root / at / spelled) and self._exactly(at, spelled):
                    at = f"{at}/{spelled}"
                    break
            else:
                return None
        return at

    def vacant(self, place: Place, taken: "Taken | None" = None) -> str:
        """A path for a new document; `taken` remembers, for a caller who makes many, the names in each folder."""
        at, taken = place.names[0], {} if taken is None else taken
        for name, suffix in _steps(place):
            if (names := taken.get(at)) is None:
                listed: list[str] = []
                with suppress(FileNotFoundError, NotADirectoryError):  # the write will say what is wrong
                    listed = os.listdir(self.root / at)  # noqa: PTH208
                names = taken[at] = {fold(other): {other} for other in listed}
                for other in listed:
                    names[fold(other)].add(other)
            # Files that differ in case only are one file on many systems.
            alike = names.setdefault(fold(name + suffix), set())
            other = summed(name) + suffix
            choice = name + suffix if not alike or name + suffix in alike else other
            alike.add(choice)
            at = f"{at}/{choice}"
        return at

    def read(self, path: str) -> tuple[bytes, Stamp] | None:
        """The bytes of a file, None when there is none; Unusable when they are nobody's to read or still being written."""
        fd = -1
        try:
            # Without O_NONBLOCK, a pipe in the place of a file would hang the service.
            fd = os.open(self._target(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            before = os.fstat(fd)
            self._plain(path, before)
            with open(fd, "rb", closefd=False) as file:
                raw = file.read(MOST_BYTES + 1)
            if Stamp.of(os.fstat(fd)) != Stamp.of(before):
                raise Unusable("it is being written", passing=True)
        except (FileNotFoundError, NotADirectoryError) as error:
            if os.path.lexists(self.root / path):
                raise Unusable(_reason(error)) from error
            return None
        except OSError as error:
            raise Unusable(_reason(error)) from error
        finally:
            if fd >= 0:
                os.close(fd)
        return raw, Stamp.of(before)

    def write(self, path: str, raw: bytes, expected: Stamp | None) -> Stamp:
        """Put these bytes in the place of the file, whole or not at all; Unusable if somebody changed it meanwhile."""
        return self.place(path, self.stage(path, raw), expected)

    def stage(self, path: str, raw: bytes) -> Path:
        """Bytes on the disk beside the file whose place they will take: what can go wrong with a disk goes wrong here."""
        target = Path(self._target(path))
        staged = target.parent / f"{_TEMPORARY}{new_id()}.tmp"
        try:
            make_folder(target.parent)
            self._target(path)  # again: the folders are there now, and may be links
            fd = open_file(staged, os.O_WRONLY | os.O_EXCL)
            try:
                with open(fd, "wb") as file:  # noqa: PTH123
                    file.write(raw)
                    file.flush()
                    with suppress(FileNotFoundError):
                        os.fchmod(fd, stat.S_IMODE(target.stat().st_mode))
                    os.fsync(fd)
            except BaseException:
                staged.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise _failed(self.root / path, error) from error
        return staged

    def place(self, path: str, staged: Path, expected: Stamp | None) -> Stamp:
        """Put a staged file in the place of the document's; Unusable if somebody changed that meanwhile."""
        try:
            try:
                target = Path(self._target(path))
                if self._stamp(target) != expected:
                    raise Unusable("somebody changed it in the same moment", passing=True)
                staged.replace(target)
            except BaseException:
                staged.unlink(missing_ok=True)
                raise
            sync_folder(target.parent)
            stamp = self._stamp(target)
        except OSError as error:
            raise _failed(self.root / path, error) from error
        if stamp is None:
            raise Unusable("somebody removed it in the same moment", passing=True)
        return stamp

    def unlink(self, path: str, expected: Stamp) -> None:
        """Remove the file; Unusable if somebody changed it meanwhile."""
        target = self.root / path
        try:
            if self._stamp(Path(self._target(path))) not in (expected, None):
                raise Unusable("somebody changed it in the same moment", passing=True)
            target.unlink(missing_ok=True)
            sync_folder(target.parent)
        except OSError as error:
            raise _failed(target, error) from error

    def sweep(self) -> None:
        """Remove what killed processes left half written."""
        old = time.time() - _STALE_SECONDS
        for top in TOPS:
            for path in _temporaries(self.root / top):
                with suppress(OSError):
                    if path.stat().st_mtime < old:
                        path.unlink()

    def _target(self, path: str) -> str:
        """Where the file really is; Unusable when that is outside of the vault."""
        self._real = self._real or os.path.realpath(self.root)
        folder, _, name = path.rpartition("/")
        proper = os.path.join(self._real, folder)  # noqa: PTH118
        if os.path.realpath(self.root / folder) != proper:
            raise Unusable(f"{folder} is a link; a link to another folder is not followed")
        target = os.path.join(proper, name)  # noqa: PTH118
        if os.path.islink(target):  # noqa: PTH114
            target = os.path.realpath(target)
            if not target.startswith(os.path.join(self._real, "")):  # noqa: PTH118
                raise Unusable("it is a link out of the vault")
        return target

    @staticmethod
    def _plain(path: str, found: os.stat_result) -> None:
        if stat.S_ISDIR(found.st_mode):
            raise Unusable(f"it is a folder; a document is expected at {path}")
        if not stat.S_ISREG(found.st_mode):
            raise Unusable("it is not a regular file")
        if found.st_size > MOST_BYTES:
            raise Unusable(f"{found.st_size} bytes are more than the {MOST_BYTES} a document may have")

    @staticmethod
    def _stamp(target: Path) -> Stamp | None:
        try:
            return Stamp.of(target.stat())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _exactly(self, folder: str, name: str) -> bool:
        """Whether the file has this very name: where case is not told apart, Alice.md also answers to alice.md."""
        if self._caseless is None:
            self._caseless = (self.root / "md").is_dir() and (self.root / "MD").is_dir()
        return not self._caseless or name in os.listdir(self.root / folder)  # noqa: PTH208


def _steps(place: Place) -> Iterator[tuple[str, str]]:
    """The names below the top folder, each with its suffix."""
    for at, name in enumerate(place.names[1:], start=2):
        yield name, SUFFIX if at == len(place.names) else ""


def _temporaries(folder: Path) -> Iterator[Path]:
    for where, _, names in os.walk(folder):
        yield from (Path(where, name) for name in names if name.startswith(_TEMPORARY))


def _failed(path: Path, error: OSError) -> StoreError:
    cure = {
        errno.ENOSPC: "; make room on this disk",
        errno.EACCES: "; let this user write there",
        errno.EROFS: "; mount it for writing",
        errno.EEXIST: "; something else has that name",
        errno.ENOTDIR: "; something else has that name",
    }.get(error.errno or 0, "")
    return StoreError(f"the vault cannot write {path}: {error.strerror or error}{cure}")


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "it is a link to nothing"
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _misplaced(path: str) -> str:
    if path.startswith("knowledge/"):
        return "documents of knowledge/ are in experiences/ or facts/; move it there"
    return "its name is no key that a document may have; rename it"


def _sayable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
