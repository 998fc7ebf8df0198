"""From a file or stream of JSON lines into a store."""

import codecs
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NoReturn, TypeAlias, cast

import msgspec

from octavo.errors import InvalidRecord, OctavoError
from octavo.kernel.codec import seal
from octavo.kernel.model import Add, Record
from octavo.kernel.ports import Store
from octavo.kernel.text import spell
from octavo.transfer.copying import PAGE_BYTES, Count, Moved, Progress, checked_size
from octavo.transfer.lines import MAX_LINE_BYTES, End, Header, parse_line
from octavo.transfer.trail import Step, Trail


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
        return await _Import(lines, raw, name, target, on_bad, Count(progress), trail).run(size)


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


class _Import:
    """One run of an import: where it reads, where it stands, and the batch in hand."""

    def __init__(
        self, lines: BinaryIO, raw: BinaryIO | None, name: str, target: Store, on_bad: OnBad | None,
        count: Count, trail: Trail,
    ) -> None:  # fmt: skip
        self._lines = lines
        self._raw = raw
        self._raw_bytes = 0 if raw is None else os.fstat(raw.fileno()).st_size
        self._name = name
        self._target = target
        self._on_bad = on_bad
        self._count = count
        self._trail = trail
        self._line = self._offset = self._crc = 0
        self._owed: int | None = None  # lines since the header; None outside an export
        self._batch: list[tuple[int, bytes, Record]] = []
        self._batch_bytes = 0

    async def run(self, size: int) -> Moved:
        await self._take_up()
        while line := await self._next():
            await self._read(line)
            if len(self._batch) >= size or self._batch_bytes >= PAGE_BYTES:
                await self._flush()
        if self._owed is not None:
            await self._bad(BadLine(self._line + 1, "the export was cut short: its end line is missing"))
        await self._flush()
        self._trail.clear()
        return self._count.moved()

    async def _take_up(self) -> None:
        """Go to where an interrupted run stopped, if the file begins as it did then and the target still has it all."""
        last = self._trail.last
        if last is None:
            return
        left, crc = last.offset, 0
        while left and (chunk := self._lines.read(min(left, 1 << 20))):
            left -= len(chunk)
            crc = zlib.crc32(chunk, crc)
        if left or crc != last.crc or not await last.holds(self._target):
            self._trail.clear()
            self._lines.seek(0)
            return
        self._line, self._offset, self._crc, self._owed = last.line, last.offset, last.crc, last.owed
        self._count.resumed = last.read

    async def _next(self) -> bytes:
        """The next line, or b"" at the end; what can be read no further stops the import whatever the policy."""
        try:
            line = self._lines.readline(MAX_LINE_BYTES)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            await self._stop(
                BadLine(self._line + 1, f"the compressed file is damaged or cut short here: {error}")
            )
        if len(line) == MAX_LINE_BYTES:
            await self._stop(
                BadLine(self._line + 1, f"it has more than {MAX_LINE_BYTES} bytes, so it is no record")
            )
        return line

    async def _read(self, line: bytes) -> None:
        self._line += 1
        self._offset += len(line)
        self._crc = zlib.crc32(line, self._crc)
        content = line.removeprefix(codecs.BOM_UTF8) if self._line == 1 else line
        if not content.strip():
            return
        try:
            found = parse_line(content)
        except ValueError as error:
            torn = not line.endswith(b"\n")
            reason = f"the last line is torn: {error}" if torn else str(error)
            await self._bad(BadLine(self._line, reason, line))
            self._owed = None if torn or self._owed is None else self._owed + 1
            return
        if isinstance(found, Header):
            if self._owed is not None:
                await self._bad(BadLine(self._line, "a second export begins before the first one's end line"))
            self._owed = 0
        elif isinstance(found, End):
            if self._owed is not None and self._owed != found.octavo_export_end:
                reason = f"the export had {found.octavo_export_end} records, {self._owed} are here"
                await self._bad(BadLine(self._line, reason))
            self._owed = None
        else:
            self._batch.append((self._line, line, found))
            self._batch_bytes += len(line)
            if self._owed is not None:
                self._owed += 1

    async def _bad(self, bad: BadLine) -> None:
        """Hand a bad line over, or stop at it when nobody takes it."""
        if self._on_bad is None:
            await self._stop(bad)
        else:
            self._count.bad += 1
            self._on_bad(bad)

    async def _stop(self, bad: BadLine) -> NoReturn:
        """Keep all that stands before the line, then say what is wrong with it."""
        await self._flush(
            marked=False
        )  # the trail ends before this batch, so that the mended line is read again
        raise BadLineError(bad, self._name)

    async def _flush(self, *, marked: bool = True) -> None:
        """Add the batch in hand and write down how far that brings us."""
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        if not batch:
            return
        records = [record for _, _, record in batch]
        try:
            [added] = await self._target.apply([Add(records)])
        except InvalidRecord as refusal:
            await self._sift(batch, refusal)
            return
        self._count.total = self._estimate(self._count.resumed + self._count.read + len(records))
        self._count.batch(records, added)
        if marked:
            last = records[-1]
            step = Step(
                tenant=last.scope.tenant, collection=last.collection, cursor=last.cursor, added=self._count.added,
                read=self._count.resumed + self._count.read, offset=self._offset, line=self._line, crc=self._crc,
                owed=self._owed,
            )  # fmt: skip
            self._trail.mark(step)

    async def _sift(self, batch: list[tuple[int, bytes, Record]], refusal: InvalidRecord) -> None:
        """Add what can be kept of a batch that was refused; report the rest line by line, in order."""
        for number, line, record in batch:
            try:
                seal(record)
            except InvalidRecord as error:
                await self._bad(BadLine(number, str(error), line))
            else:
                self._batch.append((number, line, record))
        if len(self._batch) == len(batch):
            raise refusal  # a store stricter than the rest: which line it means, nobody can say
        await self._flush()

    def _estimate(self, done: int) -> int | None:
        """About how many records there are, by the bytes read so far."""
        at = 0 if self._raw is None else self._raw.tell()
        return None if not at else max(done, done * self._raw_bytes // at)
