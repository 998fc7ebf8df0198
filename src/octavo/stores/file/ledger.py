"""The ledger: what is being written stands here, whole, before it stands in any file.

Why a batch is kept whole or not at all, and every process sees it, whoever is killed when:

1. All writing happens under one exclusive lock. A batch becomes one *frame*: a state byte, a checksum, a length, which
   file gets which bytes from which offset on, and those bytes. It is written as pending (`?`).
2. Then the bytes are appended to the files, and at last the state byte is overwritten with kept (`!`). Only then is the
   write acknowledged.
3. Killed during 1: the frame is incomplete or fails its checksum. No file was touched; the next holder of the lock cuts
   it off. Killed during 2: the frame is complete. The next holder appends what the files still lack (what they have is a
   beginning of what the frame says) and marks it kept. So a batch is in all of its files or in none.
4. A write that fails (disk full) cuts the files back first and the ledger last: killed in between, it is case 2.
5. Readers follow the ledger without a lock, from where they last stopped up to the first frame that is not kept. A frame
   is kept before it is acknowledged, so they see every acknowledged write and never one that is taken back.
6. With `fsync`, the ledger is synced before the files are touched, and the files before the ledger is replaced. After a
   power cut the frames since then are compared with the files, and from the first difference on appended again: the last
   line of a record wins, so repeating lines in their order changes nothing.
7. A ledger that has grown is replaced by an empty one that names its predecessor. Followers read the old one to its end
   through the descriptor they hold; one who missed a whole ledger reads the files again.
"""

import contextlib
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from octavo.util.file_modes import keep_mode, open_file

_PENDING, _KEPT = b"?", b"!"
_PREFIX = 24  # state, 8 hex digits of checksum, 14 of length, newline


class Part(msgspec.Struct, frozen=True, array_like=True):
    """What a frame does to one family: its file's size before and after, its lines in all, and the bytes added."""

    path: str
    before: int
    after: int
    lines: int
    length: int = 0


class _Head(msgspec.Struct, frozen=True):
    parts: list[Part]
    sync: bool


class _Opening(msgspec.Struct, frozen=True):
    octavo: int
    name: str
    after: str
    boot: str


class Frame(msgspec.Struct, frozen=True):
    """One batch: what it does to each family, with the bytes added to each."""

    parts: list[Part]
    added: list[bytes]
    sync: bool


class Lost(Exception):  # noqa: N818 - never leaves the file store
    """What was written cannot be followed from here; the files must be read again."""


_head = msgspec.json.Decoder(_Head).decode
_opening = msgspec.json.Decoder(_Opening).decode


