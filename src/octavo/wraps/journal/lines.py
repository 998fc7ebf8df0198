"""What the queue keeps, and the lines it is kept in: JSON that carries its own checksum, so that damage is noticed.

`{"crc":"1f0c…","is":"queued","n":17,"id":"q_…",…}` is the 17th write of its log; the checksum is of everything behind its
comma. `{"crc":"…","is":"done","upto":500,"left":[17]}` says that every write up to the 500th is done, except the 17th.
"""

import zlib
from array import array
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import BinaryIO, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import field

from octavo.errors import InvalidRecord
from octavo.kernel.ids import new_id, now
from octavo.kernel.model import Op

T = TypeVar("T")
Durability: TypeAlias = Literal["fsync", "flush", "memory"]

#: What is left of the ops of a write once those of somebody are taken out of it.
Left: TypeAlias = Callable[[list[Op]], list[Op]]

_START = b'{"crc":"'
_BODY = len(_START) + 10  # behind the start: eight digits, a quote and a comma
_encode = msgspec.json.Encoder().encode


def _new_queue_id() -> str:
    return new_id("q_")


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """The ops of one `apply` that could not be stored yet; a transaction stays one."""

    id: str = field(default_factory=_new_queue_id)
    queued_at: datetime = field(default_factory=now)
    ops: list[Op]
    attempts: int = 0
    error: str = ""


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
