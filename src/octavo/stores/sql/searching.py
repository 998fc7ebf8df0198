"""A search as a script: candidates from the index of terms, counted here, so that all databases answer alike.

One statement reads the indexed records that may match together with those that wait to be indexed, whose terms are
made on the spot: in one snapshot, so that a record is in one part or the other, whatever others index meanwhile.
"""

import time
from collections.abc import Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, TypeAlias

from octavo.kernel.model import Query, Scope
from octavo.kernel.terms.matches import MOST, Match, Matches, nominated
from octavo.stores.sql.compile import Where, open_parts
from octavo.stores.sql.dialects import Row
from octavo.stores.sql.reading import axis_asked
from octavo.stores.sql.statements import PAUSE_CHARACTERS, Ask, Pause, Script, listed
from octavo.stores.sql.term_index import TermIndex
from octavo.stores.sql.words import ScopeTags, entry, scope_tags, spelled
from octavo.util.cache import Cache, size_of

_REMEMBERED_SECONDS = 60  # for so long a scope counts as wide or narrow before it is measured again
_COUNTED_AT_ONCE = 40  # words in one statement
_SMALL = 3000  # a scope with fewer records is read whole, whichever words are asked for
_RARELY = 2  # so many words are looked up in any scope
_FEW = 10  # words that are looked for in an entry one by one; more are looked up among its words
_BESIDE = 1000  # records that wait to be indexed, or to be swept, beside which the index can count
_LATEST = 6 * MOST  # records that are looked through for a word that too many hold
_PROBED = 500  # of them, before that: whether the word is common enough
_rank = itemgetter(0, 1, 2)
_Found: TypeAlias = tuple[
    datetime, int, str, Scope, int, tuple[int, ...]
]  # in the order of a rank, then the rest


class Sifted:
    """The records found so far: rows of the index with how often each holds the words asked for."""

    def __init__(self, index: TermIndex, query: Query, words: Sequence[str]) -> None:
        self.index = index
        self.parts = open_parts(query.scope)
        self._asked = query.scope
        self._places = {word: at for at, word in enumerate(words)}
        self._padded = [(at, f" {word} ") for at, word in enumerate(words)]
        self._scopes: dict[Sequence[Any], Scope] = {}
        self.found: list[_Found] = []
        self.held = [0] * len(words)  # in how many of those each word stands
        self.waiting: list[int] = []  # the numbers of those among all candidates that are not indexed
        self.indexed = 0  # how many of the candidates are

    def take(self, rows: Sequence[Row]) -> Script[None]:
        """Keep the candidates that hold any of the words, in place of those there were before."""
        self.waiting = [row[3] for row in rows if row[4] < 0]
        self.indexed = len(rows) - len(self.waiting)
        self.found = found = []
        self.held = held = [0] * len(self._places)
        places, scopes, moment = self._places, self._scopes, self.index.table.dialect.moment
        words, padded, few = frozenset(places), self._padded, len(places) <= _FEW
        late = frozenset(self.waiting)
        if late:
            rows = yield from self._settled(rows, late)
        # One loop without calls of our own: this is where a search spends its time.
        for row in rows:
            bag = row[5]
            if few:
                hits = [at for at, pad in padded if pad in bag]
            else:
                hits = [places[word] for word in words.intersection(bag.split(" "))]
            if hits:
                counts = [0] * len(held)
                for at in hits:
                    counts[at] = 1
                    held[at] += 1
                if more := row[6]:
                    for word in more.split(" "):
                        if word in words:
                            counts[places[word]] += 1
                scope = scopes.get(row[7:]) or self._scope(row[7:])
                found.append((moment(row[0]), row[1], row[2], scope, row[4], tuple(counts)))

    def _settled(self, rows: Sequence[Row], late: frozenset[int]) -> Script[list[Row]]:
        """The rows with the words of those that wait made on the spot, in place of what is indexed of them."""
        settled = {row[3]: row for row in rows if row[4] >= 0 and row[3] not in late}
        work = 0
        for row in rows:
            if row[4] < 0:
                if (work := work + len(row[5]) + len(row[6])) > PAUSE_CHARACTERS:
                    work = 0
                    yield Pause()
                made = entry(row[3], ("", "", "", ""), row[5], row[6])
                settled[row[3]] = (*row[:4], made.length, made.bag, made.more, *row[7:])
        return list(settled.values())

    def answer(self, terms: Sequence[str]) -> Matches:
        """What `matching` would say of the candidates, which are all that hold any of the terms."""
        held = [min(n, MOST + 1) for n in self.held]
        if len(self.found) > MOST:
            self.narrow([terms.index(term) for term in nominated(terms, held)])
        return Matches(self.matches(), tuple(held))

    def narrow(self, places: Sequence[int]) -> None:
        """Keep only what holds one of the terms at these places."""
        self.found = [row for row in self.found if any(row[5][at] for at in places)]

    def matches(self) -> list[Match]:
        """The newest MOST of them, oldest first."""
        found = self.found
        found.sort(key=_rank)
        if len({row[2] for row in found}) < len(found):  # an id stands in several scopes
            found.sort(key=lambda row: (*row[:3], row[3].place))
        return [
            Match(id_, scope, created, seq, length, counts)
            for created, seq, id_, scope, length, counts in found[-MOST:]
        ]

    def _scope(self, parts: Sequence[str]) -> Scope:
        asked, told = self._asked, dict(zip(self.parts, parts, strict=True)).get
        scope = self._scopes[tuple(parts)] = Scope(
            tenant=asked.tenant,
            user=told("user", asked.user) or None,
            agent=told("agent", asked.agent) or None,
            session=told("session", asked.session) or None,
        )
        return scope


