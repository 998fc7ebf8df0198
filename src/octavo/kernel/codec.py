"""The edge: every record is checked and brought into stored form here, once, with one verdict for all backends."""

import functools
import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import UNSET

from octavo.errors import InvalidQuery, InvalidRecord
from octavo.kernel.model import (
    NAMES_HELD,
    Add,
    Change,
    Cursor,
    Op,
    Query,
    Record,
    Remove,
    Scope,
    check_count,
    plain_text,
    to_utc,
)
from octavo.kernel.shapes import SHAPES, StoredRecord

MAX_NAME_BYTES = 255  # ids, kinds, marks, users, agents, sessions
MAX_TENANT_BYTES = 64  # stands in front of other names in MySQL indexes, which end at 3072 bytes
MAX_DEPTH = 64
MAX_RECORD_BYTES = 16 * 1024 * 1024
EARLIEST = datetime(1000, 1, 1, tzinfo=UTC)  # where MySQL's DATETIME begins
MAX_SEQ = 2**53


def _spell_other(value: Any) -> str:
    if isinstance(value, str):
        return plain_text(value)
    raise TypeError(f"{value!r:.100} is a {type(value).__name__}; give a text, a number, a list or a dict")


# A Decimal is written as a string: as a number it could be NaN or 1.10, which would not come back, or not as spelled.
_encode = msgspec.json.Encoder(enc_hook=_spell_other).encode
_LISTS = (list, tuple, set, frozenset)  # what is written as a list
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class CheckedAdd(msgspec.Struct, frozen=True, gc=False):
    """An Add whose records have passed the edge."""

    records: list[StoredRecord]
    expect: int | None = None


Prepared: TypeAlias = CheckedAdd | Change | Remove


def prepare(ops: Iterable[Op]) -> list[Prepared]:
    """Check a batch of writes before any of it is applied; one bad record refuses the batch and is named."""
    prepared: list[Prepared] = []
    for op in ops:
        if op.expect is not None:
            check_count(op.expect, "expect must be a number of records from 0 on, or None")
        if isinstance(op, Add):
            prepared.append(CheckedAdd(list(map(seal, op.records)), op.expect))
        elif isinstance(op, Change):
            prepared.append(_check_change(op))
        else:
            prepared.append(Remove(_check_write_query(op.query), op.expect))
    return prepared


def _check_write_query(query: Query) -> Query:
    """Check the query of a write; one that no record can match becomes empty, so that no driver sees its words."""
    query = check_query(query)
    return query if is_answerable(query) else Query(collection=query.collection, limit=0)


def seal(record: Record) -> StoredRecord:
    """Check a record and bring it into stored form, or raise InvalidRecord saying what is wrong with which one."""
    try:
        if record.collection not in _collections:
            raise InvalidRecord(f"unknown collection {record.collection!r}; known: {', '.join(SHAPES)}")
        if not record.id:
            raise InvalidRecord("id is empty")
        id_, kind = plain_text(record.id), plain_text(record.kind)
        check_name("id", id_)
        if kind not in _kinds:
            check_name("kind", kind)
            if len(_kinds) < 1000:  # kinds are few; whoever makes them up pays for the check each time
                _kinds.add(kind)
        scope, scope_key = _check_scope(record.scope)
        text = plain_text(record.text)
        size = _check_text("text", text) if text else 0
        data_json, _ = _encode_body("data", record.data)
        metadata_json, facts = "{}", 0
        if record.metadata:
            metadata_json, flat = _encode_body("metadata", record.metadata)
            facts = len(record.metadata) if flat else -1
        size += len(data_json) + len(metadata_json)
        # Characters are at most four bytes, so only a text that might be too long is measured exactly.
        if size * 4 > MAX_RECORD_BYTES:
            _check_size(text, data_json, metadata_json)
        marks = tuple(dict.fromkeys(map(plain_text, record.marks))) if record.marks else ()
        for mark in marks:
            check_name("mark", mark)
        if type(record.seq) is not int or not 0 <= record.seq < MAX_SEQ:
            raise InvalidRecord(f"seq must be 0 to 2**53 - 1; got {record.seq}")
        created_at = record.created_at
        if created_at.tzinfo is not UTC or created_at < EARLIEST:
            created_at = _check_time("created_at", created_at)
        updated_at = created_at if record.updated_at is None else _check_time("updated_at", record.updated_at)
        expires_at = None if record.expires_at is None else _check_time("expires_at", record.expires_at)
    except InvalidRecord as error:
        raise InvalidRecord(f"record {_shorten(record.id)} of {record.collection!r}: {error}") from error
    except (TypeError, AttributeError) as error:
        wrong = _name_no_text(record) or error
        raise InvalidRecord(f"record {_shorten(record.id)} of {record.collection!r}: {wrong}") from error
    return StoredRecord(
        record.collection, id_, kind, scope, scope_key, text, data_json, metadata_json, marks,
        created_at, updated_at, expires_at, record.seq, (created_at, record.seq, id_, scope_key),
        facts,
    )  # fmt: skip


