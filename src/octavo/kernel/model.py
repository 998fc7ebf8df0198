"""The kernel: frozen values that say what is kept and what is asked. No I/O happens here.

`Query.matches`, `Query.over` and `Change.applied_to` are the meaning of every store: SQL, Lua and files follow them.
"""

import functools
import operator
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType, field

from octavo.errors import Conflict, InvalidQuery
from octavo.kernel.ids import new_id, next_seq, now, short_name
from octavo.kernel.text import fold, haystack, pluralize, spell, spellings

Rank: TypeAlias = tuple[datetime, int, str, str]
_MOST = 2**53  # no store holds more records, and no driver takes a larger number everywhere


#: Names that a cache by names holds: four of 255 bytes at most, so that none of them takes more than a few MiB.
NAMES_HELD = 4096


def plain_text(text: str) -> str:
    """The text that a subclass of str is, such as a member of an enum; TypeError if it is none."""
    return text if type(text) is str else str.__str__(text)


class Scope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Whose a record is. In a query, None means any and "" means none; tenant is always compared exactly."""

    tenant: str = ""
    user: str | None = None
    agent: str | None = None
    session: str | None = None

    def __post_init__(self) -> None:
        for value in (self.tenant, self.user, self.agent, self.session):
            if value is None or type(value) is str:
                continue
            for name in self.__struct_fields__:  # a member of an enum would be spelled in several ways
                if isinstance(given := getattr(self, name), str):
                    msgspec.structs.force_setattr(self, name, plain_text(given))

    @property
    def key(self) -> str:
        """A digest of fixed length that stands for this exact scope in keys and indexes: the scope key."""
        return _scope_key(self)

    @property
    def exact(self) -> bool:
        """Whether, read as a query, this names one scope rather than many."""
        return self.user is not None and self.agent is not None and self.session is not None

    def covers(self, other: "Scope") -> bool:
        """Whether a record of scope `other` is inside this one."""
        return (
            self.tenant == other.tenant
            and (self.user is None or self.user == (other.user or ""))
            and (self.agent is None or self.agent == (other.agent or ""))
            and (self.session is None or self.session == (other.session or ""))
        )


@functools.lru_cache(maxsize=NAMES_HELD)
def _scope_key(scope: Scope) -> str:
    return short_name(scope.tenant, scope.user or "", scope.agent or "", scope.session or "")


def exact_scope(scope: Scope) -> Scope:
    """The scope of a record as a query that finds what is in the very same scope."""
    return Scope(
        tenant=scope.tenant, user=scope.user or "", agent=scope.agent or "", session=scope.session or ""
    )


# Cursors are handed out as text, in which the scope key is called "place".
class Cursor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"scope_key": "place"}):
    """A position between records; `Cursor()` stands before the first one read, in either direction."""

    at: datetime | None = None
    seq: int = 0
    id: str = ""
    scope_key: str = ""

    @property
    def rank(self) -> Rank | None:
        return None if self.at is None else (self.at, self.seq, self.id, self.scope_key)


START = Cursor()


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing worth keeping. `id` names it within its collection and scope; time, then seq, order it."""

    collection: str
    id: str = field(default_factory=new_id)
    kind: str = ""
    scope: Scope = Scope()
    text: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    marks: tuple[str, ...] = ()
    created_at: datetime = field(default_factory=now)
    updated_at: datetime | None = None  # a store fills it with created_at
    expires_at: datetime | None = None
    seq: int = field(default_factory=next_seq)

    @property
    def key(self) -> tuple[str, str]:
        return (self.id, self.scope.key)

    @property
    def rank(self) -> Rank:
        return (self.created_at, self.seq, self.id, self.scope.key)

    @property
    def cursor(self) -> Cursor:
        return Cursor(at=self.created_at, seq=self.seq, id=self.id, scope_key=self.scope.key)


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """A record without its text and bodies: whose it is, where it stands, and how much was left out."""

    id: str
    kind: str
    scope: Scope
    created_at: datetime
    updated_at: datetime
    seq: int
    size_bytes: (
        int  # of text, data and metadata as the store spells them: never less than they take as compact JSON
    )

    @classmethod
    def of(cls, record: Record) -> "Head":
        """What is left of a record; the meaning every store's heads are held to."""
        bodies = spell(record.data), spell(record.metadata)
        return cls(
            id=record.id, kind=record.kind, scope=record.scope, created_at=record.created_at,
            updated_at=record.updated_at or record.created_at, seq=record.seq,
            size_bytes=sum(len(text.encode()) for text in (record.text, *bodies)),
        )  # fmt: skip

    @property
    def rank(self) -> Rank:
        return (self.created_at, self.seq, self.id, self.scope.key)

    @property
    def cursor(self) -> Cursor:
        return Cursor(at=self.created_at, seq=self.seq, id=self.id, scope_key=self.scope.key)


