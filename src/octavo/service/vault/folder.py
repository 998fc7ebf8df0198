"""The vault on disk: reading and writing files below a root that nothing leads out of. Blocking code."""

import errno
import os
import stat
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from octavo.errors import StoreError
from octavo.kernel.ids import new_id
from octavo.service.vault.names import SUFFIX, TOPS, DocumentAddress, add_sum, address_of, key_of
from octavo.util.disk import stage_file, sync_folder
from octavo.util.file_modes import make_folder
from octavo.util.system import WARY

_MADE = ("", *TOPS, "md/users", "knowledge/experiences", "knowledge/facts")
_TEMPORARY = ".octavo-"
_STALE_SECONDS = 3600.0
_DEEPEST = 32  # folders in folders; a loop of mounts must end
_MOST_BYTES = 16 * 2**20  # no store keeps more in one record


class Stamp(msgspec.Struct, frozen=True):
    """What tells a file from an edited one without reading it."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> "Stamp":
        """The stamp of a file as the system describes it."""
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)

    @property
    def written_at(self) -> datetime:
        """When the file was last written, as its file system tells it."""
        return datetime.fromtimestamp(self.mtime_ns / 10**9, UTC)


class Problem(msgspec.Struct, frozen=True):
    """Something in the vault that is left alone, and why."""

    path: str
    reason: str


class Unusable(Exception):  # noqa: N818 - it never leaves the package
    """What stands at a path is not a document anyone may read; `passing` says that it may be one in a moment."""

    def __init__(self, reason: str, *, passing: bool = False) -> None:
        super().__init__(reason)
        self.passing = passing


class VaultScan(msgspec.Struct):
    """What is in the vault: documents by key, what is wrong, and where nothing can be said of what is there."""

    found: dict[str, tuple[str, Stamp]] = {}
    problems: list[Problem] = []
    blocked: set[str] = set()  # keys whose files cannot be read
    unlisted: list[str] = []  # folders that cannot be

    def hides(self, key: str, path: str) -> bool:
        """Whether a document may be there although it was not found; it must not be taken for deleted."""
        return key in self.blocked or any(path.startswith(f"{folder}/") for folder in self.unlisted)


class Folder:
    """The files of one vault, by their paths below its root."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def prepare(self) -> set[str]:
        """Make the folders that are missing; answer which of the two at the top were."""
        missing = {top for top in TOPS if not os.path.lexists(self.root / top)}
        try:
            for name in _MADE:
                # Below a link it would be made elsewhere; the root itself may be one.
                if "/" not in name or not (self.root / name).parent.is_symlink():
                    make_folder(self.root / name)
        except OSError as error:
            raise _failure(self.root, error) from error
        return missing

    def scan(self, known: dict[str, str]) -> VaultScan:
        """All documents, with their stamps, unread; of two files with one key, the `known` or the proper one counts."""
        scan = VaultScan()
        for top in TOPS:
            self._walk(top, scan, known, 0)
        return scan

    def _walk(self, folder: str, scan: VaultScan, known: dict[str, str], depth: int) -> None:
        try:
            with os.scandir(self.root / folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
            if os.path.realpath(self.root / folder) != self._resolve_folder(folder):
                raise Unusable("a link to another folder is not followed")
            if depth > _DEEPEST:
                raise Unusable("too deep")
        except FileNotFoundError:
            if depth == 0:  # made or restored by the next sync; what was in it was not deleted one by one
                scan.unlisted.append(folder)
            return
        except (OSError, Unusable) as error:
            reason = f"cannot be listed: {error.strerror}" if isinstance(error, OSError) else str(error)
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

    def _note(self, path: str, entry: "os.DirEntry[str]", scan: VaultScan, known: dict[str, str]) -> None:
        key = key_of(path)
        try:
            if path.encode("utf-8", "replace").decode() != path:
                raise Unusable("the name is not UTF-8")
            if key is None:
                raise Unusable(_explain_misplaced(path))
            found = os.stat(self._target(path)) if entry.is_symlink() else entry.stat()  # noqa: PTH116
            _check_plain(path, found)
        except (Unusable, OSError) as error:
            if isinstance(error, FileNotFoundError) and not entry.is_symlink():
                return  # removed since it was listed
            scan.problems.append(Problem(path.encode("utf-8", "replace").decode(), _reason(error)))
            if key is not None:
                scan.blocked.add(key)
            return
        if key in scan.found:
            other = scan.found[key][0]
            preferred = (known.get(key), address_of(key).path)
            if path not in preferred or other == preferred[0]:
                scan.problems.append(Problem(path, f"{other} is the same document, {key!r}; rename one"))
                return
            scan.problems.append(Problem(other, f"{path} is the same document, {key!r}; rename one"))
        scan.found[key] = (path, Stamp.of(found))

    def locate(self, address: DocumentAddress) -> str:
        """The path of the document's file, or the one it will have."""
        at, *names = address.path.split("/")
        for name in names:
            if not self._has(at, name) and (
                self._has(at, add_sum(name)) or os.path.lexists(self.root / at / name)
            ):
                name = add_sum(name)  # noqa: PLW2901 - where case is not told apart, another file answers to it
            at = f"{at}/{name}"
        return at

    def _has(self, folder: str, name: str) -> bool:
        """Whether there is a file of this very name: where case is not told apart, Alice.md also answers to alice.md."""
        if not os.path.lexists(self.root / folder / name):
            return False
        return not (self.root / "MD").exists() or name in os.listdir(self.root / folder)  # noqa: PTH208

    def read(self, path: str) -> tuple[bytes, Stamp] | None:
        """The bytes of a file, None when there is none; Unusable when they are nobody's to read or still being written."""
        fd = -1
        try:
            # Not warily, a pipe in the place of a file would hang the service.
            fd = os.open(self._target(path), os.O_RDONLY | WARY)
            before = os.fstat(fd)
            _check_plain(path, before)
            with open(fd, "rb", closefd=False) as file:
                raw = file.read(_MOST_BYTES + 1)
            if Stamp.of(os.fstat(fd)) != Stamp.of(before):
                raise Unusable("it is being written", passing=True)
        except OSError as error:
            gone = isinstance(error, FileNotFoundError | NotADirectoryError)
            if gone and not os.path.lexists(self.root / path):
                return None
            raise Unusable(_reason(error)) from error
        finally:
            if fd >= 0:
                os.close(fd)
        return raw, Stamp.of(before)

    def stage(self, path: str, raw: bytes) -> Path:
        """Bytes on the disk beside the file whose place they will take: what can go wrong with a disk goes wrong here."""
        target = Path(self._target(path))
        staged = target.parent / f"{_TEMPORARY}{new_id()}.tmp"
        try:
            make_folder(target.parent)
            self._target(path)  # again: the folders are there now, and may be links
            stage_file(staged, [raw], target)
        except OSError as error:
            raise _failure(self.root / path, error) from error
        return staged

    def replace(self, path: str, staged: Path, expected: Stamp | None) -> Stamp:
        """Put a staged file in the place of the document's; Unusable if somebody changed that meanwhile."""
        try:
            try:
                target = Path(self._target(path))
                _check_unchanged(target, expected)
                staged.replace(target)
            except BaseException:
                staged.unlink(missing_ok=True)
                raise
            sync_folder(target.parent)
            return Stamp.of(target.stat())
        except FileNotFoundError as error:
            raise Unusable("somebody removed it in the same moment", passing=True) from error
        except OSError as error:
            raise _failure(self.root / path, error) from error

    def unlink(self, path: str, expected: Stamp) -> None:
        """Remove the file; Unusable if somebody changed it meanwhile."""
        target = self.root / path
        try:
            if os.path.lexists(target):
                _check_unchanged(Path(self._target(path)), expected)
                target.unlink(missing_ok=True)
                sync_folder(target.parent)
        except OSError as error:
            raise _failure(target, error) from error

    def sweep(self) -> None:
        """Remove what killed processes left half written."""
        old = time.time() - _STALE_SECONDS
        for folder, _, names in os.walk(self.root):
            for path in (Path(folder, name) for name in names if name.startswith(_TEMPORARY)):
                with suppress(OSError):
                    if path.stat().st_mtime < old:
                        path.unlink()

    def _resolve_folder(self, folder: str) -> str:
        """Where a folder of the vault is if no link leads away from there; the root itself may be a link."""
        return os.path.normpath(os.path.join(os.path.realpath(self.root), folder))  # noqa: PTH118

    def _target(self, path: str) -> str:
        """Where the file really is; Unusable when that is outside of the vault."""
        folder, _, name = path.rpartition("/")
        proper = self._resolve_folder(folder)
        if os.path.realpath(self.root / folder) != proper:
            raise Unusable(f"{folder} is a link; a link to another folder is not followed")
        target = os.path.join(proper, name)  # noqa: PTH118
        if os.path.islink(target):  # noqa: PTH114
            target = os.path.realpath(target)
            if not target.startswith(f"{self._resolve_folder('')}{os.sep}"):
                raise Unusable("it is a link out of the vault")
        return target


def _check_plain(path: str, found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise Unusable(f"it is a folder; a document is expected at {path}")
    if not stat.S_ISREG(found.st_mode):
        raise Unusable("it is not a regular file")
    if found.st_size > _MOST_BYTES:
        raise Unusable(f"{found.st_size} bytes are more than the {_MOST_BYTES} a document may have")


def _check_unchanged(target: Path, expected: Stamp | None) -> None:
    """Unusable when the file is not as it was when it was read; None says that there was none."""
    try:
        found = Stamp.of(target.stat())
    except (FileNotFoundError, NotADirectoryError):
        found = None
    if found != expected:
        raise Unusable("somebody changed it in the same moment", passing=True)


def _failure(path: Path, error: OSError) -> StoreError:
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


def _explain_misplaced(path: str) -> str:
    if path.startswith("knowledge/"):
        return "documents of knowledge/ are in experiences/ or facts/; move it there"
    return "its name is no key that a document may have; rename it"
