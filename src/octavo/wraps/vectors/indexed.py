"""A store with an index of vectors beside it."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Literal, Self, TypeAlias

import msgspec
from msgspec.structs import replace

from octavo.errors import ConfigError, StoreClosed, StoreError
from octavo.kernel.model import Add, Op, Query, Record, Scope, Tally, check_count
from octavo.kernel.ports import Embedder, Near, Store, TellsDigests, VectorIndex
from octavo.kernel.shapes import SHAPES
from octavo.wraps.vectors.comparing import ComparedRecords, Comparison, Differences
from octavo.wraps.vectors.upkeep import Upkeep
from octavo.wraps.vectors.waiting import (
    MOST_CHARACTERS,
    PENDING,
    Target,
    VectorOutcome,
    find_touched,
    markers,
    markers_query,
    passage_of,
)
from octavo.wraps.wrap import Wrap

#: The collections whose records are found by meaning unless others are named.
COLLECTIONS = ("messages", "exchanges", "profile", "episodes", "knowledge", "summaries")

#: Told how many records are done and how many there are, None when nobody knows.
Progress: TypeAlias = Callable[[int, int | None], None]


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """How far an index is behind its store, and why."""

    waiting: int  # writes whose records wait to be embedded, as far as this process knows
    embedded: int  # vectors put by this process
    dropped: int
    failures: int
    last_error: str | None
    serving: str  # the space that answers
    building: str | None  # the space that is being filled
    done: int | None = None  # records of it that have their vectors
    total: int | None = None

    @property
    def progress(self) -> float | None:
        """How much of the space under construction is there, from 0 to 1; None when that is not known."""
        if self.done is None or self.total is None:
            return None
        return self.done / self.total if self.total else 1.0


class VectorState(msgspec.Struct, frozen=True):
    """How one record stands with the model that makes its vector.

    It is `unread` where there is nothing to embed, or nothing in a language that the model reads; what waits has no
    vector yet, or one of an earlier text; `missing` should not be, and `octavo reindex` makes it.
    """

    model: str
    state: Literal["made", "waiting", "missing", "unread", "unknown"]


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the records that are to be found by meaning have their vectors."""

    model: str
    vectors: int
    records: int | None  # None where counting them would take long
    complete: bool  # whether all that was there when the model was first used has been embedded