#: Scopes lately measured: whether they are too large to be read whole, and until when that is believed.
Sizes: TypeAlias = Cache[tuple[str, ...], tuple[bool, float]]


def search(
    index: TermIndex, sizes: Sizes, query: Query, terms: Sequence[str], most: int
) -> Script[Matches | None]:
    """Answer as `matching` would; nothing when more than `most` records wait, which should be indexed first."""
    # Recall looks into several collections, and most people use one or two: the others cost one quick look each.
    if not (yield Ask(f"SELECT 1 FROM {index.table.name} LIMIT 1")):
        return Matches(held=(0,) * len(terms))
    if (yield from lag(index, most)) > most:
        return None
    asked = scope_tags(query.scope)
    words = [spelled(term) for term in terms]
    sifted = Sifted(index, query, words)
    large = yield from _is_large(index, sizes, query.scope, asked)
    if not large and len(words) > _RARELY:
        yield from sifted.take((yield _candidates(sifted, query, asked, None)))
        return sifted.answer(terms)
    held = (yield from _count_indexed(sifted, query, asked, words)) if large else None
    if held is None or max(held) <= MOST:
        limit = MOST + most + 2  # more than MOST are found even if all that wait are among them
        yield from sifted.take((yield _candidates(sifted, query, asked, words, f" LIMIT {limit}")))
        if sifted.indexed < limit:
            return sifted.answer(terms)
    return (yield from _search_rarest(sifted, query, asked, terms, words, held))


def lag(index: TermIndex, most: int) -> Script[int]:
    """How many records wait to be indexed, counted up to a little more than `most`."""
    source, test = index.late
    where = f" WHERE {test}" if test else ""
    sql = f"SELECT COUNT(*) FROM (SELECT 1 FROM {source}{where} LIMIT {int(most) + 1}) AS late"
    return int((yield Ask(sql))[0][0])


def unindexed(index: TermIndex, query: Query) -> Script[set[str]]:
    """The ids of the records that answer the query and wait to be indexed."""
    where = Where(index.table, query.unpaged)
    sql = f"SELECT {index.table.column('id')} FROM {index.table.name} WHERE {where.sql} AND {index.waits}"
    return {row[0] for row in (yield Ask(sql, where.values))}


def _search_rarest(
    sifted: Sifted,
    query: Query,
    asked: ScopeTags,
    terms: Sequence[str],
    words: Sequence[str],
    held: list[int] | None,
) -> Script[Matches]:
    """More hold the words than are looked at: count each, and read what the rarest find."""
    if held is None:
        yield from sifted.take((yield _candidates(sifted, query, asked, ())))  # only what waits
        counted = yield from _count_held(sifted, query, asked, words)
        held = [min(n + late, MOST + 1) for n, late in zip(counted, sifted.held, strict=True)]
    places = [terms.index(term) for term in nominated(terms, held)]
    chosen = [words[at] for at in places]
    if sum(held[at] for at in places) <= MOST:
        yield from sifted.take((yield _candidates(sifted, query, asked, chosen)))
        sifted.narrow(places)
        return Matches(sifted.matches(), tuple(held))
    if _walks_in_order(sifted, query) and (yield from _is_dense(sifted, query, chosen[0])):
        # Where a word is in every few records, the newest ones hold it often enough; to sort all that hold it takes a
        # second where a million do.
        yield from sifted.take((yield _latest(sifted, query, _LATEST)))
        sifted.narrow(places)
        if len(sifted.found) - len(sifted.waiting) >= MOST:
            return Matches(sifted.matches(), tuple(held))
    yield from sifted.take((yield _newest(sifted, query, asked, chosen, MOST + len(sifted.waiting))))
    sifted.narrow(places)
    return Matches(sifted.matches(), tuple(held))


