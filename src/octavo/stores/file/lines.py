"""One record as one line of JSON, under the names its collection is documented with."""

import functools
from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from octavo.kernel.codec import seal
from octavo.kernel.model import Record, Scope
from octavo.kernel.shapes import NAMES, SHAPES, StoredRecord
from octavo.stores.draft import Key

_Json: TypeAlias = dict[str, Any]
_encode = msgspec.json.Encoder().encode
_elements = msgspec.json.Decoder(list[Raw]).decode

_WHO: list[tuple[str, Any, Any]] = [
    ("tenant", str, ""), ("user", str | None, None), ("agent", str | None, None), ("session", str | None, None),
]  # fmt: skip
_OPTIONAL: list[tuple[str, Any, Any]] = [
    ("text", str, ""), ("marks", tuple[str, ...], ()), ("updated_at", datetime | None, None),
    ("expires_at", datetime | None, None),
]  # fmt: skip


class BrokenLine(ValueError):  # noqa: N818 - never leaves the file store
    """A line that is no record: torn, mangled, or missing what makes a record."""


class Spelling:
    """How records of one collection are written and read; what was documented is always there, the rest if it says something."""

    def __init__(self, collection: str) -> None:
        self._collection = collection
        shape = SHAPES[collection]
        self._names = names = {field: shape.name(field) for field in NAMES}
        written: list[Any] = [
            ("id", str), ("agent", str | None), ("session", str | None), ("kind", str), ("created_at", datetime),
            ("data", Raw), ("metadata", Raw), *_WHO[:2], *_OPTIONAL, ("seq", int, -1),
        ]  # fmt: skip
        read: list[Any] = [
            ("id", str), ("kind", str | None, None), ("created_at", datetime | None, None),
            ("data", _Json | None, None), ("metadata", _Json | None, None), *_WHO, *_OPTIONAL,
            ("seq", int | None, None), ("removed", bool, False),
        ]  # fmt: skip
        self._line = msgspec.defstruct("Line", written, rename=names, omit_defaults=True)
        self._read = msgspec.json.Decoder(msgspec.defstruct("Read", read, rename=names)).decode

    def line(self, sealed: StoredRecord, *, removed: bool = False) -> bytes:
        """The record as a line, newline included, or the line that says it is gone."""
        scope = sealed.scope
        if removed:
            whose = {name: value for name, value in msgspec.structs.asdict(scope).items() if value}
            gone = {"removed": True, "id": sealed.id, **whose}
            return _encode({self._names.get(name, name): value for name, value in gone.items()}) + b"\n"
        return _encode(self._line(
            sealed.id, scope.agent, scope.session, sealed.kind, sealed.created_at, Raw(sealed.data_json),
            Raw(sealed.metadata_json),
            scope.tenant, scope.user, sealed.text, sealed.marks,
            None if sealed.updated_at == sealed.created_at else sealed.updated_at, sealed.expires_at, sealed.seq,
        )) + b"\n"  # fmt: skip

    def read(self, raw: bytes, position: int) -> tuple[Key, bytes, StoredRecord | None]:
        """Whose line it is, the line to keep, and the record it holds, None when it says that the record is gone.

        A record without a seq gets its position, which is then written down.
        """
        try:
            line: Any = self._read(raw)
            scope = Scope(tenant=line.tenant, user=line.user, agent=line.agent, session=line.session)
            if line.removed:
                return (line.id, scope.key), raw, None
            if line.created_at is None:
                raise BrokenLine("no time")
            sealed = seal(Record(
                collection=self._collection, id=line.id, kind=line.kind or "", scope=scope, text=line.text,
                data=line.data or {}, metadata=line.metadata or {}, marks=line.marks, created_at=line.created_at,
                updated_at=line.updated_at, expires_at=line.expires_at,
                seq=position if line.seq is None else line.seq,
            ))  # fmt: skip
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise BrokenLine(str(error)) from error
        return sealed.key, raw if line.seq is not None else self.line(sealed)[:-1], sealed


@functools.cache
def spelling(collection: str) -> Spelling:
    """The spelling of a collection, built on first use."""
    return Spelling(collection)


class FamilyLines:
    """What the files of a family come to: the last line of each record, and what could not be read."""

    def __init__(self, collection: str) -> None:
        self._spelling = spelling(collection)
        # The file, the line and the record it holds.
        self._last: dict[Key, tuple[str, bytes, StoredRecord | None]] = {}
        self.total = 0  # lines, dead ones included
        self.bad: list[bytes] = []

    def take(self, name: str, lines: Iterable[bytes]) -> None:
        """Count in the lines of one file, older files first."""
        for raw in lines:
            try:
                key, line, sealed = self._spelling.read(raw, self.total)
            except BrokenLine:
                self.bad.append(raw)
                continue
            self.total += 1
            self._last.pop(key, None)  # so that lines stay in the order in which they were written
            self._last[key] = (name, line, sealed)

    @property
    def records(self) -> list[StoredRecord]:
        """The records that are not removed."""
        return [sealed for _, _, sealed in self._last.values() if sealed is not None]

    def live_lines(self, name: str, *, tombstones: bool = False) -> list[bytes]:
        """The lines of one of the files without those that say nothing any more."""
        lines = [(line, sealed) for file, line, sealed in self._last.values() if file == name]
        return [line.strip() for line, sealed in lines if tombstones or sealed is not None]


def join_lines(lines: list[bytes], name: str) -> bytes:
    """Lines as the content of a file: one below the other, or as a JSON array with one record per line."""
    if name.endswith(".json"):
        return b"".join(
            [b"[\n", b",\n".join([b"  " + line for line in lines]), b"\n" if lines else b"", b"]\n"]
        )
    return b"".join([line + b"\n" for line in lines])


def split(data: bytes, name: str) -> tuple[list[bytes], bool]:
    """The JSON values in a file, and whether the file must be rewritten before anything is added to it."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    if name.endswith(".json"):
        try:
            return [bytes(element) for element in _elements(data)], False
        except (msgspec.DecodeError, RecursionError):
            stripped = [line.strip().removesuffix(b",") for line in data.split(b"\n")]
            return [line for line in stripped if line not in (b"", b"[", b"]")], bool(data)
    return [line for line in data.split(b"\n") if line.strip()], bool(data) and not data.endswith(b"\n")
