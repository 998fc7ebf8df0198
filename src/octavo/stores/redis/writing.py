"""What one script call writes, packed: keys once each, everything else by their position."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol
from uuid import uuid4

import msgspec

from octavo.errors import StoreError
from octavo.kernel.codec import Sealed
from octavo.kernel.model import Scope
from octavo.stores.draft import Effect, Key
from octavo.stores.redis.layout import Keys, Layout, end, member
from octavo.stores.redis.rows import blob
from octavo.stores.redis.scripts import ADD, ENROL, RENEW, SWAP
from octavo.stores.redis.wire import Wire

#: Redis takes no argument beyond 512 MiB, and drops the connection of whoever sends one.
_MOST_BYTES = 500 * 1024 * 1024

_pack = msgspec.msgpack.Encoder().encode  # only of text: Lua's MessagePack knows no bytes


class _Stands:
    """The keys of a call, gathered: each distinct key once, and each place's as positions among them."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.types = bytearray()
        self.packed: list[list[int | list[int]]] = []
        self._positions: dict[bytes, int] = {}
        self._numbers: dict[bytes, int] = {}

    def number(self, keys: Keys) -> int:
        """Which stand these keys are, counted from 1 as Lua does."""
        number = self._numbers.get(keys.body)
        if number is None:
            body = self._position(keys.body, b"h")
            lane = self._pair(keys.lane, keys.kinds)
            rest = [self._position(keys.marks, b"z"), self._position(keys.names, b"z")]
            shared = [self._pair(*pair) for pair in keys.shared]
            self.packed.append([body, lane, lane + 1, *rest, shared])
            number = self._numbers[keys.body] = len(self.packed)
        return number

    def counter(self, kinds: bytes) -> int:
        """Where a lane's counter is; only asked for once all stands are in, since a stand wants it behind its lane."""
        return self._position(kinds, b"h")

    def _pair(self, lane: bytes, kinds: bytes) -> int:
        position = self._position(lane, b"z")
        self._position(kinds, b"h")  # the scripts look for a lane's counter right behind it
        return position

    def _position(self, key: bytes, kind: bytes) -> int:
        position = self._positions.get(key)
        if position is None:
            self.keys.append(key)
            self.types += kind
            position = self._positions[key] = len(self.keys)
        return position


class Sight(Protocol):
    """What effects were drawn from, and must still hold when they are brought about."""

    bodies: dict[tuple[str, Key], str]  # of the records seen
    witnesses: list[
        tuple[str, str, Scope]
    ]  # collection, id and scope of what must be kept, whatever it looks like
    versions: dict[bytes, str]  # of the lanes read, by counter


class Writer:
    """Writes through the scripts, and keeps the list of tenants."""

    def __init__(
        self, wire: Wire, layout: Layout, ttl: int | None, noted: Callable[[set[tuple[str, str]]], None]
    ) -> None:
        self._wire = wire
        self._noted = noted  # told the collections and tenants of what was put in line to be indexed
        self._layout = layout
        self._ttl = b"%d" % (ttl or 0)
        self._enrolled: set[str] = set()

    async def add(self, records: Sequence[Sealed]) -> bytes:
        """Add what is not kept yet; answer b"1" or b"0" for each record."""
        stands, layout = _Stands(), self._layout
        entries = [
            (
                stands.number(layout.keys(sealed.collection, sealed.scope)),
                member(sealed.rank),
                sealed.kind,
                blob(sealed),
                sealed.marks,
                end(sealed.expires_at),
            )
            for sealed in records
        ]
        tenants = {sealed.scope.tenant for sealed in records}
        await self._enrol(tenants)
        packed = self._packed(stands, entries)
        digits, fresh, noted = await self._wire.run(ADD, stands.keys, *packed)
        if noted:
            self._noted({(sealed.collection, sealed.scope.tenant) for sealed in records})
        await self._confirm(tenants, fresh)
        answer: bytes = digits
        return answer

    async def swap(self, effects: Iterable[Effect], sight: Sight) -> bool:
        """Bring the effects about if what they were drawn from still holds; whether it did."""
        stands, entries, tenants, touched = _Stands(), [], set(), set()
        for effect in effects:
            one = effect.after or effect.before
            if one is None:
                continue
            before = effect.before and _side(effect.before, sight.bodies[one.collection, one.key])
            after = effect.after and _side(effect.after, blob(effect.after))
            number = stands.number(self._layout.keys(one.collection, one.scope))
            entries.append((number, one.id, before or False, after or False))
            touched.add((one.collection, one.scope.tenant))
            if (
                after or self._ttl != b"0"
            ):  # a removal renews what is left, and the list must not go before it
                tenants.add(one.scope.tenant)
        kept = [(stands.number(self._layout.keys(name, scope)), own) for name, own, scope in sight.witnesses]
        watched = [(stands.counter(key), version) for key, version in sight.versions.items()]
        await self._enrol(tenants)
        rest = (_pack(kept), _pack(watched), uuid4().hex.encode())
        done, fresh, noted = await self._wire.run(SWAP, stands.keys, *self._packed(stands, entries), *rest)
        if noted:
            self._noted(touched)
        if done:
            await self._confirm(tenants, fresh)
        return bool(done)

    async def renew(self, collections: Sequence[str], scope: Scope) -> None:
        """Have what a place holds in these collections live on as if it had just been written."""
        stands = _Stands()
        for collection in collections:
            stands.number(self._layout.keys(collection, scope))
        await self._wire.run(RENEW, stands.keys, *self._packed(stands, []))

    def _packed(self, stands: _Stands, entries: Sequence[object]) -> tuple[bytes, ...]:
        packed = _pack(entries)
        if len(packed) > _MOST_BYTES:
            raise StoreError(
                f"{len(packed)} bytes are more than the {_MOST_BYTES} one Redis transaction can take"
            )
        return self._ttl, bytes(stands.types), _pack(stands.packed), packed

    async def _enrol(self, tenants: set[str]) -> None:
        """Tenants are listed before they write, so that none with records is ever missing."""
        missing = (
            tenants if self._ttl != b"0" else tenants - self._enrolled
        )  # a list that expires is renewed each time
        if missing:
            await self._wire.run(
                ENROL, [self._layout.tenants], self._ttl, *(tenant.encode() for tenant in missing)
            )
            if len(self._enrolled) > 65536:
                self._enrolled.clear()
            self._enrolled |= missing

    async def _confirm(self, tenants: set[str], fresh: int) -> None:
        """List them once more when they had nothing: the list may have been flushed, or pruned a moment ago."""
        if fresh and self._ttl == b"0":
            self._enrolled -= tenants
            await self._enrol(tenants)


def _side(sealed: Sealed, body: str) -> tuple[str, str, str, tuple[str, ...], str]:
    return (member(sealed.rank), sealed.kind, body, sealed.marks, end(sealed.expires_at))
