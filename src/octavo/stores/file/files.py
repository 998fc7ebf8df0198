"""The files that people read: appended to, archived when they grow, rewritten when most of what they hold is gone.

A *family* is one file that is written to and the archives it left behind when it grew: `session_a.jsonl` and
`session_a.<UTC time>-<stamp>.jsonl`. It is named by the path of the file written to, below the store's directory.
"""

import contextlib
import functools
import hashlib
import os
import re
import time
import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import msgspec

from octavo.kernel.model import NAMES_HELD
from octavo.kernel.shapes import SHAPES
from octavo.stores.file.lines import FamilyLines, join_lines, split
from octavo.util.disk import FileLock, make_folder, open_file, stage_file, sync_folder, write_all
from octavo.util.system import read_at, write_at

ROTATE_BYTES = 10 * 1024 * 1024
_SYNCED_ALONE = 4  # files, up to which threads would cost more than they save
_SYNCED_AT_ONCE = 8  # a disk syncs so many in the time of a few
_ROOT = "events"  # the collection whose files stand at the root of the directory
_LONGEST = 120  # leaves room for an archive's stamp below the 255 bytes a file name may have
_NAME = re.compile(r"(?P<stem>.+?)(?:\.\d{8}T\d{6}Z-(?P<stamp>[0-9a-f]{16}))?(?P<suffix>\.jsonl?)", re.DOTALL)


class FileLayout(msgspec.Struct, frozen=True, kw_only=True):
    """How a directory is written; it is read alike whichever way it was written."""

    format: str = "jsonl"
    per_session: bool = True
    rotate_bytes: int = ROTATE_BYTES
    sync: str = "flush"


class Part(msgspec.Struct, frozen=True, array_like=True):
    """What a batch does to one file: enough to see whether it was done, and to undo it."""

    path: str
    size: int  # before; what is added begins there
    changed_ns: int  # when it was last changed before
    end: int  # its size afterwards
    checksum: int  # of what is added
    archive: str = ""  # the name that its old file is given first, to make room
    backup: str = ""  # of a file that is replaced whole: where its old content is kept


class FileAddition(msgspec.Struct):
    """A part and the bytes that it adds; `lines` says by how many lines its family grows."""

    part: Part
    data: bytes
    lines: int


class IntentLock(FileLock):
    """A lock whose file says what its holder is about to do, for whoever comes after one that was killed."""

    def read(self) -> bytes:
        """What the last holder was about to do; under the lock. Nothing when saying so was cut short: then it did nothing."""
        line, _, _ = read_at(self._fd, os.fstat(self._fd).st_size, 0).partition(b"\n")
        return line[8:] if line[:8] == b"%08x" % zlib.crc32(line[8:]) else b""

    def write(self, intent: bytes, *, sync: bool = False) -> None:
        """Say what this holder is about to do, over what the last one said.

        The file is cut afterwards: to sync one that was emptied first takes many times as long.
        """
        line = b"%08x%b\n" % (zlib.crc32(intent), intent)
        written = 0
        while written < len(line):  # a disk that is nearly full takes less
            written += write_at(self._fd, line[written:], written)
        os.ftruncate(self._fd, written)
        if sync:
            os.fsync(self._fd)


