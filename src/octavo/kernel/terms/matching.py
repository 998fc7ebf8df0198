"""What a search by terms finds before anything is ranked: the meaning every store's `search` is held to."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from octavo.kernel.model import Query, Record
from octavo.kernel.terms.matches import COMMON, LOOKED, Match, Matches, is_unfiltered, narrow, newest
from octavo.kernel.terms.terms import terms as terms_of
from octavo.kernel.terms.topics import MOST_CHARACTERS, topics
from octavo.kernel.text import content

_decode = msgspec.json.Decoder().decode

#: In the data of a record, before anything else: its topic, and the words it was made of. It is found by these too.
FOUND_BY = "found_by"
#: How JSON data with that begins, so that stores can tell without decoding it.
FOUND_BY_JSON = f'{{"{FOUND_BY}":['


def index_text(text: str, data: object) -> tuple[str, str]:
    """The text that a record is indexed by, its topic behind it, and the words that it was made of."""
    name, more = next(iter(data.items()), ("", None)) if text and isinstance(data, dict) else ("", None)
    if name != FOUND_BY or not isinstance(more, list) or [*map(type, more)] != [str, str]:
        return content(text, data), ""
    topic, quote = more
    return f"{text}\n{topic}", quote


def topic_in(data: object) -> str:
    """What the data of a record says that it is about."""
    topic, _ = (data.get(FOUND_BY) if isinstance(data, dict) else None) or ("", "")
    return str(topic)


def stored_index_text(text: str, data_json: str) -> tuple[str, str]:
    """`index_text` of a row as stores keep it; most need no decoding."""
    if text and not data_json.startswith(FOUND_BY_JSON):
        return text, ""
    return index_text(text, _decode(data_json))


def digest(text: str) -> str:
    """A short name of this very text: a vector made of another one is out of date."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def index_terms(text: str, quote: str = "") -> tuple[list[str], int]:
    """The terms a record of this text is found by, its topics behind its words; and how many words there are.

    Of the `quote` that it was made of only words are added, and only those it does not have: what else a sentence is about
    is no topic of each of its facts, and a single Chinese character of it says nothing.
    """
    found = terms_of(text)
    about = topics(text, found) if len(text) <= MOST_CHARACTERS else []
    if quote:
        own = set(found)
        found += [term for term in terms_of(quote) if len(term) > 1 and term not in own]
    return found + about, len(found)


def count_terms(text: str, quote: str = "") -> tuple[Counter[str], int]:
    """How often each term stands in a text, and how many words there are in all."""
    found, length = index_terms(text, quote)
    return Counter(found), length


def search_records(query: Query, terms: Sequence[str], records: Iterable[Record]) -> Matches:
    """Search the given records: those that match the query and hold any of the terms.

    When more than MOST do, only what the nominated terms find is looked at; when that is more than MOST, only what holds the
    other words too, as many of them as ENOUGH records hold together; and of that the newest MOST. When that is more than
    COMMON and the query has no filter, only what is among the newest LOOKED records that answer the query, if that is ENOUGH.
    The paging of the query, and its `text`, are not looked at. A term given twice is counted twice in the answer and
    changes nothing else; one that no text can hold (white space, punctuation, too long) is held by no record.
    """
    asked = msgspec.structs.replace(query.unpaged, text=None)
    found: list[Match] = []
    inside = asked.over(records)
    for record in inside:
        counted, length = count_terms(*index_text(record.text, record.data))
        counts = tuple(counted[term] for term in terms)
        if any(counts):
            found.append(Match(record.id, record.scope, record.created_at, record.seq, length, counts))
    narrowed = narrow(found, terms)
    common = len(narrowed.found) > COMMON and len(inside) > LOOKED and is_unfiltered(query)
    return Matches(newest(narrowed.found, inside[-LOOKED].rank if common else None), narrowed.held)
