"""Where things are in Redis: the names of keys, members that sort as records do, and a record as JSON.

Per tenant and collection, all behind one hash tag, so that a cluster keeps them on one node and a script may use them:

    octavo:{tenant}:messages:body:<key>          hash: id → the record as JSON
    octavo:{tenant}:messages:terms:<key>         hash: which records hold a term, see scripts
    octavo:{tenant}:messages:marks:<key>         sorted set: mark, then order
    octavo:{tenant}:messages:order:scope:<key>   sorted set: the records of the scope in order
    octavo:{tenant}:messages:kinds:scope:<key>   hash: kind → how many of them
    octavo:{tenant}:messages:order:user:<name>   the same two for what several scopes share:
    octavo:{tenant}:messages:kinds:user:<name>   tenant, user, agent and session;
    octavo:{tenant}:messages:scopes:user:<name>  sorted set: the keys of the scopes that have records there
    octavo:{tenant}:messages:names               sorted set: id, then scope key
    octavo:{tenant}:messages:parts               sorted set: `user:<name>`, `agent:<name>` and `session:<name>` of all
                                                 that have an order
    octavo:{tenant}:messages:ends                sorted set: when a record ends, then order
    octavo:tenants                               set: the tenants that have written

`<key>` is the key of one exact scope, `Scope.key`. Scores are all 0, so Redis compares members byte by byte.
"""

import functools
from datetime import UTC, datetime, timedelta

import msgspec

from octavo.errors import ConfigError, StoreError
from octavo.kernel.codec import decode_record
from octavo.kernel.model import NAMES_HELD, Query, Rank, Record, Scope
from octavo.kernel.shapes import StoredRecord

ORDER_WIDTH = 29  # of time and seq, which stand in front of the id in a member
TIME_WIDTH = 15
_PARTS = ("session", "user", "agent")
_YEAR_ONE = datetime(1, 1, 1, tzinfo=UTC)
_NUL = b"\0"


class ReadPlan(msgspec.Struct, frozen=True):
    """What a query has to read: a sorted set, what stands in front of its members, and the counter beside it."""

    base: bytes
    order: bytes
    mark: bytes  # with NUL, if this is the set of marks
    kinds: bytes
    scopes: bytes  # the sorted set of the keys of the scopes that have records there
    alone: bool  # whether the set holds nothing but what the scope covers


class KeyLayout:
    """Names every key of a store from its prefix."""

    def __init__(self, prefix: str) -> None:
        if "\0" in prefix or prefix[prefix.find("{") :].startswith("{}"):
            raise ConfigError(f"a Redis key prefix holds neither NUL nor an empty hash tag; got {prefix!r}")
        self._front = f"{prefix}:" if prefix else ""
        self.tenants = f"{self._front}tenants".encode()
        self.keys = functools.lru_cache(maxsize=NAMES_HELD)(self._keys)

    @property
    def any_terms(self) -> str:
        """The pattern of the keys that hold indexes of terms."""
        return "".join(f"\\{c}" if c in "*?[]\\^" else c for c in self._front) + "{*}:*:terms:*"

    def base(self, collection: str, tenant: str) -> bytes:
        """What every key of a tenant's collection begins with."""
        return f"{self._front}{{{Scope(tenant=tenant).key}}}:{collection}:".encode()

    def _keys(self, collection: str, scope: Scope) -> tuple[tuple[bytes, ...], ...]:
        """The keys of a record of this scope, in the order that the script WRITE takes them in: its own, then what it shares."""
        base, scope_key = self.base(collection, scope.tenant), scope.key.encode()
        own = (b"marks:", b"body:", b"terms:", b"order:scope:", b"kinds:scope:")
        names = [b"tenant", *(_part(part, value) for part in _PARTS if (value := getattr(scope, part)))]
        shared = [
            tuple([base + what + name for what in (b"order:", b"kinds:", b"scopes:")]) for name in names
        ]
        return (
            tuple([base + what + scope_key for what in own]),
            (base + b"names", base + b"ends", base + b"parts"),
            *shared,
        )

    def plan_read(self, query: Query) -> ReadPlan:
        """The narrowest sorted set that holds all a query can find."""
        scope = query.scope
        base = self.base(query.collection, scope.tenant)
        if scope.exact:
            scope_key = scope.key.encode()
            order, mark = base + b"order:scope:" + scope_key, b""
            if query.marks is not None and len(query.marks) == 1:
                order, mark = base + b"marks:" + scope_key, query.marks[0].encode() + _NUL
            scopes = base + b"scopes:tenant"
            return ReadPlan(base, order, mark, base + b"kinds:scope:" + scope_key, scopes, alone=True)
        named = [(part, value) for part in _PARTS if (value := getattr(scope, part))]
        asked = sum(getattr(scope, part) is not None for part in _PARTS)
        name = _part(*named[0]) if named else b"tenant"
        alone = asked == len(named) <= 1
        order, kinds, scopes = (base + what + name for what in (b"order:", b"kinds:", b"scopes:"))
        return ReadPlan(base, order, b"", kinds, scopes, alone=alone)