def _name_no_text(record: Record) -> str:
    """What should be a text of the record and is none."""
    scope = {name: getattr(record.scope, name, None) or "" for name in ("tenant", "user", "agent", "session")}
    texts = {"id": record.id, "kind": record.kind, **scope, "text": record.text}
    wrong = (
        f"{name} must be a text; got {value!r}" for name, value in texts.items() if not isinstance(value, str)
    )
    return next(wrong, "")[:200]


def _shorten(value: Any) -> str:
    return repr(value[:80] if isinstance(value, str) else value)


def check_whose(named: bool, everyone: bool, give: str) -> None:
    """InvalidQuery for a search that belongs to nobody, or to somebody and to everyone."""
    if named is bool(everyone):
        both = ", not both" if named else ""
        raise InvalidQuery(f"{give}, or everyone=True{both}")


def check_query(query: Query) -> Query:
    """Check a query; return it with its times in UTC and without names that no record can have. Raises InvalidQuery."""
    if query.collection not in SHAPES:
        raise InvalidQuery(f"unknown collection {query.collection!r}; known: {', '.join(SHAPES)}")
    if query.after is not None:
        cursor = query.after
        if not isinstance(cursor, Cursor):
            raise InvalidQuery(f"after must be the Cursor of a record or a page; got {_shorten(cursor)}")
        if not (is_storable(cursor.id + cursor.scope_key) and -MAX_SEQ < cursor.seq < MAX_SEQ):
            raise InvalidQuery(f"after is no position between records: {cursor!r}")
    return _drop_impossible_names(query.checked())


def _drop_impossible_names(query: Query) -> Query:
    """Take away the names that no record can have: `ids=("a", NUL)` still finds "a"."""
    if query.ids is None and query.kinds is None and query.marks is None and not query.without:
        return query
    lists = {name: getattr(query, name) for name in ("ids", "kinds", "marks", "without")}
    names = [name for listed in lists.values() if listed for name in listed]
    if not names or is_storable(*names):
        return query
    kept = {key: tuple(n for n in listed if is_storable(n)) for key, listed in lists.items() if listed}
    return msgspec.structs.replace(query, **kept)


def is_answerable(query: Query) -> bool:
    """Whether any record could match: no record holds NUL, lone surrogates or a scope that is too long."""
    if query.limit == 0 or () in (query.ids, query.kinds, query.marks) or not _is_storable_scope(query.scope):
        return False
    if query.where:
        words = [*query.where, *(value for value in query.where.values() if isinstance(value, str))]
        if any(isinstance(value, float) and not math.isfinite(value) for value in query.where.values()):
            return False
        if not is_storable(*words):
            return False
    return not query.text or is_storable(query.text)