def _candidates(
    sifted: Sifted, query: Query, asked: ScopeTags, words: Sequence[str] | None, end: str = ""
) -> Ask:
    """Everything inside the scope, or what holds one of the words; with what waits to be indexed."""
    known, parts = _fields(sifted)
    values: list[Any] = []
    sql = ""
    if words is None or words:
        hits = _hits(sifted, query, asked, words, values, f"{known}, b.length, b.bag, b.more{parts}")
        sql = f"SELECT * FROM ({hits}{end}) AS found UNION ALL "
    return Ask(sql + _late(sifted, query, values), values)


def _newest(sifted: Sifted, query: Query, asked: ScopeTags, words: Sequence[str], most: int) -> Ask:
    """The newest records that hold one of the words; with what waits to be indexed."""
    index, table = sifted.index, sifted.index.table
    known, parts = _fields(sifted)
    values: list[Any] = []
    hits = _hits(sifted, query, asked, words, values, "rowno AS chosen", entries=False)
    order = ", ".join([f"{column} DESC" for column in table.order])
    # Sorted by number alone: whole entries would be sorted with them.
    sql = (
        f"SELECT {known}, b.length, b.bag, b.more{parts} FROM ({hits} ORDER BY {order} LIMIT {int(most)}) AS newest "
        f"JOIN {index.terms} AS b ON b.number = chosen JOIN {table.name} ON rowno = chosen UNION ALL "
    )
    return Ask(sql + _late(sifted, query, values), values)


def _walks_in_order(sifted: Sifted, query: Query) -> bool:
    """Whether the newest records that answer the query are the first ones along an index."""
    return axis_asked(sifted.index.table, query.scope) is not None and not _asks_more(query)


def _asks_more(query: Query) -> bool:
    """Whether a query asks for more than whose a record is and when it was."""
    lists = query.ids, query.kinds, query.marks
    return any(one is not None for one in lists) or bool(query.without or query.where or query.expired_at)


def _is_dense(sifted: Sifted, query: Query, word: str) -> Script[bool]:
    """Whether so many of the very newest records hold a word that the newest ones are likely to hold it often enough."""
    table = sifted.index.table
    values: list[Any] = []
    latest = _rows_back(sifted, query, values, "rowno", _PROBED)
    test = table.dialect.contains.format("b.bag", sifted.index.bind(values, f" {word} "))
    sql = f"SELECT COUNT(*) FROM {latest} JOIN {sifted.index.terms} AS b ON b.number = rowno WHERE {test}"
    [[holding]] = yield Ask(sql, values)
    return int(holding) * _LATEST > _PROBED * MOST


def _latest(sifted: Sifted, query: Query, most: int) -> Ask:
    """The newest records, whatever words they hold; with what waits to be indexed."""
    known, parts = _fields(sifted)
    values: list[Any] = []
    latest = _rows_back(sifted, query, values, f"{known}{parts}", most)
    sql = (
        f"SELECT {known}, b.length, b.bag, b.more{parts} FROM {latest} "
        f"JOIN {sifted.index.terms} AS b ON b.number = rowno UNION ALL "
    )
    return Ask(sql + _late(sifted, query, values), values)


def _rows_back(sifted: Sifted, query: Query, values: list[Any], fields: str, most: int) -> str:
    """What to select from to see the newest records that answer the query."""
    table = sifted.index.table
    order = ", ".join([f"{column} DESC" for column in table.order])
    rows = f"SELECT {fields} FROM {table.name} WHERE {Where(table, query, values).sql} ORDER BY {order}"
    return f"({rows} LIMIT {int(most)}) AS latest"


