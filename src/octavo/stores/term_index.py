"""Which records of a collection hold a term: late, since what comes is only noted, and brought up to date before a search."""

import asyncio
import heapq
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from octavo.kernel.codec import StoredRecord
from octavo.kernel.model import Query, Rank
from octavo.kernel.ports import Lexicon
from octavo.kernel.terms.matches import COMMON, ENOUGH, LOOKED, MOST, Match, Matches, is_unfiltered, nominated
from octavo.kernel.terms.matching import count_terms, stored_index_text
from octavo.stores.base import Progress
from octavo.stores.records import CollectionIndex

_STEP_WORK = (
    2000  # terms, after which others go first. Counted, not timed: on a busy machine time passes without work
)
_EACH = 8  # what a record costs beside its terms


class TermIndex:
    """For each term the records that hold it, and how often."""

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
        if (
            sealed := self._records.get((rank[2], rank[3]))
        ) is None:  # gone, since this index was given up for another
            return 0
        counted, length = _counted(sealed)
        for term, count in counted.items():
            self._postings.setdefault(term, {})[rank] = count
        self._entries[rank] = (length, tuple(counted))
        return length

    # --- one search; nothing may be waiting

    def search(self, query: Query, terms: Sequence[str]) -> Matches:
        """Answer as `matching` would from all records of the collection."""
        postings = [self._postings.get(term, {}) for term in terms]
        search = _Search(self._records, query)
        holders = [search.holders(posting) for posting in postings]
        held = tuple(len(ranks) for ranks in holders)
        found = {rank for ranks in holders if len(ranks) <= MOST for rank in ranks}
        if max(held) > MOST or len(found) > MOST:
            chosen = [terms.index(term) for term in nominated(terms, held)]
            found = {rank for at in chosen for rank in holders[at][:MOST]}
            if held[chosen[0]] > MOST and is_unfiltered(query) and search.is_common(postings[chosen[0]]):
                latest = search.latest(postings[chosen[0]])
                found = latest if len(latest) >= ENOUGH else found
        matches = []
        for rank in sorted(found):
            counts = tuple([posting.get(rank, 0) for posting in postings])
            scope = self._records.row(rank).scope
            matches.append(Match(rank[2], scope, rank[0], rank[1], self._entries[rank][0], counts))
        return Matches(matches, held)

    # --- being compared with the records

    async def verify(self, collection: str, progress: Progress) -> Lexicon:
        """Compare every entry with the text it was made from."""
        wrong: set[str] = set()
        stray: set[Rank] = set()
        ranks = list(self._records.ranks())
        things: list[Rank | str] = [*ranks, *self._postings]
        work = _STEP_WORK
        for done, looked_at in enumerate(things):
            if isinstance(looked_at, str):
                work -= self._verify_posting(looked_at, wrong, stray)
            elif looked_at not in self.waiting:
                work -= self._verify_record(looked_at, wrong)
            if work <= 0:
                work = _STEP_WORK
                progress(done * len(ranks) // len(things), len(ranks))
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

    def _verify_record(self, rank: Rank, wrong: set[str]) -> int:
        """Note the id of a record that is not indexed as it should be; answer what that took."""
        if (sealed := self._records.get((rank[2], rank[3]))) is None:
            return 0
        counted, length = _counted(sealed)
        indexed_length, terms = self._entries.get(rank, (-1, ()))
        found = {term: self._postings.get(term, {}).get(rank) for term in terms}
        if indexed_length != length or found != counted:
            wrong.add(sealed.id)
        return _EACH + length

    def _verify_posting(self, term: str, wrong: set[str], stray: set[Rank]) -> int:
        """Note what a term leads to and should not; answer what that took."""
        posting = self._postings.get(term, {})
        for rank in posting:
            if rank not in self._entries:
                stray.add(rank)
            elif term not in self._entries[rank][1]:
                wrong.add(rank[2])
        return 1 + len(posting) // 4


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
        self._breadth = records.breadth(query) if self._named is None else len(self._named)

    def holders(self, posting: dict[Rank, int]) -> list[Rank]:
        """The newest of the records that answer the query and hold the term, newest first; no more than MOST + 1."""
        # A walk meets one of them in every (breadth / posting) steps, and may stop after MOST + 1.
        if self._breadth * min(1, (MOST + 1) / max(len(posting), 1)) < len(posting):
            walked = (rank for rank in self._walk() if rank in posting and self._answers(rank))
            return list(itertools.islice(walked, MOST + 1))
        return heapq.nlargest(MOST + 1, filter(self._answers, posting))

    def is_common(self, posting: dict[Rank, int]) -> bool:
        """Whether more than COMMON of the records that hold a term answer the query."""
        if len(posting) <= COMMON:
            return False
        return len(list(itertools.islice(filter(self._answers, posting), COMMON + 1))) > COMMON

    def latest(self, posting: dict[Rank, int]) -> set[Rank]:
        """Of the newest LOOKED records that answer the query those that hold the term, no more than MOST."""
        newest = itertools.islice(filter(self._answers, self._walk()), LOOKED)
        return set(itertools.islice((rank for rank in newest if rank in posting), MOST))

    def _walk(self) -> Iterator[Rank]:
        """The ranks inside the scope, from the newest on."""
        return (
            self._records.walk(self._query, newest_first=True) if self._named is None else iter(self._named)
        )

    def _answers(self, rank: Rank) -> bool:
        verdict = self._verdicts.get(rank)
        if verdict is None:
            sealed = self._records.row(rank)
            verdict = self._verdicts[rank] = self._query.matches(sealed)  # type: ignore[arg-type]
        return verdict


def _counted(sealed: StoredRecord) -> tuple[Counter[str], int]:
    return count_terms(*stored_index_text(sealed.text, sealed.data_json))
