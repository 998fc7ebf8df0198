"""Exact search by numpy over any store: the vectors are records like all others, so that every store can hold them.

What an index knows about itself are records too. Lists of its spaces and of its tenants stand in the tenant "". Each tenant and each user has a version in each space, which is changed in the same transaction as the vectors: so one
small read tells whether the matrix in memory is still what the store holds, whoever has written.
"""

import asyncio
import base64
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable

import numpy as np

from octavo.errors import ConfigError
from octavo.kernel.ids import new_id, short_name
from octavo.kernel.model import Add, Change, Op, Query, Record, Remove, Scope, exact_scope
from octavo.kernel.pages import walk
from octavo.kernel.ports import Entry, EntryKey, Near, Scrubbed, Scrubs, Space, Store, Vector
from octavo.stores import open_store
from octavo.vectors.base import BaseIndex, mismatch, round_score, take_nearest

CACHE_BYTES = 256 * 1024 * 1024
COLLECTION = "vectors"
_PART = 1000  # vectors in one transaction
_MANY_SCOPES = 200  # more are not removed from one by one
_MOST_SCOPES = 10_000  # held, however small they are
_ROW_BYTES = 400  # what the names of one entry take, about
_WHOLE_TENANT = "tenant"  # the id of a tenant's version; those of users are longer

# The lists. A vector has its space for a kind; these, and the versions, have none.
_SPACES = Scope(user="", agent="", session="octavo:spaces")
_TENANTS = Scope(user="", agent="", session="octavo:tenants")


class _Held:
    """The vectors of a scope in memory, and the version at which they were read."""

    def __init__(self) -> None:
        self.loading = asyncio.Lock()
        self.version: str | None = None
        self.matrix: Matrix | None = None


