"""From a store into a file or stream of JSON lines: a header, one record per line, and an end that says how many there were."""

import gzip
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import msgspec

from octavo.errors import ConfigError
from octavo.kernel.codec import MAX_RECORD_BYTES, encode_record
from octavo.kernel.model import Record, Scope
from octavo.kernel.ports import Store
from octavo.kernel.text import printable_json
from octavo.transfer.copying import Moved, Progress, Reach, Trail, checked_size, move
from octavo.util.disk import sync_folder
from octavo.util.file_modes import keep_mode, open_file
from octavo.util.system import POSIX, lock_file

FORMAT = 1
#: Every byte of a record may have been written as \\u0000, and names stand around it; a longer line holds no record.
MAX_LINE_BYTES = 8 * MAX_RECORD_BYTES


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
    reach: Reach | None = None,
) -> Moved:
    """Write every record of the store, or of that reach, as a line of JSON; a path ending in .gz is compressed.

    A file appears under its name only when it is whole: until then it is called `….part`. With `resume`, an
    interrupted export that is called again with the same file goes on where it stopped.
    """
    size = checked_size(batch)
    reach = reach or await Reach.of(store, collections, scope)
    with _open(to) as out, Trail(resume if isinstance(out, _Part) else None, reach.run("export")) as trail:
        moved = await move(store, reach, out, trail, size, progress)
        out.write(msgspec.json.encode(End(moved.resumed + moved.read)) + b"\n")
        out.publish()
        trail.clear()
    return moved


class _Stream:
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
        return self.write(b"".join([encode_record(_placed(record)) + b"\n" for record in page]))

    def write(self, spelled: bytes) -> int:
        """Write lines, and answer how long the file is now."""
        self._stream.write(printable_json(spelled.decode()).encode())  # it may be a terminal
        self._stream.flush()
        return 0

    def publish(self) -> None:
        """Give the file its name: what is written to a stream is out already."""

    def _cut(self, offset: int) -> bool:
        return offset == 0


class _Part(_Stream):
    """A file in the making, beside the one it will become."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(path.name + ".part")
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
def _open(to: Path | str | BinaryIO) -> Iterator[_Stream]:
    if not isinstance(to, Path | str):
        yield _Stream(to)
        return
    path = Path(to).resolve()  # through a symbolic link, so that the rename does not replace the link
    if path.exists() and not path.is_file():  # a pipe or a device has no place beside it for a part
        with path.open("wb") as stream:
            yield _Stream(stream)
    else:
        with closing(_Part(path)) as part:
            yield part


def _placed(record: Record) -> Record:
    # Only the default object itself is left out of JSON; an equal one would make equal stores export unequal bytes.
    if record.scope is _NOWHERE or record.scope != _NOWHERE:
        return record
    return msgspec.structs.replace(record, scope=_NOWHERE)
