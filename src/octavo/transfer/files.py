"""Between a store and a file or stream of JSON lines: a header, one record per line, and an end that says how many there were."""

import codecs
import gzip
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, NoReturn, TypeAlias, cast

import msgspec

from octavo.errors import ConfigError, OctavoError
from octavo.kernel.codec import MAX_RECORD_BYTES, encode_record, seal
from octavo.kernel.model import Add, Record, Scope
from octavo.kernel.ports import Store
from octavo.kernel.text import escape_json_controls, pluralize, spell
from octavo.transfer.copying import (
    PAGE_BYTES,
    CopiedRecords,
    CopyStep,
    Moved,
    Progress,
    Trail,
    check_size,
    move,
    refuse_own_file,
)
from octavo.util.disk import keep_mode, open_file, sync_folder
from octavo.util.system import POSIX, lock_file

FORMAT = 1
#: Every byte of a record may have been written as \\u0000, and names stand around it; a longer line holds no record.
MAX_LINE_BYTES = 8 * MAX_RECORD_BYTES
_PART = ".part"  # behind the name of a file in the making


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line; nothing in it depends on the store or the hour, so that equal stores export equal bytes."""

    octavo_export: int


class End(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last line; without it a file that was cut between two lines would look whole."""

    octavo_export_end: int  # the number of records since the header


