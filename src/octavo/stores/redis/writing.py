"""Writing: what a batch comes to, brought about by one script call; adds that wait at the same time share theirs."""

import asyncio
import contextlib
import random
from collections.abc import Iterable, Sequence
from typing import TypeAlias
from uuid import uuid4

from octavo.errors import Conflict, StoreError
from octavo.kernel.codec import CheckedAdd, Prepared
from octavo.kernel.model import Query, Scope
from octavo.kernel.shapes import StoredRecord
from octavo.stores.draft import Effect, Key, Lookup, draft
from octavo.stores.gather import Gathering
from octavo.stores.redis.connection import LoopClient
from octavo.stores.redis.layout import KeyLayout, decode_stored, encode_body, end, member
from octavo.stores.redis.reading import RedisReader
from octavo.stores.redis.scripts import ENROL, WRITE, pack

#: Redis takes no argument beyond 512 MiB, and drops the connection of whoever sends one.
_MOST_BYTES = 500 * 1024 * 1024
#: What adds that share a call may weigh, some 2000 records: Redis serves nobody else while the script runs.
_GROUP_BYTES = 8 * 1024 * 1024
_RECORD_BYTES = 4096  # what a record costs beside its body, as if it were that much longer
_GROUPS_HELD = 1024
_TENANTS_HELD = 65536
_ATTEMPTS = 60  # at a record others keep changing
_PAUSE_SECONDS = 0.002
_ADDED = ord("1")

_Adds: TypeAlias = list[Sequence[StoredRecord]]  # the records of each op of a batch that only adds