class Query(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A question about one collection; every given clause must hold.

    Without `after`, `limit` keeps the newest ones and `offset` skips that many of the newest first. With `after`, both
    count from the cursor in reading direction, so that pages follow each other at the same cost.
    """

    collection: str
    ids: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    scope: Scope = Scope()
    marks: tuple[str, ...] | None = None  # any of these
    without: tuple[str, ...] = ()  # none of these
    text: str | None = None  # caseless substring
    since: datetime | None = None  # created at or after
    until: datetime | None = None  # created before
    where: dict[str, Any] = field(default_factory=dict)  # metadata equals these scalars
    alive_at: datetime | None = None  # not expired at that moment
    expired_at: datetime | None = None  # expired at that moment, or before it
    newest_first: bool = False
    limit: int | None = None
    offset: int = 0
    after: Cursor | None = None

    def matches(self, record: Record) -> bool:
        """Whether the record answers this question; the meaning every store is held to."""
        return (
            record.collection == self.collection
            and self.scope.covers(record.scope)
            and (self.ids is None or record.id in self.ids)
            and (self.kinds is None or record.kind in self.kinds)
            and (self.since is None or record.created_at >= self.since)
            and (self.until is None or record.created_at < self.until)
            and (self.alive_at is None or record.expires_at is None or record.expires_at > self.alive_at)
            and (self.expired_at is None or _has_expired(record.expires_at, self.expired_at))
            and (self.marks is None or any(mark in record.marks for mark in self.marks))
            and not any(mark in record.marks for mark in self.without)
            and (not self.where or self._matches_metadata(record.metadata))
            and (not self.text or fold(self.text) in haystack(record.text, record.data))
        )

    def _matches_metadata(self, metadata: dict[str, Any]) -> bool:
        return all(
            name in metadata and spell(metadata[name]) in spellings(value)
            for name, value in self.where.items()
        )

    def over(self, records: Iterable[Record]) -> list[Record]:
        """Answer this question from the given records: filtered, in order, cut to the page asked for."""
        # Looked up in a tuple, the ids of a long list would cost their square.
        asked = self if self.ids is None else msgspec.structs.replace(self, ids=frozenset(self.ids))
        return self.page(
            sorted((record for record in records if asked.matches(record)), key=operator.attrgetter("rank"))
        )

    def page(self, found: list[Record]) -> list[Record]:
        """Cut the page asked for out of all matches, given oldest first."""
        forward = self.after is not None and not self.newest_first
        found = found if forward else found[::-1]
        if self.after is not None and (rank := self.after.rank) is not None:
            found = [r for r in found if (r.rank > rank if forward else r.rank < rank)]
        found = found[self.offset :]
        if self.limit is not None:
            found = found[: self.limit]
        return found if forward or self.newest_first else found[::-1]

    @property
    def unpaged(self) -> "Query":
        """The same question about all that match."""
        return msgspec.structs.replace(self, newest_first=False, limit=None, offset=0, after=None)

    @property
    def plain(self) -> bool:
        """Whether only the scope and the kind are asked about, so that counters can answer a tally."""
        return (
            self.ids is None
            and self.marks is None
            and not self.without
            and not self.text
            and self.since is None
            and self.until is None
            and not self.where
            and self.alive_at is None
            and self.expired_at is None
        )

    @property
    def _timeless(self) -> bool:
        return (
            self.since is None
            and self.until is None
            and self.alive_at is None
            and self.expired_at is None
            and self.after is None
        )

    def checked(self) -> "Query":
        """This query with its times in UTC, or InvalidQuery when it has no meaning."""
        if self.limit is not None:
            check_count(self.limit, "limit must be 0 or more, or None for all")
        if self.text is not None and not isinstance(self.text, str):
            raise InvalidQuery(f"the text to look for must be a string; got {self.text!r}"[:200])
        check_count(self.offset, "offset must be 0 or more")
        for name, value in self.where.items():
            if not (value is None or isinstance(value, str | int | float | bool)):
                raise InvalidQuery(
                    f"where[{name!r}] must be a string, number, boolean or None; got {value!r}"
                )
        if self._timeless and (self.limit is None or self.limit <= _MOST) and self.offset <= _MOST:
            return self
        moments = {name: getattr(self, name) for name in ("since", "until", "alive_at", "expired_at")}
        moved: dict[str, Any] = {}
        if self.limit is not None and self.limit > _MOST:
            moved["limit"] = None
        if self.offset > _MOST:
            moved["offset"] = _MOST
        try:
            for name, at in moments.items():
                if at is not None and at.tzinfo is not UTC:
                    moved[name] = to_utc(at)
            if self.after is not None and self.after.at is not None and self.after.at.tzinfo is not UTC:
                moved["after"] = msgspec.structs.replace(self.after, at=to_utc(self.after.at))
        except (OverflowError, ValueError) as error:  # near the years 1 and 9999 a time may have no UTC
            raise InvalidQuery(f"a time of the query cannot be said in UTC: {error}") from None
        except AttributeError:
            wrong = {name: at for name, at in moments.items() if not isinstance(at, datetime | None)}
            raise InvalidQuery(f"a time must be a datetime; got {wrong}"[:200]) from None
        return msgspec.structs.replace(self, **moved) if moved else self


def _has_expired(expires_at: datetime | None, at: datetime) -> bool:
    return expires_at is not None and expires_at <= at


class Add(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="op", tag="add"):
    """Keep these records; one whose id is already kept in its scope is left alone.

    `expect` says how many of them must be new. If another number is, nothing of the whole batch is applied: Conflict.
    """

    records: Sequence[Record]
    expect: int | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="op", tag="change"):
    """Change what the query finds. Fields left out stay; `merge` updates single keys of `data`.

    `expect` says how many records the query must find. If it finds another number, nothing of the whole batch is applied:
    Conflict.
    """

    query: Query
    kind: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    data: dict[str, Any] | UnsetType = UNSET
    merge: dict[str, Any] | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    expires_at: datetime | UnsetType | None = UNSET
    mark: tuple[str, ...] = ()
    unmark: tuple[str, ...] | None = ()  # None removes every mark
    updated_at: datetime = field(default_factory=now)
    expect: int | None = None

    def applied_to(self, record: Record) -> Record:
        """The record after this change; the very same object when nothing of it differs."""
        new: dict[str, Any] = {}
        for name in ("kind", "text", "expires_at"):
            value = getattr(self, name)
            if value is not UNSET and value != getattr(record, name):
                new[name] = value
        data = record.data if self.data is UNSET else self.data
        if self.merge is not UNSET:
            data = {**data, **self.merge}
        metadata = record.metadata if self.metadata is UNSET else self.metadata
        # Compared as JSON: to Python, 1 == True, and a change from one to the other would be dropped.
        if data is not record.data and spell(data) != spell(record.data):
            new["data"] = data
        if metadata is not record.metadata and spell(metadata) != spell(record.metadata):
            new["metadata"] = metadata
        kept = () if self.unmark is None else tuple(mark for mark in record.marks if mark not in self.unmark)
        marks = (*kept, *(mark for mark in dict.fromkeys(self.mark) if mark not in kept))
        if marks != record.marks:
            new["marks"] = marks
        return msgspec.structs.replace(record, updated_at=self.updated_at, **new) if new else record


class Remove(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="op", tag="remove"):
    """Remove what the query finds; `expect` means what it means for a Change."""

    query: Query
    expect: int | None = None


Op: TypeAlias = Add | Change | Remove


def check_count(value: Any, rule: str, wrong: type[Exception] = InvalidQuery, least: int = 0) -> int:
    """A whole number, at least so many, or the error with its rule; True and False are none."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    raise wrong(f"{rule}; got {value!r:.200}")


def check_expected(expect: int | None, met: int) -> None:
    """Raise Conflict if an op that expects a number of records met another; its batch must then change nothing."""
    if expect is not None and expect != met:
        raise Conflict(
            f"a write expected {pluralize(expect, 'record')} and met {met}: nothing of its batch was applied"
        )


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """How many records match, by kind, and the times of the first and last; paging is not looked at."""

    total: int = 0
    by_kind: dict[str, int] = field(default_factory=dict)
    first: datetime | None = None
    last: datetime | None = None

    @classmethod
    def of(cls, query: Query, records: Iterable[Record]) -> "Tally":
        """Count the records that match; the meaning every store's tally is held to."""
        found = query.unpaged.over(records)
        by_kind: dict[str, int] = {}
        for record in found:
            by_kind[record.kind] = by_kind.get(record.kind, 0) + 1
        ends = {"first": found[0].created_at, "last": found[-1].created_at} if found else {}
        return cls(total=len(found), by_kind=by_kind, **ends)


#: A part of a scope that names somebody or something.
ScopePart: TypeAlias = Literal["user", "agent", "session"]


class NameCount(msgspec.Struct, frozen=True, kw_only=True):
    """A user, an agent or a session that has records: how many, and the times of the first and last."""

    name: str
    total: int
    first: datetime
    last: datetime

    @classmethod
    def of(cls, part: ScopePart, records: Iterable[Record]) -> "list[NameCount]":
        """Everybody these records name, by name; the meaning every store's names are held to."""
        times: dict[str, list[datetime]] = {}
        for record in records:
            if name := getattr(record.scope, part):
                times.setdefault(name, []).append(record.created_at)
        return [
            cls(name=name, total=len(at), first=min(at), last=max(at)) for name, at in sorted(times.items())
        ]


def to_utc(at: datetime) -> datetime:
    """The same moment in UTC; a naive time is local time, as Python itself takes it."""
    return at if at.tzinfo is UTC else at.astimezone(UTC)