class DataFiles:
    """The data files of one directory. Paths are below it; whatever changes a file is called under the lock."""

    def __init__(self, root: Path, layout: FileLayout) -> None:
        self.root = root
        self._prefix = f"{root}/"
        self._own = root / ".octavo"
        self._rotate_bytes = layout.rotate_bytes
        self._last_stamp = 0
        self._staged = 0

    # --- looking

    def path(self, name: str) -> Path:
        return self.root / name

    def state(self, name: str) -> tuple[int, int]:
        """A file's size and when it was last changed; zeros when there is none."""
        try:
            there = os.stat(self._prefix + name)  # noqa: PTH116 - once per write, where a Path costs more than the call
        except FileNotFoundError:
            return 0, 0
        return there.st_size, there.st_mtime_ns

    def families(self) -> dict[str, list[str]]:
        """Every family and its files, in the order in which they were written."""
        found: dict[str, list[str]] = {}
        for collection in SHAPES:
            found |= self._families(collection)
        return found

    def names(self, family: str) -> list[str]:
        """The files of a family, in the order in which they were written."""
        return self._families(_collection_of(family)).get(family, [])

    def _families(self, collection: str) -> dict[str, list[str]]:
        folder = _folder_of(collection)
        found: dict[str, list[tuple[float, str]]] = {}
        try:
            names = os.listdir(self.root / folder)  # noqa: PTH208 - names are all that is wanted, and there may be many
        except (FileNotFoundError, NotADirectoryError):
            names = []
        for name in names:
            if (named := _read_name(collection, name)) is not None:
                family, stamp = named
                # What is still written to is newer than every archive.
                found.setdefault(family, []).append((float("inf") if stamp is None else stamp, folder + name))
        return {family: [name for _, name in sorted(found[family])] for family in sorted(found)}

    def read(self, family: str, names: Iterable[str]) -> tuple[FamilyLines, bool]:
        """What the files of a family come to, given oldest first, and whether one must be rewritten before it is added to."""
        lines, ragged = FamilyLines(_collection_of(family)), False
        for name in names:
            elements, rough = split(self._bytes(name), name)
            lines.take(name, elements)
            ragged |= rough
        return lines, ragged

    def _bytes(self, name: str) -> bytes:
        try:
            return self.path(name).read_bytes()
        except FileNotFoundError:
            return b""

    def measure(self) -> tuple[int, int]:
        """How many data files there are and how many bytes they hold."""
        sizes = [self.state(name)[0] for names in self.families().values() for name in names]
        return len(sizes), sum(sizes)

    # --- adding lines: planned, then done, and undone if that fails

    def plan(self, family: str, lines: list[bytes], state: tuple[int, int]) -> FileAddition:
        """What adding lines to a family, whose file is in this state, comes to; nothing that anybody reads is touched yet."""
        size, changed_ns = state
        data, grows = b"".join(lines), len(lines)
        archive = backup = ""
        if size > 0 and size + len(data) > self._rotate_bytes:
            archive, size = self._next_archive(family), 0
        if family.endswith(".json"):
            merged, _ = self.read(family, [family] if size else [])
            before = merged.total
            merged.take(family, lines)
            # In an archive a record that is gone may still stand, and something must say that it is gone.
            archived = bool(archive) or any(name != family for name in self.names(family))
            kept = merged.live_lines(family, tombstones=archived)
            data, grows = join_lines(kept, family), len(kept) - before
            backup, size = self._backup(family) if size else "", 0
        part = Part(family, size, changed_ns, size + len(data), zlib.crc32(data), archive, backup)
        return FileAddition(part, data, grows)

    def do(self, addition: FileAddition) -> None:
        """Add what was planned."""
        part = addition.part
        if part.archive:
            self.path(part.path).rename(self.path(part.archive))
        if part.path.endswith(".json"):
            self._replace(part.path, addition.data)
        else:
            self._append(part.path, addition.data)

    def sync(self, parts: Sequence[Part]) -> None:
        """Have what parts added survive a power cut, and the names of files that are new."""
        paths = [self._prefix + part.path for part in parts if not part.path.endswith(".json")]
        if len(paths) > _SYNCED_ALONE:
            with ThreadPoolExecutor(_SYNCED_AT_ONCE) as threads:
                for _ in threads.map(_sync_file, paths):
                    pass
        else:
            for path in paths:
                _sync_file(path)
        for folder in {self.path(part.path).parent for part in parts if not part.size}:
            sync_folder(folder)

    def is_done(self, part: Part) -> bool:
        """Whether all that a part adds is there."""
        data = self._bytes(part.path)
        return len(data) >= part.end and zlib.crc32(data[part.size : part.end]) == part.checksum

    def undo(self, parts: Iterable[Part]) -> None:
        """Bring files back to what they were before parts were done, or half done; a second time changes nothing."""
        for part in parts:
            path = self.path(part.path)
            if part.backup or part.archive:
                saved = self._own / part.backup if part.backup else self.path(part.archive)
                if saved.exists():
                    saved.replace(path)
            elif not part.size:
                path.unlink(missing_ok=True)
            elif self.state(part.path)[0] > part.size:
                os.truncate(path, part.size)
            with contextlib.suppress(FileNotFoundError):  # the index knows the file by this time
                os.utime(path, ns=(part.changed_ns, part.changed_ns))

    def _backup(self, name: str) -> str:
        return self._stage(self._bytes(name), self.path(name)).name

    def _append(self, name: str, data: bytes) -> None:
        path = self._prefix + name
        flags = os.O_WRONLY | os.O_APPEND
        try:
            fd = open_file(path, flags)
        except FileNotFoundError:
            make_folder(self.path(name).parent)
            fd = open_file(path, flags)
        try:
            write_all(fd, data, path)
        finally:
            os.close(fd)

    def _next_archive(self, family: str) -> str:
        """A name after all archives of the family: their order decides which line of a record is the last."""
        newest = max((_stamp_of(name) for name in self.names(family)), default=0)
        self._last_stamp = max(newest + 1, self._last_stamp + 1, time.time_ns() // 1000)
        return _archive_of(family, self._last_stamp)

    # --- replacing whole files

    def rewrite(self, names: list[str], lines: FamilyLines) -> None:
        """Rewrite a family's files, given oldest first, without their dead lines; one without any other is deleted.

        Killed at any moment, the files still come to the same records: each is replaced in one step, and the older ones
        first, so that a line which says that a record is gone outlives the lines it is about.
        """
        for name in names:
            kept = lines.live_lines(name)
            if not kept:
                self.path(name).unlink(missing_ok=True)
            elif (content := join_lines(kept, name)) != self._bytes(name):
                self._replace(name, content)
            if name != names[-1]:
                sync_folder(self.path(name).parent)

    def _replace(self, name: str, content: bytes) -> None:
        path = self.path(name)
        staged = self._stage(content, path)
        make_folder(path.parent)
        staged.replace(path)

    def _stage(self, content: bytes, path: Path) -> Path:
        """Content on disk under a temporary name, to be put in the place of a file."""
        self._staged += 1
        staged = self._own / f"staged-{os.getpid()}-{self._staged}"
        stage_file(staged, [content], path)
        return staged

    def sweep(self) -> None:
        """Delete what was staged and is not needed any more."""
        for path in self._own.glob("staged-*"):
            path.unlink()

    def quarantine(self, family: str, bad: list[bytes]) -> None:
        """Keep what could not be read, where a person may look at it; the same bytes are kept once."""
        folder = self._own / "damaged"
        make_folder(folder)
        content = b"\n".join(bad) + b"\n"
        digest = hashlib.blake2b(content, digest_size=8).hexdigest()
        path = folder / f"{family.replace('/', '-')}.{digest}.txt"
        self._stage(content, path).replace(path)

    def list_files(self) -> list[str]:
        """Every file below the directory, whatever it is for."""
        return sorted(str(path) for path in self.root.rglob("*") if path.is_file())

    def count_damaged(self) -> int:
        """How many lines are in quarantine."""
        return sum(path.read_bytes().count(b"\n") for path in (self._own / "damaged").glob("*.txt"))


def _sync_file(path: str) -> None:
    fd = open_file(path, os.O_WRONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# --- names


@functools.lru_cache(maxsize=NAMES_HELD)
def family_of(collection: str, session: str | None, suffix: str) -> str:
    """The path, below the store's directory, of the file that takes a session's records of a collection."""
    stem = collection if session is None else f"session_{_safe_name(session)}"
    return f"{_folder_of(collection)}{stem}{suffix}"


def _safe_name(session: str) -> str:
    """A name for any session that is harmless on every file system and never shared by two sessions."""
    name = quote(session, safe="").replace(".", "%2E").replace("~", "%7E")
    # A file system that ignores case would merge "A" and "a"; cutting a long name could merge two.
    if session == session.lower() and len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}~{hashlib.blake2b(session.encode(), digest_size=8).hexdigest()}"


def _collection_of(family: str) -> str:
    """The collection whose records a family holds."""
    return family.partition("/")[0] if "/" in family else _ROOT


def _archive_of(family: str, stamp: int) -> str:
    """The path a family's file is archived under; stamps are microseconds and order a family's archives."""
    stem, _, suffix = family.rpartition(".")
    at = datetime.fromtimestamp(stamp / 1_000_000, UTC)
    return f"{stem}.{at:%Y%m%dT%H%M%SZ}-{stamp:016x}.{suffix}"


def _read_name(collection: str, name: str) -> tuple[str, int | None] | None:
    """The family a file belongs to and its stamp when it is an archive, or None when it is none of ours."""
    found = _NAME.fullmatch(name)
    if found is None or not (found["stem"] == collection or found["stem"].startswith("session_")):
        return None
    family = found["stem"] + found["suffix"]
    stamp = None if found["stamp"] is None else int(found["stamp"], 16)
    return _folder_of(collection) + family, stamp


def _stamp_of(name: str) -> int:
    """The stamp in an archive's name; 0 in that of a file that is still written to."""
    found = _NAME.fullmatch(name)
    return 0 if found is None or found["stamp"] is None else int(found["stamp"], 16)


def _folder_of(collection: str) -> str:
    """What stands before the names of a collection's files, below the store's directory."""
    return "" if collection == _ROOT else f"{collection}/"