class Writer:
    """Writes through the scripts, and keeps the list of tenants."""

    def __init__(
        self, connection: LoopClient, layout: KeyLayout, ttl: int | None, reader: RedisReader
    ) -> None:
        self._connection = connection
        self._layout = layout
        self._ttl = ttl or 0
        self._reader = reader
        self._groups: dict[frozenset[str], Gathering[_Adds, list[int]]] = {}
        self._enrolled: set[str] = set()
        self._retrying = asyncio.Lock()

    async def apply(self, ops: list[Prepared]) -> list[int]:
        """Apply a batch, all of it or nothing; answer how many records each op adds, changes or removes."""
        adds: _Adds = [op.records for op in ops if isinstance(op, CheckedAdd) and op.expect is None]
        if len(adds) < len(ops):
            return await self._alter(ops)
        return await self._add(adds) if any(adds) else [0] * len(ops)

    async def _add(self, adds: _Adds) -> list[int]:
        """Add what is not kept yet, together with whoever else adds now."""
        # Only the same tenants share a call: in a cluster, those of different tenants may live on different nodes.
        tenants = frozenset([sealed.scope.tenant for records in adds for sealed in records])
        group = self._groups.get(tenants)
        if group is None:
            if len(self._groups) >= _GROUPS_HELD:
                self._groups = {key: busy for key, busy in self._groups.items() if not busy.idle}
            group = self._groups[tenants] = Gathering(self._add_group, _GROUP_BYTES, _weight)
        return await group.submit(adds)

    async def settle(self) -> None:
        """Wait until nothing is on its way any more."""
        for group in list(self._groups.values()):
            await group.settle()

    async def _alter(self, ops: list[Prepared]) -> list[int]:
        """Work out what the ops come to, then bring it about if nothing of it has moved meanwhile; else start over.

        A record that others merely add between the two steps counts as added after this batch.
        """
        for attempt in range(_ATTEMPTS):
            # Whoever has lost a race waits behind those of this process who have, so that somebody always wins.
            async with self._retrying if attempt else contextlib.nullcontext():
                seen = _SeenIds(self._reader, self._layout)
                with contextlib.suppress(_Moved):
                    effects, counts = await seen.draft_ops(ops)
                    if not effects or await self._swap(effects, seen):
                        return counts
            await asyncio.sleep(random.uniform(0, _PAUSE_SECONDS * min(attempt + 1, 10)))  # noqa: S311
        raise Conflict(
            f"others changed the same records {_ATTEMPTS} times in a row; nothing of the batch was applied"
        )

    async def renew(self, collections: Sequence[str], scope: Scope) -> None:
        """Have what a scope holds in these collections live on as if it had just been written."""
        call = _Call(self._layout)
        for collection in collections:
            call.number_of(collection, scope)
        await self._write(call, set())

    async def _add_group(self, group: list[_Adds]) -> list[list[int]]:
        call, tenants = _Call(self._layout), set()
        for sealed in (sealed for adds in group for records in adds for sealed in records):
            call.put(sealed)
            tenants.add(sealed.scope.tenant)
        digits = iter(await self._write(call, tenants))
        return [[sum([next(digits) == _ADDED for _ in records]) for records in adds] for adds in group]

    async def _swap(self, effects: Iterable[Effect], seen: "_SeenIds") -> bool:
        """Bring the effects about if what they were made from still holds; whether it did."""
        call = _Call(self._layout, swap=uuid4().hex.encode())
        tenants = set()
        for before, after in ((effect.before, effect.after) for effect in effects):
            if before is not None:
                call.take(before, seen.bodies[before.collection, before.key])
            if after is not None:
                call.put(after)
            # A removal renews what is left, and the list of tenants must not expire before it.
            if (one := after or (before if self._ttl else None)) is not None:
                tenants.add(one.scope.tenant)
        for sealed in seen.taken:
            call.rely_on(sealed)
        call.watched = seen.versions
        return await self._write(call, tenants) == b"1"

    async def _write(self, call: "_Call", tenants: set[str]) -> bytes:
        await self._enrol(tenants)
        digits, fresh = await self._connection.run(WRITE, call.keys, b"%d" % self._ttl, *call.words())
        if fresh and not self._ttl:
            # They had nothing: the list of tenants may have been flushed, or pruned a moment ago.
            self._enrolled -= tenants
            await self._enrol(tenants)
        answer: bytes = digits
        return answer

    async def _enrol(self, tenants: set[str]) -> None:
        """Tenants are listed before they write, so that none with records is ever missing."""
        # A list that expires is renewed each time.
        missing = tenants if self._ttl else tenants - self._enrolled
        if missing:
            names = [tenant.encode() for tenant in missing]
            await self._connection.run(ENROL, [self._layout.tenants], b"%d" % self._ttl, *names)
            if len(self._enrolled) > _TENANTS_HELD:
                self._enrolled.clear()
            self._enrolled |= missing


