"""A search as a script: candidates from the index of terms, counted here, so that all databases answer alike.

One statement reads the indexed records that may match together with those that wait to be indexed, whose terms are
made on the spot: in one snapshot, so that a record is in one part or the other, whatever others index meanwhile.
"""

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, TypeAlias

from octavo.kernel.model import Query, Scope
from octavo.kernel.terms.matches import COMMON, ENOUGH, LOOKED, MOST, Match, Matches, is_unfiltered, nominated
from octavo.stores.sql.compile import Where, open_parts
from octavo.stores.sql.dialects import Row
from octavo.stores.sql.reading import axis_asked, scope_in
from octavo.stores.sql.statements import PAUSE_CHARACTERS, Ask, Pause, Script, listed
from octavo.stores.sql.term_index import ScopeTags, TermIndex, entry, scope_tags, spelled
from octavo.util.cache import Cache, size_of

_REMEMBERED_SECONDS = 60  # for so long a scope counts as wide or narrow before it is measured again
_COUNTED_AT_ONCE = 40  # words in one statement
_SMALL = 3000  # a scope with fewer records is read whole, whichever words are asked for
_RARELY = 2  # so many words are looked up in any scope
_FEW = 10  # words that are looked for in an entry one by one; more are looked up among its words
_BESIDE = 1000  # records that wait to be indexed, or to be swept, beside which the index can count
_GLANCED, _SAMPLED = 500, 30_000  # entries that may show by themselves that a word is common
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
        self.uncounted: list[int] = []  # the numbers of those that the index knows and should not count

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
                key = row[7:]
                scope = scopes.get(key) or scopes.setdefault(key, scope_in(self._asked, self.parts, key))
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

    def with_waiting(self, counted: Sequence[int]) -> list[int]:
        """In how many records each word stands, when in so many indexed ones; up to MOST + 1."""
        return [min(n + late, MOST + 1) for n, late in zip(counted, self.held, strict=True)]

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
    if (
        large
        and index.shared
        and asked.tags == (asked.tenant,)
        and (yield from _is_alone(index, query.scope.tenant))
    ):
        asked = ScopeTags(asked.tenant, ())
    held = None
    if large and (counted := (yield from _count_indexed(sifted, query, asked, words, MOST))) is not None:
        held = sifted.with_waiting(counted)
    if held is None or not (yield from _are_too_many(sifted, asked, words, held)):
        limit = MOST + most + 2  # more than MOST are found even if all that wait are among them
        yield from sifted.take((yield _candidates(sifted, query, asked, words, f" LIMIT {limit}")))
        if sifted.indexed < limit:
            return sifted.answer(terms)
    return (yield from _search_rarest(sifted, query, asked, terms, words, held))


def _are_too_many(
    sifted: Sifted, asked: ScopeTags, words: Sequence[str], held: Sequence[int]
) -> Script[bool]:
    """Whether more than MOST records hold any of the words, when so many hold each."""
    if max(held) > MOST or sum(held) <= MOST:
        return max(held) > MOST
    values: list[Any] = []
    counted = sifted.index.count(values, asked, words, sifted.uncounted, MOST + 1)
    [[indexed]] = yield Ask(f"SELECT {counted}", values)
    return int(indexed) + len(sifted.found) > MOST


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
        held = sifted.with_waiting((yield from _count_held(sifted, query, asked, words, MOST)))
    places = [terms.index(term) for term in nominated(terms, held)]
    chosen = [words[at] for at in places]
    if sum(held[at] for at in places) <= MOST:
        yield from sifted.take((yield _candidates(sifted, query, asked, chosen)))
        sifted.narrow(places)
        return Matches(sifted.matches(), tuple(held))
    [at] = places  # one word, which more than MOST hold
    common = is_unfiltered(query) and (yield from _is_common(sifted, query, asked, chosen, at))
    most = MOST + len(sifted.waiting)
    if common:
        yield from sifted.take((yield _latest(sifted, query, chosen[0], most)))
        sifted.narrow(places)
    if not common or len(sifted.found) < ENOUGH:
        yield from sifted.take((yield _newest(sifted, query, asked, chosen, most)))
        sifted.narrow(places)
    return Matches(sifted.matches(), tuple(held))


def _is_common(sifted: Sifted, query: Query, asked: ScopeTags, word: Sequence[str], at: int) -> Script[bool]:
    """Whether the word at this place is held by so many records that the newest of them are not sorted out of all."""
    counted = yield from _count_indexed(sifted, query, asked, word, COMMON)
    if counted is None:
        counted = yield from _count_held(sifted, query, asked, word, COMMON)
    return counted[0] + sifted.held[at] > COMMON


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
    known, parts = _fields(sifted)
    values: list[Any] = []
    hits = _hits(sifted, query, asked, words, values, f"{known}{parts}", entries=False)
    # Entries are joined afterwards: they would be sorted with the rest.
    sql = (
        f"SELECT {known}, b.length, b.bag, b.more{parts} "
        f"FROM ({hits} ORDER BY {_backwards(sifted)} LIMIT {int(most)}) AS newest {sifted.index.joined} UNION ALL "
    )
    return Ask(sql + _late(sifted, query, values), values)


