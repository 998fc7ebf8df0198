"""Search by terms: what Redis knows of the records of a scope, together with what it does not know yet.

Terms are made here and kept beside the records of each scope; `scripts` says how. A writer pays nothing for searches: it only
takes away what is no longer true. A search reads, in one step, what is known of a scope and the records that are not known;
the terms of the latter are made on the spot and kept for the next one. Where these are too many for one step, it begins again.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple, TypeAlias

import msgspec

from octavo.errors import StoreError
from octavo.kernel.model import Query, Rank, Record, Scope
from octavo.kernel.ports import Lexicon
from octavo.kernel.terms.matches import Match, Matches, narrow
from octavo.kernel.terms.matching import count_terms, index_text
from octavo.stores.base import Progress
from octavo.stores.redis.connection import LoopClient
from octavo.stores.redis.layout import KeyLayout, decode_body
from octavo.stores.redis.scripts import KEEP_TERMS, SEEK, pack, unpack

_SCOPES = 500  # looked at by one call
_AT_ONCE = 20  # scopes whose terms are made anew together: all their records are in memory then
_PAGE_BYTES = 4 * 1024 * 1024
_UNKNOWN = 2000  # records of a scope that are read in one step to make their terms
_BATCH = 100  # records whose terms are kept by one call: some milliseconds, in which Redis serves nobody else
_BREATH = 20  # records whose terms are made before others get a turn
_ROUNDS = 1000
_LOOKS = 3  # at a scope that seems wrong: it may have been written to while it was read

_encode = msgspec.json.Encoder().encode
_decode_scope = msgspec.json.Decoder(Scope).decode

_Ranked: TypeAlias = tuple[Rank, Match]
_Bounds: TypeAlias = tuple[bytes, bytes]  # of the keys of scopes, as ZRANGEBYLEX takes them


class _Made(NamedTuple):
    """A record, the body it was read from, and its terms."""

    record: Record
    body: bytes
    counts: dict[str, int]
    known: bytes  # how many terms it has, and of the record what filters ask about


class Searcher:
    """Looks for terms, and keeps those that were made."""

    def __init__(self, connection: LoopClient, layout: KeyLayout) -> None:
        self._connection = connection
        self._layout = layout

    async def search(self, query: Query, terms: Sequence[str]) -> Matches:
        """What `octavo.kernel.terms.matching.search_records` would find, without leaving any out for being old."""
        ids = None if query.ids is None else frozenset(query.ids)  # not looked up one after another
        query = msgspec.structs.replace(query, ids=ids)
        asked = self._layout.plan_read(query)
        bounds = (b"-", b"+")
        if query.scope.exact:
            bounds = _bounds([query.scope.key.encode()])
        found, _ = await self._look(asked.base, asked.scopes, bounds, query, terms)
        return narrow(found, terms)

    async def reindex(self, collection: str, tenants: Sequence[str], progress: Progress) -> int:
        """Make all terms anew; of how many records."""
        done, total = 0, await self._total(collection, tenants)
        everything = Query(collection=collection)
        async for base, page in self._scope_pages(collection, tenants):
            await self._connection.ask("DEL", *[base + b"terms:" + scope_key for scope_key in page])
            _, made = await self._look(base, base + b"scopes:tenant", _bounds(page), everything, ())
            done += made
            progress(done, max(done, total))
        progress(done, done)
        return done

    async def verify(self, collection: str, tenants: Sequence[str], progress: Progress) -> Lexicon:
        """Compare what is known of every record with the record."""
        done, total = 0, await self._total(collection, tenants)
        looks: list[Lexicon] = []
        async for base, page in self._scope_pages(collection, tenants):
            for scope_key in page:
                seen = await self._compare(collection, base, scope_key)
                for _ in range(_LOOKS - 1):
                    if seen.missing or seen.stray:
                        seen = await self._compare(collection, base, scope_key)
                looks.append(seen)
                done += seen.records
                progress(done, max(done, total))
        progress(done, done)
        return Lexicon(
            collection=collection,
            records=done,
            waiting=sum(look.waiting for look in looks),
            missing=tuple(name for look in looks for name in look.missing),
            stray=sum(look.stray for look in looks),
        )

    async def _look(
        self, base: bytes, key: bytes, bounds: _Bounds, query: Query, terms: Sequence[str]
    ) -> tuple[list[Match], int]:
        """All matches in the scopes of the key within the bounds, oldest first; and how many records were made known for it."""
        total = 0
        for _ in range(_ROUNDS):
            found, bodies, unread = await self._seek(base, key, bounds, query, terms)
            made = await _make(bodies)
            total += len(made)
            try:
                await self._keep(base, made)
            except StoreError:  # who may not write, or has no room for terms, can search all the same
                if unread:
                    raise
            if not unread:
                for record, _, counts, known in made:
                    held = tuple([counts.get(term, 0) for term in terms])
                    if any(held) and query.matches(record):
                        length = int(known[: known.index(b" ")])
                        match = Match(record.id, record.scope, record.created_at, record.seq, length, held)
                        found.append((record.rank, match))
                return [match for _, match in sorted(found, key=itemgetter(0))], total
        raise StoreError(f"others wrote more than could be searched, {_ROUNDS} times in a row")

    async def _seek(
        self, base: bytes, key: bytes, bounds: _Bounds, query: Query, terms: Sequence[str]
    ) -> tuple[list[_Ranked], list[bytes], bool]:
        """The matches among what is known, bodies of records that are not, and whether there are more of these."""
        limits = [b"%d" % limit for limit in (_SCOPES, _PAGE_BYTES, _UNKNOWN)]
        wanted = [term.encode() for term in terms]
        found: list[_Ranked] = []
        bodies: list[bytes] = []
        unread = False
        low, high = bounds
        while low:
            answer = await self._connection.run(SEEK, [key], base, low, high, *limits, *wanted)
            last, *texts = unpack(answer)
            low = b"(" + last if last else b""
            rest = iter(texts)
            for what in rest:
                if what == b"known":
                    found += _read_matches(query, len(terms), rest)
                elif what == b"body":
                    bodies.append(next(rest))
                else:
                    unread, name = True, next(rest)
                    if what == b"broken":
                        await self._connection.ask("DEL", base + b"terms:" + name)
        return found, bodies, unread

    async def _keep(self, base: bytes, made: Iterable[_Made]) -> None:
        """Keep the terms of these records, unless they have changed meanwhile."""
        by_scope: dict[Scope, list[_Made]] = {}
        for one in made:
            by_scope.setdefault(one.record.scope, []).append(one)
        for scope, all_of_it in by_scope.items():
            scope_key = scope.key.encode()
            keys = [base + b"body:" + scope_key, base + b"terms:" + scope_key]
            for start in range(0, len(all_of_it), _BATCH):
                texts: list[bytes] = []
                for record, body, counts, known in all_of_it[start : start + _BATCH]:
                    counted = " ".join([f"{term}:{count}" for term, count in counts.items()])
                    texts += (record.id.encode(), body, known, counted.encode())
                await self._connection.run(KEEP_TERMS, keys, _encode(scope), *pack(texts))

    async def _scope_pages(
        self, collection: str, tenants: Sequence[str]
    ) -> AsyncGenerator[tuple[bytes, list[bytes]], None]:
        """The keys of all scopes of a collection in order, some at a time; before them, what their Redis keys begin with."""
        for tenant in tenants:
            base, low = self._layout.base(collection, tenant), "-"
            while low:
                page = await self._connection.ask(
                    "ZRANGEBYLEX", base + b"scopes:tenant", low, "+", "LIMIT", "0", str(_AT_ONCE)
                )
                if page:
                    yield base, page
                low = f"({page[-1].decode()}" if page else ""

    async def _total(self, collection: str, tenants: Sequence[str]) -> int:
        """About how many records there are."""
        orders = [self._layout.base(collection, tenant) + b"order:tenant" for tenant in tenants]
        return sum([int(await self._connection.ask("ZCARD", order)) for order in orders])

    async def _compare(self, collection: str, base: bytes, scope_key: bytes) -> Lexicon:
        """What is wrong in one scope."""
        names = await self._connection.ask("HKEYS", base + b"body:" + scope_key)
        fields = await self._connection.ask("HGETALL", base + b"terms:" + scope_key)
        numbers = {name[2:]: number for name, number in fields.items() if name[:2] == b"\0i"}
        known = {name[2:]: text for name, text in fields.items() if name[:2] == b"\0r"}
        counts: dict[bytes, dict[str, int]] = {number: {} for number in known}
        for term, posting in fields.items():
            for number, count in _pairs(posting) if term[:1] != b"\0" else ():
                if number in known:
                    counts[number][term.decode()] = count
        unknown: list[str] = []
        wrong: list[str] = []
        for start in range(0, len(names), _BATCH):
            bodies = await self._connection.ask(
                "HMGET", base + b"body:" + scope_key, *names[start : start + _BATCH]
            )
            for one in await _make([body for body in bodies if body is not None]):
                number = numbers.get(one.record.id.encode(), b"")
                right = (_encode(one.record.scope), number + b" " + one.known, one.counts)
                if not number:
                    unknown.append(one.record.id)
                elif (fields.get(b"\0"), known.get(number), counts.get(number)) != right:
                    wrong.append(one.record.id)
        # Where as many are known as it says, a search makes the rest; else it would not notice that they are unknown.
        honest = int(fields.get(b"\0l", 0)) == len(numbers)
        return Lexicon(
            collection=collection,
            records=len(names),
            waiting=len(unknown) if honest else 0,
            missing=tuple(wrong if honest else wrong + unknown),
            stray=len(numbers.keys() - set(names)) + len(known.keys() - set(numbers.values())),
        )


def _bounds(scope_keys: Sequence[bytes]) -> _Bounds:
    """The bounds of these keys, which are in order."""
    return b"[" + scope_keys[0], b"[" + scope_keys[-1]


def _read_matches(query: Query, terms: int, texts: Iterator[bytes]) -> list[_Ranked]:
    """The matches among what a scope knows, as the script SEEK tells it."""
    scope_key, scope = next(texts).decode(), _decode_scope(next(texts))
    counts: dict[bytes, list[int]] = {}
    for at in range(terms):
        for number, count in _pairs(next(texts)):
            if number not in counts:
                counts[number] = [0] * terms
            counts[number][at] = count
    known = [next(texts) for _ in range(int(next(texts)))]
    if not query.scope.covers(scope):
        return []
    here = msgspec.structs.replace(query, scope=Scope())  # what is known of a record leaves out whose it is
    found = []
    for text in known:
        if text:
            number, length, head = text.split(b" ", 2)
            record = decode_body(head)
            if here.matches(record):
                moment, seq, name = record.created_at, record.seq, record.id
                match = Match(name, scope, moment, seq, int(length), tuple(counts[number]))
                found.append(((moment, seq, name, scope_key), match))
    return found


def _pairs(posting: bytes) -> Iterator[tuple[bytes, int]]:
    """The numbers of records that hold a term, each with how often it does."""
    for pair in posting.split():
        number, _, count = pair.partition(b":")
        yield number, int(count)


async def _make(bodies: Sequence[bytes]) -> list[_Made]:
    """The terms of records, a few at a time."""
    made = []
    for n, body in enumerate(bodies, 1):
        record = decode_body(body)
        counts, length = count_terms(*index_text(record.text, record.data))
        head = msgspec.structs.replace(record, scope=Scope(), text="", data={}, updated_at=None)
        made.append(_Made(record, body, counts, b"%d %s" % (length, _encode(head))))
        if n % _BREATH == 0:
            await asyncio.sleep(0)
    return made