@functools.lru_cache(maxsize=NAMES_HELD)
def _is_storable_scope(scope: Scope) -> bool:
    names = (scope.tenant, scope.user, scope.agent, scope.session)
    return is_storable(*(name for name in names if name))


def is_storable(*texts: str) -> bool:
    """Whether stores keep these: no driver sees NUL, or half a surrogate pair."""
    try:
        return all(b"\0" not in text.encode() for text in texts)
    except UnicodeEncodeError:
        return False
    except AttributeError:
        wrong = next(text for text in texts if not isinstance(text, str))
        raise InvalidQuery(f"a name in a query is a string; got {_shorten(wrong)}") from None


def _check_change(change: Change) -> Change:
    new: dict[str, Any] = {
        "query": _check_write_query(change.query),
        "updated_at": _check_time("updated_at", change.updated_at),
    }
    if change.kind is not UNSET:
        check_name("kind", change.kind)
        new["kind"] = plain_text(change.kind)
    if change.text is not UNSET:
        _check_text("text", change.text)
        new["text"] = plain_text(change.text)
    for name in ("data", "merge", "metadata"):
        value = getattr(change, name)
        if value is not UNSET:
            new[name] = _decode(_encode_body(name, value)[0])
    if isinstance(change.expires_at, datetime):
        new["expires_at"] = _check_time("expires_at", change.expires_at)
    new["mark"] = tuple(map(plain_text, change.mark))
    for mark in new["mark"]:
        check_name("mark", mark)
    if change.unmark:
        new["unmark"] = tuple(mark for mark in change.unmark if is_storable(mark))
    return msgspec.structs.replace(change, **new)


_collections = frozenset(SHAPES)
_kinds: set[str] = set()


@functools.lru_cache(maxsize=NAMES_HELD)
def _check_scope(scope: Scope) -> tuple[Scope, str]:
    """Check a scope; return it with "" taken as None, and its key. Cached, since scopes repeat."""
    check_name("tenant", scope.tenant, MAX_TENANT_BYTES)
    for what, part in (("user", scope.user), ("agent", scope.agent), ("session", scope.session)):
        if part is not None:
            check_name(what, part)
    taken = Scope(
        tenant=scope.tenant, user=scope.user or None, agent=scope.agent or None, session=scope.session or None
    )
    return taken, taken.key


def is_name(value: str) -> bool:
    """Whether this can be the name of a user, an agent or a session: text that every store would take, not blank."""
    try:
        check_name("name", value)
    except InvalidRecord:
        return False
    return value.strip() != ""


def check_name(what: str, value: str, most: int = MAX_NAME_BYTES) -> None:
    """InvalidRecord if no store keeps such a name."""
    if len(value) < 64 and value.isascii() and "\0" not in value:  # nearly every name there is
        return
    _check_text(what, value)
    if len(value.encode()) > most:
        raise InvalidRecord(
            f"{what} is {len(value.encode())} bytes long, at most {most} are kept: {value[:40]!r}…"
        )


def _check_text(what: str, text: str) -> int:
    if "\0" in text:
        raise InvalidRecord(f"{what} holds a NUL character: {text[:40]!r}")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidRecord(
                f"{what} holds half a surrogate pair at {error.start}: {text[:40]!r}"
            ) from None
    return len(text)


def _check_time(what: str, at: datetime) -> datetime:
    try:
        moved = to_utc(at)
    except (OverflowError, ValueError):
        raise InvalidRecord(f"{what} is outside the years 1000 to 9999 in UTC: {at!r}") from None
    if moved < EARLIEST:
        raise InvalidRecord(f"{what} is outside the years 1000 to 9999 in UTC: {at!r}")
    return moved


