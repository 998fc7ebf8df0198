"""From a store into a file or stream of JSON lines."""

import fcntl
import gzip
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from octavo.errors import ConfigError
from octavo.kernel.model import Record, Scope
from octavo.kernel.ports import Store
from octavo.kernel.text import printable_json
from octavo.transfer import lines
from octavo.transfer.copying import Count, Moved, Progress, Reach, checked_size, pour
from octavo.transfer.trail import Step, Trail
from octavo.util.file_modes import keep_mode, open_file


async def export(
    store: Store,
    to: Path | str | BinaryIO,
    *,
    collections: Sequence[str] | None = None,
    scope: Scope | None = None,
    batch: int = 1000,
    progress: Progress | None = None,
    resume: Path | str | None = None,
) -> Moved:
    """Write every record of the store as a line of JSON; a path ending in .gz is compressed.

    A file appears under its name only when it is whole: until then it is called `….part`. With `resume`, an
    interrupted export that is called again with the same file goes on where it stopped.
    """
    size = checked_size(batch)
    reach = await Reach.of(store, collections, scope)
    with _open(to) as out, Trail(resume if isinstance(out, _Part) else None, reach.run("export")) as trail:
        while True:
            count = await reach.count(store, progress)
            if await _wrote_all(store, reach, size, count, out, trail):
                out.publish()
                trail.clear()
                return count.moved()
            # Older records arrived behind the cursor while the export was interrupted: they would be missed.
            trail.clear()


async def _wrote_all(
    store: Store, reach: Reach, size: int, count: Count, to: "_Stream | _Part", trail: Trail
) -> bool:
    """Write everything from the trail's end on; False when that would leave something out."""
    if not to.begin(trail.last.offset if trail.last else 0):
        trail.clear()
        to.begin(0)
    if trail.last is None:
        to.write(lines.header())

    async def put(page: list[Record], step: Step) -> Step:
        offset = to.write(lines.to_lines(page))
        return msgspec.structs.replace(step, added=step.added + len(page), offset=offset)

    count.resumed = trail.read
    for query in reach.queries():
        begun = trail.step(query.scope.tenant, query.collection)
        ended = await pour(store, query, begun, size, put, trail, count)
        if begun.read and (await store.tally(query)).total > ended.read:
            return False
    to.write(lines.end(count.resumed + count.read))
    return True


class _Stream:
    """A stream somebody else opened and will close."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def begin(self, offset: int) -> bool:
        return offset == 0

    def write(self, spelled: bytes) -> int:
        self._stream.write(printable_json(spelled.decode()).encode())  # it may be a terminal
        self._stream.flush()
        return 0

    def publish(self) -> None:
        """Nothing: what is written to a stream is out already."""


class _Part:
    """A file in the making, beside the one it will become."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._pack: Callable[[bytes], bytes] = _gzip if path.suffix == ".gz" else bytes
        self._file = open(self._part, "ab", opener=open_file)  # noqa: SIM115 - closed by `close`
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise ConfigError(
                f"another export is writing {path}; wait for it or choose another file"
            ) from None

    def begin(self, offset: int) -> bool:
        """Cut the file back to where the trail ends; False when it does not reach that far."""
        if self._part.stat().st_size < offset:
            return False
        self._file.truncate(offset)
        return True

    def write(self, spelled: bytes) -> int:
        """Append durably and answer how long the file is now; each batch is a gzip member, so it can be cut there."""
        self._file.write(self._pack(spelled))
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def publish(self) -> None:
        keep_mode(self._part, self._path)
        self._part.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # without it, a power cut can undo the rename
        finally:
            os.close(folder)

    def close(self) -> None:
        self._file.close()


@contextmanager
def _open(to: Path | str | BinaryIO) -> Iterator[_Stream | _Part]:
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


def _gzip(spelled: bytes) -> bytes:
    return gzip.compress(spelled, compresslevel=6, mtime=0)  # without a time, equal stores give equal files