class Ledger:
    """The frames of one directory, written under its lock and followed without it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._spelled = str(path)
        self._fd = -1
        self._inode = (0, 0)
        self._opening = _Opening(1, "", "", "")
        self._start = 0
        self._pending = 0  # the length of the frame being written
        self.end = 0  # where the next frame begins: everything before it has been followed

    @property
    def elsewhen(self) -> bool:
        """Whether the machine may have gone down since this ledger was begun."""
        return self._opening.boot != _boot() or not self._opening.boot

    @property
    def fresh(self) -> bool:
        """Whether there is nothing in it that a new one would be without."""
        return self.end == self._start and not self.elsewhen

    def attach(self) -> None:
        """Begin to follow the ledger that is there, from its first frame."""
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            raise Lost from None
        line, newline, _ = os.pread(fd, 4096, 0).partition(b"\n")
        try:
            opening = _opening(line) if newline else None
        except msgspec.DecodeError:
            opening = None
        if opening is None:
            os.close(fd)
            raise Lost
        self.close()
        self._fd, self._opening, self.end = fd, opening, len(line) + 1
        self._start = self.end
        self._inode = ((there := os.fstat(fd)).st_ino, there.st_dev)

    def replace(self) -> None:
        """Begin an empty ledger; under the lock, with every frame of the old one in its files."""
        opening = _Opening(1, os.urandom(12).hex(), self._opening.name, _boot())
        line = msgspec.json.encode(opening) + b"\n"
        spare = self._path.with_name("spare")
        # Written over what is there, not into an empty file: a disk that is full must still take a new ledger.
        fd = open_file(spare, os.O_WRONLY)
        try:
            write_all(fd, line, spare)
            os.ftruncate(fd, len(line))
            os.fsync(fd)
        finally:
            os.close(fd)
        keep_mode(spare, self._path)
        spare.replace(self._path)
        sync_folder(self._path.parent)
        self.attach()
        with contextlib.suppress(OSError), open(spare, "wb", opener=open_file) as file:
            file.write(line)

    def follow(self) -> list[Frame]:
        """What others have kept since the last call, or Lost."""
        try:
            there = os.stat(self._spelled)  # noqa: PTH116 - once per read, where a Path costs more than the call
        except FileNotFoundError:
            raise Lost from None
        if self._fd < 0:
            raise Lost
        # The descriptor keeps our ledger's number from being given to another file.
        if (there.st_ino, there.st_dev) == self._inode:
            if there.st_size < self.end:
                raise Lost
            return self._take(there.st_size) if there.st_size > self.end else []
        frames = self._take(os.fstat(self._fd).st_size)
        name = self._opening.name
        self.attach()
        if self._opening.after != name:
            raise Lost
        return frames + self._take(os.fstat(self._fd).st_size)

    def pending(self) -> Frame | None:
        """The frame somebody died over, if it is complete; under the lock, after `follow`. An incomplete one is cut off."""
        size = os.fstat(self._fd).st_size
        if size == self.end:
            return None
        data = self._read(size)
        frame = _frame(data, 0)
        if frame is None:
            os.ftruncate(self._fd, self.end)
            if data[:1] == _KEPT:  # it was kept once and is damaged now: only the files know what it said
                raise Lost
            return None
        # Whatever follows a pending frame was not written by us.
        self._pending = frame[1]
        os.ftruncate(self._fd, self.end + self._pending)
        return frame[0]

    def begin(self, parts: Sequence[Part], added: Sequence[bytes], *, sync: bool) -> None:
        """Write a frame as pending."""
        body = b"".join([msgspec.json.encode(_Head(list(parts), sync)), b"\n", *added])
        frame = b"%b%08x%014x\n%b" % (_PENDING, zlib.crc32(body), len(body), body)
        try:
            written = 0
            while written < len(frame):
                written += os.pwrite(self._fd, frame[written:] if written else frame, self.end + written)
            if sync:
                os.fsync(self._fd)
        except OSError as error:
            self.drop()
            raise _named(error, self._path) from None
        self._pending = len(frame)

    def keep(self) -> None:
        """Mark the pending frame as kept."""
        os.pwrite(self._fd, _KEPT, self.end)
        self.end += self._pending

    def drop(self) -> None:
        """Take back the pending frame; its files must have been cut back before."""
        os.ftruncate(self._fd, self.end)

    def close(self) -> None:
        """Let go of the file; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()  # a store that nobody closed must not keep descriptors and locks for ever

    def _take(self, size: int) -> list[Frame]:
        data = self._read(size)
        frames, offset = [], 0
        while data[offset : offset + 1] == _KEPT and (found := _frame(data, offset)) is not None:
            frames.append(found[0])
            offset += found[1]
        self.end += offset
        return frames

    def _read(self, size: int) -> bytes:
        """The ledger from where we stopped up to `size`; one call reads at most 2 GiB."""
        pieces, at = [], self.end
        while at < size and (piece := os.pread(self._fd, size - at, at)):
            pieces.append(piece)
            at += len(piece)
        return b"".join(pieces)


def _frame(data: bytes, offset: int) -> tuple[Frame, int] | None:
    """The frame at an offset and its length, or None when it is incomplete or damaged."""
    try:
        checksum, length = (
            int(data[offset + 1 : offset + 9], 16),
            int(data[offset + 9 : offset + _PREFIX], 16),
        )
    except ValueError:
        return None
    body = data[offset + _PREFIX : offset + _PREFIX + length]
    if len(body) < length or zlib.crc32(body) != checksum:
        return None
    line, _, rest = body.partition(b"\n")
    head = _head(line)
    added, start = [], 0
    for part in head.parts:
        added.append(rest[start : start + part.length])
        start += part.length
    return Frame(head.parts, added, head.sync), _PREFIX + length


def _boot() -> str:
    """A name for the time since the machine was started, or "" where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def write_all(fd: int, data: bytes, path: Path | str) -> None:
    """Write everything, in one call unless the system takes less; an error names the path."""
    try:
        written = os.write(fd, data)
        while written < len(data):
            written += os.write(fd, data[written:])
    except OSError as error:
        raise _named(error, path) from None


def sync_folder(path: Path) -> None:
    """Make the names in a folder survive a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _named(error: OSError, path: Path | str) -> OSError:
    """The error with the path it is about: calls on descriptors do not know it."""
    return OSError(error.errno, error.strerror, str(path)) if error.filename is None else error
