"""From a file or stream of JSON lines into a store."""

import codecs
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NoReturn, TypeAlias, cast

import msgspec

from octavo.errors import OctavoError
from octavo.kernel.codec import seal
from octavo.kernel.model import Add, Record
from octavo.kernel.ports import Store
from octavo.kernel.text import spell
from octavo.transfer.copying import PAGE_BYTES, Moved, Progress, Step, Trail, checked_size
from octavo.transfer.exporting import MAX_LINE_BYTES, End, Header, parse_line
from octavo.util.words import several


class BadLine(msgspec.Struct, frozen=True):
    """A line that holds no record that can be kept; `number` counts from 1."""

    number: int
    reason: str
    line: bytes = b""


class BadLineError(OctavoError, ValueError):
    """An import met a line that holds no record; everything before it is kept, nothing after it was read."""

    def __init__(self, bad: BadLine, name: str) -> None:
        super().__init__(f"line {bad.number} of {name or 'the stream'}: {bad.reason}")
        self.bad = bad


OnBad: TypeAlias = Callable[[BadLine], None]


async def import_(
    source: Path | str | BinaryIO,
    target: Store,
    *,
    batch: int = 1000,
    on_bad: OnBad | None = None,
    progress: Progress | None = None,
    resume: Path | str | None = None,
) -> Moved:
    """Add every record of an export to the target; what the target already keeps is left as it is.

    The first line that holds no record raises BadLineError once all before it is kept; with `on_bad`, each such line is
    handed over instead and the import goes on. With `resume`, an interrupted import that is called again with the same
    file goes on where it stopped. While importing, the total told to `progress` is an estimate.
    """
    size = checked_size(batch)
    name = Path(source).name if isinstance(source, Path | str) else ""
    with _open(source) as (lines, raw), Trail(resume if name else None, spell(["import", name])) as trail:
        return await _Import(lines, raw, name, target, on_bad, progress, trail).run(size)


@contextmanager
def _open(source: Path | str | BinaryIO) -> Iterator[tuple[BinaryIO, BinaryIO | None]]:
    """The lines, and the file they come from if there is one to measure."""
    if not isinstance(source, Path | str):
        yield source, None
        return
    with Path(source).open("rb") as raw:
        if str(source).endswith(".gz"):
            with gzip.open(raw, "rb") as unpacked:
                yield cast("BinaryIO", unpacked), raw
        else:
            yield raw, raw


@dataclass
class _Import:
    """One run of an import: where it reads, where it stands, and the batch in hand."""

    lines: BinaryIO
    raw: BinaryIO | None  # the file behind them, if there is one to measure
    name: str
    target: Store
    on_bad: OnBad | None
    progress: Progress | None
    trail: Trail
    moved: Moved = field(default_factory=Moved)
    line: int = 0
    offset: int = 0
    crc: int = 0
    owed: int | None = None  # lines since the header; None outside an export
    batch: list[Record] = field(default_factory=list)
    batch_bytes: int = 0

    async def run(self, size: int) -> Moved:
        await self._take_up()
        while line := await self._next():
            await self._read(line)
            if len(self.batch) >= size or self.batch_bytes >= PAGE_BYTES:
                await self._flush()
        if self.owed is not None:
            await self._bad(BadLine(self.line + 1, "the export was cut short: its end line is missing"))
        await self._flush()
        self.trail.clear()
        return self.moved

    async def _take_up(self) -> None:
        """Go to where an interrupted run stopped, if the file begins as it did then and the target still has it all."""
        last = self.trail.last
        if last is None:
            return
        left, crc = last.offset, 0
        while left and (chunk := self.lines.read(min(left, 1 << 20))):
            left -= len(chunk)
            crc = zlib.crc32(chunk, crc)
        if left or crc != last.crc or not await last.holds(self.target):
            self.trail.clear()
            self.lines.seek(0)
            return
        self.line, self.offset, self.crc, self.owed = last.line, last.offset, last.crc, last.owed
        self.moved.resumed = last.read

    async def _next(self) -> bytes:
        """The next line, or b"" at the end; what can be read no further stops the import whatever the policy."""
        try:
            line = self.lines.readline(MAX_LINE_BYTES)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            await self._stop(
                BadLine(self.line + 1, f"the compressed file is damaged or cut short here: {error}")
            )
        if len(line) == MAX_LINE_BYTES:
            await self._stop(
                BadLine(self.line + 1, f"it has more than {MAX_LINE_BYTES} bytes, so it is no record")
            )
        return line

    async def _read(self, line: bytes) -> None:
        self.line += 1
        self.offset += len(line)
        self.crc = zlib.crc32(line, self.crc)
        content = line.removeprefix(codecs.BOM_UTF8) if self.line == 1 else line
        if not content.strip():
            return
        try:
            found = parse_line(content)
            if isinstance(found, Record):
                seal(found)  # what no store can keep is known by its line now, and not only by its batch
        except ValueError as error:
            torn = not line.endswith(b"\n")
            reason = f"the last line is torn: {error}" if torn else str(error)
            await self._bad(BadLine(self.line, reason, line))
            self.owed = None if torn or self.owed is None else self.owed + 1
            return
        if isinstance(found, Header):
            if self.owed is not None:
                await self._bad(BadLine(self.line, "a second export begins before the first one's end line"))
            self.owed = 0
        elif isinstance(found, End):
            if self.owed is not None and self.owed != found.octavo_export_end:
                reason = f"the export had {several(found.octavo_export_end, 'record')}, here: {self.owed}"
                await self._bad(BadLine(self.line, reason))
            self.owed = None
        else:
            self.batch.append(found)
            self.batch_bytes += len(line)
            if self.owed is not None:
                self.owed += 1

    async def _bad(self, bad: BadLine) -> None:
        """Hand a bad line over, or stop at it when nobody takes it."""
        if self.on_bad is None:
            await self._stop(bad)
        else:
            self.moved.bad += 1
            self.on_bad(bad)

    async def _stop(self, bad: BadLine) -> NoReturn:
        """Keep all that stands before the line, then say what is wrong with it."""
        # The trail ends before this batch, so that the mended line is read again.
        await self._flush(marked=False)
        raise BadLineError(bad, self.name)

    async def _flush(self, *, marked: bool = True) -> None:
        """Add the batch in hand and write down how far that brings us."""
        records, self.batch, self.batch_bytes = self.batch, [], 0
        if not records:
            return
        [added] = await self.target.apply([Add(records)])
        moved, total = self.moved, None
        done = moved.resumed + moved.read + len(records)
        if self.raw is not None and (at := self.raw.tell()):
            total = done * os.fstat(self.raw.fileno()).st_size // at  # about, by the bytes read so far
        moved.added += added
        moved.count(records, self.progress, total)
        if marked:
            last = records[-1]
            step = Step(
                tenant=last.scope.tenant,
                collection=last.collection,
                cursor=last.cursor,
                read=done,
                offset=self.offset,
                line=self.line,
                crc=self.crc,
                owed=self.owed,
            )
            self.trail.mark(step)
