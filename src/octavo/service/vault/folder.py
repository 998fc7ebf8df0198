"""The vault on disk: reading and writing files below a root that nothing leads out of; and metadata.json there,
which says what was in both the file and the store when they last agreed. Blocking code.
"""

import errno
import os
import stat
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec

from octavo.errors import StoreError
from octavo.kernel.ids import new_id
from octavo.service.vault.names import SUFFIX, TOPS, DocumentAddress, add_sum, address_of, key_of
from octavo.util.disk import make_folder, replace_file, stage_file, sync_folder
from octavo.util.system import WARY, swap_files

_MADE = ("", *TOPS, "md/users", "knowledge/experiences", "knowledge/facts")
_TEMPORARY = ".octavo-"
_STALE_SECONDS = 3600.0
_MOST_BYTES = 16 * 2**20  # no store keeps more in one record
ROUNDS = 3  # of what somebody else changes in the same moment
SAVING_SECONDS = 0.02  # an editor that empties a file and writes it anew is faster
_RACY_NS = 2 * 10**9  # some file systems tell times in steps of two seconds


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

    @property
    def is_fresh(self) -> bool:
        """Whether the file was written just now: its editor may be in the middle of it."""
        return abs(time.time_ns() - self.mtime_ns) < SAVING_SECONDS * 10**9

    def is_sure(self, read_ns: int) -> bool:
        """Whether an edit after this moment shows in the stamp; one in the very moment may not."""
        return min(abs(read_ns - self.mtime_ns), abs(read_ns - self.ctime_ns)) > _RACY_NS


class Problem(msgspec.Struct, frozen=True):
    """Something in the vault that is left alone, and why."""

    path: str
    reason: str


#: The bytes of a file, and its stamp when they were read.
FoundFile: TypeAlias = tuple[bytes, Stamp]


class Unusable(Exception):  # noqa: N818 - it never leaves the package
    """What stands at a path is not a document anyone may read."""


class Changed(Unusable):
    """Somebody changed the file in the same moment; it may be a document in the next."""


class VaultScan(msgspec.Struct):
    """What is in the vault: paths and stamps of documents by key, what is wrong, and where nothing can be said."""

    found: dict[str, tuple[str, Stamp]] = {}
    problems: list[Problem] = []
    hidden: list[str] = []  # files and folders that cannot be read

    def hides(self, key: str, path: str) -> bool:
        """Whether a document may be there although it was not found; it must not be taken for deleted."""
        return key not in self.found and any(f"{path}/".startswith(f"{each}/") for each in self.hidden)

    def leave(self, path: str, error: Exception) -> None:
        """Leave alone what is at this path, and say why."""
        path = path.encode("utf-8", "replace").decode()
        self.problems.append(Problem(path, _reason(error)))
        self.hidden.append(path)


class Folder:
    """The files of one vault, by their paths below its root."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def lost_tops(self) -> set[str]:
        """Which of the two folders at the top are missing."""
        return {top for top in TOPS if not os.path.lexists(self.root / top)}

    def make(self) -> None:
        """Make the folders that are missing."""
        try:
            for name in _MADE:
                # Below a link it would be made elsewhere; the root itself may be one.
                if "/" not in name or not (self.root / name).parent.is_symlink():
                    make_folder(self.root / name)
        except OSError as error:
            raise write_error(self.root, error) from error

    def scan(self, known: dict[str, str]) -> VaultScan:
        """All documents, with their stamps, unread; of two files with one key, the `known` or the proper one counts."""
        scan, folders = VaultScan(), list(TOPS)
        for name in sorted(each.name for each in self.root.glob(f"[!.]*{SUFFIX}")):
            if name.casefold() != "readme.md":
                scan.problems.append(Problem(name, "documents are in md/ or knowledge/; move it there"))
        for folder in folders:
            try:
                with os.scandir(self._resolve(folder)) as listing:
                    entries = sorted(listing, key=lambda entry: entry.name)
            except FileNotFoundError:
                if folder in TOPS:  # restored by the next sync: what was in it was not deleted one by one
                    scan.hidden.append(folder)
                continue
            except (OSError, Unusable) as error:
                scan.leave(folder, error)
                continue
            for entry in entries:
                path = f"{folder}/{entry.name}"
                # Hidden files, vim's swap files, emacs' locks; `~$` is a word processor's lock.
                if entry.name.startswith((".", "~$")):
                    _sweep(entry)
                elif entry.name.endswith(SUFFIX):
                    self._note(path, entry, scan, known)
                elif entry.is_dir():
                    folders.append(path)
        return scan

    def _note(self, path: str, entry: "os.DirEntry[str]", scan: VaultScan, known: dict[str, str]) -> None:
        try:
            if path.encode("utf-8", "replace").decode() != path:
                raise Unusable("the name is not UTF-8")
            if (key := key_of(path)) is None:
                where = "documents of knowledge/ are in experiences/ or facts/; move it there"
                name = "its name is no key that a document may have; rename it"
                raise Unusable(where if path.startswith("knowledge/") else name)
            found = os.stat(self._target(path)) if entry.is_symlink() else entry.stat()  # noqa: PTH116
            _check_plain(path, found)
        except (Unusable, OSError) as error:
            if entry.is_symlink() or not isinstance(
                error, FileNotFoundError
            ):  # else removed since it was listed
                scan.leave(path, error)
            return
        if key in scan.found:
            other, preferred = scan.found[key][0], (known.get(key), address_of(key).path)
            ours = path in preferred and other != preferred[0]
            named, counts = (other, path) if ours else (path, other)
            scan.problems.append(Problem(named, f"{counts} is the same document, {key!r}; rename one"))
            if not ours:
                return
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

    def read(self, path: str) -> FoundFile | None:
        """The bytes of a file, None when there is none; Unusable when they are nobody's to read or still being written."""
        try:
            # Warily, or a pipe in the place of a file would hang the service.
            with open(self._target(path), "rb", opener=lambda name, how: os.open(name, how | WARY)) as file:
                for _ in range(ROUNDS):
                    before = os.fstat(file.fileno())
                    _check_plain(path, before)
                    file.seek(0)
                    raw = file.read(_MOST_BYTES + 1)
                    if Stamp.of(os.fstat(file.fileno())) == Stamp.of(before):
                        return raw, Stamp.of(before)
                raise Changed("it is being written")
        except OSError as error:
            gone = isinstance(error, FileNotFoundError | NotADirectoryError)
            if gone and not os.path.lexists(self.root / path):
                return None
            raise Unusable(_reason(error)) from error

    def stage(self, path: str, raw: bytes) -> Path:
        """Bytes on the disk beside the file whose place they will take: what can go wrong with a disk goes wrong here."""
        target = Path(self._target(path))
        staged = target.parent / f"{_TEMPORARY}{new_id()}.tmp"
        try:
            make_folder(target.parent)
            self._target(path)  # again: the folders are there now, and may be links
            stage_file(staged, [raw], target)
        except OSError as error:
            raise write_error(self.root / path, error) from error
        return staged

    def replace(self, path: str, staged: Path, found: FoundFile | None) -> Stamp:
        """Put a staged file in the place of the document's, as it was found; Changed if somebody saved meanwhile."""
        try:
            try:
                target = Path(self._target(path))
                _check_unchanged(target, found)
                _put_in_place(staged, target, found)
            finally:
                staged.unlink(missing_ok=True)
            sync_folder(target.parent)
            return Stamp.of(target.stat())
        except FileNotFoundError as error:
            raise Changed("somebody removed it in the same moment") from error
        except FileExistsError as error:
            raise Changed("somebody made it in the same moment") from error
        except OSError as error:
            raise write_error(self.root / path, error) from error

    def unlink(self, path: str, found: FoundFile) -> None:
        """Remove the file as it was found; Changed if somebody saved meanwhile."""
        target = self.root / path
        try:
            if os.path.lexists(target):
                proper = Path(self._target(path))
                _check_unchanged(proper, found)
                if proper != target:
                    target.unlink()  # a link to what stays
                else:
                    _take_away(target, found)
                sync_folder(target.parent)
        except FileNotFoundError:
            pass  # somebody else removed it
        except OSError as error:
            raise write_error(target, error) from error

    def _resolve(self, folder: str) -> str:
        """Where a folder of the vault is; Unusable when a link leads away from there. The root itself may be a link."""
        proper = os.path.normpath(os.path.join(os.path.realpath(self.root), folder))  # noqa: PTH118
        if os.path.realpath(self.root / folder) != proper:
            raise Unusable(f"{folder} is a link; a link to another folder is not followed")
        return proper

    def _target(self, path: str) -> str:
        """Where the file really is; Unusable when that is outside of the vault."""
        folder, _, name = path.rpartition("/")
        target = os.path.join(self._resolve(folder), name)  # noqa: PTH118
        if os.path.islink(target):  # noqa: PTH114
            target = os.path.realpath(target)
            if not target.startswith(f"{os.path.realpath(self.root)}{os.sep}"):
                raise Unusable("it is a link out of the vault")
        return target


def write_error(path: Path, error: OSError) -> StoreError:
    """What is told when a file or folder of the vault cannot be written, with the cure."""
    cure = {
        errno.ENOSPC: "; make room on this disk",
        errno.EACCES: "; let this user write there",
        errno.EROFS: "; mount it for writing",
        errno.EEXIST: "; something else has that name",
        errno.ENOTDIR: "; something else has that name",
    }.get(error.errno or 0, "")
    return StoreError(f"the vault cannot write {path}: {error.strerror or error}{cure}")