class Indexed(Wrap):
    """Keeps vectors of the records beside the store, and finds records by them (`octavo.kernel.ports.Resembles`).

    A write is the store's alone and never waits for a model: together with it goes a marker that names what has to be
    embedded, in the same transaction, and a background task does it soon after. Whatever fails is tried again, by this process
    or the next one.

    With another embedder than before, every record is embedded anew in the background. Meanwhile the old vectors serve if
    `previous` is the embedder that made them; when the new ones are complete, the old are removed, unless `keep`.

    One index serves one store. Store, index and embedders are closed with this wrap; `owned=False` leaves them all open.
    """

    def __init__(
        self,
        store: Store,
        index: VectorIndex,
        embedder: Embedder,
        *,
        previous: Embedder | None = None,
        collections: Sequence[str] = COLLECTIONS,
        keep: bool = False,
        retry_seconds: tuple[float, float] = (0.5, 60.0),
        owned: bool = True,
    ) -> None:
        super().__init__(store, owned=owned)
        for name in ("heads", "find_within"):
            if callable(verb := getattr(store, name, None)):
                self.__dict__[name] = verb  # `find` answers nothing that the store does not
        self._index = index
        self._embedder = embedder
        self._previous = previous
        self._collections = _check_collections(collections)
        self._closed = False
        self._upkeep = Upkeep(
            store, index, embedder, previous, collections=self._collections, keep=keep, retry_seconds=retry_seconds
        )  # fmt: skip

    # The verbs of a store.

    @property
    def index(self) -> VectorIndex:
        """Where the vectors are."""
        return self._index

    async def apply(self, ops: Sequence[Op]) -> list[int]:
        """Apply all of the ops in order, or none; answer how many records each one added, changed or removed."""
        self._upkeep.start()
        ops = list(ops)
        notes = markers(await find_touched(self.inner, ops, self._collections))
        if not notes:
            return await self.inner.apply(ops)
        tenants = {note.scope.tenant for note in notes}
        try:
            counts = await self.inner.apply([*ops, Add(notes)])
        except (asyncio.CancelledError, StoreError):  # it may have been written all the same
            self._upkeep.note_written(tenants)
            raise
        self._upkeep.note_written(tenants)
        return counts[: len(ops)]

    async def find(self, query: Query) -> list[Record]:
        """Answer the query as `Query.over` would from all records kept."""
        self._upkeep.start()
        return await self.inner.find(query)

    async def tally(self, query: Query) -> Tally:
        """Count as `Tally.of` would from all records kept."""
        self._upkeep.start()
        return await self.inner.tally(query)

    async def close(self) -> None:
        """Stop after the batch under way, and close what is owned; what waits is in the store, for the next process."""
        if self._closed or self._upkeep.inherited:
            return
        await self._upkeep.stop()
        self._closed = True
        if not self._owned:
            return
        try:
            await self._index.close()  # first, since it may keep its vectors in the store
        finally:
            try:
                for embedder in (self._embedder, self._previous):
                    if embedder is not None:
                        await embedder.close()
            finally:
                await self.inner.close()

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._upkeep.start()
        return self

    # Finding by meaning.

    async def resembling(self, text: str, scope: Scope, collections: Sequence[str], limit: int) -> list[Near]:
        """The nearest records, best first; none when no model reads the language of the text, or while vectors are made
        for the first time of what was there before."""
        check_count(limit, "limit must be 0 or more")
        self._upkeep.start()
        await self._upkeep.learn()
        serving = self._upkeep.serving
        text = text[:MOST_CHARACTERS]
        # Those that have no vector yet would stand behind those that have.
        if serving.space == self._upkeep.building:
            return []
        if not limit or not text.strip() or not serving.embedder.reads(text):
            return []
        [vector] = await serving.embedder.embed([text], asking=True)
        return await self._index.nearest(serving.space, vector, scope, collections, limit)

    # Upkeep.

    async def settle(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as asyncio.wait has it
        """Wait until nothing waits to be embedded and no space is being filled; TimeoutError after so many seconds."""
        async with asyncio.timeout(timeout):
            await self._upkeep.settle()

    async def status(self) -> Status:
        """How far the index is behind the store."""
        upkeep = self._upkeep
        behind = [(await self.inner.tally(markers_query(tenant))).total for tenant in upkeep.busy_tenants]
        done, total = upkeep.progress
        return Status(
            waiting=sum(behind),
            embedded=upkeep.embedded,
            dropped=upkeep.dropped,
            failures=upkeep.failures,
            last_error=upkeep.last_error,
            serving=upkeep.serving.space,
            building=upkeep.building,
            done=done,
            total=total,
        )

    async def coverage(self) -> Coverage:
        """How many records there are to be found by meaning, and how many vectors of them."""
        spaces = {space.name: space for space in await self._index.spaces()}
        made = spaces.get(name := self._embedder.name)
        return Coverage(
            model=name,
            vectors=made.entries if made else 0,
            records=await self._reach(None, None).total(self.inner),
            complete=bool(made and made.complete),
        )

    async def vector_state(self, record: Record) -> VectorState:
        """Whether a record has its vector, and of which model."""
        target = Target(self._index, self._embedder)
        want = target.wants(passage_of(record)) if record.collection in self._collections else None
        if want is None:
            return VectorState(target.space, "unread")
        if not isinstance(self._index, TellsDigests):
            return VectorState(target.space, "unknown")
        if await self._index.digest(target.space, record.collection, record.id, record.scope) == want:
            return VectorState(target.space, "made")
        marked = replace(markers_query(record.scope.tenant), limit=1)
        late = self._upkeep.building or await self.inner.find(marked)
        return VectorState(target.space, "waiting" if late else "missing")

    async def verify_vectors(
        self,
        progress: Progress | None = None,
        *,
        collections: Sequence[str] | None = None,
        tenant: str | None = None,
    ) -> Differences:
        """Compare every record with the index, one by one, while others write."""
        reach = self._reach(collections, tenant)
        total = await reach.total(self.inner) if progress else None
        with closing(Comparison(self.inner, Target(self._index, self._embedder), reach)) as comparison:

            async def each(_: VectorOutcome) -> None:
                if progress is not None:
                    progress(comparison.records, total)

            await comparison.compare(each)
            return await comparison.differences()

    async def reindex_vectors(
        self,
        progress: Progress | None = None,
        *,
        collections: Sequence[str] | None = None,
        tenant: str | None = None,
    ) -> int:
        """Embed what waits, is missing or is of another text, and drop what is stray; answer how many were embedded."""
        reach = self._reach(collections, tenant)
        total = await reach.total(self.inner) if progress else None
        embedded = await self._upkeep.drain(await reach.tenants())
        with closing(Comparison(self.inner, Target(self._index, self._embedder), reach)) as comparison:

            async def each(outcome: VectorOutcome) -> None:
                nonlocal embedded
                embedded += outcome.embedded
                self._upkeep.count(outcome)
                if progress is not None:
                    done, compared = comparison.progress
                    progress(done, total if compared is None else compared)

            await comparison.rebuild(each)
        if tenant is None and set(reach.collections) >= set(self._collections):
            await self._upkeep.note_filled()
        return embedded

    def _reach(self, collections: Sequence[str] | None, tenant: str | None) -> ComparedRecords:
        if self._closed:
            raise StoreClosed("this Indexed store was closed; make another one")
        named = None if collections is None else _check_collections(collections)
        return self._upkeep.reach(named, tenant)


def _check_collections(collections: Sequence[str]) -> tuple[str, ...]:
    named = (collections,) if isinstance(collections, str) else tuple(dict.fromkeys(collections))
    for name in named:
        if name not in SHAPES:
            raise ConfigError(f"unknown collection {name!r}; known: {', '.join(SHAPES)}")
        if name in (PENDING, "vectors"):
            raise ConfigError(f"{name!r} is derived from the other collections and has no vectors of its own")
    return named
