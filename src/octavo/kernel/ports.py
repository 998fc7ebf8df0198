"""What a backend must be able to do: three verbs, and small separate promises for what only some can."""

from array import array
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Literal, Protocol, Self, TypeAlias, runtime_checkable

import msgspec

from octavo.kernel.model import (
    Head,
    NameCount,
    Op,
    Query,
    Record,
    Scope,
    ScopePart,
    Tally,
    exact_scope,
)
from octavo.kernel.terms.matches import Matches

#: A direction in meaning: 32-bit floats of unit length, so that a dot product is a cosine.
Vector: TypeAlias = "array[float]"


@runtime_checkable
class Store(Protocol):
    """Where records live. A store opens on first use, and whoever opened it closes it."""

    async def apply(self, ops: Sequence[Op]) -> list[int]:
        """Apply all of the ops in order, or none; answer how many records each one added, changed or removed."""
        ...

    async def find(self, query: Query) -> list[Record]:
        """Answer the query as `Query.over` would from all records kept."""
        ...

    async def tally(self, query: Query) -> Tally:
        """Count as `Tally.of` would from all records kept."""
        ...

    async def close(self) -> None:
        """Finish what was begun and let go of the backend; a second call does nothing."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...


class Finding(msgspec.Struct, frozen=True):
    """One thing `doctor` has to say: a plain fact, or a warning with its cure."""

    name: str
    value: str
    warning: str = ""


@runtime_checkable
class Describes(Protocol):
    """A store that can say what it is, how durable it is and what is dangerous about it."""

    async def describe(self) -> list[Finding]: ...


@runtime_checkable
class ListsTenants(Protocol):
    """A store that can name every tenant it keeps records of, sorted, so that all of it can be moved or counted."""

    async def tenants(self) -> list[str]: ...


@runtime_checkable
class ListsHeads(Protocol):
    """A store that answers without texts and bodies, so that it is known how large a page is before it is read."""

    async def heads(self, query: Query) -> list[Head]:
        """The `Head.of` each record that `find` would answer, in the same order."""
        ...


@runtime_checkable
class FindsWithin(Protocol):
    """A store that answers at once if the answer is small enough, without being asked before how large it is."""

    async def find_within(self, query: Query, max_bytes: int) -> list[Record] | None:
        """What `find` answers; None if texts and bodies of that, as `heads` counts them, take more than so many bytes.

        Where a limit parts records of the same time and seq, any of these may be counted.
        """
        ...


@runtime_checkable
class ListsNames(Protocol):
    """A store that can say which users, agents and sessions have records, a page at a time."""

    async def names(
        self, collection: str, part: ScopePart, scope: Scope = ..., *, after: str = "", limit: int = 100
    ) -> list[NameCount]:
        """Everybody named within the scope, in the order of their names' characters, those behind `after`.

        Answers as `NameCount.of` would from all records kept. The last name of a page is where the next one begins.
        """
        ...


class Lexicon(msgspec.Struct, frozen=True, kw_only=True):
    """How a store's index of terms stands against its records: what waits to be indexed, and what is wrong."""

    collection: str
    records: int
    waiting: int = 0
    missing: tuple[str, ...] = ()  # ids of records whose index entry is not there, or is of another text
    stray: int = 0  # index entries of records that are gone


@runtime_checkable
class Searches(Protocol):
    """A store that finds records by their terms. Its index may lag behind the records; its answers never do."""

    async def search(self, query: Query, terms: Sequence[str]) -> Matches:
        """Answer as `octavo.kernel.terms.matching.search_records` would from all records kept."""
        ...

    async def reindex(self, collection: str, progress: Callable[[int, int], None] | None = None) -> int:
        """Build the index of a collection anew, while searches go on; answer how many records are in it."""
        ...

    async def verify(self, collection: str, progress: Callable[[int, int], None] | None = None) -> Lexicon:
        """Compare the index of a collection with its records, one by one."""
        ...


@runtime_checkable
class IndexesLater(Protocol):
    """A store that indexes terms some time after a write, and can say what waits. A search finds that too, and may take longer."""

    async def lag(self, collection: str, most: int) -> int:
        """How many records wait to be indexed, counted up to one more than `most`; from now on they are, in idle time."""
        ...

    async def unindexed(self, query: Query) -> set[str]:
        """The ids of the records that answer the query and wait to be indexed."""
        ...


class PoolUse(msgspec.Struct, frozen=True):
    """The connections of a pool: those at work, those that wait for work, and how many there may be."""

    busy: int
    idle: int
    most: int


@runtime_checkable
class Pools(Protocol):
    """A store that shares connections among its callers."""

    def pool_use(self) -> PoolUse | None:
        """How its connections are used now; None while it has none."""
        ...


class Scrubbed(msgspec.Struct, frozen=True, kw_only=True):
    """What was done about the bytes that removed records leave behind, the files to look for them in, and what is out of reach."""

    done: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    unreached: tuple[str, ...] = ()


@runtime_checkable
class Scrubs(Protocol):
    """A store, or an index of vectors, that can be rid of what removed records leave behind in its files."""

    async def scrub(self, progress: Callable[[int, int], None] | None = None) -> Scrubbed:
        """Write anew what may hold such bytes, while others read and write; `progress` is told of each step."""
        ...