def _sweep(entry: "os.DirEntry[str]") -> None:
    """Remove what a killed process left half written."""
    with suppress(OSError):
        if entry.name.startswith(_TEMPORARY) and entry.stat().st_mtime < time.time() - _STALE_SECONDS:
            Path(entry).unlink()


def _check_plain(path: str, found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise Unusable(f"it is a folder; a document is expected at {path}")
    if not stat.S_ISREG(found.st_mode):
        raise Unusable("it is not a regular file")
    if found.st_size > _MOST_BYTES:
        raise Unusable(f"{found.st_size} bytes are more than the {_MOST_BYTES} a document may have")


def _check_unchanged(target: Path, found: FoundFile | None) -> None:
    """Changed when the file is not as it was when it was read; None says that there was none."""
    try:
        stamp = Stamp.of(target.stat())
    except (FileNotFoundError, NotADirectoryError):
        stamp = None
    if stamp != (found and found[1]):
        raise _saved()


def _put_in_place(staged: Path, target: Path, found: FoundFile | None) -> None:
    """The staged file becomes the target, unless somebody saved that since it was found.

    They are swapped, and what stood there is read again: between a look and a mere rename an edit could be lost. Whoever
    has begun to save goes on in the very file that is put back.
    """
    ours = staged.read_bytes()
    if found is None:
        try:
            os.link(staged, target)  # unlike a rename it replaces nothing
        except FileExistsError:
            raise
        except (OSError, NotImplementedError):  # a file system without links
            staged.replace(target)
    elif not swap_files(staged, target):
        staged.replace(target)
    elif staged.read_bytes() != found[0]:
        swap_files(staged, target)
        if staged.read_bytes() != ours:
            swap_files(staged, target)  # saved once more: that is newer
        raise _saved()


def _take_away(target: Path, found: FoundFile) -> None:
    """Remove the target, and put it back if somebody saved it since it was found."""
    taken = target.with_name(f"{_TEMPORARY}{new_id()}.tmp")
    target.rename(taken)
    try:
        if taken.read_bytes() != found[0]:
            with suppress(FileExistsError):  # saved once more: that is newer
                os.link(taken, target)
            raise _saved()
    finally:
        taken.unlink()


def _saved() -> Changed:
    return Changed("somebody changed it in the same moment")


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "it is a link to nothing"
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


_Moment: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One document as it was last sent or taken."""

    md5: str
    version: int
    size: int
    file_type: str
    synced_at: _Moment | None  # None until the store is known to have it
    path: str
    created_at: _Moment
    updated_at: _Moment
    before: str | None = None  # the md5 of what the store may still have, until it is known to have this
    stamp: Stamp | None = None  # of the file that was read, if an edit would show in it

    @property
    def known(self) -> frozenset[str | None]:
        """The texts that this vault has itself sent to the store, or had from it."""
        return frozenset((self.md5, self.before))

    @property
    def synced(self) -> bool:
        """Whether the store is known to have it."""
        return self.synced_at is not None


class Ledger:
    """The entries of one vault by key. Whoever saves them holds the vault's lock."""

    def __init__(self, root: Path) -> None:
        self._path = root / "metadata.json"
        self._bad = root / "metadata.json.bad"
        self._read: tuple[Stamp | None, dict[str, LedgerEntry]] = (None, {})
        self.damaged = False  # whether the file, as it was last read, could not be

    def load(self) -> dict[str, LedgerEntry]:
        """The entries, for the caller to change; what is damaged is made anew by the next sync."""
        try:
            stamp = Stamp.of(self._path.stat())
            if stamp != self._read[0]:
                entries, raw, damaged = dict[str, LedgerEntry](), self._path.read_bytes(), True
                with suppress(msgspec.DecodeError, UnicodeDecodeError):
                    entries, damaged = msgspec.json.decode(raw, type=dict[str, LedgerEntry]), False
                self._read, self.damaged = (stamp, entries), damaged
        except (FileNotFoundError, NotADirectoryError):
            self._read, self.damaged = (None, {}), False
        except OSError as error:
            raise StoreError(f"the vault cannot read {self._path}: {error.strerror}") from error
        return dict(self._read[1])

    def save(self, entries: dict[str, LedgerEntry]) -> None:
        """Write these entries, whole or not at all; a damaged file is kept under another name."""
        if entries == self.load() and not self.damaged:
            return
        spelled = msgspec.json.format(msgspec.json.encode(dict(sorted(entries.items()))), indent=1)
        try:
            make_folder(self._path.parent)
            if self.damaged:
                self._path.replace(self._bad)
            replace_file(self._path, [spelled, b"\n"])
            self._read, self.damaged = (Stamp.of(self._path.stat()), dict(entries)), False
        except OSError as error:
            raise write_error(self._path, error) from error

    def drop_damaged(self) -> None:
        """Delete what was kept of a damaged file: nobody can say whose documents it names."""
        self._bad.unlink(missing_ok=True)
