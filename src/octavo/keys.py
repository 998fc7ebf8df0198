"""Who may call the server: API keys over any store, of which only a hash is kept, and how often each may call.

A key reads `oct_<id>_<secret>` and is shown once. All keys are records of the empty tenant, whichever tenant they open.
"""

import hashlib
import hmac
import math
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Generic, Literal, TypeAlias, TypeVar, cast

import msgspec

from octavo.errors import InvalidRecord, NotFound
from octavo.kernel.codec import MAX_NAME_BYTES, MAX_TENANT_BYTES, is_name
from octavo.kernel.ids import now
from octavo.kernel.model import Add, Change, Query, Record, Scope, to_utc
from octavo.kernel.ports import Store

Access: TypeAlias = Literal["read", "write", "admin"]
T = TypeVar("T")

#: What a key may do, weakest first: each includes those before it.
ACCESS: tuple[Access, ...] = ("read", "write", "admin")
_RANK = MappingProxyType({access: rank for rank, access in enumerate(ACCESS)})
COLLECTION = "keys"
_REVOKED = "revoked"
_STALE_SECONDS = 900.0  # for which a key that was good may write while the store cannot be asked
_SPELLING = re.compile(r"oct_([0-9a-f]{16})_([0-9a-f]{64})")  # 8 bytes that name it, 32 that prove it


class KeyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """All that may be told about a key."""

    id: str
    name: str
    access: Access
    tenant: str
    user: str | None = None  # the only user whose memory it opens; None is every user of the tenant
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def allows(self, access: Access) -> bool:
        """Whether this key may do what needs that access."""
        return _RANK[self.access] >= _RANK[access]

    def valid_at(self, moment: datetime) -> bool:
        """Whether the key is neither revoked nor expired then."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > moment)


class Created(msgspec.Struct, frozen=True, kw_only=True):
    """A new key, which nobody can tell again, and what is known about it."""

    key: str
    info: KeyInfo

    def __repr__(self) -> str:
        return f"Created(key='oct_{self.info.id}_…', info={self.info!r})"


class Keys:
    """The keys of a store, which stays its owner's to close.

    What `check` learns it believes for `fresh_seconds`, so a key revoked elsewhere stops working within that time;
    `recall` believes it longer, for callers whose writes can be queued while the store cannot be asked.
    """

    def __init__(
        self,
        store: Store,
        *,
        fresh_seconds: float = 5.0,
        most_cached: int = 10_000,
        clock: Callable[[], datetime] = now,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._clock = clock
        self._fresh_seconds = fresh_seconds
        self._known: FreshValues[_Hashed] = FreshValues(_STALE_SECONDS, most_cached, timer)
        # For ever: a key that was revoked is never good again, whether the store can be asked or not.
        self._revoked: FreshValues[bool] = FreshValues(math.inf, most_cached, timer)

    async def create(
        self,
        name: str,
        *,
        access: Access = "read",
        tenant: str = "",
        user: str | None = None,
        expires: datetime | timedelta | None = None,
    ) -> Created:
        """Make a key for one tenant, or for one user of it; it is in the answer and nowhere else."""
        at = self._clock()
        if access not in _RANK:
            raise InvalidRecord(f"access {access!r} is none of {', '.join(ACCESS)}")
        if not name.strip() or len(name.encode("utf-8", "replace")) > MAX_NAME_BYTES:
            raise InvalidRecord(f"a key needs a name of at most {MAX_NAME_BYTES} bytes; got {name[:80]!r}")
        _check_tenant(tenant)
        if user is not None and not is_name(user):
            raise InvalidRecord(f"a user's name is 1 to {MAX_NAME_BYTES} bytes of text; got {user[:80]!r}")
        if user is not None and access == "admin":
            raise InvalidRecord("a key with admin access sees every user; bind one with read or write access")
        id_, secret = secrets.token_hex(8), secrets.token_hex(32)
        record = Record(
            collection=COLLECTION,
            id=id_,
            kind=access,
            text=name,
            created_at=at,
            expires_at=_expiry(expires, at),
            data={"hash": _hash(secret), "tenant": tenant, **({} if user is None else {"user": user})},
        )
        await self._store.apply([Add([record])])
        return Created(key=f"oct_{id_}_{secret}", info=_info(record))

    async def check(self, text: str) -> KeyInfo | None:
        """Whose key this is; None when it is nobody's, expired or revoked. A text that is no key costs no read."""
        match = _SPELLING.fullmatch(text)
        if match is None or self.is_revoked(match[1]):
            return None
        kept = self._known.get(match[1], self._fresh_seconds) or await self._look(match[1])
        return self._info_if_good(kept, match[2])

    def recall(self, text: str) -> KeyInfo | None:
        """The key that was good within the last quarter of an hour, as far as can be known without the store."""
        match = _SPELLING.fullmatch(text)
        return None if match is None else self._info_if_good(self._known.get(match[1]), match[2])

    def _info_if_good(self, kept: "_Hashed | None", secret: str) -> KeyInfo | None:
        if kept is None or not hmac.compare_digest(kept.hash, _hash(secret)):
            return None
        good = kept.info.valid_at(self._clock()) and not self.is_revoked(kept.info.id)
        return kept.info if good else None

    async def find_valid(self, key_id: str) -> KeyInfo | None:
        """The key of that id if it is good now, whoever shows it; the store is asked, whatever is believed here."""
        kept = await self._look(key_id)
        if kept is None or self.is_revoked(key_id) or not kept.info.valid_at(self._clock()):
            return None
        return kept.info

    def is_revoked(self, key_id: str) -> bool:
        """Whether this process has seen that the key was revoked; it asks nobody."""
        return self._revoked.get(key_id) is not None

    async def list(self, tenant: str | None = None) -> list[KeyInfo]:
        """Every key there is or was, or those of one tenant, oldest first."""
        infos = [_info(record) for record in await self._store.find(_KEYS)]
        return [info for info in infos if tenant is None or info.tenant == tenant]

    async def revoke(self, key_id: str) -> KeyInfo:
        """Make a key useless for ever, by its id or as a whole; it stays listed. Revoking again changes nothing."""
        at = self._clock()
        # Of a whole key, mistyped or with an end of line, the id alone: the error for one that is not there tells it.
        key_id = key_id.strip().removeprefix("oct_").partition("_")[0]
        # The mark makes the first of several revocations the one that is noted.
        unrevoked = msgspec.structs.replace(_KEYS, ids=(key_id,), without=(_REVOKED,))
        merge = {"revoked_at": at.isoformat()}
        await self._store.apply([Change(query=unrevoked, merge=merge, mark=(_REVOKED,), updated_at=at)])
        self._revoked.put(key_id, True, 0)
        self._known.drop(key_id)
        found = await self._store.find(msgspec.structs.replace(_KEYS, ids=(key_id,)))
        if not found:
            raise NotFound(f"there is no key with the id {key_id!r}; `octavo keys list` shows them")
        return _info(found[0])

    async def _look(self, key_id: str) -> "_Hashed | None":
        since = self._known.time()  # before the read: what changes meanwhile is not believed longer
        found = await self._store.find(msgspec.structs.replace(_KEYS, ids=(key_id,)))
        kept = _read_hash(found[0]) if found else None
        if kept is None:
            self._known.drop(key_id)
        else:
            self._known.put(key_id, kept, since)
            if kept.info.revoked_at is not None:
                self._revoked.put(key_id, True, since)
        return kept


