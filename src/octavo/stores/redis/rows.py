"""What travels to Redis and back: a record as JSON, and a list of texts as two texts."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from octavo.errors import StoreError
from octavo.kernel.codec import StoredRecord, decode_record
from octavo.kernel.model import Record, Scope


class _Row(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The JSON of a Record, made and read without looking into its bodies.

    The text is always there, and behind it stands only what a head has not: the script READ cuts it off there.
    """

    collection: str
    id: str
    kind: str = ""
    scope: Scope = Scope()
    marks: tuple[str, ...] = ()
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    seq: int
    text: str
    data: msgspec.Raw
    metadata: msgspec.Raw


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Row).decode


def encode(sealed: StoredRecord) -> bytes:
    """A record in stored form as the JSON Redis keeps."""
    return _encode(
        _Row(
            collection=sealed.collection, id=sealed.id, kind=sealed.kind, scope=sealed.scope, marks=sealed.marks,
            created_at=sealed.created_at, updated_at=sealed.updated_at, expires_at=sealed.expires_at, seq=sealed.seq,
            text=sealed.text, data=msgspec.Raw(sealed.data_json), metadata=msgspec.Raw(sealed.metadata_json),
        )
    )  # fmt: skip


def decode_sealed(body: bytes) -> StoredRecord:
    """The record in stored form, or StoreError when somebody else's value stands there."""
    try:
        row = _decode(body)
        data, metadata = bytes(row.data).decode(), bytes(row.metadata).decode()
    except msgspec.DecodeError as error:
        raise _foreign(body) from error
    place = row.scope.place
    return StoredRecord(
        collection=row.collection, id=row.id, kind=row.kind, scope=row.scope, place=place, text=row.text,
        data_json=data, metadata_json=metadata, marks=row.marks, created_at=row.created_at, updated_at=row.updated_at,
        expires_at=row.expires_at, seq=row.seq, rank=(row.created_at, row.seq, row.id, place),
    )  # fmt: skip


def decode(body: bytes) -> Record:
    """The record, or StoreError when somebody else's value stands there."""
    try:
        return decode_record(body)
    except msgspec.DecodeError as error:
        raise _foreign(body) from error


def _foreign(body: bytes) -> StoreError:
    return StoreError(f"Redis holds something that is no record of Octavo's: {body[:60]!r}")


def pack(texts: Sequence[bytes]) -> tuple[bytes, bytes]:
    """A list of texts as the scripts take it: their lengths, and all of them joined."""
    return " ".join([str(len(text)) for text in texts]).encode(), b"".join(texts)


def unpack(answer: Sequence[bytes]) -> list[bytes]:
    """A list of texts as the scripts answer it."""
    lengths, joined = answer
    texts, start = [], 0
    for length in map(int, lengths.split()):
        texts.append(joined[start : start + length])
        start += length
    return texts