class _Call:
    """The words of one call of WRITE: the keys of its scopes, and of the counters to watch, and what is to be done."""

    def __init__(self, layout: KeyLayout, swap: bytes = b"") -> None:
        self._layout = layout
        self._swap = swap
        self._keys: list[bytes] = []
        self._starts: dict[tuple[bytes, ...], bytes] = {}  # which number the first of these keys has
        self._scopes: dict[tuple[bytes, ...], bytes] = {}  # by their own keys: their numbers
        self._told: list[bytes] = []  # of each scope, where its keys are
        self._old: list[bytes] = []
        self._new: list[bytes] = []
        self._taken: list[bytes] = []
        self.watched: dict[bytes, bytes] = {}  # do nothing unless these counters still have these versions

    @property
    def keys(self) -> list[bytes]:
        """What WRITE may touch."""
        return [*self._keys, *self.watched]

    def number_of(self, collection: str, scope: Scope) -> bytes:
        """The number of a collection's scope in this call, counted from 1 as Lua does."""
        groups = self._layout.keys(collection, scope)
        number = self._scopes.get(groups[0])
        if number is None:
            number = self._scopes[groups[0]] = b"%d" % (len(self._scopes) + 1)
            self._told.append(b" ".join(map(self._start_of, groups)))
        return number

    def _start_of(self, keys: tuple[bytes, ...]) -> bytes:
        """The number of the first of these keys; what several scopes share is named once."""
        start = self._starts.get(keys)
        if start is None:
            start = self._starts[keys] = b"%d" % (len(self._keys) + 1)
            self._keys += keys
        return start

    def put(self, sealed: StoredRecord) -> None:
        """Have this record kept."""
        self._new += self._record(sealed, encode_body(sealed))

    def take(self, sealed: StoredRecord, body: bytes) -> None:
        """Have this record gone, of which Redis keeps this body."""
        self._old += self._record(sealed, body)

    def rely_on(self, sealed: StoredRecord) -> None:
        """Do nothing unless there is a record of this id in its scope."""
        self._taken += (self.number_of(sealed.collection, sealed.scope), sealed.id.encode())

    def words(self) -> tuple[bytes, ...]:
        """What WRITE is told beside the time to live."""
        lists = (self._old, self._new, self._taken, list(self.watched.values()))
        packed = [word for texts in lists for word in pack(texts)]
        if (size := max(map(len, packed))) > _MOST_BYTES:
            raise StoreError(f"{size} bytes are more than the {_MOST_BYTES} one Redis transaction can take")
        return (self._swap, b",".join(self._told), *packed)

    def _record(self, sealed: StoredRecord, body: bytes) -> tuple[bytes, ...]:
        number = self.number_of(sealed.collection, sealed.scope)
        about = f"{sealed.kind}\0{end(sealed.expires_at)}\0"
        if sealed.marks:
            about += "".join([f"{mark}\0" for mark in sealed.marks])
        return number, member(sealed.rank), about.encode(), body


class _Moved(Exception):  # noqa: N818
    """Two looks at one record saw different things."""


class _SeenIds:
    """What a draft has seen of Redis, and must still be so when its effects are brought about."""

    def __init__(self, reader: RedisReader, layout: KeyLayout) -> None:
        self.bodies: dict[tuple[str, Key], bytes] = {}
        self.taken: list[StoredRecord] = []  # adds that found their id taken rely on it
        self.versions: dict[bytes, bytes] = {}  # by counter
        self._reader = reader
        self._layout = layout

    async def draft_ops(self, ops: list[Prepared]) -> tuple[list[Effect], list[int]]:
        """The effects of the ops, and how many records each one adds, changes or removes."""
        scopes = {
            sealed.scope_key: sealed.scope
            for op in ops
            if isinstance(op, CheckedAdd)
            for sealed in op.records
        }
        asking = draft(ops)
        try:
            question = next(asking)
            while True:
                if isinstance(question, Query):
                    question = asking.send(await self._find_sealed(question))
                else:
                    question = asking.send(await self._find_kept(question, scopes))
        except StopIteration as done:
            drafted: tuple[list[Effect], list[int]] = done.value
            return drafted

    async def _find_sealed(self, query: Query) -> list[StoredRecord]:
        if query.limit == 0:
            return []
        found, version = await self._reader.find(query)
        watched = self._layout.plan_read(query).kinds
        if self.versions.setdefault(watched, version) != version:
            raise _Moved
        return [self._see(body) for _, body in found]

    async def _find_kept(self, lookup: Lookup, scopes: dict[str, Scope]) -> list[Key]:
        by_tenant: dict[str, list[bytes]] = {}
        for name, scope_key in lookup.keys:
            by_tenant.setdefault(scopes[scope_key].tenant, []).append(f"{name}\0{scope_key}".encode())
        kept: list[StoredRecord] = []
        for tenant, names in by_tenant.items():
            base = self._layout.base(lookup.collection, tenant)
            kept += [self._see(body) for body in await self._reader.read_named(base, names)]
        self.taken += kept
        return [sealed.key for sealed in kept]

    def _see(self, body: bytes) -> StoredRecord:
        sealed = decode_stored(body)
        if self.bodies.setdefault((sealed.collection, sealed.key), body) != body:
            raise _Moved
        return sealed


def _weight(adds: _Adds) -> int:
    return sum([_RECORD_BYTES + len(one.data_json) + len(one.text) for records in adds for one in records])