def _hits(
    sifted: Sifted,
    query: Query,
    asked: ScopeTags,
    words: Sequence[str] | None,
    values: list[Any],
    fields: str,
    *,
    entries: bool = True,
) -> str:
    """A select of the indexed records that answer the query and hold any of the words; `entries` are of the index."""
    look_up = sifted.index.candidates if entries else sifted.index.holders
    source, test = look_up(values, asked, words)
    where = Where(sifted.index.table, query, values).sql
    return f"SELECT {fields} FROM {source} WHERE {f'{test} AND {where}' if test else where}"


def _late(sifted: Sifted, query: Query, values: list[Any]) -> str:
    """A select of the records that answer the query and are not indexed yet, or not as they are now."""
    known, parts = _fields(sifted)
    source, test = sifted.index.late
    where = Where(sifted.index.table, query, values).sql
    fields = f"{known}, -1, {sifted.index.said}{parts}"
    return f"SELECT {fields} FROM {source} WHERE {f'{test} AND {where}' if test else where}"


def _fields(sifted: Sifted) -> tuple[str, str]:
    """What is read of a record before and after what is known of its words."""
    table = sifted.index.table
    known = [table.column(field) for field in ("created_at", "seq", "id", "rowno")]
    return ", ".join(known), "".join([f", {table.column(part)}" for part in sifted.parts])


def _count_held(sifted: Sifted, query: Query, asked: ScopeTags, words: Sequence[str]) -> Script[list[int]]:
    """In how many indexed records each word stands, but for those that wait; counted up to MOST + 1."""
    but = f" AND rowno NOT IN ({listed(sifted.waiting)})" if sifted.waiting else ""
    held: list[int] = []
    for start in range(0, len(words), _COUNTED_AT_ONCE):
        values: list[Any] = []
        counts = []
        for word in words[start : start + _COUNTED_AT_ONCE]:
            hits = _hits(sifted, query, asked, [word], values, "1")
            counts.append(f"(SELECT COUNT(*) FROM ({hits}{but} LIMIT {MOST + 1}) AS held)")
        held += (yield Ask(f"SELECT {', '.join(counts)}", values))[0]
    return held


def _count_indexed(
    sifted: Sifted, query: Query, asked: ScopeTags, words: Sequence[str]
) -> Script[list[int] | None]:
    """In how many records each word stands, as the index alone tells, up to MOST + 1; what waits is taken beside it.

    Nothing where the query asks for more than a scope, or too much has expired: then each record must be looked at.
    """
    table = sifted.index.table
    but: list[int] = []
    if _asks_more(query) or query.since is not None or query.until is not None:
        return None
    if query.alive_at is not None:
        if not (table.dialect.partial or table.shape.expiry_index):
            return None
        everyone = Query(
            collection=query.collection, scope=Scope(tenant=query.scope.tenant), expired_at=query.alive_at
        )
        where = Where(table, everyone)
        rows = yield Ask(
            f"SELECT rowno FROM {table.name} WHERE {where.sql} LIMIT {_BESIDE + 1}", where.values
        )
        but = [row[0] for row in rows]
        if len(but) > _BESIDE:
            return None
    yield from sifted.take((yield _candidates(sifted, query, asked, ())))  # only what waits
    but += sifted.waiting
    if len(but) > _BESIDE:  # in a caller's transaction, where nothing is indexed
        return None
    held: list[int] = []
    for start in range(0, len(words), _COUNTED_AT_ONCE):
        values: list[Any] = []
        some = words[start : start + _COUNTED_AT_ONCE]
        counts = [sifted.index.count(values, asked, word, but, MOST + 1) for word in some]
        held += (yield Ask(f"SELECT {', '.join(counts)}", values))[0]
    return [min(n + late, MOST + 1) for n, late in zip(held, sifted.held, strict=True)]


def _is_large(index: TermIndex, sizes: Sizes, scope: Scope, asked: ScopeTags) -> Script[bool]:
    """Whether a scope holds so many records that not all of them should be read; measured now and then."""
    known = sizes.get(asked.tags)
    now = time.monotonic()
    if known is None or known[1] < now:
        if axis_asked(index.table, scope) is None:
            [[size]] = yield index.size(asked, _SMALL + 1)
        else:
            where = Where(index.table, Query(collection=index.table.shape.collection, scope=scope))
            some = f"SELECT 1 FROM {index.table.name} WHERE {where.sql} LIMIT {_SMALL + 1}"
            [[size]] = yield Ask(f"SELECT COUNT(*) FROM ({some}) AS inside", where.values)
        known = (size > _SMALL, now + _REMEMBERED_SECONDS)
        sizes.put(asked.tags, known, size_of(*asked.tags))
    return known[0]