class ExactIndex(BaseIndex):
    """Every vector of the scope is compared, so that nothing is missed; the matrices of the scopes last used stay in memory.

    A store handed in stays open unless `owned`. `cache_bytes` bounds the memory of all matrices together; the one in use is always held.
    """

    def __init__(self, store: Store, *, cache_bytes: int = CACHE_BYTES, owned: bool = False) -> None:
        super().__init__()
        self._store = store
        self._owned = owned
        self._cache_bytes = cache_bytes
        self._held: OrderedDict[tuple[str, Scope], _Held] = OrderedDict()

    @property
    def store(self) -> Store:
        """Where the vectors are kept."""
        return self._store

    async def scrub(self, progress: Callable[[int, int], None] | None = None) -> Scrubbed:
        """Have the store scrubbed that keeps the vectors."""
        self._held.clear()
        if isinstance(self._store, Scrubs) and self._owned:
            return await self._store.scrub(progress)
        return Scrubbed()  # it is somebody else's, who scrubs it

    def _abandon(self) -> None:
        self._held.clear()  # each has a lock, which belongs to an event loop

    async def _leave(self) -> None:
        """Nothing: the store takes care of itself."""

    async def _close(self) -> None:
        self._held.clear()
        if self._owned:
            await self._store.close()

    # Writing.

    async def _put(self, space: str, entries: list[Entry]) -> None:
        await self._list(space, len(entries[0].vector), {entry.scope.tenant for entry in entries})
        for start in range(0, len(entries), _PART):
            part = entries[start : start + _PART]
            keys = [entry.key for entry in part]
            await self._replace(space, keys, [_vector_record(space, entry) for entry in part])

    async def _drop(self, space: str, keys: list[EntryKey]) -> None:
        listed = await self._listed_tenants({key.scope.tenant for key in keys})
        kept = [key for key in keys if key.scope.tenant in listed]
        for start in range(0, len(kept), _PART):
            await self._replace(space, kept[start : start + _PART], [])

    async def _replace(self, space: str, keys: list[EntryKey], new: list[Record]) -> None:
        """Put the new vectors in the place of those of these keys, and change the versions; tenant by tenant."""
        for tenant in {key.scope.tenant for key in keys}:
            ids: dict[Scope, list[str]] = {}
            for key in keys:
                if key.scope.tenant == tenant:
                    ids.setdefault(key.scope, []).append(_vector_id(space, key))
            versions = [_WHOLE_TENANT, *{_user_version(scope.user) for scope in ids}]
            if len(ids) > _MANY_SCOPES:  # an id names one vector in all of its tenant
                ids[Scope(tenant=tenant)] = [id_ for scope in list(ids) for id_ in ids.pop(scope)]
            removals = [
                Remove(Query(collection=COLLECTION, ids=tuple(ids_), scope=scope))
                for scope, ids_ in ids.items()
            ]
            where = _versions(tenant, space)
            version: dict[str, object] = {"version": new_id()}
            await self._store.apply(
                [
                    *removals,
                    Add([record for record in new if record.scope.tenant == tenant]),
                    # Added if missing, and then changed: of two writers at the same moment, neither's version is lost.
                    Add([_note(id_, where, version) for id_ in versions]),
                    Change(
                        query=Query(collection=COLLECTION, ids=tuple(versions), scope=where), data=version
                    ),
                ]
            )

    async def _list(self, space: str, got: int, tenants: set[str]) -> None:
        """Have the space and the tenants in their lists before any vector, or nobody would find the vectors again."""
        if (known := await self._space(space)) is None:
            about = {"name": space, "dimensions": got, "complete": False}
            await self._store.apply([Add([_note(short_name(space), _SPACES, about)])])
            known = await self._space(space)
        if known is not None and known.dimensions != got:
            raise mismatch(space, known.dimensions, got)
        if new := tenants - await self._listed_tenants(tenants):
            notes = [_note(short_name(tenant), _TENANTS, {"tenant": tenant}) for tenant in new]
            await self._store.apply([Add(notes)])

    async def _complete(self, space: str) -> None:
        await self._store.apply([_mark_complete(space, complete=True)])

    async def _forget(self, space: str) -> None:
        # First, so that nobody is served by what is left when this is interrupted.
        await self._store.apply([_mark_complete(space, complete=False)])
        for tenant in await self._all_tenants():
            vectors = Query(collection=COLLECTION, kinds=(space,), scope=Scope(tenant=tenant))
            versions = Query(collection=COLLECTION, scope=_versions(tenant, space))
            ops: list[Op] = [Remove(vectors), Remove(versions)]
            await self._store.apply(ops)
        await self._store.apply([Remove(_list_query(_SPACES, short_name(space)))])

    # Reading.

    async def _space(self, space: str) -> Space | None:
        found = await self._store.find(_list_query(_SPACES, short_name(space)))
        return Space(**found[0].data, entries=0) if found else None

    async def _listed_tenants(self, tenants: set[str]) -> set[str]:
        """Those of the tenants that are listed."""
        found = await self._store.find(_list_query(_TENANTS, *map(short_name, sorted(tenants))))
        return {record.data["tenant"] for record in found}

    async def _all_tenants(self) -> list[str]:
        return sorted(record.data["tenant"] for record in await self._store.find(_list_query(_TENANTS)))

    async def _spaces(self) -> list[Space]:
        spaces = [record.data for record in await self._store.find(_list_query(_SPACES))]
        entries: dict[str, int] = {}
        for tenant in await self._all_tenants() if spaces else ():
            tally = await self._store.tally(Query(collection=COLLECTION, scope=Scope(tenant=tenant)))
            for space, count in tally.by_kind.items():
                entries[space] = entries.get(space, 0) + count
        return [Space(**data, entries=entries.get(data["name"], 0)) for data in spaces]

    async def _digest(self, space: str, key: EntryKey) -> str | None:
        asked = Query(collection=COLLECTION, ids=(_vector_id(space, key),), scope=key.scope)
        found = await self._store.find(asked)
        return _key(found[0])[1] if found else None

    async def _walk(self, space: str, size: int) -> AsyncIterator[list[tuple[EntryKey, str]]]:
        found: list[tuple[EntryKey, str]] = []
        for tenant in await self._all_tenants():
            query = Query(collection=COLLECTION, kinds=(space,), scope=Scope(tenant=tenant))
            async for page in walk(self._store, query):
                found += [_key(record) for record in page]
        found = sorted(dict(found).items())  # one that was replaced meanwhile was seen twice
        for start in range(0, len(found), size):
            yield found[start : start + size]

    async def _nearest(
        self, space: str, vector: Vector, scope: Scope, collections: list[str], limit: int
    ) -> list[Near]:
        held = self._held.setdefault((space, scope), _Held())
        self._held.move_to_end((space, scope))
        async with held.loading:
            version = await self._version(space, scope)
            if held.matrix is None or held.version != version:
                held.matrix, held.version = await self._load(space, scope), version
                self._let_go()
            matrix = held.matrix
        if matrix is None:
            return []
        if matrix.dimensions != len(vector):
            raise mismatch(space, matrix.dimensions, len(vector))
        return await asyncio.to_thread(matrix.nearest, vector, collections, limit)

    async def _version(self, space: str, scope: Scope) -> str | None:
        """The version of all that a scope may hold: its user's, or the whole tenant's."""
        id_ = _WHOLE_TENANT if scope.user is None else _user_version(scope.user)
        found = await self._store.find(_list_query(_versions(scope.tenant, space), id_))
        return found[0].data["version"] if found else None

    async def _load(self, space: str, scope: Scope) -> "Matrix | None":
        known = await self._space(space)
        if known is None:
            return None
        rows: dict[EntryKey, tuple[str, str]] = {}
        async for page in walk(self._store, Query(collection=COLLECTION, kinds=(space,), scope=scope)):
            for record in page:
                key, digest = _key(record)
                rows[key] = digest, record.data["vector"]
        return await asyncio.to_thread(Matrix, known.dimensions, rows)

    def _let_go(self) -> None:
        """Keep the memory within its bound: scopes not used for longest go first, the one just used stays."""
        total = sum(held.matrix.size_bytes for held in self._held.values() if held.matrix is not None)
        while len(self._held) > 1 and (total > self._cache_bytes or len(self._held) > _MOST_SCOPES):
            _, held = self._held.popitem(last=False)
            total -= held.matrix.size_bytes if held.matrix is not None else 0


