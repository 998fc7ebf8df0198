"""A search as a script: candidates from the index of terms, counted here, so that all databases answer alike.

Of the records that wait to be indexed, the terms are made on the spot. They are read first and then left out of what the
index finds: whatever others index meanwhile, a record is in one part or the other.
"""

import itertools
from collections.abc import Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, TypeAlias

from octavo.kernel.model import Query, Scope
from octavo.kernel.terms.matches import MOST, Match, Matches, nominated
from octavo.stores.sql.compile import Where
from octavo.stores.sql.dialects import Row
from octavo.stores.sql.reading import scope_of
from octavo.stores.sql.statements import PAUSE_CHARACTERS, Ask, Pause, Script, listed
from octavo.stores.sql.term_index import TermIndex, entry, scope_tags, spelled

_COUNTED_AT_ONCE = 40  # words in one statement
_SMALL = 3000  # a scope with fewer records is read whole, whichever words are asked for
_RARELY = 2  # so many words are looked up in any scope
_FEW = 10  # words that are looked for in an entry one by one; more are looked up among its words
_rank = itemgetter(0, 1, 2)
#: In the order of a rank, then the rest: its scope, how long it is, and how often it holds each word.
_Found: TypeAlias = tuple[datetime, int, str, Scope, int, tuple[int, ...]]


def search(index: TermIndex, query: Query, terms: Sequence[str], most: int) -> Script[Matches | None]:
    """Answer as `matching` would; nothing when more than `most` records wait, which should be indexed first."""
    # Recall looks into several collections, and most people use one or two: the others cost one quick look each.
    any_kept = f"SELECT COUNT(*) FROM (SELECT 1 FROM {index.table.name} LIMIT 1) AS kept"
    [[kept, late]] = yield Ask(f"SELECT ({any_kept}), ({_count_late(index, most)})")
    if not kept:
        return Matches(held=(0,) * len(terms))
    return None if late > most else (yield from _Search(index, query, terms).run(any_late=late > 0))


def lag(index: TermIndex, most: int) -> Script[int]:
    """How many records wait to be indexed, counted up to a little more than `most`."""
    return int((yield Ask(_count_late(index, most)))[0][0])


def _count_late(index: TermIndex, most: int) -> str:
    return f"SELECT COUNT(*) FROM (SELECT 1 FROM {index.late} LIMIT {int(most) + 1}) AS late"


