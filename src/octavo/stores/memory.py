"""The memory store: the specification of every other store, and a fast one where nothing must outlive the process."""

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from octavo.errors import ConfigError
from octavo.kernel.codec import Prepared
from octavo.kernel.model import Head, NameCount, Query, Record, ScopePart, Tally
from octavo.kernel.ports import Finding, Lexicon, Scrubbed
from octavo.kernel.terms.matches import Matches
from octavo.stores.base import Progress, SearchingStore, unheard
from octavo.stores.records import Records

if TYPE_CHECKING:
    from octavo.stores.term_index import TermIndex


class MemoryStore(SearchingStore):
    """Records in this process's memory; an acknowledgement means they are in RAM."""

    def __init__(self) -> None:
        super().__init__()
        self._records = Records()

    async def _apply(self, ops: list[Prepared]) -> list[int]:
        return self._records.apply(ops)

    async def _find(self, query: Query) -> list[Record]:
        return [sealed.record for sealed in self._records.find(query)]

    async def _heads(self, query: Query) -> list[Head]:
        return [sealed.head for sealed in self._records.find(query)]

    async def _tally(self, query: Query) -> Tally:
        return self._records.collection(query.collection).tally(query)

    async def _names(self, query: Query, part: ScopePart, after: str) -> list[NameCount]:
        return self._records.collection(query.collection).names(query, part, after)

    async def _search(self, query: Query, terms: tuple[str, ...]) -> Matches:
        while True:
            index = self._term_index(query.collection)
            await index.catch_up()
            if index is self._term_index(query.collection):  # and was not made anew meanwhile
                return index.search(query, terms)

    async def scrub(self, progress: Progress | None = None) -> Scrubbed:
        """Nothing: what was removed is gone, and there are no files."""
        await self._ready()
        (progress or unheard)(1, 1)
        return Scrubbed(unreached=("the memory of this process, until the system gives it to others",))

    async def _reindex(self, collection: str, progress: Progress) -> int:
        self._records.collection(collection).terms = None
        return await self._term_index(collection).catch_up(progress)

    async def _verify(self, collection: str, progress: Progress) -> Lexicon:
        return await self._term_index(collection).verify(collection, progress)

    def _term_index(self, collection: str) -> "TermIndex":
        """The index of terms, in which everything waits when it is new."""
        records = self._records.collection(collection)
        if records.terms is None:
            from octavo.stores.term_index import TermIndex  # here, since only a search needs the tokenizer

            records.terms = TermIndex(records)
        return records.terms

    async def index_lag(self) -> int:
        """How many records wait to be indexed, of those collections that were searched."""
        return sum(len(one.terms.waiting) for one in self._records.collections() if one.terms is not None)

    async def tenants(self) -> list[str]:
        await self._ready()
        return self._records.tenants()

    async def describe(self) -> list[Finding]:
        return [
            Finding("store", "memory"),
            Finding(
                "durability",
                "none",
                "everything is lost when the process ends; use sqlite:///path.db to keep it",
            ),
        ]


def open_memory(url: str) -> MemoryStore:
    """Open `memory://`: a new, empty store each time."""
    if options := url.partition("?")[2]:
        unknown = ", ".join(dict(parse_qsl(options, keep_blank_values=True)) or [options])
        raise ConfigError(f"unknown option {unknown} in the memory URL; known: none")
    return MemoryStore()
