"""The lines of the log: JSON that carries its own checksum, so that damage anywhere in a line is noticed.

`{"crc":"1f0c…","is":"queued","v":1,"n":17,…}`: the checksum is of everything after its comma. The mark at the beginning
can stand nowhere inside a line (JSON escapes the quotes of text), so that whole lines are found again behind damage.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import BinaryIO, Literal, NamedTuple

import msgspec

from octavo.errors import InvalidRecord
from octavo.kernel.model import Op
from octavo.wraps.spool.entries import DeadLetter, Waiting

_MARK = b'{"crc":"'
_BODY = len(_MARK) + 10  # behind the mark: eight digits, a quote and a comma
_encode = msgspec.json.Encoder().encode


class Queued(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag="queued"):
    """The `n`th write of this log."""

    v: Literal[1] = 1
    n: int
    id: str
    queued_at: datetime
    attempts: int
    error: str
    ops: list[Op]

    @property
    def waiting(self) -> Waiting:
        return Waiting(
            id=self.id, queued_at=self.queued_at, ops=self.ops, attempts=self.attempts, error=self.error
        )


class Number(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag="queued"):
    """A queued line of which only the number is read."""

    v: Literal[1]
    n: int


class Done(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag="done"):
    """These writes need not wait any more: from the first number to the last, for each pair."""

    v: Literal[1] = 1
    n: list[tuple[int, int]]


class Tried(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag="tried"):
    """This write has failed so many times, the last time with this error."""

    v: Literal[1] = 1
    n: int
    attempts: int
    error: str


class Dead(DeadLetter, frozen=True, kw_only=True, tag_field="is", tag="dead"):
    """A write that was given up."""

    v: Literal[1] = 1


_log_line: Callable[[bytes], Number | Done | Tried] = msgspec.json.Decoder(Number | Done | Tried).decode
_queued_line = msgspec.json.Decoder(Queued).decode
_dead_line = msgspec.json.Decoder(Dead).decode


class Piece(NamedTuple):
    """A stretch of a file: a line whose checksum holds (`sound`), or what is damaged between such lines."""

    start: int
    data: bytes
    sound: bool
    ended: bool  # with a newline


def sealed(line: msgspec.Struct) -> bytes:
    """The line with its checksum and its newline, or InvalidRecord when JSON cannot say it."""
    try:
        body = _encode(line)[1:]
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidRecord(f"a write cannot be queued, since JSON cannot say it: {error}") from error
    return b'%b%08x",%b\n' % (_MARK, zlib.crc32(body), body)


def queued(n: int, entry: Waiting) -> bytes:
    """The line of a write that waits."""
    return sealed(
        Queued(
            n=n, id=entry.id, queued_at=entry.queued_at, attempts=entry.attempts, error=entry.error, ops=entry.ops
        )
    )  # fmt: skip


def dead(letter: DeadLetter) -> bytes:
    """The line of a write that was given up."""
    return sealed(Dead(**{name: getattr(letter, name) for name in DeadLetter.__struct_fields__}))


def log_line(data: bytes) -> Number | Done | Tried | None:
    """What a sound line says, without its ops; None when another version wrote it."""
    try:
        return _log_line(data)
    except (msgspec.DecodeError, RecursionError):
        return None


def is_queued(data: bytes) -> bool:
    """Whether a sound line is that of a write; others can be passed over unread."""
    return data.startswith(b'"is":"queued"', _BODY)


def waiting(data: bytes) -> Waiting | None:
    """The write in a sound line; None when another version wrote it."""
    try:
        return _queued_line(data).waiting
    except (msgspec.DecodeError, RecursionError):
        return None


def letter(data: bytes) -> DeadLetter | None:
    """The dead letter in a sound line; None when another version wrote it."""
    try:
        line = _dead_line(data)
    except (msgspec.DecodeError, RecursionError):
        return None
    return DeadLetter(**{name: getattr(line, name) for name in DeadLetter.__struct_fields__})


def read(file: BinaryIO, start: int = 0) -> Iterator[Piece]:
    """The pieces of a file from an offset on; blank lines are passed over."""
    file.seek(start)
    for line in file:
        ended = line.endswith(b"\n")
        data = line[:-1] if ended else line
        if _sound(data):
            yield Piece(start, data, sound=True, ended=ended)
        elif data.strip(b" "):
            yield from _salvaged(start, data, ended)
        start += len(line)


def _sound(data: bytes) -> bool:
    at = len(_MARK)
    return (
        data.startswith(_MARK)
        and data[at + 8 : _BODY] == b'",'
        and data[at : at + 8] == b"%08x" % zlib.crc32(data[_BODY:])
    )


def _salvaged(start: int, data: bytes, ended: bool) -> Iterator[Piece]:
    """The sound lines inside a damaged one, such as two whose newline was lost, and the junk around them."""
    cuts = [0]
    while (cut := data.find(_MARK, cuts[-1] + 1)) >= 0:
        cuts.append(cut)
    junk = 0  # where the junk that is not told yet begins
    for cut, end in zip(cuts, [*cuts[1:], len(data)], strict=True):
        part = data[cut:end]
        # Where a newline was, one byte of junk is left; it may itself be a brace.
        for whole in (part, part[:-1], part[: part.rfind(b"}") + 1]):
            if whole and _sound(whole):
                if data[junk:cut].strip(b" "):
                    yield Piece(start + junk, data[junk:cut], sound=False, ended=True)
                junk = cut + len(whole)
                yield Piece(start + cut, whole, sound=True, ended=ended or junk < len(data))
                break
    if data[junk:].strip(b" "):
        yield Piece(start + junk, data[junk:], sound=False, ended=ended)


def ranges(runs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs of numbers in order and joined where they touch, so that a million in a row take one line."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(runs):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined
