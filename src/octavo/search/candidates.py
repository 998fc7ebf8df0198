"""Who might be meant: what the terms find and what the vectors name, each checked against the store."""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from octavo.errors import ModelError, StoreError
from octavo.kernel.model import Head, Query, Record, Scope
from octavo.kernel.pages import list_heads, walk
from octavo.kernel.ports import Near, Resembles, Searches, Store
from octavo.kernel.terms.matches import MOST, Match, Matches
from octavo.kernel.terms.matching import digest, search_records
from octavo.kernel.terms.terms import terms as terms_of
from octavo.kernel.text import content
from octavo.search.question import Question
from octavo.util.tracing import span

NEAREST = 100  # neighbours asked of a vector index
_READ_BYTES = 2**22  # of neighbours are in memory at a time while they are looked at
_OVERVIEW = 100  # of each collection, the newest are told when all that is known is asked for
_NEWEST = 50  # of each collection of _TOLD, the newest are looked at where the terms find fewer: they may say it in other words
_TOLD = ("messages", "profile", "episodes")  # collections of what people say in words
_READ = 10_000  # records read of a store that has no index of terms
_log = logging.getLogger("octavo.search")

Key: TypeAlias = tuple[str, str, str]  # the collection, the id and the scope of a record


class Candidates(msgspec.Struct):
    """All candidates of a question, oldest first, of all collections together."""

    queries: Sequence[Query]  # what was asked of the store
    found: list[Match]
    collections: list[str]
    held: tuple[int, ...]  # for each term, how many records hold it
    cosines: dict[int, float]  # by position, of those that the vectors named
    stages: dict[str, float]
    notes: tuple[str, ...]

    def key(self, at: int) -> Key:
        """What names a candidate in a store."""
        return _key(self.collections[at], self.found[at])

    def position(self, record: Record) -> int | None:
        """Where a record stands among the candidates."""
        wanted = _key(record.collection, record)
        return next((at for at in range(len(self.found)) if self.key(at) == wanted), None)


async def gather(store: Store, question: Question, queries: Sequence[Query]) -> Candidates:
    """Ask the store's terms and its vectors at the same time."""
    stages: dict[str, float] = {}
    notes: list[str] = []
    vectors = asyncio.create_task(_by_vectors(store, question, queries, stages, notes))
    try:
        by_terms = await _by_terms(store, question, queries, stages)
        near = await vectors
    finally:
        vectors.cancel()  # nothing to do once it is done; but nobody waits for it when the terms failed
    held = tuple(min(sum(column), MOST + 1) for column in zip(*(m.held for m in by_terms), strict=True))
    rows = [(q.collection, match) for q, m in zip(queries, by_terms, strict=True) for match in m.found]
    cosines: dict[int, float] = {}
    started = time.perf_counter()
    if near:
        near.sort(key=lambda one: one.score)  # what two texts named is as near as it is to the nearer
        named = {(n.key.collection, n.key.id, n.key.scope_key): n for n in near}
        seen = {_key(*row) for row in rows}
        unseen = {key: n.digest for key, n in named.items() if key not in seen}
        with span("octavo.recall.check"):
            rows += await _read_neighbours(store, queries, unseen, len(question.terms))
    stages["check"] = _since(started)
    if near or sum([bool(matches.found) for matches in by_terms]) > 1:  # each by itself is in order
        rows.sort(key=lambda row: row[1].rank)
    if near:
        cosines = {at: named[key].score for at, row in enumerate(rows) if (key := _key(*row)) in named}
    found, names = [match for _, match in rows], [name for name, _ in rows]
    return Candidates(queries, found, names, held, cosines, stages, tuple(notes))


async def _by_terms(
    store: Store, question: Question, queries: Sequence[Query], stages: dict[str, float]
) -> list[Matches]:
    started = time.perf_counter()
    searches = store if isinstance(store, Searches) else None
    none = (0,) * len(question.terms)

    async def search(query: Query) -> Matches:
        if question.overview:
            return await _with_newest(store, query, Matches([], none), _OVERVIEW)
        if searches is not None:
            matches = await searches.search(query, question.terms)
        else:
            records = await store.find(msgspec.structs.replace(query.unpaged, limit=_READ))
            matches = search_records(query, question.terms, records)
        if question.words and query.collection in _TOLD and len(matches.found) < _NEWEST:
            matches = await _with_newest(store, query, matches, _NEWEST)
        return matches

    if not question.terms and not question.overview:
        return [Matches() for _ in queries]
    with span("octavo.recall.terms"):
        found = await asyncio.gather(*map(search, queries))
    stages["terms"] = _since(started)
    return list(found)


async def _with_newest(store: Store, query: Query, matches: Matches, most: int) -> Matches:
    """What the terms found, and so many of the newest records that they did not find."""
    heads = await list_heads(store, msgspec.structs.replace(query, newest_first=True, limit=most))
    known = {_key(query.collection, match) for match in matches.found}
    none = (0,) * len(matches.held)
    more = [
        Match(one.id, one.scope, one.created_at, one.seq, 0, none)
        for one in heads
        if _key(query.collection, one) not in known
    ]
    return Matches(sorted([*matches.found, *more], key=lambda match: match.rank), matches.held)


async def _by_vectors(
    store: Store, question: Question, queries: Sequence[Query], stages: dict[str, float], notes: list[str]
) -> list[Near]:
    if not isinstance(store, Resembles) or not question.text.strip():
        return []
    started = time.perf_counter()
    # A vector of small talk and the question after it would be half about the small talk.
    # What is said before the end of a text takes place in its vector, and is less to the point.
    texts = filter(None, (question.asked or question.text, question.ending))
    collections: dict[Scope, list[str]] = {}
    for query in queries:
        collections.setdefault(query.scope, []).append(query.collection)
    try:
        with span("octavo.recall.vectors"):
            near = [
                one
                for text in texts
                for scope, names in collections.items()
                for one in await store.resembling(text, scope, names, NEAREST)
            ]
    except (ModelError, StoreError) as error:  # words alone still find most of it
        _log.warning("recall goes on without vectors: %s", error)
        notes.append(f"without vectors: {error}")
        return []
    stages["vectors"] = _since(started)
    return near


async def _read_neighbours(
    store: Store, queries: Sequence[Query], digests: dict[Key, str], terms: int
) -> list[tuple[str, Match]]:
    """The neighbours that are really there: in the scope, past every filter, and with the text that was embedded."""

    async def read(query: Query) -> list[tuple[str, Match]]:
        ids = dict.fromkeys(id_ for collection, id_, _ in digests if collection == query.collection)
        wanted = tuple(id_ for id_ in ids if query.ids is None or id_ in query.ids)
        rows: list[tuple[str, Match]] = []
        if not wanted:
            return rows
        asked = msgspec.structs.replace(query.unpaged, ids=wanted)
        async for page in walk(store, asked, max_bytes=_READ_BYTES):
            for record in page:
                text = content(record.text, record.data)
                if digests.get(_key(record.collection, record)) == digest(text):
                    length, none = len(terms_of(text)), (0,) * terms
                    match = Match(record.id, record.scope, record.created_at, record.seq, length, none)
                    rows.append((record.collection, match))
        return rows

    return [row for rows in await asyncio.gather(*map(read, queries)) for row in rows]


def _key(collection: str, found: Match | Head | Record) -> Key:
    return collection, found.id, found.scope.key


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1000
