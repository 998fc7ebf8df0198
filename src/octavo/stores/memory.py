"""The memory store: the specification of every other store, and a fast one where nothing must outlive the process."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from urllib.parse import parse_qsl

import msgspec

from octavo.errors import ConfigError
from octavo.kernel.codec import Prepared, StoredRecord
from octavo.kernel.model import Head, NameCount, Query, Rank, Record, ScopePart, Tally
from octavo.kernel.ports import Finding, Lexicon, Scrubbed
from octavo.kernel.terms.matches import COMMON, LOOKED, Match, Matches, is_unfiltered, narrow, newest
from octavo.kernel.terms.matching import count_terms, stored_index_text
from octavo.stores.base import Progress, SearchingStore, ignore_progress
from octavo.stores.records import CollectionIndex, Records

# Terms, after which others go first. Counted, not timed: on a busy machine time passes without work.
_STEP_WORK = 2000
_EACH = 8  # what a record costs beside its terms
_COMPARED = 50  # records, after which others go first


class TermIndex:
    """The terms of each record of a collection, and how often it holds them.

    It is late, since what comes is only noted, and brought up to date before a search.
    """

    def __init__(self, records: CollectionIndex) -> None:
        self._records = records
        self._counted: dict[Rank, tuple[Counter[str], int]] = {}
        self.waiting: dict[Rank, None] = dict.fromkeys(records.ranks())

    def forget(self, rank: Rank) -> None:
        """Have nothing to do with this record any more."""
        self.waiting.pop(rank, None)
        self._counted.pop(rank, None)

    async def catch_up(self, progress: Progress | None = None) -> int:
        """Index all that waits and let others go in between; answer how many records are indexed, with none waiting."""
        left = len(self.waiting)
        while True:
            work = _STEP_WORK
            while self.waiting and (len(self.waiting) > left or work > 0):
                # What came meanwhile is not counted: or who writes as fast as this works would never let it end.
                counted = len(self.waiting) <= left
                rank, _ = self.waiting.popitem()
                length = self._add(rank)
                if counted:
                    work -= _EACH + length
            left = len(self.waiting)
            if progress is not None:
                progress(len(self._counted), len(self._counted) + left)
            if not left:
                return len(self._counted)
            await asyncio.sleep(0)

    def _add(self, rank: Rank) -> int:
        sealed = self._records.get((rank[2], rank[3]))
        if sealed is None:  # gone, since this index was given up for another
            return 0
        counted = self._counted[rank] = _count_terms(sealed)
        return counted[1]

    def search(self, query: Query, terms: Sequence[str]) -> Matches:
        """Answer as `search_records` would from all records of the collection; nothing may be waiting."""
        inside = self._records.find(query)
        matches = []
        for sealed in inside:
            counted, length = self._counted[sealed.rank]
            counts = tuple([counted.get(term, 0) for term in terms])
            if any(counts):
                matches.append(Match(sealed.id, sealed.scope, sealed.created_at, sealed.seq, length, counts))
        found, held = msgspec.structs.astuple(narrow(matches, terms))
        common = len(found) > COMMON and len(inside) > LOOKED and is_unfiltered(query)
        return Matches(newest(found, inside[-LOOKED].rank if common else None), held)

    async def verify(self, collection: str, progress: Progress) -> Lexicon:
        """Compare what is known of each record with the text it was made from."""
        wrong: set[str] = set()
        ranks = list(self._records.ranks())
        for done, rank in enumerate(ranks):
            if done % _COMPARED == 0:
                progress(done, len(ranks))
                await asyncio.sleep(0)
            sealed = self._records.get((rank[2], rank[3]))
            if sealed is None or rank in self.waiting:
                continue
            if self._counted.get(rank) != _count_terms(sealed):
                wrong.add(sealed.id)
        kept = set(self._records.ranks())
        progress(len(kept), len(kept))
        return Lexicon(
            collection=collection,
            records=len(kept),
            waiting=len(self.waiting),
            missing=tuple(sorted(wrong)),
            stray=len(self._counted.keys() - kept),
        )


def _count_terms(sealed: StoredRecord) -> tuple[Counter[str], int]:
    return count_terms(*stored_index_text(sealed.text, sealed.data_json))


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
        await self._ensure_open()
        (progress or ignore_progress)(1, 1)
        return Scrubbed(unreached=("the memory of this process, until the system gives it to others",))

    async def _reindex(self, collection: str, progress: Progress) -> int:
        self._records.collection(collection).terms = None
        return await self._term_index(collection).catch_up(progress)

    async def _verify(self, collection: str, progress: Progress) -> Lexicon:
        return await self._term_index(collection).verify(collection, progress)

    def _term_index(self, collection: str) -> TermIndex:
        """The index of terms, in which everything waits when it is new."""
        records = self._records.collection(collection)
        if records.terms is None:
            records.terms = TermIndex(records)
        return records.terms

    async def tenants(self) -> list[str]:
        await self._ensure_open()
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
