"""One record as one line of JSON, under the names its collection is documented with."""

import functools
from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from octavo.kernel.codec import Sealed, seal
from octavo.kernel.model import Record, Scope
from octavo.kernel.shapes import NAMES, SHAPES
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


#: Whom a line is about, the line to keep (None when it says that the record is gone), and the record if it was read.
Entry: TypeAlias = tuple[Key, bytes | None, Sealed | None]


class BadLine(ValueError):  # noqa: N818 - never leaves the file store
    """A line that is no record: torn, mangled, or missing what makes a record."""


class Spelling:
    """How records of one collection are written and read; what was documented is always there, the rest if it says something."""

    def __init__(self, collection: str) -> None:
        self._collection = collection
        shape = SHAPES[collection]
        names = {field: shape.name(field) for field in NAMES}
        written: list[Any] = [
            ("id", str), ("agent", str | None), ("session", str | None), ("kind", str), ("created_at", datetime),
            ("data", Raw), ("metadata", Raw), *_WHO[:2], *_OPTIONAL, ("seq", int, -1),
        ]  # fmt: skip
        read: list[Any] = [
            ("id", str), ("kind", str | None, None), ("created_at", datetime | None, None),
            ("data", _Json | None, None), ("metadata", _Json | None, None), *_WHO, *_OPTIONAL,
            ("seq", int | None, None), ("removed", bool, False),
        ]  # fmt: skip
        gone: list[Any] = [
            ("removed", bool),
            ("id", str),
            ("agent", str | None),
            ("session", str | None),
            *_WHO[:2],
        ]
        named: list[Any] = [("id", str), *_WHO, ("seq", int | None, None), ("removed", bool, False)]
        self._line = msgspec.defstruct("Line", written, rename=names, omit_defaults=True)
        self._gone = msgspec.defstruct("Gone", gone, rename=names, omit_defaults=True)
        self._read = msgspec.json.Decoder(msgspec.defstruct("Read", read, rename=names)).decode
        self._named = msgspec.json.Decoder(msgspec.defstruct("Named", named, rename=names)).decode

    def line(self, sealed: Sealed) -> bytes:
        """The record as a line, newline included."""
        scope = sealed.scope
        return _encode(self._line(
            sealed.id, scope.agent, scope.session, sealed.kind, sealed.created_at, Raw(sealed.data_json),
            Raw(sealed.metadata_json),
            scope.tenant, scope.user, sealed.text, sealed.marks,
            None if sealed.updated_at == sealed.created_at else sealed.updated_at, sealed.expires_at, sealed.seq,
        )) + b"\n"  # fmt: skip

    def tombstone(self, sealed: Sealed) -> bytes:
        """The line that says a record is gone, newline included."""
        scope = sealed.scope
        return (
            _encode(self._gone(True, sealed.id, scope.agent, scope.session, scope.tenant, scope.user)) + b"\n"
        )

    def read(self, raw: bytes, position: int) -> Entry:
        """A line with the record it holds; one without a seq gets its position, which is then written down."""
        try:
            line: Any = self._read(raw)
            scope = Scope(tenant=line.tenant, user=line.user, agent=line.agent, session=line.session)
            if line.removed:
                return (line.id, scope.place), None, None
            if line.created_at is None:
                raise BadLine("no time")
            sealed = seal(Record(
                collection=self._collection, id=line.id, kind=line.kind or "", scope=scope, text=line.text,
                data=line.data or {}, metadata=line.metadata or {}, marks=line.marks, created_at=line.created_at,
                updated_at=line.updated_at, expires_at=line.expires_at,
                seq=position if line.seq is None else line.seq,
            ))  # fmt: skip
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise BadLine(str(error)) from error
        return sealed.key, raw if line.seq is not None else self.line(sealed)[:-1], sealed

    def named(self, raw: bytes, position: int) -> Entry:
        """A line without the record it holds, which is far cheaper to read."""
        try:
            line: Any = self._named(raw)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise BadLine(str(error)) from error
        if line.seq is None and not line.removed:
            return self.read(raw, position)
        scope = Scope(tenant=line.tenant, user=line.user, agent=line.agent, session=line.session)
        return (line.id, scope.place), None if line.removed else raw, None


@functools.cache
def spelling(collection: str) -> Spelling:
    """The spelling of a collection, built on first use."""
    return Spelling(collection)


class Rows:
    """What a family's files come to: the last line of each record that is still kept, and what could not be read."""

    def __init__(self, collection: str) -> None:
        self._spelling = spelling(collection)
        self.kept: dict[Key, bytes] = {}
        self.sealed: dict[Key, Sealed] = {}
        self.total = 0  # lines, dead ones included
        self.bad: list[bytes] = []
        self.ragged = False  # something would be glued to the next append, or does not load as JSON

    def add(self, data: bytes, suffix: str, *, whole: bool) -> None:
        """Count in one file, older files first; `whole` reads the records themselves, else only whom lines are about."""
        elements, ragged = split(data, suffix)
        self.ragged |= ragged
        read = self._spelling.read if whole else self._spelling.named
        for raw in elements:
            try:
                key, line, sealed = read(raw, self.total)
            except BadLine:
                self.bad.append(raw)
                continue
            self.total += 1
            self.kept.pop(key, None)
            if line is None:
                self.sealed.pop(key, None)
            else:
                self.kept[key] = line
                if sealed is not None:
                    self.sealed[key] = sealed

    def lines(self) -> list[bytes]:
        """The kept records as lines."""
        return [line + b"\n" for line in self.kept.values()]


def merged(
    collection: str, old: bytes, lines: Iterable[bytes], *, buried: bool
) -> tuple[bytes, int, list[bytes]]:
    """A JSON file with newer lines worked in, by how many lines it grew, and what of it could not be read.

    With `buried`, lines that say a record is gone are kept, since an archive may still hold the record.
    """
    read = spelling(collection).named
    before, _ = split(old, "json")
    entries: dict[Key, bytes] = {}
    bad: list[bytes] = []
    for position, raw in enumerate((*before, *lines)):
        try:
            key, line, _ = read(raw, position)
        except BadLine:
            bad.append(raw)
            continue
        entries.pop(key, None)
        if line is not None or buried:
            entries[key] = raw if line is None else line
    return joined(entries.values(), "json"), len(entries) - len(before) + len(bad), bad


def split(data: bytes, suffix: str) -> tuple[list[bytes], bool]:
    """The JSON values in a file, and whether the file must be rewritten before anything is added to it."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    if suffix == "json":
        try:
            return [bytes(element) for element in _elements(data)], False
        except (msgspec.DecodeError, RecursionError):
            # One record per line is how such a file is written, so that the lines of a damaged one can be saved.
            stripped = [line.strip().removesuffix(b",") for line in data.split(b"\n")]
            return [line for line in stripped if line not in (b"", b"[", b"]")], bool(data)
    return [line for line in data.split(b"\n") if line.strip()], bool(data) and not data.endswith(b"\n")


def joined(lines: Iterable[bytes], suffix: str) -> bytes:
    """Lines as the content of a file: as they are, or as a JSON array with one record per line."""
    if suffix == "json":
        inner = b",\n".join(b"  " + line.strip() for line in lines)
        return b"[\n" + inner + (b"\n]\n" if inner else b"]\n")
    return b"".join(lines)