def _encode_body(what: str, value: Any) -> tuple[str, bool]:
    """Encode a body as JSON, or refuse what some backend would refuse or alter; also return whether it is flat."""
    # Before it is written out: a few lists that stand in each other many times may be more than any memory holds.
    if not (flat := _is_flat(value)):
        _weigh(what, value, 1, {})
    try:
        spelled = _encode(value)
    except UnicodeEncodeError:
        raise InvalidRecord(f"{what} holds half a surrogate pair") from None
    except (OverflowError, RecursionError, TypeError, ValueError) as error:
        raise InvalidRecord(f"{what} cannot be written as JSON: {error}") from None
    if spelled[:1] != b"{":
        raise InvalidRecord(f"{what} must be a dict; got {type(value).__name__}")
    return spelled.decode(), flat


def _is_flat(value: Any) -> bool:
    """Whether this is a dict of plain strings and whole numbers, in which nothing can be wrong; most bodies are."""
    if type(value) is not dict:
        return False
    size = 0
    for name, inner in value.items():
        kind = type(inner)
        if kind is str:
            if "\0" in inner:
                return False
            size += len(inner)
        elif kind is int:
            if inner.bit_length() > 63:
                return False
        elif kind is not bool:
            return False
        if type(name) is not str or "\0" in name:
            return False
    return size < MAX_RECORD_BYTES


def _weigh(what: str, value: Any, depth: int, seen: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """How many bytes of JSON a list, a dict or an object is at least, and how many levels it has; or its refusal.

    A value that occurs several times is looked at once.
    """
    if (known := seen.get(id(value))) is not None:
        if depth + known[1] > MAX_DEPTH + 1:
            raise InvalidRecord(f"{what} is nested deeper than {MAX_DEPTH} levels")
        return known
    if depth > MAX_DEPTH:
        raise InvalidRecord(f"{what} is nested deeper than {MAX_DEPTH} levels")
    size, levels = 2, 1
    for one in _child_values(value):
        kind = type(one)
        if kind is str or issubclass(kind, str):
            if "\0" in one:
                raise InvalidRecord(f"{what} holds a NUL character")
            size += len(one) + 3
        elif kind is int:
            if one.bit_length() > 63 and not -(2**63) <= one < 2**64:
                # A number of thousands of digits is one that Python itself refuses to write.
                said = one if one.bit_length() < 1000 else f"a number of {one.bit_length()} bits"
                raise InvalidRecord(f"{what} holds {said}, which does not fit 64 bits")
            size += 2
        elif kind is float:
            if one - one:  # only of NaN and infinity is that anything; JSON would make null of them
                raise InvalidRecord(f"{what} holds {one}, which JSON cannot say")
            size += 2
        elif kind is bool or one is None:
            size += 5
        else:
            weight = _weigh(what, one, depth + 1, seen)
            size += weight[0]
            if weight[1] >= levels:
                levels = weight[1] + 1
    if size > MAX_RECORD_BYTES + 1:  # there is no comma after the last one
        raise InvalidRecord(f"{what} would be more than the {MAX_RECORD_BYTES} a record may have")
    seen[id(value)] = size, levels
    return size, levels


def _child_values(value: Any) -> Iterable[Any]:
    """The values that are written out with this one; none for a time or whatever else is written as one text."""
    kind = type(value)
    if kind is dict or issubclass(kind, dict):
        return [*value, *value.values()]
    if kind is list or issubclass(kind, _LISTS):
        return cast("Iterable[Any]", value)
    fields = getattr(value, "__struct_fields__", None) or getattr(value, "__dataclass_fields__", None)
    if fields is None:
        fields = [field.name for field in getattr(type(value), "__attrs_attrs__", ())]
    return [getattr(value, name, None) for name in fields]


def _check_size(*parts: str) -> None:
    size = sum(len(part.encode()) for part in parts)
    if size > MAX_RECORD_BYTES:
        raise InvalidRecord(f"{size} bytes are more than the {MAX_RECORD_BYTES} a record may have")


def encode_ops(ops: Sequence[Op]) -> bytes:
    """Writes as JSON."""
    return _encode(ops)


decode_record = msgspec.json.Decoder(Record).decode
encode_record = _encode
