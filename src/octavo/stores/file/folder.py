"""The files that people read: appended to, archived when they grow, rewritten when most of what they hold is gone."""

import hashlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

from octavo.stores.file.ledger import sync_folder, write_all
from octavo.stores.file.lines import Rows, joined
from octavo.stores.file.names import archive_of, collection_of, folders, read_name
from octavo.util.file_modes import keep_mode, make_folder, open_file


class Folder:
    """The data files of one directory. Paths are below it; whatever changes a file is called under the lock."""

    def __init__(self, root: Path, rotate_bytes: int) -> None:
        self._root = root
        self._prefix = f"{root}/"
        self._own = root / ".octavo"
        self._rotate_bytes = rotate_bytes
        self._last_stamp = 0
        self._staged = 0

    def path(self, name: str) -> Path:
        return self._root / name

    def size(self, family: str) -> int:
        """The size of a family's file, 0 when there is none."""
        try:
            return os.stat(self._prefix + family).st_size  # noqa: PTH116 - once per write, where a Path costs more than the call
        except FileNotFoundError:
            return 0

    def append(self, family: str, data: bytes) -> None:
        path = self._prefix + family
        flags = os.O_WRONLY | os.O_APPEND
        try:
            fd = open_file(path, flags)
        except FileNotFoundError:
            make_folder(self.path(family).parent)
            fd = open_file(path, flags)
        try:
            write_all(fd, data, path)
        finally:
            os.close(fd)

    def cut(self, family: str, size: int) -> None:
        """Take back what was appended past `size`."""
        path = self.path(family)
        try:
            if size:
                os.truncate(path, size)
            else:
                path.unlink()
        except FileNotFoundError:
            return

    def read(self, name: str) -> bytes | None:
        """A file's bytes, None when there is none."""
        try:
            return self.path(name).read_bytes()
        except FileNotFoundError:
            return None

    def stage(self, content: bytes) -> Path:
        """Content on disk under a temporary name, to be put in place with `place`."""
        self._staged += 1
        path = self._own / f"staged-{os.getpid()}-{self._staged}"
        fd = open_file(path, os.O_WRONLY | os.O_TRUNC)
        try:
            write_all(fd, content, path)
            os.fsync(fd)  # a rename may reach the disk before the bytes do
        except OSError:
            path.unlink()
            raise
        finally:
            os.close(fd)
        return path

    def place(self, staged: Path, name: str) -> None:
        """Put staged content in a file's place, whole."""
        path = self.path(name)
        keep_mode(staged, path)
        try:
            staged.replace(path)
        except FileNotFoundError:
            make_folder(path.parent)
            staged.replace(path)

    def sweep(self) -> None:
        """Delete what was staged by a process that died."""
        for path in self._own.glob("staged-*"):
            path.unlink()

    def families(self) -> dict[str, list[str]]:
        """Every family and its files, in the order in which they were written."""
        found: dict[str, list[tuple[float, str]]] = {}
        for collection, folder in folders():
            for name in self._names(folder):
                if (named := read_name(collection, name)) is not None:
                    family, stamp = named
                    # What is still written to is newer than every archive.
                    order = float("inf") if stamp is None else stamp
                    found.setdefault(family, []).append((order, f"{folder}/{name}" if folder else name))
        return {family: [name for _, name in sorted(found[family])] for family in sorted(found)}

    def archives(self, family: str) -> list[str]:
        """The archives of a family, oldest first."""
        folder, _, name = family.rpartition("/")
        stem = name.rpartition(".")[0] + "."
        collection = collection_of(family)
        found = []
        for other in self._names(folder):
            # Most names are other families'; only those that may be archives of this one are looked at closely.
            if other != name and other.startswith(stem):
                named = read_name(collection, other)
                if named is not None and named[0] == family and named[1] is not None:
                    found.append((named[1], f"{folder}/{other}" if folder else other))
        return [path for _, path in sorted(found)]

    def _names(self, folder: str) -> list[str]:
        try:
            return os.listdir(self._root / folder)  # noqa: PTH208 - names are all that is wanted, and there may be many
        except (FileNotFoundError, NotADirectoryError):
            return []

    def full(self, size: int, more: int) -> bool:
        """Whether a file of that size has no room for so many bytes more."""
        return size > 0 and size + more > self._rotate_bytes

    def archive(self, family: str, *, sync: bool) -> None:
        """Give a family's file its archive name, so that the next append begins a new one."""
        if sync:
            self.sync([family])
        self.path(family).rename(self.path(self._next_archive(family)))

    def _next_archive(self, family: str) -> str:
        """A name after all archives of the family: their order decides which line of a record is the last."""
        newest = max((_stamp(family, name) for name in self.archives(family)[-1:]), default=0)
        self._last_stamp = max(newest + 1, self._last_stamp + 1, time.time_ns() // 1000)
        return archive_of(family, self._last_stamp)

    def rows(self, family: str, files: Iterable[str], *, whole: bool) -> Rows:
        """What the files come to; without `whole`, only whom each line is about is read."""
        rows = Rows(collection_of(family))
        for name in files:
            if (data := self.read(name)) is not None:
                rows.add(data, name.rpartition(".")[2], whole=whole)
        return rows

    def rewrite(self, family: str, files: Iterable[str], lines: list[bytes]) -> int:
        """Replace a family's files, oldest first, by these lines; answers the size of the file that is written to next.

        Killed at any moment, the files still come to the same records: the new files are archives younger than the old
        ones, so they repeat what those say; the old ones go oldest first, so that a tombstone outlives what it buries;
        and the file written to goes last, replaced by the youngest of the new ones in one step.
        """
        suffix = family.rpartition(".")[2]
        new: list[str] = []
        for chunk in self._chunks(lines):
            staged = self.stage(joined(chunk, suffix))
            keep_mode(staged, self.path(family))
            new.append(self._next_archive(family))
            self.place(staged, new[-1])
        if new:
            sync_folder(self.path(family).parent)
        for name in files:
            if name != family:
                self.path(name).unlink()
        if new:
            self.path(new[-1]).replace(self.path(family))
        else:
            self.cut(family, 0)
        return self.size(family)

    def _chunks(self, lines: list[bytes]) -> list[list[bytes]]:
        chunks: list[list[bytes]] = []
        room = 0
        for line in lines:
            if not chunks or len(line) > room:
                chunks.append([])
                room = self._rotate_bytes
            chunks[-1].append(line)
            room -= len(line)
        return chunks

    def set_aside(self, family: str, bad: list[bytes]) -> None:
        """Keep what could not be read, where a person may look at it; the same bytes are kept once."""
        folder = self._own / "damaged"
        make_folder(folder)
        content = b"\n".join(bad) + b"\n"
        digest = hashlib.blake2b(content, digest_size=8).hexdigest()
        staged = self.stage(content)
        staged.replace(folder / f"{family.replace('/', '-')}.{digest}.txt")

    def damaged(self) -> int:
        """How many lines were set aside."""
        return sum(path.read_bytes().count(b"\n") for path in (self._own / "damaged").glob("*.txt"))

    def sync(self, families: Iterable[str]) -> None:
        """Make what was appended to these families survive a power cut."""
        seen = {self._root}
        for family in families:
            path = self.path(family)
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:  # archived, which syncs it, or gone for good
                continue
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
            seen.add(path.parent)
        for folder in seen:
            sync_folder(folder)

    def used(self) -> tuple[int, int]:
        """How many data files there are and how many bytes they hold."""
        files = size = 0
        for names in self.families().values():
            files += len(names)
            size += sum(self.size(name) for name in names)
        return files, size


def _stamp(family: str, name: str) -> int:
    named = read_name(collection_of(family), name.rpartition("/")[2])
    return (named[1] or 0) if named is not None else 0
