"""The trail of a move: one line per acknowledged batch, so that an interrupted move goes on where it stopped.

The trail is only a shortcut. Losing it costs time, never a record: `Add` leaves alone what is already kept.
"""

from datetime import timedelta
from io import FileIO
from pathlib import Path
from typing import Self

import msgspec

from octavo.errors import ConfigError
from octavo.kernel.model import START, Cursor, Query, Scope
from octavo.kernel.ports import Store
from octavo.util.file_modes import make_folder, open_file


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a move has come: up to and including the record at the cursor, everything is in the target."""

    tenant: str = ""
    collection: str = ""
    cursor: Cursor = START
    read: int = 0
    added: int = 0
    offset: int = 0  # bytes of the file written or read so far
    line: int = 0
    crc: int = 0  # of those bytes, when they were read
    owed: int | None = None  # records since the header of the export being read; None outside one

    async def holds(self, target: Store) -> bool:
        """Whether the target still has the record this step ends with: a store may have been emptied since."""
        if self.cursor.at is None:
            return True
        until = self.cursor.at + timedelta(microseconds=1)
        query = Query(
            collection=self.collection,
            ids=(self.cursor.id,),
            scope=Scope(tenant=self.tenant),
            since=self.cursor.at,
            until=until,
        )
        return any(record.scope.place == self.cursor.place for record in await target.find(query))


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    octavo_resume: int
    run: str


_encode = msgspec.json.Encoder().encode
_decode_head = msgspec.json.Decoder(_Head).decode
_decode_step = msgspec.json.Decoder(Step).decode


class Trail:
    """The steps of one move, kept in a file when a path is given; `run` says which move, so that no other takes it up."""

    def __init__(self, path: Path | str | None, run: str) -> None:
        self._path = None if path is None else Path(path)
        self._run = run
        self._head = _encode(_Head(octavo_resume=1, run=run)) + b"\n"
        self._file: FileIO | None = None
        self._steps: dict[tuple[str, str], Step] = {}
        self.last: Step | None = None
        self._whole_bytes = self._load()

    def _load(self) -> int:
        """Take up the steps of an interrupted run; answer how many bytes of the file are whole lines."""
        if self._path is None or not self._path.exists():
            return 0
        found = self._path.read_bytes()
        # A kill can tear the last line: that batch is simply moved again.
        whole = found[: found.rfind(b"\n") + 1]
        if self._head.startswith(found):  # nothing was moved yet
            return 0
        first, *others = whole.splitlines() or [found]
        try:
            head = _decode_head(first)
            steps = [_decode_step(line) for line in others]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{self._path} is not the state of a move ({error}); name another file"
            ) from None
        if head.octavo_resume != 1 or head.run != self._run:
            raise ConfigError(f"{self._path} is the state of another move; remove it or name another file")
        for step in steps:
            self._steps[step.tenant, step.collection] = self.last = step
        return len(whole)

    @property
    def read(self) -> int:
        """How many records the interrupted run had moved."""
        return sum(step.read for step in self._steps.values())

    def step(self, tenant: str, collection: str) -> Step:
        """Where the move of one tenant's collection stands."""
        return self._steps.get((tenant, collection)) or Step(tenant=tenant, collection=collection)

    def mark(self, step: Step) -> None:
        """Write down that everything up to this step is acknowledged."""
        self.last = step
        if self._path is None:
            return
        if self._file is None:
            make_folder(self._path.parent)
            self._file = FileIO(self._path, "ab", opener=open_file)
            self._file.truncate(self._whole_bytes)
            if not self._whole_bytes:
                self._file.write(self._head)
        self._file.write(_encode(step) + b"\n")

    def clear(self) -> None:
        """Forget every step: the move starts from the beginning, or has come to its end."""
        self.close()
        self._steps.clear()
        self.last = None
        self._whole_bytes = 0
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._file is not None:
            self._whole_bytes = self._file.tell()
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
