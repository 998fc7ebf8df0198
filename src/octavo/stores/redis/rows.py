"""A record as Redis keeps it: the JSON of a Record, made and read without looking into its bodies."""

from datetime import datetime
from typing import TypeVar

import msgspec

from octavo.errors import StoreError
from octavo.kernel.codec import Sealed, decode_record
from octavo.kernel.model import Record, Scope

T = TypeVar("T")


class _Row(msgspec.Struct, kw_only=True, omit_defaults=True):
    collection: str
    id: str
    kind: str = ""
    scope: Scope = Scope()
    text: str = ""
    data: msgspec.Raw
    metadata: msgspec.Raw
    marks: tuple[str, ...] = ()
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    seq: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Row).decode


def blob(sealed: Sealed) -> str:
    """A record in stored form as the text Redis keeps."""
    return _encode(
        _Row(
            collection=sealed.collection, id=sealed.id, kind=sealed.kind, scope=sealed.scope, text=sealed.text,
            data=msgspec.Raw(sealed.data_json), metadata=msgspec.Raw(sealed.metadata_json), marks=sealed.marks,
            created_at=sealed.created_at, updated_at=sealed.updated_at, expires_at=sealed.expires_at, seq=sealed.seq,
        )
    ).decode()  # fmt: skip


def sealed(kept: str) -> Sealed:
    """The record in stored form, or StoreError when somebody else's value stands there."""
    try:
        row = _decode(kept)
        data, metadata = bytes(row.data).decode(), bytes(row.metadata).decode()
    except msgspec.DecodeError as error:
        raise _foreign(kept) from error
    place = row.scope.place
    return Sealed(
        collection=row.collection, id=row.id, kind=row.kind, scope=row.scope, place=place, text=row.text,
        data_json=data, metadata_json=metadata, marks=row.marks, created_at=row.created_at, updated_at=row.updated_at,
        expires_at=row.expires_at, seq=row.seq, rank=(row.created_at, row.seq, row.id, place),
    )  # fmt: skip


def record(kept: str) -> Record:
    """The record, or StoreError when somebody else's value stands there."""
    try:
        return decode_record(kept)
    except msgspec.DecodeError as error:
        raise _foreign(kept) from error


def sized(cut: str) -> tuple[Record, str]:
    """A record whose text and bodies a script has left out, and the size that it wrote in front."""
    size, _, kept = cut.partition(" ")
    return record(kept), size


_bodies = msgspec.msgpack.Decoder(tuple[str, list[str]])
_pages = msgspec.msgpack.Decoder(tuple[str, list[tuple[int, int, str, list[str]]]])


def bodies(packed: bytes) -> tuple[str, list[str]]:
    """A version and records as text, from a script's answer."""
    return unpacked(_bodies, packed)


def pages(packed: bytes) -> tuple[str, list[tuple[int, int, str, list[str]]]]:
    """A version and the pages of some lanes, from a script's answer."""
    return unpacked(_pages, packed)


def unpacked(decoder: msgspec.msgpack.Decoder[T], packed: bytes) -> T:
    """A script's answer, or StoreError when there is somebody else's value in it."""
    try:
        return decoder.decode(packed)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:  # not even text
        raise _foreign(packed) from error


def _foreign(kept: str | bytes) -> StoreError:
    return StoreError(f"Redis holds something that is no record of Octavo's: {kept[:60]!r}")
