"""Finding a substring: through the index of terms as far as that can answer, otherwise by looking at every record.

What is common stands among the newest records, which are looked at first. For the rest there is the index, which knows
words and not substrings. Two facts make it useful all the same. Of a script without spaces every pair of characters is
a term, and a word between two blanks of the needle is a whole word in the text too: whatever holds the needle holds
those terms, so the index misses nothing (`certain`). And whatever holds the needle as whole words is found by the
needle's own terms: when that fills the page, nobody has to look for the needle inside of longer words.
"""

import re
from collections.abc import Iterable

import msgspec

from octavo.kernel.model import Query, Record
from octavo.kernel.ports import Searches, Store
from octavo.kernel.terms.matches import MOST, Match, Matches
from octavo.kernel.text import fold

_ENOUGH_TERMS = 20  # every one must be held: leaving some out only makes more candidates
_NEWEST = 1000  # records that are looked at before the index is asked
_LETTERS = re.compile(r"[a-z]+")


async def holding_words(store: Store, query: Query) -> list[Record]:
    """The newest `limit` records that hold the text of the query as whole words, in any form of them, newest first."""
    from octavo.kernel.terms.terms import terms

    likely = list(dict.fromkeys(terms(query.text or "")))[:_ENOUGH_TERMS]
    if not isinstance(store, Searches) or not likely or query.limit == 0:
        return await store.find(query)  # a text without words, such as %, is looked for as it is
    matches = await store.search(query, likely)
    most = len(matches.found) if query.limit is None else query.limit
    found = await _verified(store, query, matches, most)
    if len(found) < most and min(matches.held) > MOST:  # there may be more than the index was asked for
        return await store.find(query)
    return found


async def holding(store: Store, query: Query) -> list[Record]:
    """The newest `limit` records that hold the text of the query, newest first.

    When there are more, and they are not among the newest thousand of all, those that hold it as whole words are
    preferred.
    """
    if not isinstance(store, Searches) or not query.text or not query.limit:
        return await store.find(query)
    from octavo.kernel.terms.terms import (
        terms,  # its patterns take time to build, and only a search needs them
    )

    if (soon := await _among_newest(store, query)) is not None:
        return soon
    if sure := certain(query.text)[:_ENOUGH_TERMS]:
        matches = await store.search(query, sure)
        if min(matches.held) <= MOST:  # all that hold the rarest one are among what was found
            return await _verified(store, query, matches, query.limit)
        return await store.find(query)
    whole: list[Record] = []
    if likely := list(dict.fromkeys(terms(query.text)))[:_ENOUGH_TERMS]:
        whole = await _verified(store, query, await store.search(query, likely), query.limit)
    if len(whole) == query.limit:
        return whole
    known = {record.key for record in whole}
    inside = [record for record in await store.find(query) if record.key not in known]
    return _newest([*whole, *inside[: query.limit - len(whole)]])


def certain(text: str) -> list[str]:
    """The terms that every text must have in which this one stands."""
    from octavo.kernel.terms.terms import terms, unspaced

    words = fold(text).split()
    # The first and the last word may be the end and the beginning of longer ones.
    between = [word for word in words[1:-1] if _LETTERS.fullmatch(word)]
    found = terms(" ".join(between)) + [term for word in words for term in terms(word) if unspaced(term)]
    # A single character stands in so many texts that it only costs; unless there is nothing else.
    return [t for t in dict.fromkeys(found) if len(t) > 1] or list(dict.fromkeys(found))


async def _among_newest(store: Store, query: Query) -> list[Record] | None:
    """The answer, if the newest records alone can give it."""
    every = msgspec.structs.replace(query, text=None, limit=1, offset=_NEWEST)
    edge = await store.find(every)
    if not edge:  # there are no more records than that
        return await store.find(query)
    found = await store.find(msgspec.structs.replace(query, since=edge[0].created_at))
    return found if len(found) == query.limit else None


async def _verified(store: Store, query: Query, matches: Matches, most: int) -> list[Record]:
    """Those of the matches that hold all terms and indeed the text, newest first, no more than asked for."""
    holders: list[Match] = [match for match in reversed(matches.found) if all(match.counts)]
    found: dict[tuple[str, str], Record] = {}
    size = max(50, min(500, 2 * most))
    for start in range(0, len(holders), size):
        ids = tuple(match.id for match in holders[start : start + size])
        page = await store.find(msgspec.structs.replace(query, ids=ids, limit=None))
        found.update((record.key, record) for record in page)
        if len(found) >= most:
            break
    return _newest(found.values())[:most]


def _newest(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=lambda record: record.rank, reverse=True)
