"""What the queue keeps, the lines it is kept in, and the files of its directory: their names, locks, and those that all write to.

A line is JSON that carries its own checksum, so that damage is noticed. `{"crc":"1f0c…","is":"queued","n":17,"id":"q_…",…}` is
the 17th write of its log; the checksum is of everything behind its comma. `{"crc":"…","is":"done","upto":500,"left":[17]}` says
that every write up to the 500th is done, except the 17th.
"""

import contextlib
import os
import re
import zlib
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import field
from msgspec.structs import replace

from octavo.errors import InvalidRecord, NotFound, StoreUnavailable
from octavo.kernel.ids import new_id, now
from octavo.kernel.model import Add, Op, check_count
from octavo.util.disk import FileLock, open_file, replace_file, sync_folder, write_all
from octavo.util.system import read_at

T = TypeVar("T")
Durability: TypeAlias = Literal["fsync", "flush", "memory"]

#: What is left of the ops of a write once those of somebody are taken out of it.
Left: TypeAlias = Callable[[list[Op]], list[Op]]

_START = b'{"crc":"'
_BODY = len(_START) + 10  # behind the start: eight digits, a quote and a comma
# The slot, the part, and whether it is a backup.
_LOG_NAME = re.compile(r"failed_events(?:\.([2-9]|[1-9]\d+))?\.jsonl(?:\.(\d+)(\.bak)?)?")
_LOCK_SECONDS = 10.0  # whoever holds the shared lock writes a few lines; longer than this it is stuck
_encode = msgspec.json.Encoder().encode


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """The ops of one `apply` that could not be stored yet; a transaction stays one."""

    id: str = field(default_factory=lambda: new_id("q_"))
    queued_at: datetime = field(default_factory=now)
    ops: list[Op]
    attempts: int = 0
    error: str = ""

    @property
    def does(self) -> str:
        """What it would do, in a few words: add 3 to events, change turns."""
        parts = []
        for op in self.ops:
            if isinstance(op, Add):
                collections = list(dict.fromkeys(record.collection for record in op.records))
                parts.append(f"add {len(op.records):,} to {', '.join(collections) or 'nothing'}")
            else:
                parts.append(f"{type(op).__name__.lower()} {op.query.collection}")
        return ", ".join(parts) or "nothing"


class DeadLetter(Waiting, frozen=True, kw_only=True):
    """A write that was given up, with the error that killed it."""

    died_at: datetime = field(default_factory=now)


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """One process's part of the directory; `alive` says that a process holds it now."""

    number: int
    waiting: int
    alive: bool


class SpoolStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How much waits, how much was given up, and what it takes on disk."""

    directory: str
    store: str = ""  # that they are for, as far as that is known
    waiting: int = 0
    dead: int = 0
    bad_lines: int = 0
    bytes: int = 0  # of the files of what waits
    files: int = 0
    oldest_at: datetime | None = None
    slots: tuple[Slot, ...] = ()


class Erased(msgspec.Struct, frozen=True, kw_only=True):
    """How many writes of somebody were taken out of a queue, and how many running processes still hold."""

    waiting: int = 0
    dead: int = 0
    damaged: int = 0
    elsewhere: int = 0


class Queued(msgspec.Struct, frozen=True, tag_field="is", tag="queued"):
    """A write's line, of which only the number is read."""

    n: int


class DoneUpTo(msgspec.Struct, frozen=True, tag_field="is", tag="done"):
    """Every write up to a number is done, except those that are left. Each such line says it all; the last one counts."""

    upto: int = 0
    left: frozenset[int] = frozenset()

    def covers(self, n: int) -> bool:
        """Whether the write of that number is done."""
        return n <= self.upto and n not in self.left


class LogLine(NamedTuple):
    """A line of a log as it stands there: a write with its number, what is done, or something damaged or unknown."""

    start: int
    data: bytes
    n: int = 0
    done: DoneUpTo | None = None

    @property
    def damaged(self) -> bool:
        return not self.n and self.done is None


_log_line = msgspec.json.Decoder(Queued | DoneUpTo).decode
_waiting_line = msgspec.json.Decoder(Waiting).decode
_dead_line = msgspec.json.Decoder(DeadLetter).decode


def queued_line(n: int, entry: Waiting) -> bytes:
    """The line of a write that waits, or InvalidRecord when JSON cannot say it."""
    try:
        return seal_line(b'"is":"queued","n":%d,%b' % (n, _encode(entry)[1:]))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidRecord(f"a write cannot be queued, since JSON cannot say it: {error}") from error


def done_line(done: DoneUpTo) -> bytes:
    """The line that says what is done."""
    return seal_line(_encode(done)[1:])


def dead_line(letter: DeadLetter) -> bytes:
    """The line of a write that was given up."""
    return seal_line(b'"is":"dead",' + _encode(letter)[1:])


def seal_line(body: bytes) -> bytes:
    """A line of this, with its checksum and its newline."""
    return b'%b%08x",%b\n' % (_START, zlib.crc32(body), body)