class _Search:
    """One search: the records found so far, with how often each holds the words asked for."""

    def __init__(self, index: TermIndex, query: Query, terms: Sequence[str]) -> None:
        self._index = index
        self._query = query
        self._terms = terms
        self._words = [spelled(term) for term in terms]
        self._asked = scope_tags(query.scope)
        self._found: list[_Found] = []
        self._held = [0] * len(terms)  # in how many of those each word stands
        self._late: list[int] = []  # the numbers of records whose terms were made on the spot
        column = index.table.column
        self._known = ", ".join([column(field) for field in ("created_at", "seq", "id", "rowno")])
        self._scope = ", ".join([column(part) for part in ("tenant", "user", "agent", "session")])
        self._fields = f"{self._known}, b.length, b.bag, b.more, {self._scope}"

    def run(self, *, any_late: bool) -> Script[Matches]:
        """Look at what waits, then at what the index finds."""
        if any_late:
            yield from self._take_late()
        values: list[Any] = []
        if len(self._words) > _RARELY and not (yield from self._is_large()):
            self._take((yield Ask(self._hits(None, values, self._fields), values)))
            return self._answer()
        rows = yield Ask(f"{self._hits(self._words, values, self._fields)} LIMIT {MOST + 1}", values)
        if len(rows) <= MOST:
            self._take(rows)
            return self._answer()
        # More hold the words than are looked at: count each, and read what the rarest find.
        held = [min(n + m, MOST + 1) for n, m in zip((yield from self._counts()), self._held, strict=True)]
        rarest = [self._terms.index(term) for term in nominated(self._terms, held)]
        self._take((yield self._newest([self._words[at] for at in rarest])))
        return Matches(self._matches(rarest), tuple(held))

    def _answer(self) -> Matches:
        """What `matching` would say of the records found, which are all that hold any of the terms."""
        held = [min(n, MOST + 1) for n in self._held]
        chosen = nominated(self._terms, held) if len(self._found) > MOST else self._terms
        return Matches(self._matches([self._terms.index(term) for term in chosen]), tuple(held))

    def _matches(self, places: Sequence[int]) -> list[Match]:
        """Of the records that hold one of the terms at these places, the newest MOST, oldest first."""
        found = [row for row in self._found if any(row[5][at] for at in places)]
        found.sort(key=_rank)
        if any(one[:3] == other[:3] for one, other in itertools.pairwise(found)):
            found.sort(key=lambda row: (*row[:3], row[3].place))
        return [
            Match(id_, scope, created, seq, length, counts)
            for created, seq, id_, scope, length, counts in found[-MOST:]
        ]

    def _take(self, rows: Sequence[Row]) -> None:
        """Keep the rows that hold any of the words."""
        places = {word: at for at, word in enumerate(self._words)}
        padded = [(at, f" {word} ") for at, word in enumerate(self._words)]
        words, few = frozenset(places), len(places) <= _FEW
        found, held, moment = self._found, self._held, self._index.table.dialect.moment
        # One loop: this is where a search spends its time.
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
                found.append((moment(row[0]), row[1], row[2], scope_of(*row[7:]), row[4], tuple(counts)))

    def _take_late(self) -> Script[None]:
        """Take the records that answer the query and are not indexed yet, or not as they are now."""
        values: list[Any] = []
        where = Where(self._index.table, self._query, values).sql
        fields = f"{self._known}, 0, {self._index.said}, {self._scope}"
        rows = yield Ask(f"SELECT {fields} FROM {self._index.late} AND {where}", values)
        self._late = [row[3] for row in rows]
        late: list[Row] = []
        work = 0
        for row in rows:
            made = entry(row[3], ("", "", "", ""), row[5], row[6])
            late.append((*row[:4], made.length, made.bag, made.more, *row[7:]))
            if (work := work + len(row[5]) + len(row[6])) > PAUSE_CHARACTERS:
                work = 0
                yield Pause()
        self._take(late)

    def _hits(self, words: Sequence[str] | None, values: list[Any], fields: str) -> str:
        """A select of the indexed records that answer the query and hold any of the words; all of them without words."""
        source = self._index.candidates(values, self._asked, words)
        where = Where(self._index.table, self._query, values).sql
        if self._late:
            where += f" AND rowno NOT IN ({listed(self._late)})"
        return f"SELECT {fields} FROM {source} WHERE {where}"

    def _newest(self, words: Sequence[str]) -> Ask:
        """The newest indexed records that hold one of the words."""
        index, table = self._index, self._index.table
        values: list[Any] = []
        hits = self._hits(words, values, "rowno AS chosen")
        order = ", ".join([f"{column} DESC" for column in table.order])
        # Sorted by number alone: whole entries would be sorted with them.
        return Ask(
            f"SELECT {self._fields} FROM ({hits} ORDER BY {order} LIMIT {MOST}) AS newest "
            f"JOIN {index.entries} AS b ON b.number = chosen JOIN {table.name} ON rowno = chosen",
            values,
        )

    def _counts(self) -> Script[list[int]]:
        """In how many indexed records each word stands, counted up to MOST + 1."""
        held: list[int] = []
        for start in range(0, len(self._words), _COUNTED_AT_ONCE):
            values: list[Any] = []
            hits = [self._hits([word], values, "1") for word in self._words[start : start + _COUNTED_AT_ONCE]]
            counts = [f"(SELECT COUNT(*) FROM ({one} LIMIT {MOST + 1}) AS held)" for one in hits]
            held += (yield Ask(f"SELECT {', '.join(counts)}", values))[0]
        return held

    def _is_large(self) -> Script[bool]:
        """Whether the scope holds so many records that not all of them should be read."""
        values: list[Any] = []
        inside = f"{self._index.numbers(values, self._asked, None)} LIMIT {_SMALL + 1}"
        [[size]] = yield Ask(f"SELECT COUNT(*) FROM ({inside}) AS inside", values)
        return bool(size > _SMALL)