class Matrix:
    """Vectors side by side, with the key and the digest of each; those of another length are left out."""

    def __init__(self, dimensions: int, rows: dict[EntryKey, tuple[str, str]]) -> None:
        bodies = [(key, digest, base64.b64decode(spelled)) for key, (digest, spelled) in rows.items()]
        kept = [row for row in bodies if len(row[2]) == 4 * dimensions]
        self.dimensions = dimensions
        self._entries = [(key, digest) for key, digest, _ in kept]
        self._codes = {name: code for code, name in enumerate({key.collection for key, _ in self._entries})}
        self._collections = np.array([self._codes[key.collection] for key, _ in self._entries], np.int16)
        floats = np.frombuffer(b"".join([body for *_, body in kept]), "<f4")
        self._vectors = floats.reshape(len(kept), dimensions)

    @property
    def size_bytes(self) -> int:
        return self._vectors.nbytes + _ROW_BYTES * len(self._entries)

    def nearest(self, vector: Vector, collections: Iterable[str], limit: int) -> list[Near]:
        """The rows with the highest cosines, equals ordered by key."""
        wanted = [self._codes[name] for name in collections if name in self._codes]
        rows = np.flatnonzero(np.isin(self._collections, wanted))
        scores = (self._vectors @ np.frombuffer(vector, np.float32))[rows]
        if limit < len(scores):
            edge = np.partition(scores, len(scores) - limit)[len(scores) - limit]
            # A little below the last one: rows whose scores are told alike must meet, whichever was computed higher.
            among = np.flatnonzero(scores >= edge - 2e-6)
            rows, scores = rows[among], scores[among]
        found = [
            Near(*self._entries[row], round_score(score))
            for row, score in zip(rows.tolist(), scores.tolist(), strict=True)
        ]
        return take_nearest(found, limit)


# How what is kept is named.


def _vector_id(space: str, key: EntryKey) -> str:
    return short_name(space, key.collection, key.id, key.scope_key)


def _vector_record(space: str, entry: Entry) -> Record:
    body = base64.b64encode(np.asarray(entry.vector, "<f4").tobytes()).decode()
    return Record(
        collection=COLLECTION,
        id=_vector_id(space, entry.key),
        kind=space,
        scope=entry.scope,
        text=entry.digest or "-",  # a record without text would be searched by its data, all of the vector
        data={"vector": body},
        metadata={"collection": entry.collection, "id": entry.id, "digest": entry.digest},
    )


def _key(record: Record) -> tuple[EntryKey, str]:
    about = record.metadata
    return EntryKey(about["collection"], about["id"], exact_scope(record.scope)), about["digest"]


def _note(id_: str, scope: Scope, data: dict[str, object]) -> Record:
    """A record of what an index knows about itself."""
    return Record(collection=COLLECTION, id=id_, scope=scope, text="-", data=data)


def _list_query(scope: Scope, *ids: str) -> Query:
    """All of a list, or what it has under these ids."""
    return Query(collection=COLLECTION, scope=scope, ids=ids or None)


def _mark_complete(space: str, *, complete: bool) -> Change:
    return Change(query=_list_query(_SPACES, short_name(space)), merge={"complete": complete})


def _versions(tenant: str, space: str) -> Scope:
    """Where the versions of a tenant's space are kept."""
    return Scope(tenant=tenant, user="", agent="", session=f"octavo:versions:{short_name(space)}")


def _user_version(user: str | None) -> str:
    return short_name(user or "")


def open_exact(url: str) -> ExactIndex:
    """Open `memory://`, or `exact+URL` with the URL of any store, such as `exact+mysql://host/database`."""
    scheme, _, rest = url.partition("://")
    kind, plus, inner = scheme.partition("+")
    if (kind == "memory") == bool(plus):
        raise ConfigError(f"{scheme}:// names no exact index; try memory:// or exact+sqlite:///octavo.db")
    return ExactIndex(open_store(f"{inner or 'memory'}://{rest}"), owned=True)