def is_sound(data: bytes) -> bool:
    """Whether a line is as it was written, with or without its newline."""
    data = data.removesuffix(b"\n")
    return data.startswith(_START) and data[len(_START) : _BODY] == b'%08x",' % zlib.crc32(data[_BODY:])


def read_waiting(data: bytes) -> Waiting | None:
    """The write in a line; None when it is damaged or not known how to read."""
    return _read(data, _waiting_line)


def read_letter(data: bytes) -> DeadLetter | None:
    """The dead letter in a line; None when it is damaged or not known how to read."""
    return _read(data, _dead_line)


def _read(data: bytes, decode: Callable[[bytes], T]) -> T | None:
    try:
        return decode(data) if is_sound(data) else None
    except (msgspec.DecodeError, RecursionError):
        return None


def read_lines(file: BinaryIO, start: int = 0) -> Iterator[LogLine]:
    """The lines of a log from an offset on, without blank ones."""
    file.seek(start)
    for data in file:
        if data.strip():
            yield _line(start, data)
        start += len(data)


def _line(start: int, data: bytes) -> LogLine:
    says = _read(data, _log_line)
    if isinstance(says, Queued):
        return LogLine(start, data, n=says.n)
    return LogLine(start, data, done=says)


def read_writes(file: BinaryIO, done: DoneUpTo, start: int = 0) -> Iterator[tuple[LogLine, Waiting | None]]:
    """The lines of writes that are not done, from an offset on, and those that cannot be read, with None."""
    for line in read_lines(file, start):
        if line.damaged:
            yield line, None
        elif line.n and not done.covers(line.n):
            yield line, read_waiting(line.data)


class LogScan:
    """What the files of a log say, read from the oldest on: which writes stand in them, and which of those are done."""

    def __init__(self) -> None:
        self.numbers = array("Q")
        self.done = DoneUpTo()

    def read(self, file: BinaryIO) -> list[bytes]:
        """Read one more file; answer its damaged lines."""
        damaged: list[bytes] = []
        for line in read_lines(file):
            if line.n:
                self.numbers.append(line.n)
            elif line.done is not None:
                self.done = line.done
            else:
                damaged.append(line.data)
        return damaged

    @property
    def waiting(self) -> int:
        """How many writes are not done."""
        return sum(not self.done.covers(n) for n in self.numbers)

    @property
    def last(self) -> int:
        """The highest number that was given."""
        return max(self.done.upto, max(self.numbers, default=0))


# --- the files of the directory


class QueueNames:
    """What the files are called: `failed_events.jsonl` is slot 1, `failed_events.2.jsonl` slot 2, `….jsonl.7` a full part of either."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.dead = directory / "failed_events.dead.jsonl"
        self.bad = directory / "failed_events.bad.jsonl"
        self.store = directory / "failed_events.store"  # names the store that everything here is for

    def active(self, slot: int) -> Path:
        """The file that slot writes to."""
        return self.directory / ("failed_events.jsonl" if slot == 1 else f"failed_events.{slot}.jsonl")

    def lock(self, slot: int) -> Path:
        """The file whose lock says that the slot is in use."""
        return self.directory / f".failed_events.{slot}.lock"

    @property
    def locks(self) -> list[Path]:
        """The files of all slots' locks."""
        return list(self.directory.glob(".failed_events.[0-9]*.lock"))

    def next_part(self, slot: int) -> Path:
        """A name for the active file once it is full."""
        parts = [part for each, part, _, _ in self._list() if each == slot]
        return Path(f"{self.active(slot)}.{max(parts, default=0) + 1}")

    def backups(self, slot: int) -> list[Path]:
        """Parts that were recovered and kept, oldest first."""
        return [path for each, _, kept, path in self._list() if each == slot and kept]

    def slots(self) -> dict[int, list[Path]]:
        """The files of each slot that has any, oldest first."""
        found: dict[int, list[Path]] = {}
        for slot, part, kept, path in self._list():
            if part and not kept:
                found.setdefault(slot, []).append(path)
        for slot, part, _, path in self._list():
            if not part:  # what is being written is the newest
                found.setdefault(slot, []).append(path)
        return dict(sorted(found.items()))

    def _list(self) -> list[tuple[int, int, bool, Path]]:
        try:
            matches = [(_LOG_NAME.fullmatch(path.name), path) for path in self.directory.iterdir()]
        except FileNotFoundError:
            return []
        return sorted(
            (int(match[1] or 1), int(match[2] or 0), match[3] is not None, path)
            for match, path in matches
            if match
        )


@contextmanager
def translate_errors(folder: Path) -> Iterator[None]:
    """The system's errors as Octavo's, naming the path."""
    try:
        yield
    except OSError as error:
        path = error.filename or folder
        raise StoreUnavailable(f"the failure queue cannot use {path}: {error.strerror or error}") from error


