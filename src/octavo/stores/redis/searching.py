"""Search by terms: the blocks of the places a scope covers, what filters leave of them, and the rule of MOST."""

import asyncio
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import TypeAlias

import msgspec

from octavo.errors import StoreError
from octavo.kernel.model import Query, Scope
from octavo.kernel.terms.matches import MOST, Match, Matches, nominated
from octavo.stores.redis import rows
from octavo.stores.redis.index_rows import known, note_id, noted, numbers, postings, scope_of
from octavo.stores.redis.indexing import Index
from octavo.stores.redis.layout import axes, moment
from octavo.stores.redis.seek_scripts import CLEAN, NEWEST, RECORDS, SEEK

_PLACES = 500  # looked into by one call
_BYTES = 4 * 1024 * 1024
_RECORDS = 4000  # read by one call
#: From so many on, the newest ones are looked for from the newest record back instead of being sorted out of all.
_MANY = 20_000
_TRIES = 100

_pack = msgspec.msgpack.Encoder().encode
_sought = msgspec.msgpack.Decoder(
    tuple[int, str, list[tuple[str, str, list[tuple[int, list[int]]]]], list[str]]
)
_records = msgspec.msgpack.Decoder(tuple[list[str | bool], list[str | bool]])
_newest = msgspec.msgpack.Decoder(tuple[str, list[int]])

#: Time and seq, id, place; the note, whose, how often each term.
_Ranked: TypeAlias = tuple[str, str, str, str, Scope, list[int]]


class _Moved(Exception):  # noqa: N818
    """A block was emptied into another between two looks."""


class _Block:
    """What a search has found in one block."""

    def __init__(
        self, number: int, place: str, scope: Scope, ending: set[int], held: dict[int, dict[int, int]]
    ) -> None:
        self.number = number
        self.place = place
        self.scope = scope
        self.ending = ending  # numbers of records that may end
        self.held = held  # by the term's position
        self.passed: set[int] = set().union(*held.values())
        self.all = len(self.passed)
        self.notes: dict[int, str] = {}

    def holders(self, at: int) -> int:
        """How many of those that passed hold the term at this position."""
        held = self.held.get(at, {})
        return len(held) if len(self.passed) == self.all else len(self.passed & held.keys())

    def ranked(self, terms: int) -> list[_Ranked]:
        """Those that passed, each with what it is ordered by, its note and how often it holds each term."""
        counts = {number: [0] * terms for number in self.passed}
        for at, held in self.held.items():
            for number, count in held.items():
                if number in counts:
                    counts[number][at] = count
        return [
            (note[:29], note_id(note), self.place, note, self.scope, counts[number])
            for number, note in self._noted()
        ]

    def _noted(self) -> list[tuple[int, str]]:
        return [(number, self.notes[number]) for number in self.passed]