def _latest(sifted: Sifted, query: Query, word: str, most: int) -> Ask:
    """Of the newest LOOKED records those that hold a word, no more than `most`; with those of them that wait to be indexed."""
    table, index = sifted.index.table, sifted.index
    known, parts = _fields(sifted)
    values: list[Any] = []
    where, order = Where(table, query, values).sql, _backwards(sifted)
    latest = f"SELECT {known}, {table.column('place')}{parts} FROM {table.name} WHERE {where} ORDER BY {order} LIMIT {LOOKED}"
    test = table.dialect.contains.format("b.bag", index.bind(values, f" {word} "))
    holding = (
        f"SELECT {known}, b.length, b.bag, b.more{parts} FROM latest {index.joined} WHERE {test} "
        f"ORDER BY {order} LIMIT {int(most)}"
    )
    late = f"{_late(sifted, query, values)} AND rowno IN (SELECT rowno FROM latest)"
    return Ask(f"WITH latest AS ({latest}) SELECT * FROM ({holding}) AS newest UNION ALL {late}", values)


def _backwards(sifted: Sifted) -> str:
    """The order of records, the newest first."""
    return ", ".join([f"{column} DESC" for column in sifted.index.table.order])


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


def _count_held(
    sifted: Sifted, query: Query, asked: ScopeTags, words: Sequence[str], most: int
) -> Script[list[int]]:
    """In how many indexed records each word stands, but for those that wait; counted up to `most` + 1."""
    but = f" AND rowno NOT IN ({listed(sifted.waiting)})" if sifted.waiting else ""

    def held(values: list[Any], word: str) -> str:
        hits = _hits(sifted, query, asked, [word], values, "1")
        return f"(SELECT COUNT(*) FROM ({hits}{but} LIMIT {int(most) + 1}) AS held)"

    counted = yield from _count_each(words, held)
    return [counted[word] for word in words]


def _count_each(words: Sequence[str], count: Callable[[list[Any], str], str]) -> Script[dict[str, int]]:
    """What an expression comes to for each word; `count` adds the values that it binds."""
    counted: dict[str, int] = {}
    for start in range(0, len(words), _COUNTED_AT_ONCE):
        values: list[Any] = []
        some = words[start : start + _COUNTED_AT_ONCE]
        counts = [count(values, word) for word in some]
        [row] = yield Ask(f"SELECT {', '.join(counts)}", values)
        counted.update(zip(some, row, strict=True))
    return counted


def _count_indexed(
    sifted: Sifted, query: Query, asked: ScopeTags, words: Sequence[str], most: int
) -> Script[list[int] | None]:
    """The same as the index alone tells; what waits is taken beside it.

    Nothing where the query asks for more than a scope, or too much has expired: then each record must be looked at.
    """
    table = sifted.index.table
    but: list[int] = []
    if not is_unfiltered(query) or query.since is not None or query.until is not None:
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
    sifted.uncounted = but
    common = yield from _find_common(sifted.index, asked, words, most + len(but))
    counted = dict.fromkeys(common, most + 1)
    others = [word for word in words if word not in counted]
    count = sifted.index.count
    counted |= yield from _count_each(
        others, lambda values, word: count(values, asked, [word], but, most + 1)
    )
    return [counted[word] for word in words]


def _find_common(
    index: TermIndex, asked: ScopeTags, words: Sequence[str], most: int
) -> Script[Sequence[str]]:
    """Words that more than `most` of some entries hold: where to count all that hold them takes long."""
    for size in (_GLANCED, _SAMPLED):
        sample = index.sample(asked, words, size) if words and len(words) <= _COUNTED_AT_ONCE else None
        if sample is None:
            return ()
        [row] = yield sample
        words = [word for word, held in zip(words, row, strict=True) if held * _SAMPLED > most * size]
    return words


def _is_alone(index: TermIndex, tenant: str) -> Script[bool]:
    """Whether all records are this tenant's, so that a word need not be looked up together with whose it is."""
    column, placeholder = index.table.column("tenant"), index.table.dialect.placeholder
    others = [
        f"EXISTS (SELECT 1 FROM {index.table.name} WHERE {column} {sign} {placeholder(number)})"
        for number, sign in enumerate("<>", 1)
    ]
    [[some]] = yield Ask(f"SELECT {' OR '.join(others)}", (tenant, tenant))
    return not some


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