class _Scope(Scope, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    pass


class _Line(Record, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A record as it must stand in a file: made-up ids or times would make a second import add everything again."""

    id: str
    created_at: datetime
    seq: int
    scope: _Scope = _Scope()


_NOWHERE = Record(collection="").scope
_decode_record = msgspec.json.Decoder(_Line).decode


def parse_line(line: bytes) -> Header | End | Record:
    """What a line of an export says, or ValueError with the reason why it says nothing."""
    try:
        if line.startswith(b'{"octavo_export_end"'):
            return msgspec.json.decode(line, type=End)
        if not line.startswith(b'{"octavo_export'):
            return _decode_record(line)
        found = msgspec.json.decode(line, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    if found.octavo_export > FORMAT:
        raise ConfigError(
            f"the export has format {found.octavo_export}, this Octavo reads up to {FORMAT}; "
            "import it with a newer one"
        )
    return found


async def export(
    store: Store,
    to: Path | str | BinaryIO,
    *,
    collections: Sequence[str] | None = None,
    scope: Scope | None = None,
    batch: int = 1000,
    progress: Progress | None = None,
    resume: Path | str | None = None,
    reach: CopiedRecords | None = None,
) -> Moved:
    """Write every record of the store, or of that reach, as a line of JSON; a path ending in .gz is compressed.

    A file appears under its name only when it is whole: until then it is called `….part`. With `resume`, an
    interrupted export that is called again with the same file goes on where it stopped.
    """
    size = check_size(batch)
    if isinstance(to, Path | str):
        refuse_own_file(store, to)
        refuse_own_file(store, f"{to}{_PART}")
    reach = reach or await CopiedRecords.of(store, collections, scope)
    with (
        _open_target(to) as out,
        Trail(resume if isinstance(out, _Part) else None, reach.run("export")) as trail,
    ):
        moved = await move(store, reach, out, trail, size, progress)
        out.write(msgspec.json.encode(End(moved.resumed + moved.read)) + b"\n")
        out.publish()
        trail.clear()
    return moved


class _LineStream:
    """A stream somebody else opened and will close."""

    added = 0

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    async def begin(self, trail: Trail) -> bool:
        """Write the header where the export begins; False when the trail ends where the file does not reach."""
        offset = trail.last.offset if trail.last else 0
        if not self._cut(offset):
            return False
        self.added = 0
        if not offset:
            self.write(msgspec.json.encode(Header(FORMAT)) + b"\n")
        return True

    async def put(self, page: list[Record]) -> int:
        """Write records as lines."""
        self.added += len(page)
        return self.write(b"".join([encode_record(_with_default_scope(record)) + b"\n" for record in page]))

    def write(self, spelled: bytes) -> int:
        """Write lines, and answer how long the file is now."""
        self._stream.write(escape_json_controls(spelled.decode()).encode())  # it may be a terminal
        self._stream.flush()
        return 0

    def publish(self) -> None:
        """Give the file its name: what is written to a stream is out already."""

    def _cut(self, offset: int) -> bool:
        return offset == 0


class _Part(_LineStream):
    """A file in the making, beside the one it will become."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(path.name + _PART)
        self._file = open(self._part, "ab", opener=open_file)  # noqa: SIM115 - closed by `close`
        if not lock_file(self._file.fileno()):
            self._file.close()
            raise ConfigError(f"another export is writing {path}; wait for it or choose another file")

    def write(self, spelled: bytes) -> int:
        """Append durably and answer how long the file is now; each batch is a gzip member, so it can be cut there."""
        if self._path.suffix == ".gz":
            # Without a time, equal stores give equal files.
            spelled = gzip.compress(spelled, compresslevel=6, mtime=0)
        self._file.write(spelled)
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def publish(self) -> None:
        """Give the file its name."""
        keep_mode(self._part, self._path)
        if not POSIX:
            self._file.close()
        self._part.replace(self._path)
        sync_folder(self._path.parent)  # without it, a power cut can undo the rename

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _cut(self, offset: int) -> bool:
        if self._part.stat().st_size < offset:
            return False
        self._file.truncate(offset)
        return True


@contextmanager
def _open_target(to: Path | str | BinaryIO) -> Iterator[_LineStream]:
    if not isinstance(to, Path | str):
        if not hasattr(to, "write"):
            raise ConfigError(f"an export goes to a path, or to a file that is open; got {to!r}")
        yield _LineStream(to)
        return
    path = Path(to).resolve()  # through a symbolic link, so that the rename does not replace the link
    if not path.parent.is_dir():
        raise ConfigError(f"there is no folder {path.parent} to write {path.name} to; make it first")
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; name a file in it")
    if path.exists() and not path.is_file():  # a pipe or a device has no folder beside it for a part
        with path.open("wb") as stream:
            yield _LineStream(stream)
    else:
        with closing(_Part(path)) as part:
            yield part


def _with_default_scope(record: Record) -> Record:
    # Only the default object itself is left out of JSON; an equal one would make equal stores export unequal bytes.
    if record.scope is _NOWHERE or record.scope != _NOWHERE:
        return record
    return msgspec.structs.replace(record, scope=_NOWHERE)


# --- back into a store


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
    size = check_size(batch)
    name = Path(source).name if isinstance(source, Path | str) else ""
    run = spell(["import", name])
    with _open_source(source) as (lines, raw), Trail(resume if name else None, run) as trail:
        return await _Import(lines, raw, name, target, on_bad, progress, trail).run(size)


@contextmanager
def _open_source(source: Path | str | BinaryIO) -> Iterator[tuple[BinaryIO, BinaryIO | None]]:
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
        while line := await self._read_line():
            await self._read(line)
            if len(self.batch) >= size or self.batch_bytes >= PAGE_BYTES:
                await self._flush()
        if not self.line:
            await self._tell(BadLine(1, "the file is empty, and an export is not"))
        if self.owed is not None:
            await self._tell(BadLine(self.line + 1, "the export was cut short: its end line is missing"))
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

    async def _read_line(self) -> bytes:
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
            await self._tell(BadLine(self.line, reason, line))
            self.owed = None if torn or self.owed is None else self.owed + 1
            return
        if isinstance(found, Header):
            if self.owed is not None:
                await self._tell(BadLine(self.line, "a second export begins before the first one's end line"))
            self.owed = 0
        elif isinstance(found, End):
            if self.owed is not None and self.owed != found.octavo_export_end:
                reason = f"the export had {pluralize(found.octavo_export_end, 'record')}, here: {self.owed}"
                await self._tell(BadLine(self.line, reason))
            self.owed = None
        else:
            self.batch.append(found)
            self.batch_bytes += len(line)
            if self.owed is not None:
                self.owed += 1

    async def _tell(self, bad: BadLine) -> None:
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
            step = CopyStep(
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
