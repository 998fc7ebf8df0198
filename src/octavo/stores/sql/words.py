"""What the index of terms keeps of a record: its terms in words every engine takes whole, and whose it is.

A word is a term as it stands, when that is letters and digits; anything else is a digest of it. A tag names one part of
a scope together with its tenant: a record has four of them, a search asks for those of the parts it names.
"""

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from octavo.kernel.model import NAMES_HELD, Scope
from octavo.kernel.terms.matching import index_terms, stored_index_text

# Upper case is left out because SQLite's tokenizer would fold it; surrogates because no driver can send them.
_PLAIN = re.compile(r"[a-z0-9\x80-\ud7ff\ue000-\U0010ffff]{1,64}").fullmatch

_MOST_BYTES = 1_000_000  # of the words in one tsvector, which ends at 1 MiB


class Entry(NamedTuple):
    """One record in the index; its words each once, between single spaces, and those that repeat once more."""

    number: int
    length: int
    bag: str
    more: str
    tags: str


def entry(number: int, scope: tuple[str, str, str, str], text: str, data: str) -> Entry:
    """The entry of a record, from what its table keeps."""
    found, length = index_terms(*stored_index_text(text, data))
    words = [spelled(term) for term in found]
    distinct = dict.fromkeys(words)
    more = ""
    if len(distinct) < len(words):
        seen: set[str] = set()
        more = " ".join([word for word in words if word in seen or seen.add(word)])  # type: ignore[func-returns-value]
    return Entry(number, length, f" {' '.join(distinct)} ", more, " ".join(tags(*scope)))


def spelled(term: str) -> str:
    """The word that stands for a term."""
    return term if _PLAIN(term) else f"~{_digest(term, 12)}"


@lru_cache(maxsize=NAMES_HELD)
def tags(tenant: str, user: str, agent: str, session: str) -> tuple[str, str, str, str]:
    """The four tags of a record: of its tenant, user, agent and session; one it does not have is a tag as well."""
    parts = (("u", user), ("a", agent), ("s", session))
    user_, agent_, session_ = (f"~{letter}{_digest(tenant + chr(0) + part)}" for letter, part in parts)
    return f"~t{_digest(tenant)}", user_, agent_, session_


class ScopeTags(NamedTuple):
    """What a search is about: the tag of its tenant, and the tags that all records inside its scope have."""

    tenant: str
    tags: tuple[str, ...]  # the narrowest first; none where all records are the tenant's


def scope_tags(scope: Scope) -> ScopeTags:
    """The tags to look for; that of the tenant is in every other one, and stands alone only."""
    of_tenant, *parts = tags(scope.tenant, scope.user or "", scope.agent or "", scope.session or "")
    given = (scope.user, scope.agent, scope.session)
    named = [tag for tag, part in zip(parts, given, strict=True) if part is not None]
    return ScopeTags(of_tenant, tuple(named[::-1]) or (of_tenant,))


@lru_cache(maxsize=NAMES_HELD)
def token(tag: str, word: str = "") -> int:
    """A tag, or a word of the tenant that has this tag, as a number of 64 bits."""
    raw = hashlib.blake2b(f"{tag} {word}".encode(), digest_size=8).digest()
    return int.from_bytes(raw, signed=True)


def tokens(entry: Entry) -> set[int]:
    """Every number under which an entry is found."""
    named = entry.tags.split(" ")
    words = [word for word in entry.bag.split(" ") if word]
    return {*(token(named[0], word) for word in words), *(token(tag) for tag in named)}


def fts_match(asked: ScopeTags, words: Sequence[str] | None) -> str:
    """What SQLite looks up: any of the words together with all tags, none of which holds a quote."""
    held = [] if words is None else ['("' + '" OR "'.join(words) + '")']
    return " AND ".join([*[f'"{tag}"' for tag in asked.tags], *held])


def tsquery(asked: ScopeTags, words: Sequence[str] | None) -> str:
    """The same for PostgreSQL."""
    held = [] if words is None else ["('" + "' | '".join(words) + "')"]
    return " & ".join([*[f"'{tag}'" for tag in asked.tags], *held])


def lexemes(one: Entry) -> str:
    """An entry's words and tags as the text of a tsvector; none of them holds a quote or a backslash."""
    words = one.bag.strip(" ")
    if len(words) * 4 > _MOST_BYTES:
        words = words.encode()[:_MOST_BYTES].decode(errors="ignore")
    return "'" + f"{one.tags} {words}".rstrip(" ").replace(" ", "' '") + "'"


def _digest(text: str, size: int = 8) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()
