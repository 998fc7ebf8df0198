"""What the index of terms keeps of a record, as text, and read back."""

import sys
from array import array
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from octavo.kernel.codec import Sealed
from octavo.kernel.model import Record, Scope
from octavo.stores.redis.layout import micros, moment

_NUMBER = 20  # bits of a count, in front of which the record's number stands
MOST_COUNTED = 2**_NUMBER - 1
_ID = 36  # where the id begins, or the time it ends at

_encode = msgspec.json.Encoder().encode
_scope = msgspec.json.Decoder(tuple[str | None, str | None, str | None]).decode
_facts = msgspec.json.Decoder(tuple[str, tuple[str, ...], dict[str, Any]]).decode


class Noted(NamedTuple):
    """A record as the index knows it."""

    order: str  # time and seq as in a member, so that it sorts alike
    id: str
    length: int
    ends_at: datetime | None

    @property
    def created_at(self) -> datetime:
        return moment(self.order)

    @property
    def seq(self) -> int:
        return int(self.order[15:], 16)


def note(sealed: Sealed, length: int) -> str:
    """Time and seq as in a member, length, when it ends, id."""
    ends = "-" if sealed.expires_at is None else f"+{micros(sealed.expires_at):015x}"
    return f"{micros(sealed.created_at):015x}{sealed.seq:014x}{length:06x}{ends}{sealed.id}"


def noted(note: str) -> Noted:
    """What `note` wrote."""
    ends_at = None if note[35] == "-" else moment(note[_ID : _ID + 15])
    return Noted(note[:29], note_id(note), int(note[29:35], 16), ends_at)


def note_id(note: str) -> str:
    """The id in a note."""
    return note[_ID:] if note[35] == "-" else note[_ID + 15 :]


def facts(sealed: Sealed) -> str:
    """What filters ask about and a note does not say."""
    return _encode((sealed.kind, sealed.marks, msgspec.Raw(sealed.metadata_json))).decode()


def known(collection: str, scope: Scope, note: Noted, facts: str | None) -> Record:
    """As much of a record as a filter without text looks at."""
    kind, marks, metadata = ("", (), {}) if facts is None else _facts(facts)
    return Record(
        collection=collection, id=note.id, kind=kind, scope=scope, metadata=metadata, marks=marks,
        created_at=note.created_at, expires_at=note.ends_at, seq=note.seq,
    )  # fmt: skip


def scope_text(scope: Scope) -> str:
    """A scope without its tenant."""
    return _encode((scope.user, scope.agent, scope.session)).decode()


def scope_of(text: str, tenant: str) -> Scope:
    """What `scope_text` wrote."""
    user, agent, session = _scope(text)
    return Scope(tenant=tenant, user=user, agent=agent, session=session)


def postings(packed: bytes) -> dict[int, int]:
    """How often the records of a block hold a term, by their numbers."""
    numbers = array("I", packed)
    if sys.byteorder == "big":
        numbers.byteswap()
    return {number >> _NUMBER: number & MOST_COUNTED for number in numbers}


def numbers(packed: bytes) -> set[int]:
    """The numbers in a list of numbers."""
    found = array("H", packed)
    if sys.byteorder == "big":
        found.byteswap()
    return {*found}


class Kept(msgspec.Struct):
    """What a block holds of its living records, by their numbers."""

    notes: dict[int, str]
    facts: dict[int, str]
    counts: dict[int, dict[str, int]]


def kept(fields: dict[bytes, bytes]) -> Kept:
    """A block, read whole."""
    block = Kept({}, {}, {})
    dead = numbers(fields.get(b"\0x", b""))
    for field, value in fields.items():
        if field[:2] == b"\0f" and int(field[2:]) not in dead:
            block.facts[int(field[2:])] = value.decode()
        elif field[:1] == b"\0" and field[1:].isdigit() and int(field[1:]) not in dead:
            block.notes[int(field[1:])] = value.decode()
        elif field[:1] != b"\0":
            term = field.decode()
            for number, count in postings(value).items():
                if number not in dead:
                    block.counts.setdefault(number, {})[term] = count
    return block