def replace_lines(path: Path, kept: Iterable[bytes], *, sync: bool = True) -> None:
    """Put these lines in place of all that a file holds; without any, the file is removed."""
    replace_file(path, kept, sync=sync)
    if not path.stat().st_size:
        path.unlink()
    if sync:
        sync_folder(path.parent)


class SharedFile:
    """Lines that every process may add while it holds the lock; they are counted again only when the file has changed."""

    def __init__(self, path: Path, counts: Callable[[bytes], bool] = bool, *, sync: bool = True) -> None:
        self.path = path
        self._sync = sync
        self._lock = path.with_name(f".{path.stem}.lock")
        self._counts = counts
        self._counted: tuple[tuple[int, ...], int] = ((), 0)

    @property
    def count(self) -> int:
        """How many lines it has now; as many as before while it cannot be read."""
        with contextlib.suppress(OSError):
            try:
                there = self.path.stat()
            except FileNotFoundError:
                return 0
            signature = (there.st_ino, there.st_size, there.st_mtime_ns)
            if signature != self._counted[0]:
                self._counted = (signature, sum(map(self._counts, self._lines())))
        return self._counted[1]

    def append(self, lines: Sequence[bytes]) -> None:
        """Add lines, all or none."""
        data = b"".join(line if line.endswith(b"\n") else line + b"\n" for line in lines)
        with FileLock(self._lock).hold(_LOCK_SECONDS):
            fd = open_file(self.path, os.O_RDWR | os.O_APPEND)
            try:
                size = os.fstat(fd).st_size
                torn = size and read_at(fd, 1, size - 1) != b"\n"
                try:
                    write_all(fd, b"\n" * bool(torn) + data, self.path)
                    if self._sync:
                        os.fsync(fd)
                except OSError:
                    os.ftruncate(fd, size)
                    raise
            finally:
                os.close(fd)
        if self._sync and not size:
            sync_folder(self.path.parent)

    def drop_holding(self, names: Collection[bytes]) -> int:
        """Drop the lines that hold one of these; answer how many."""
        with FileLock(self._lock).hold(_LOCK_SECONDS):
            lines = list(self._lines())
            kept = [line for line in lines if not any(name in line for name in names)]
            if len(kept) < len(lines):
                replace_lines(self.path, kept)
        return len(lines) - len(kept)

    def _lines(self) -> Iterator[bytes]:
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            yield from file


class DeadLetters(SharedFile):
    """Writes that were given up, kept with their errors until a person decides; shared by all processes of a directory."""

    def __init__(self, path: Path, quarantine: SharedFile) -> None:
        super().__init__(path, is_sound)
        self._quarantine = quarantine

    def __iter__(self) -> Iterator[DeadLetter]:
        """All of them, oldest death first, one at a time."""
        with translate_errors(self.path.parent):
            for line in self._lines():
                if (letter := read_letter(line)) is not None:
                    yield letter

    def list(self, limit: int | None = None, after: str | None = None) -> list[DeadLetter]:
        """The first `limit` of them, or those that died after the one of that id, or NotFound."""
        if limit is not None:
            check_count(limit, "limit must be 0 or more, or None for all")
        found: list[DeadLetter] = []
        begun = after is None
        for letter in self:
            if limit is not None and len(found) >= limit:
                break
            if begun:
                found.append(letter)
            begun = begun or letter.id == after
        if after is not None and not begun:
            self.get(after)  # NotFound: nobody knows where to go on
        return found

    def get(self, id: str) -> DeadLetter:  # noqa: A002 - the name the rest of Octavo uses
        """The one of that id, or NotFound."""
        for letter in self:
            if letter.id == id:
                return letter
        raise NotFound(f"there is no dead letter {id!r} in {self.path}")

    def add(self, letters: Sequence[DeadLetter]) -> None:
        """Keep these; durable when it returns."""
        with translate_errors(self.path.parent):
            self.append([dead_line(letter) for letter in letters])

    def discard(self, ids: Collection[str] | None = None) -> int:
        """Forget these, or all; answer how many there were."""
        meant = None if ids is None else frozenset(ids)
        return self._rewrite(lambda letter: None if meant is None or letter.id in meant else letter)

    def erase(self, left: Left) -> int:
        """Keep of each only what is `left` of it; answer how many were touched."""

        def keep_left(letter: DeadLetter) -> DeadLetter | None:
            ops = left(letter.ops)
            return replace(letter, ops=ops) if ops else None

        return self._rewrite(keep_left)

    def _rewrite(self, reduce: Callable[[DeadLetter], DeadLetter | None]) -> int:
        """Put in place of each letter what is kept of it. Damaged lines, which nobody meant, are quarantined."""
        if not self.path.exists():
            return 0
        with translate_errors(self.path.parent), FileLock(self._lock).hold(_LOCK_SECONDS):
            damaged = [line for line in self._lines() if line.strip() and read_letter(line) is None]
            if damaged:
                self._quarantine.append(damaged)
            touched = sum(reduce(letter) != letter for letter in self)
            if touched or damaged:
                replace_lines(self.path, (dead_line(left) for letter in self if (left := reduce(letter))))
        return touched