class Search:
    """One question to an index."""

    def __init__(self, index: Index, query: Query, terms: Sequence[str]) -> None:
        self._index = index
        self._query = query if query.ids is None else msgspec.structs.replace(query, ids=frozenset(query.ids))
        self._terms = terms
        self._blocks: list[_Block] = []

    async def matches(self) -> Matches:
        """What `octavo.kernel.terms.matching.matching` would find."""
        for attempt in range(_TRIES):
            try:
                self._blocks = []
                await self._seek()
                return await self._found()
            except _Moved:
                await asyncio.sleep(0.001 * attempt)
        raise StoreError(f"the index of terms was moved {_TRIES} times while it was read")

    async def _seek(self) -> None:
        """Find the blocks that hold any of the terms; no word of what was written before is left out."""
        scope = self._query.scope
        place = scope.place if scope.exact else ""
        lanes = axes(scope)[1:] or [b"tenant"]
        words = (place.encode(), _pack([lane.decode() for lane in lanes]), _pack(self._terms))
        numbers = (b"%d" % _PLACES, b"%d" % _BYTES)
        checked, last = b"0", b""
        for _ in range(_TRIES):
            while True:
                index = self._index
                meta, data = await index.wire.run(
                    SEEK, index.keys, index.base, checked, last, *numbers, *words
                )
                ready, after, found, gone = rows.unpacked(_sought, meta)
                if not ready:
                    break
                checked = b"1"
                self._take(found, data)
                if gone:
                    await index.wire.run(CLEAN, index.keys, words[1], _pack(gone))
                if not after:
                    return
                last = after.encode()
            await self._index.freshen()
            checked, last = b"1", b""
            self._blocks = []
        raise StoreError(f"the index of terms was begun anew {_TRIES} times while it was read")

    def _take(self, found: list[tuple[str, str, list[tuple[int, list[int]]]]], data: bytes) -> None:
        start = 0
        for place, spelled, blocks in found:
            scope = scope_of(spelled, self._query.scope.tenant)
            covered = self._query.scope.covers(scope)
            for number, lengths in blocks:
                dead: set[int] = set()
                ending: set[int] = set()
                held: dict[int, dict[int, int]] = {}
                for field, length in zip(lengths[::2], lengths[1::2], strict=True):
                    packed = data[start : start + length]
                    start += length
                    if not covered:
                        continue
                    if field == 1:
                        dead = numbers(packed)
                    elif field == 2:
                        ending = numbers(packed)
                    else:
                        held[field - 3] = postings(packed)
                for holders in held.values():
                    for one in dead & holders.keys():
                        del holders[one]
                if any(held.values()):
                    self._blocks.append(_Block(number, place, scope, ending, held))

    async def _found(self) -> Matches:
        await self._filter()
        held = tuple(
            min(sum(block.holders(at) for block in self._blocks), MOST + 1) for at in range(len(self._terms))
        )
        if sum(len(block.passed) for block in self._blocks) > MOST:
            await self._choose([self._terms.index(term) for term in nominated(self._terms, held)])
        await self._note((block, block.passed) for block in self._blocks)
        ranked = sorted(
            (one for block in self._blocks for one in block.ranked(len(self._terms))), key=itemgetter(0, 1, 2)
        )
        found = [
            Match(own, scope, moment(order), int(order[15:], 16), int(note[29:35], 16), tuple(counts))
            for order, own, _, note, scope, counts in ranked[-MOST:]
        ]
        return Matches(found, held)

    async def _filter(self) -> None:
        """Leave out what the query does not ask for, beyond its scope."""
        query = self._query
        by_facts = query.kinds is not None or query.marks is not None or bool(query.without or query.where)
        all_asked = by_facts or query.ids is not None or query.since is not None or query.until is not None
        if not all_asked and query.alive_at is None and query.expired_at is None:
            return
        if query.expired_at is not None:
            for block in self._blocks:
                block.passed &= block.ending
        asked = [
            (block, block.passed if all_asked else block.passed & block.ending) for block in self._blocks
        ]
        told = await self._note(asked, facts=by_facts)
        told.reverse()
        for block, some in asked:
            for number in sorted(some):
                facts = told.pop() if by_facts else None
                if not query.matches(known(query.collection, block.scope, noted(block.notes[number]), facts)):
                    block.passed.discard(number)

    async def _choose(self, places: list[int]) -> None:
        """Leave out what the terms at these places do not find, and what is surely not among the newest."""
        for block in self._blocks:
            block.passed &= set().union(*(block.held[at].keys() for at in places if at in block.held))
        if sum(len(block.passed) for block in self._blocks) <= _MANY:
            return
        blocks = {block.number: block for block in self._blocks}
        newest: list[tuple[int, int]] = []
        lane, _ = self._index.layout.asked(msgspec.structs.replace(self._query, marks=None)).lanes[0]
        last = b""
        while len(newest) < MOST:
            index = self._index
            packed = await index.wire.run(NEWEST, index.keys, index.base, lane, last, b"%d" % _RECORDS)
            after, flat = rows.unpacked(_newest, packed)
            for number, record in zip(flat[::2], flat[1::2], strict=True):
                if number in blocks and record in blocks[number].passed:
                    newest.append((number, record))
            if not after:
                break
            last = after.encode()
        for block in self._blocks:
            block.passed = set()
        for number, record in newest[:MOST]:
            blocks[number].passed.add(record)

    async def _note(self, asked: Iterable[tuple[_Block, set[int]]], *, facts: bool = False) -> list[str]:
        """Read what the index keeps of these records, and answer their facts if they are asked for, in order."""
        missing = [
            (block, wanted)
            for block, some in asked
            if (wanted := sorted(some if facts else some - block.notes.keys()))
        ]
        told: list[str] = []
        start = 0
        while start < len(missing):
            size, end = 0, start
            while end < len(missing) and (not size or size + len(missing[end][1]) <= _RECORDS):
                size += len(missing[end][1])
                end += 1
            index = self._index
            sought = _pack([(block.number, some) for block, some in missing[start:end]])
            packed = await index.wire.run(RECORDS, index.keys, sought, b"1" if facts else b"0")
            notes, more = rows.unpacked(_records, packed)
            if False in notes:
                raise _Moved
            texts = iter(notes)
            for block, some in missing[start:end]:
                for number in some:
                    block.notes[number] = str(next(texts))
            told += [str(text) for text in more]
            start = end
        return told
