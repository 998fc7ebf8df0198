"""What every vector index does before its own work: check at the edge, open once, refuse after close."""

import math
from array import array
from collections.abc import AsyncIterator, Sequence

import msgspec

from octavo.errors import InvalidQuery, InvalidRecord
from octavo.kernel.codec import is_answerable, is_storable, seal
from octavo.kernel.ids import short_name
from octavo.kernel.model import Query, Record, Remove, Scope, check_count, exact_scope
from octavo.kernel.ports import Entry, EntryKey, Near, Space, Vector
from octavo.util.opening import Opening

MAX_SPACE_BYTES = 255
_UNIT = 1e-4  # how far from 1 a length may be before a vector is scaled


class BaseIndex(Opening):
    """The verbs of the port with the edge in front; a backend fills in the `_` methods."""

    opener = "open_vectors(url)"

    async def put(self, space: str, entries: Sequence[Entry]) -> None:
        """Keep these, in place of entries of the same key; the first ones make the space."""
        _check_space(space)
        kept = {entry.key: entry for entry in map(_check, entries)}  # of two with one key, the later stays
        sizes = {len(entry.vector) for entry in kept.values()}
        if len(sizes) > 1:
            low, high = min(sizes), max(sizes)
            raise InvalidRecord(f"vectors of one space have one length; got {low} and {high} dimensions")
        await self._ensure_open()
        if kept:
            await self._put(space, list(kept.values()))

    async def drop(self, space: str, keys: Sequence[EntryKey]) -> None:
        """Forget these; a key that is not kept, or a space that is not there, is nothing to do."""
        await self._ensure_open()
        sayable = [
            key
            for key in dict.fromkeys(keys)
            if is_storable(key.collection, key.id)
            and is_answerable(Query(collection="vectors", scope=key.scope))
        ]
        if sayable and is_storable(space):
            await self._drop(space, sayable)

    async def nearest(
        self, space: str, vector: Vector, scope: Scope, collections: Sequence[str], limit: int
    ) -> list[Near]:
        """The entries inside the scope and the collections that are nearest, best first; filtered before ranked."""
        check_count(limit, "limit must be 0 or more")
        try:
            asked = _normalise(vector)
        except InvalidRecord as error:
            raise InvalidQuery(f"nothing is near this vector: {error}") from None
        await self._ensure_open()
        wanted = [name for name in dict.fromkeys(collections) if is_storable(name)]
        within = is_answerable(Query(collection="vectors", scope=scope))
        if not (limit and wanted and within and is_storable(space)):
            return []
        return await self._nearest(space, asked, scope, wanted, limit)

    async def digest(self, space: str, collection: str, id_: str, scope: Scope) -> str | None:
        """The digest of the text that the vector of a record was made from; None where it has none."""
        await self._ensure_open()
        within = is_answerable(Query(collection="vectors", scope=scope))
        if not within or not is_storable(space, collection, id_):
            return None
        return await self._digest(space, EntryKey(collection, id_, exact_scope(scope)))

    async def walk(self, space: str, size: int = 1000) -> AsyncIterator[list[tuple[EntryKey, str]]]:
        """Every key with its digest, in pages, ordered by key."""
        if size < 1:
            raise InvalidQuery(f"size must be 1 or more; got {size}")
        await self._ensure_open()
        if is_storable(space):
            async for page in self._walk(space, size):
                yield page

    async def spaces(self) -> list[Space]:
        """The spaces kept, ordered by name."""
        await self._ensure_open()
        return sorted(await self._spaces(), key=lambda space: space.name)

    async def complete(self, space: str) -> None:
        """Note that every record now has its vector here, so that the space may serve."""
        await self._ensure_open()
        if is_storable(space):
            await self._complete(space)

    async def forget(self, space: str) -> None:
        """Remove a whole space."""
        await self._ensure_open()
        if is_storable(space):
            await self._forget(space)

    async def _put(self, space: str, entries: list[Entry]) -> None:
        raise NotImplementedError

    async def _drop(self, space: str, keys: list[EntryKey]) -> None:
        raise NotImplementedError

    async def _nearest(
        self, space: str, vector: Vector, scope: Scope, collections: list[str], limit: int
    ) -> list[Near]:
        raise NotImplementedError

    async def _digest(self, space: str, key: EntryKey) -> str | None:
        raise NotImplementedError

    def _walk(self, space: str, size: int) -> AsyncIterator[list[tuple[EntryKey, str]]]:
        raise NotImplementedError

    async def _spaces(self) -> list[Space]:
        raise NotImplementedError

    async def _complete(self, space: str) -> None:
        raise NotImplementedError

    async def _forget(self, space: str) -> None:
        raise NotImplementedError


def _check(entry: Entry) -> Entry:
    """The entry with "" in its scope taken as None and its vector at unit length, or InvalidRecord."""
    # The edge of the stores: an entry that is kept here belongs to a record that can be kept there.
    sealed = seal(
        Record(collection=entry.collection, id=entry.id, scope=entry.scope, text=entry.digest, seq=0)
    )
    try:
        vector = _normalise(entry.vector)
    except InvalidRecord as error:
        raise InvalidRecord(f"the vector of {entry.id[:80]!r} of {entry.collection!r}: {error}") from None
    if vector is entry.vector and sealed.scope == entry.scope:
        return entry
    return msgspec.structs.replace(entry, scope=sealed.scope, vector=vector)


def _normalise(vector: Vector) -> Vector:
    floats = vector if isinstance(vector, array) and vector.typecode == "f" else array("f", vector)
    length = math.hypot(*floats)
    if not (0 < length < math.inf):  # also when it is not a number
        what = "infinite or not a number" if floats and length else "all zero" if floats else "empty"
        raise InvalidRecord(f"a vector has a direction; this one is {what}")
    if abs(length - 1) < _UNIT:
        return floats
    return array("f", [number / length for number in floats])


def _check_space(space: str) -> None:
    if not space or not is_storable(space) or len(space.encode()) > MAX_SPACE_BYTES:
        raise InvalidRecord(
            f"a space is named in 1 to {MAX_SPACE_BYTES} bytes of UTF-8 without NUL; got {space[:80]!r}"
        )


def remove_version(tenant: str, user: str) -> Remove:
    """What takes away the version that an exact index keeps of a user's vectors."""
    nobody = Scope(tenant=tenant, user="", agent="")
    return Remove(Query(collection="vectors", ids=(short_name(user),), scope=nobody))


def mismatch(space: str, kept: int, got: int) -> InvalidRecord:
    """The refusal of a vector that cannot be compared with those of the space."""
    return InvalidRecord(f"space {space!r} holds vectors of {kept} dimensions; got one of {got}")


def round_score(score: float) -> float:
    """A score as it is told: rounded past what 32-bit floats can tell apart, so that equals tie on every machine."""
    return max(-1.0, min(1.0, round(score, 6))) + 0.0


def take_nearest(found: list[Near], limit: int) -> list[Near]:
    """The nearest of these in their one order: by score, then by key."""
    return sorted(found, key=lambda near: (-near.score, near.key))[:limit]


def trust_nearest(found: list[Near], asked: int, limit: int) -> list[Near] | None:
    """The nearest of so many asked of an engine that breaks ties as it likes; None when it may have cut a tie in two."""
    found = take_nearest(found, asked)
    if len(found) < asked or found[-1].score < found[limit - 1].score:
        return found[:limit]
    return None
