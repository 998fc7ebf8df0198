"""The lines of an export: a header, one record per line, and an end that says how many there were."""

from datetime import datetime
from typing import TypeAlias

import msgspec

from octavo.errors import ConfigError
from octavo.kernel.codec import MAX_RECORD_BYTES, encode_record
from octavo.kernel.model import Record, Scope

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


Line: TypeAlias = Header | End | Record

_NOWHERE = Record(collection="").scope

_encode = msgspec.json.Encoder().encode
_decode_header = msgspec.json.Decoder(Header).decode
_decode_end = msgspec.json.Decoder(End).decode
_decode_record = msgspec.json.Decoder(_Line).decode


def header() -> bytes:
    """The first line."""
    return _encode(Header(FORMAT)) + b"\n"


def end(records: int) -> bytes:
    """The last line."""
    return _encode(End(records)) + b"\n"


def to_lines(records: list[Record]) -> bytes:
    """Records as lines."""
    return b"".join([encode_record(_placed(record)) + b"\n" for record in records])


def _placed(record: Record) -> Record:
    # Only the default object itself is left out of JSON; an equal one would make equal stores export unequal bytes.
    if record.scope is _NOWHERE or record.scope != _NOWHERE:
        return record
    return msgspec.structs.replace(record, scope=_NOWHERE)


def parse_line(line: bytes) -> Line:
    """What a line says, or ValueError with the reason why it says nothing."""
    try:
        if line.startswith(b'{"octavo_export'):
            if line.startswith(b'{"octavo_export_end"'):
                return _decode_end(line)
            found = _decode_header(line)
            if found.octavo_export > FORMAT:
                raise ConfigError(
                    f"the export has format {found.octavo_export}, this Octavo reads up to {FORMAT}; "
                    "import it with a newer one"
                )
            return found
        return _decode_record(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
