"""The memory store: the specification of every other store, and a fast one where nothing must outlive the process."""

import asyncio
import heapq
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from urllib.parse import parse_qsl

import msgspec

from octavo.errors import ConfigError
from octavo.kernel.codec import Prepared
from octavo.kernel.model import Head, NameCount, Query, Rank, Record, ScopePart, Tally
from octavo.kernel.ports import Finding, Lexicon, Scrubbed
from octavo.kernel.shapes import StoredRecord
from octavo.kernel.terms.matches import (
    COMMON,
    ENOUGH,
    LOOKED,
    MOST,
    Match,
    Matches,
    is_unfiltered,
    nominate,
    order_words,
)
from octavo.kernel.terms.matching import count_terms, stored_index_text
from octavo.stores.base import Progress, SearchingStore, ignore_progress
from octavo.stores.records import CollectionIndex, Records

# Terms, after which others go first. Counted, not timed: on a busy machine time passes without work.
_STEP_WORK = 2000
_EACH = 8  # what a record costs beside its terms
_COMPARED = 50  # records or terms, after which others go first


class TermIndex:
    """For each term of a collection the records that hold it, and how often.

    It is late, since what comes is only noted, and brought up to date before a search.
    """

    def __init__(self, records: CollectionIndex) -> None:
        self._records = records
        self._postings: dict[str, dict[Rank, int]] = {}
        self._entries: dict[Rank, tuple[int, tuple[str, ...]]] = {}  # how long a record is, and its terms
        self.waiting: dict[Rank, None] = dict.fromkeys(records.ranks())

    def forget(self, rank: Rank) -> None:
        """Have nothing to do with this record any more."""
        self.waiting.pop(rank, None)
        _, terms = self._entries.pop(rank, (0, ()))
        for term in terms:
            posting = self._postings[term]
            del posting[rank]
            if not posting:
                del self._postings[term]

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
                progress(len(self._entries), len(self._entries) + left)
            if not left:
                return len(self._entries)
            await asyncio.sleep(0)

    def _add(self, rank: Rank) -> int:
        sealed = self._records.get((rank[2], rank[3]))
        if sealed is None:  # gone, since this index was given up for another
            return 0
        counted, length = _count_terms(sealed)
        for term, count in counted.items():
            self._postings.setdefault(term, {})[rank] = count
        self._entries[rank] = (length, tuple(counted))
        return length

    # --- one search; nothing may be waiting

    def search(self, query: Query, terms: Sequence[str]) -> Matches:
        """Answer as `search_records` would from all records of the collection."""
        postings = [self._postings.get(term, {}) for term in terms]
        search = _Search(self._records, query)
        holders = [search.holders(posting) for posting in postings]
        held = tuple(len(ranks) for ranks in holders)
        found = {rank for ranks in holders if len(ranks) <= MOST for rank in ranks}
        if max(held) > MOST or len(found) > MOST:
            chosen = [terms.index(term) for term in nominate(terms, held)]
            found = {rank for at in chosen for rank in holders[at][:MOST]}
            if held[chosen[0]] > MOST:
                posting = search.join([postings[at] for at in order_words(terms, held)])
                found = {*search.holders(posting)[:MOST]}
                if is_unfiltered(query) and search.is_common(posting):
                    latest = search.latest(posting)
                    found = latest if len(latest) >= ENOUGH else found
        matches = []
        for rank in sorted(found):
            counts = tuple([posting.get(rank, 0) for posting in postings])
            scope = self._records.row(rank).scope
            matches.append(Match(rank[2], scope, rank[0], rank[1], self._entries[rank][0], counts))
        return Matches(matches, held)

    async def verify(self, collection: str, progress: Progress) -> Lexicon:
        """Compare every entry with the text it was made from, and every posting with its entry."""
        wrong: set[str] = set()
        stray: set[Rank] = set()
        ranks = list(self._records.ranks())
        for done, rank in enumerate(ranks):
            sealed = self._records.get((rank[2], rank[3]))
            if sealed is not None and rank not in self.waiting:
                counted, length = _count_terms(sealed)
                indexed, terms = self._entries.get(rank, (-1, ()))
                held = {term: self._postings.get(term, {}).get(rank) for term in terms}
                if (indexed, held) != (length, counted):
                    wrong.add(sealed.id)
            if done % _COMPARED == 0:
                progress(done, len(ranks))
                await asyncio.sleep(0)
        for done, term in enumerate(list(self._postings)):
            for rank in self._postings.get(term, {}):
                if rank not in self._entries:
                    stray.add(rank)
                elif term not in self._entries[rank][1]:
                    wrong.add(rank[2])
            if done % _COMPARED == 0:
                await asyncio.sleep(0)
        kept = set(self._records.ranks())
        progress(len(kept), len(kept))
        return Lexicon(
            collection=collection,
            records=len(kept),
            waiting=len(self.waiting),
            missing=tuple(sorted(wrong)),
            stray=len(stray | (self._entries.keys() - kept)),
        )


class _Search:
    """Which records a search may find; each is compared with the query once, however many terms it holds."""

    def __init__(self, records: CollectionIndex, query: Query) -> None:
        self._records = records
        self._verdicts: dict[Rank, bool] = {}
        self._named: list[Rank] | None = None
        if query.ids is not None:
            query = msgspec.structs.replace(query, ids=frozenset(query.ids))
            self._named = sorted({sealed.rank for sealed in records.find_named(query)}, reverse=True)
        self._query = query
        self._breadth = records.count_walked(query) if self._named is None else len(self._named)

    def holders(self, posting: dict[Rank, int]) -> list[Rank]:
        """The newest of the records that answer the query and hold the term, newest first; no more than MOST + 1."""
        # A walk meets one of them in every (breadth / posting) steps, and may stop after MOST + 1.
        if self._breadth * min(1, (MOST + 1) / max(len(posting), 1)) < len(posting):
            walked = (rank for rank in self._walk() if rank in posting and self._matches(rank))
            return list(itertools.islice(walked, MOST + 1))
        return heapq.nlargest(MOST + 1, filter(self._matches, posting))

    def join(self, postings: Sequence[dict[Rank, int]]) -> dict[Rank, int]:
        """What holds the first of some terms, and as many of the others as ENOUGH records hold all of."""
        posting, *others = postings
        for other in others:
            both = {rank: n for rank, n in posting.items() if rank in other and self._matches(rank)}
            if len(both) < ENOUGH:
                break
            posting = both
        return posting

    def is_common(self, posting: dict[Rank, int]) -> bool:
        """Whether more than COMMON of the records that hold a term answer the query."""
        if len(posting) <= COMMON:
            return False
        return len(list(itertools.islice(filter(self._matches, posting), COMMON + 1))) > COMMON

    def latest(self, posting: dict[Rank, int]) -> set[Rank]:
        """Of the newest LOOKED records that answer the query those that hold the term, no more than MOST."""
        newest = itertools.islice(filter(self._matches, self._walk()), LOOKED)
        return set(itertools.islice((rank for rank in newest if rank in posting), MOST))

    def _walk(self) -> Iterator[Rank]:
        """The ranks inside the scope, from the newest on."""
        return (
            self._records.walk(self._query, newest_first=True) if self._named is None else iter(self._named)
        )

    def _matches(self, rank: Rank) -> bool:
        verdict = self._verdicts.get(rank)
        if verdict is None:
            sealed = self._records.row(rank)
            verdict = self._verdicts[rank] = self._query.matches(sealed)  # type: ignore[arg-type]
        return verdict


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