@runtime_checkable
class Renews(Protocol):
    """A store whose records expire some time after the last write, and can be told to live on."""

    async def renew(self, collections: Sequence[str], scope: Scope) -> None: ...


#: Where a write is when its call returns: in the store, or on disk behind it.
WriteStatus: TypeAlias = Literal["stored", "queued"]


class Written(msgspec.Struct, frozen=True):
    """What became of a write. Nobody knows yet what a queued one will change: its counts are 0."""

    status: WriteStatus
    counts: list[int]

    @property
    def stored(self) -> bool:
        return self.status == "stored"


@runtime_checkable
class Queues(Protocol):
    """A store that keeps what cannot be stored now until it can, and says which of the two became of a write.

    Without `queue`, the ops are stored now or not at all. `later` is done behind them if they are queued.
    """

    async def write(self, ops: Sequence[Op], *, queue: bool = True, later: Sequence[Op] = ()) -> Written: ...


async def write_ops(store: Store, ops: Sequence[Op], *, queue: bool = True) -> Written:
    """Apply the ops; a store with a queue may queue them instead, unless `queue` is False."""
    if isinstance(store, Queues):
        return await store.write(ops, queue=queue)
    return Written("stored", await store.apply(ops))


@runtime_checkable
class Embedder(Protocol):
    """Turns text into vectors. `name` names the space they live in: vectors of two names are never compared."""

    @property
    def name(self) -> str: ...

    def reads(self, text: str) -> bool:
        """Whether the model was made for text in this language; if not, its opinion on it is not asked for."""
        ...

    async def embed(self, texts: Sequence[str], *, asking: bool = False) -> list[Vector]:
        """One vector of unit length for each text; `asking` says that they are questions, not things to find."""
        ...

    async def close(self) -> None: ...


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What a vector index keeps of one record; `digest` is of the text that was embedded."""

    collection: str
    id: str
    scope: Scope
    digest: str
    vector: Vector

    @property
    def key(self) -> "EntryKey":
        return EntryKey(self.collection, self.id, exact_scope(self.scope))


class EntryKey(msgspec.Struct, frozen=True, gc=False):
    """The whole name of a record and of its entry. The scope is exact, so that the record can be asked for."""

    collection: str
    id: str
    scope: Scope

    @classmethod
    def of(cls, record: Record) -> "EntryKey":
        return cls(record.collection, record.id, exact_scope(record.scope))

    @property
    def scope_key(self) -> str:
        return self.scope.key

    @property
    def order(self) -> tuple[str, str, str]:
        """What keys are ordered by."""
        return (self.collection, self.id, self.scope.key)

    def __lt__(self, other: "EntryKey") -> bool:
        return self.order < other.order


class Near(msgspec.Struct, frozen=True):
    """A neighbour: whose it is, which text it was made from, and its cosine with what was asked for."""

    key: EntryKey
    digest: str
    score: float


class Space(msgspec.Struct, frozen=True, kw_only=True):
    """One embedding model's vectors in an index; a space that is not complete is still being filled."""

    name: str
    dimensions: int
    complete: bool
    entries: int


@runtime_checkable
class VectorIndex(Protocol):
    """Vectors of records, derived from a store and rebuildable from it. Each embedding model has a space of its own.

    An index opens on first use, and whoever opened it closes it. What it cannot reach is StoreUnavailable.
    """

    async def put(self, space: str, entries: Sequence[Entry]) -> None:
        """Keep these, in place of entries of the same key; the first ones make the space."""
        ...

    async def drop(self, space: str, keys: Sequence[EntryKey]) -> None:
        """Forget these; a key that is not kept, or a space that is not there, is nothing to do."""
        ...

    async def nearest(
        self, space: str, vector: Vector, scope: Scope, collections: Sequence[str], limit: int
    ) -> list[Near]:
        """The entries inside the scope and the collections that are nearest, best first; filtered before ranked."""
        ...

    def walk(self, space: str, size: int = 1000) -> AsyncIterator[list[tuple[EntryKey, str]]]:
        """Every key with its digest, in pages, ordered by key."""
        ...

    async def spaces(self) -> list[Space]:
        """The spaces kept, ordered by name."""
        ...

    async def complete(self, space: str) -> None:
        """Note that every record now has its vector here, so that the space may serve; one that is not there stays so."""
        ...

    async def forget(self, space: str) -> None:
        """Remove a whole space; one that is not there is nothing to do."""
        ...

    async def close(self) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...


@runtime_checkable
class TellsDigests(Protocol):
    """A vector index that can say of a single record which text its vector was made from."""

    async def digest(self, space: str, collection: str, id_: str, scope: Scope) -> str | None:
        """The digest of that text; None where there is no vector. The scope is the record's own."""
        ...


@runtime_checkable
class Resembles(Protocol):
    """A store that also finds records by meaning. What it names may be stale: the store has the last word."""

    async def resembling(self, text: str, scope: Scope, collections: Sequence[str], limit: int) -> list[Near]:
        """The nearest records, best first; none when no model reads the language of the text."""
        ...


@runtime_checkable
class Reranks(Protocol):
    """A store beside which a second model reads the best hits of a question once more."""

    def most_reranked(self) -> int:
        """How many of the best hits it reads."""
        ...

    async def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        """How well each text answers the question, in any unit; ModelError where the model does not say so in time."""
        ...