def _part(part: str, value: str) -> bytes:
    return f"{part}:{value}".encode()


def member(rank: Rank) -> bytes:
    """A record's position in every order: bytes that sort as ranks do, since UTF-8 sorts as code points do.

    No id holds NUL, which therefore ends it below every longer id. The scripts cut it by the same lengths: 29 characters of
    time and seq, the id, NUL, 20 of scope key.
    """
    at, seq, name, scope_key = rank
    return f"{to_micros(at):015x}{seq:014x}{name}\0{scope_key}".encode()


def end(at: datetime | None) -> str:
    """What stands in front of a member among the ends; nothing for a record that never ends."""
    return "" if at is None else f"{to_micros(at):015x}"


def moment(entry: bytes) -> datetime:
    """The time a member stands at."""
    return _YEAR_ONE + timedelta(microseconds=int(entry[:TIME_WIDTH], 16))


def to_micros(at: datetime) -> int:
    """A time as the layout counts it: microseconds since the year 1."""
    seconds = (at.toordinal() - 1) * 86400 + at.hour * 3600 + at.minute * 60 + at.second
    return seconds * 1_000_000 + at.microsecond


class RankRange(msgspec.Struct, frozen=True):
    """The part of an order to read, from `low` up to but not including `high`; b"" has no bound."""

    low: bytes
    past_low: bool
    high: bytes
    forward: bool

    @classmethod
    def of(cls, query: Query) -> "RankRange":
        """What the times and the cursor of a query leave."""
        forward = query.after is not None and not query.newest_first
        low = b"" if query.since is None else b"%015x" % to_micros(query.since)
        high = b"" if query.until is None else b"%015x" % to_micros(query.until)
        past_low = False
        if query.after is not None and (rank := query.after.rank) is not None:
            # Nothing has a seq below 0: such a cursor stands before all of its time.
            at = member(rank) if rank[1] >= 0 else b"%015x" % to_micros(rank[0])
            if not forward:
                high = min(high, at) if high else at
            elif at >= low:
                low, past_low = at, True
        return cls(low, past_low, high, forward)

    def rest_after(self, last: bytes) -> "RankRange":
        """What is left to read once `last` has been."""
        if self.forward:
            return RankRange(last, True, self.high, True)
        return RankRange(self.low, self.past_low, last, False)

    def bounds(self, mark: bytes) -> tuple[bytes, bytes]:
        """The two ends as ZRANGEBYLEX (or its reverse) takes them, behind a mark."""
        edge = b"(" if self.past_low else b"["
        low = edge + mark + self.low if self.low or mark else b"-"
        high = b"+"
        if self.high:
            high = b"(" + mark + self.high
        elif mark:
            high = b"(" + mark[:-1] + b"\1"  # just past every member behind this mark
        return (low, high) if self.forward else (high, low)


class _Row(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The JSON of a Record, made and read without looking into its bodies."""

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


def encode_body(sealed: StoredRecord) -> bytes:
    """A record in stored form as the JSON Redis keeps."""
    return _encode(
        _Row(
            collection=sealed.collection, id=sealed.id, kind=sealed.kind, scope=sealed.scope, marks=sealed.marks,
            created_at=sealed.created_at, updated_at=sealed.updated_at, expires_at=sealed.expires_at, seq=sealed.seq,
            text=sealed.text, data=msgspec.Raw(sealed.data_json), metadata=msgspec.Raw(sealed.metadata_json),
        )
    )  # fmt: skip


def decode_body(body: bytes) -> Record:
    """The record, or StoreError when somebody else's value stands there."""
    try:
        return decode_record(body)
    except msgspec.DecodeError as error:
        raise _not_ours(body) from error


def decode_stored(body: bytes) -> StoredRecord:
    """The record in stored form, without the time that sealing it takes; or StoreError as above."""
    try:
        row = _decode(body)
        data, metadata = bytes(row.data).decode(), bytes(row.metadata).decode()
    except msgspec.DecodeError as error:
        raise _not_ours(body) from error
    scope_key = row.scope.key
    return StoredRecord(
        collection=row.collection, id=row.id, kind=row.kind, scope=row.scope, scope_key=scope_key, text=row.text,
        data_json=data, metadata_json=metadata, marks=row.marks, created_at=row.created_at, updated_at=row.updated_at,
        expires_at=row.expires_at, seq=row.seq, rank=(row.created_at, row.seq, row.id, scope_key),
    )  # fmt: skip


def _not_ours(body: bytes) -> StoreError:
    return StoreError(f"Redis holds something that is no record of Octavo's: {body[:60]!r}")