class RateLimit:
    """A bucket of tokens for each key: full at first, filled evenly, one token for each request.

    So a key that was idle may make a minute's requests at once, and then as many as come in with time. 0 is no limit.
    """

    def __init__(
        self, per_minute: int, clock: Callable[[], float] = time.monotonic, *, most_keys: int = 10_000
    ) -> None:
        if per_minute < 0 or most_keys < 1:
            raise ValueError(f"a rate must be 0 or more, for 1 key or more; got {per_minute}, {most_keys}")
        self.per_minute = per_minute
        self._clock = clock
        self._most_keys = most_keys
        #: key → its tokens, and when there were so many
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, key_id: str) -> float:
        """Take a token and answer 0; without one, the seconds until there is one."""
        if not self.per_minute:
            return 0.0
        now, per_second = self._clock(), self.per_minute / 60
        tokens, since = self._buckets.pop(key_id, (float(self.per_minute), now))
        tokens = min(float(self.per_minute), tokens + max(0.0, now - since) * per_second)
        lacking = 0.0 if tokens >= 1 else (1 - tokens) / per_second
        self._buckets[key_id] = (tokens if lacking else tokens - 1, now)
        if len(self._buckets) > self._most_keys:
            self._buckets.popitem(last=False)  # the one that has been quiet longest, so the fullest
        return lacking


class _Hashed(msgspec.Struct, frozen=True):
    hash: str
    info: KeyInfo


class FreshValues(Generic[T]):
    """Values that are believed for a while; a bounded number of them, of which the oldest go first."""

    def __init__(self, seconds: float, most: int, timer: Callable[[], float]) -> None:
        self._seconds = seconds
        self._most = most
        self.time = timer
        self._held: OrderedDict[str, tuple[float, T]] = OrderedDict()

    def get(self, name: str, seconds: float = math.inf) -> T | None:
        """The value, if there is one that may still be believed and is younger than so many seconds."""
        since, value = self._held.get(name, (-math.inf, None))
        age = self.time() - since
        if age >= self._seconds:
            self._held.pop(name, None)
        return value if age < min(seconds, self._seconds) else None

    def put(self, name: str, value: T, since: float) -> None:
        """Keep a value that was true at that time."""
        self._held.pop(name, None)
        self._held[name] = (since, value)
        if len(self._held) > self._most:
            self._held.popitem(last=False)

    def drop(self, name: str) -> None:
        """Believe it no longer."""
        self._held.pop(name, None)


_KEYS = Query(collection=COLLECTION, scope=Scope(user="", agent="", session=""))


def _hash(secret: str) -> str:
    # 32 random bytes cannot be guessed, so a slow hash would only slow every request down.
    return hashlib.sha256(secret.encode()).hexdigest()


def _read_hash(record: Record) -> _Hashed | None:
    """A key as it may be believed; a row that somebody wrote by hand and got wrong opens nothing."""
    hashed = record.data.get("hash")
    return _Hashed(hashed, _info(record)) if isinstance(hashed, str) and record.kind in _RANK else None


def _info(record: Record) -> KeyInfo:
    revoked = record.data.get("revoked_at")
    return KeyInfo(
        id=record.id,
        name=record.text,
        access=cast(Access, record.kind),
        tenant=record.data.get("tenant", ""),
        user=record.data.get("user"),
        created_at=record.created_at,
        expires_at=record.expires_at,
        revoked_at=None if revoked is None else datetime.fromisoformat(revoked),
    )


def _expiry(expires: datetime | timedelta | None, at: datetime) -> datetime | None:
    if expires is None:
        return None
    try:
        moment = at + expires if isinstance(expires, timedelta) else to_utc(expires)
    except (OverflowError, ValueError):
        raise InvalidRecord(f"a key cannot expire at {expires}: no such time can be written") from None
    if moment <= at:
        raise InvalidRecord(f"a key that expires at {moment:%Y-%m-%d %H:%M:%S} UTC would never have worked")
    return moment


def _check_tenant(tenant: str) -> None:
    """Refuse what no record could belong to, before a key is made that opens nothing."""
    whole = tenant.encode("utf-8", "ignore").decode() == tenant  # or it holds half a character
    if not whole or len(tenant.encode()) > MAX_TENANT_BYTES or "\0" in tenant:
        raise InvalidRecord(f"a tenant is at most {MAX_TENANT_BYTES} bytes of text; got {tenant[:80]!r}")
