"""A search as a script: candidates from the index of terms, counted here, so that all databases answer alike.

One statement reads the indexed records that may match together with those that wait to be indexed, whose terms are
made on the spot: in one snapshot, so that a record is in one part or the other, whatever others index meanwhile.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, TypeAlias

from octavo.kernel.model import Query, Scope
from octavo.kernel.terms.matches import (
    COMMON,
    ENOUGH,
    LOOKED,
    MOST,
    Match,
    Matches,
    choose,
    is_unfiltered,
    nominate,
    order_words,
)
from octavo.stores.sql.compile import Where, open_parts
from octavo.stores.sql.dialects import Row
from octavo.stores.sql.reading import find_axis, scope_in
from octavo.stores.sql.statements import PAUSE_CHARACTERS, Fetch, Pause, Script, in_list
from octavo.stores.sql.term_index import ScopeTags, SqlTermIndex, entry, scope_tags, spell_term

_COUNTED_AT_ONCE = 40  # words in one statement
_SMALL = 3000  # a scope with fewer records is read whole, whichever words are asked for
_RARELY = 2  # so many words are looked up in any scope
_FEW = 10  # words that are looked for in an entry one by one; more are looked up among its words
_BESIDE = 1000  # records that wait to be indexed, or to be swept, beside which the index can count
_SURELY = 4  # times as many as would do, by the database's own estimate, need not be counted
_rank = itemgetter(0, 1, 2)
#: A record: time, seq, id and scope, in the order of a rank; then its length, and how often it holds each word.
_Found: TypeAlias = tuple[datetime, int, str, Scope, int, tuple[int, ...]]


def lag(index: SqlTermIndex, most: int) -> Script[int]:
    """How many records wait to be indexed, counted up to a little more than `most`."""
    source, test = index.late
    where = f" WHERE {test}" if test else ""
    sql = f"SELECT COUNT(*) FROM (SELECT 1 FROM {source}{where} LIMIT {int(most) + 1}) AS late"
    return int((yield Fetch(sql))[0][0])


def unindexed(index: SqlTermIndex, query: Query) -> Script[set[str]]:
    """The ids of the records that answer the query and wait to be indexed."""
    where = Where(index.table, query.unpaged)
    sql = f"SELECT {index.table.column('id')} FROM {index.table.name} WHERE {where.sql} AND {index.waits}"
    return {row[0] for row in (yield Fetch(sql, where.values))}


class TermSearch:
    """One question to the index of a table: what was asked, and the records found so far."""

    def __init__(self, index: SqlTermIndex, query: Query, terms: Sequence[str]) -> None:
        self._index, self._table = index, index.table
        self._query = query
        self._terms = terms
        self._words = [spell_term(term) for term in terms]
        self._tags = scope_tags(query.scope)
        self._parts = open_parts(query.scope)
        column = self._table.column
        #: What is read of a record before and after what is known of its words.
        self._known = ", ".join([column(field) for field in ("created_at", "seq", "id", "rowno")])
        self._scope = "".join([f", {column(part)}" for part in self._parts])
        self._fields = f"{self._known}, b.length, b.bag, b.more{self._scope}"
        self._backwards = ", ".join([f"{column} DESC" for column in self._table.order])
        self._positions = {word: at for at, word in enumerate(self._words)}
        self._padded = [(at, f" {word} ") for at, word in enumerate(self._words)]
        self._scopes: dict[Sequence[Any], Scope] = {}
        self._found: list[_Found] = []
        self._held = [0] * len(terms)  # in how many of those each word stands
        self._waiting: list[int] = []  # the numbers of those among all candidates that are not indexed
        self._indexed = 0  # how many of the candidates are
        self._uncounted: list[int] = []  # the numbers of those that the index knows and should not count

    def answer(self, most: int) -> Script[Matches | None]:
        """Answer as `search_records` would; nothing when more than `most` records wait, which should be indexed first."""
        # Recall looks into several collections, and most people use one or two: the others cost one quick look each.
        if not (yield Fetch(f"SELECT 1 FROM {self._table.name} LIMIT 1")):
            return Matches(held=(0,) * len(self._terms))
        if (yield from lag(self._index, most)) > most:
            return None
        large = yield from self._is_large()
        if not large and len(self._words) > _RARELY:
            yield from self._take(self._candidates(None))
            return self._matches_of_all()
        alone = large and self._index.shared and self._tags.tags == (self._tags.tenant,)
        if alone and (yield from self._is_alone()):
            self._tags = ScopeTags(self._tags.tenant, ())
        held = None
        if large and (counted := (yield from self._count_indexed(self._words, MOST))) is not None:
            held = self._with_waiting(counted)
        if held is None or not (yield from self._are_too_many(held)):
            limit = MOST + most + 2  # more than MOST are found even if all that wait are among them
            yield from self._take(self._candidates(self._words, f" LIMIT {limit}"))
            if self._indexed < limit:
                return self._matches_of_all()
        return (yield from self._search_rarest(held))

    def _search_rarest(self, held: list[int] | None) -> Script[Matches]:
        """More hold the words than are looked at: count each, and read what the rarest find."""
        if held is None:
            held = self._with_waiting((yield from self._count_held(self._words, MOST)))
        positions = [self._terms.index(term) for term in nominate(self._terms, held)]
        if sum(held[at] for at in positions) <= MOST:
            yield from self._take(self._candidates([self._words[at] for at in positions]))
            found = [row for row in self._found if any(row[5][at] for at in positions)]
            return Matches(_newest_of(found), tuple(held))
        order = order_words(self._terms, held)
        found, limit = [], MOST + len(self._waiting) + 1
        # So many of the words ENOUGH records hold together, and of so many they do not.
        enough, few = 1, len(order) + 1
        whole = False
        while enough + 1 < few:
            tried = (enough + few + 1) // 2
            yield from self._take(self._candidates(self._require(order[:tried]), f" LIMIT {limit}"))
            if len(holding := self._holding(order[:tried])) < ENOUGH:
                few = tried
            else:
                enough, found, whole = tried, holding, self._indexed < limit
        if not whole:
            found = yield from self._find_newest(order[:enough])
        return Matches(_newest_of(found), tuple(held))

    def _find_newest(self, together: Sequence[int]) -> Script[list[_Found]]:
        """Of the records that hold all words at these positions, which are more than MOST, the newest; or the latest of all."""
        most = MOST + len(self._waiting)
        if is_unfiltered(self._query) and (yield from self._is_common(together)):
            yield from self._take(self._latest(together, most))
            if len(found := self._holding(together)) >= ENOUGH:
                return found
        yield from self._take(self._newest(together, most))
        return self._holding(together)

    # --- what was found

    def _take(self, asking: Fetch) -> Script[None]:
        """Read candidates, and keep those that hold any of the words, in place of those there were before."""
        rows: Sequence[Row] = yield asking
        self._waiting = [row[3] for row in rows if row[4] < 0]
        self._indexed = len(rows) - len(self._waiting)
        self._found = found = []
        self._held = held = [0] * len(self._positions)
        positions, scopes, moment = self._positions, self._scopes, self._table.dialect.moment
        words, padded, few = frozenset(positions), self._padded, len(positions) <= _FEW
        late = frozenset(self._waiting)
        if late:
            rows = yield from self._settled(rows, late)
        # One loop without calls of our own: this is where a search spends its time.
        for row in rows:
            bag = row[5]
            if few:
                hits = [at for at, pad in padded if pad in bag]
            else:
                hits = [positions[word] for word in words.intersection(bag.split(" "))]
            if hits:
                counts = [0] * len(held)
                for at in hits:
                    counts[at] = 1
                    held[at] += 1
                if more := row[6]:
                    for word in more.split(" "):
                        if word in words:
                            counts[positions[word]] += 1
                key = tuple(row[7:])
                scope = scopes.get(key) or scopes.setdefault(
                    key, scope_in(self._query.scope, self._parts, key)
                )
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

    def _with_waiting(self, counted: Sequence[int]) -> list[int]:
        """In how many records each word stands, when in so many indexed ones; up to MOST + 1."""
        return [min(n + late, MOST + 1) for n, late in zip(counted, self._held, strict=True)]

    def _matches_of_all(self) -> Matches:
        """What `search_records` would say of the candidates, which are all that hold any of the terms."""
        held = [min(n, MOST + 1) for n in self._held]
        found = self._found
        if len(found) > MOST:
            found = choose(found, self._terms, held, itemgetter(5))
        return Matches(_newest_of(found), tuple(held))

    def _holding(self, together: Sequence[int]) -> list[_Found]:
        """What was found that holds all words at these positions."""
        return [row for row in self._found if all(row[5][at] for at in together)]

    # --- what is asked of the database

    def _candidates(self, words: Sequence[str] | None, end: str = "") -> Fetch:
        """Everything inside the scope, or what holds one of the words; with what waits to be indexed."""
        values: list[Any] = []
        sql = ""
        if words is None or words:
            hits = self._hits(words, values, self._fields)
            sql = f"SELECT * FROM ({hits}{end}) AS found UNION ALL "
        return Fetch(sql + self._late(values), values)

    def _newest(self, together: Sequence[int], most: int) -> Fetch:
        """The newest records that hold all words at these positions; with what waits to be indexed."""
        values: list[Any] = []
        hits = self._hits(self._require(together), values, f"{self._known}{self._scope}", entries=False)
        # Entries are joined afterwards: they would be sorted with the rest.
        newest = f"({hits} ORDER BY {self._backwards} LIMIT {int(most)}) AS newest {self._index.joined}"
        return Fetch(f"SELECT {self._fields} FROM {newest} UNION ALL {self._late(values)}", values)

    def _latest(self, together: Sequence[int], most: int) -> Fetch:
        """Of the newest LOOKED records those that hold all of these words, no more than `most`; with those of them that wait."""
        table, order = self._table, self._backwards
        values: list[Any] = []
        where = Where(table, self._query, values).sql
        fields = f"{self._known}, {table.column('scope_key')}{self._scope}"
        latest = f"SELECT {fields} FROM {table.name} WHERE {where} ORDER BY {order} LIMIT {LOOKED}"
        padded = [self._index.bind(values, f" {self._words[at]} ") for at in together]
        test = " AND ".join([table.dialect.contains.format("b.bag", word) for word in padded])
        holding = (
            f"SELECT {self._fields} FROM latest {self._index.joined} WHERE {test} "
            f"ORDER BY {order} LIMIT {int(most)}"
        )
        late = f"{self._late(values)} AND rowno IN (SELECT rowno FROM latest)"
        return Fetch(
            f"WITH latest AS ({latest}) SELECT * FROM ({holding}) AS newest UNION ALL {late}", values
        )

    def _hits(
        self, words: Sequence[str] | None, values: list[Any], fields: str, *, entries: bool = True
    ) -> str:
        """A select of the indexed records that answer the query and hold any of the words; `entries` are of the index."""
        look_up = self._index.candidates if entries else self._index.holders
        return self._select(fields, *look_up(values, self._tags, words), values)

    def _late(self, values: list[Any]) -> str:
        """A select of the records that answer the query and are not indexed yet, or not as they are now."""
        fields = f"{self._known}, -1, {self._index.said}{self._scope}"
        return self._select(fields, *self._index.late, values)

    def _select(self, fields: str, source: str, test: str, values: list[Any]) -> str:
        """A select of what answers the query, from a source and with a test of it, if it takes one."""
        where = Where(self._table, self._query, values).sql
        return f"SELECT {fields} FROM {source} WHERE {f'{test} AND {where}' if test else where}"

    # --- how many hold a word

    def _count_held(self, words: Sequence[str], most: int) -> Script[list[int]]:
        """In how many indexed records each word stands, counted up to `most` + 1; what waits is taken beside it."""
        yield from self._take(self._candidates(()))  # only what waits
        but = f" AND rowno NOT IN ({in_list(self._waiting)})" if self._waiting else ""

        def held(values: list[Any], word: str) -> str:
            hits = self._hits([word], values, "1")
            return f"(SELECT COUNT(*) FROM ({hits}{but} LIMIT {int(most) + 1}) AS held)"

        counted = yield from _count_each(words, held)
        return [counted[word] for word in words]

    def _count_indexed(self, words: Sequence[str], most: int) -> Script[list[int] | None]:
        """The same as the index alone tells.

        Nothing where the query asks for more than a scope, or too much has expired: then each record must be looked at.
        """
        table, query = self._table, self._query
        but: list[int] = []
        if not is_unfiltered(query) or query.since is not None or query.until is not None:
            return None
        if query.alive_at is not None:
            if not (table.dialect.partial or table.shape.expiry_index):
                return None
            tenant = Scope(tenant=query.scope.tenant)
            where = Where(table, Query(collection=query.collection, scope=tenant, expired_at=query.alive_at))
            ended = f"SELECT rowno FROM {table.name} WHERE {where.sql} LIMIT {_BESIDE + 1}"
            but = [row[0] for row in (yield Fetch(ended, where.values))]
            if len(but) > _BESIDE:
                return None
        yield from self._take(self._candidates(()))  # only what waits
        but += self._waiting
        if len(but) > _BESIDE:  # in a caller's transaction, where nothing is indexed
            return None
        self._uncounted = but
        common = yield from self._find_common(words, most + len(but))
        counted = dict.fromkeys(common, most + 1)
        others = [word for word in words if word not in counted]
        counted |= yield from _count_each(
            others, lambda values, word: self._index.count(values, self._tags, [word], but, most + 1)
        )
        return [counted[word] for word in words]

    def _find_common(self, words: Sequence[str], most: int) -> Script[Sequence[str]]:
        """Words that far more than `most` entries hold, where all are meant and to count those takes long."""
        estimate = None if self._tags.tags or self._tags.words else self._index.estimate(words)
        if estimate is None:
            return ()
        return [word for word, held in (yield estimate) if held > _SURELY * most]

    def _are_too_many(self, held: Sequence[int]) -> Script[bool]:
        """Whether more than MOST records hold any of the words, when so many hold each."""
        if max(held) > MOST or sum(held) <= MOST:
            return max(held) > MOST
        values: list[Any] = []
        counted = self._index.count(values, self._tags, self._words, self._uncounted, MOST + 1)
        [[indexed]] = yield Fetch(f"SELECT {counted}", values)
        return int(indexed) + len(self._found) > MOST

    def _is_common(self, together: Sequence[int]) -> Script[bool]:
        """Whether so many records hold all words at these positions that the newest of them are not sorted out of all."""
        word = self._require(together)
        counted = yield from self._count_indexed(word, COMMON)
        if counted is None:
            counted = yield from self._count_held(word, COMMON)
        return counted[0] + len(self._holding(together)) > COMMON

    def _require(self, together: Sequence[int]) -> list[str]:
        """Have what is asked of the index from now on hold all words at these positions but the last, which this answers."""
        *others, last = [self._words[at] for at in together]
        self._tags = self._tags._replace(words=tuple(others))
        return [last]

    def _is_alone(self) -> Script[bool]:
        """Whether all records are this tenant's, so that a word need not be looked up together with whose it is."""
        # Nothing is bound: planned for any tenant, a comparison with one would read the whole table from the sixth time on.
        column, name = self._table.column("tenant"), self._table.name
        [ends] = yield Fetch(f"SELECT (SELECT MIN({column}) FROM {name}), (SELECT MAX({column}) FROM {name})")
        return {*ends} == {self._query.scope.tenant}

    def _is_large(self) -> Script[bool]:
        """Whether the scope holds so many records that not all of them should be read."""
        scope = self._query.scope
        if find_axis(self._table, scope) is None:
            [[size]] = yield self._index.size(self._tags, _SMALL + 1)
        else:
            where = Where(self._table, Query(collection=self._query.collection, scope=scope))
            some = f"SELECT 1 FROM {self._table.name} WHERE {where.sql} LIMIT {_SMALL + 1}"
            [[size]] = yield Fetch(f"SELECT COUNT(*) FROM ({some}) AS inside", where.values)
        return int(size) > _SMALL


def _count_each(words: Sequence[str], count: Callable[[list[Any], str], str]) -> Script[dict[str, int]]:
    """What an expression comes to for each word; `count` adds the values that it binds."""
    counted: dict[str, int] = {}
    for start in range(0, len(words), _COUNTED_AT_ONCE):
        values: list[Any] = []
        some = words[start : start + _COUNTED_AT_ONCE]
        counts = [count(values, word) for word in some]
        [row] = yield Fetch(f"SELECT {', '.join(counts)}", values)
        counted.update(zip(some, row, strict=True))
    return counted


def _newest_of(found: list[_Found]) -> list[Match]:
    """The newest MOST, oldest first."""
    found.sort(key=_rank)
    if len({row[2] for row in found}) < len(found):  # an id stands in several scopes
        found.sort(key=lambda row: (*row[:3], row[3].key))
    return [
        Match(id_, scope, created, seq, length, counts)
        for created, seq, id_, scope, length, counts in found[-MOST:]
    ]
