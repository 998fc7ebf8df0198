"""The index of terms of one table: its tables, what waits to be indexed, and how words are looked up.

`<table>_terms` keeps one entry for each record. Beside it SQLite has an FTS5 table over the entries, PostgreSQL a tsvector
with a GIN index, and MySQL a table of postings. All of it is made together with the table. Whoever writes a record only
notes that it waits; the entry is made later (docs/decisions/007-term-index.md).

A word is a term as it stands, when that is letters and digits; anything else is a digest of it. A tag names one part of
a scope together with its tenant: a record has four of them, a search asks for those of the parts it names.
"""

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from octavo.kernel.model import NAMES_HELD, Scope
from octavo.kernel.terms.matching import FOUND_BY_JSON, index_terms, stored_index_text
from octavo.kernel.terms.terms import MOST_CHARACTERS
from octavo.stores.sql.statements import Do, Fetch, Script, in_list

if TYPE_CHECKING:
    from octavo.stores.sql.schema import Table

AT_ONCE = 1000  # numbers in one statement


# No ASCII but lower case and digits: SQLite's tokenizer would fold upper case. Surrogates no driver can send. Said by what
# is left out, since to list what is let in takes milliseconds.
_PLAIN = re.compile(r"[^\x00-/:-`{-\x7f\ud800-\udfff]{1,64}").fullmatch


class IndexedRecord(NamedTuple):
    """One record in the index; its words each once, between single spaces, and those that repeat once more."""

    number: int
    length: int
    bag: str
    more: str
    tags: str


def entry(number: int, scope: tuple[str, str, str, str], text: str, data: str) -> IndexedRecord:
    """The entry of a record, from what its table keeps."""
    found, length = index_terms(*stored_index_text(text, data))
    words = [spell_term(term) for term in found]
    distinct = dict.fromkeys(words)
    more = ""
    if len(distinct) < len(words):
        seen: set[str] = set()
        more = " ".join([word for word in words if word in seen or seen.add(word)])  # type: ignore[func-returns-value]
    return IndexedRecord(number, length, f" {' '.join(distinct)} ", more, " ".join(tags(*scope)))


def spell_term(term: str) -> str:
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
    words: tuple[str, ...] = ()  # that a record must hold beside one of those that are looked up


def scope_tags(scope: Scope) -> ScopeTags:
    """The tags to look for; that of the tenant is in every other one, and stands alone only."""
    of_tenant, *parts = tags(scope.tenant, scope.user or "", scope.agent or "", scope.session or "")
    given = (scope.user, scope.agent, scope.session)
    named = [tag for tag, part in zip(parts, given, strict=True) if part is not None]
    return ScopeTags(of_tenant, tuple(named[::-1]) or (of_tenant,))


def _digest(text: str, size: int = 8) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()


class SqlTermIndex:
    """What all three have in common. The scripts run inside the transaction of whoever calls them."""

    #: What to select from to see every record that waits, and a test of it, if it takes one.
    late: tuple[str, str]
    #: The test of one record, by its number, for waiting.
    waits: str
    #: What a select of records that are to wait ends with, to come after whoever is removing them.
    as_queued = ""
    #: What a select of claimed records ends with, to read them as they were when claimed.
    as_claimed = ""
    #: Whether the same words of all tenants are found together, so that those of one take a tag as well.
    shared = True

    def __init__(self, table: "Table") -> None:
        quote = table.dialect.quote
        self.table = table
        self.terms = quote(f"{table.plain_name}_terms")
        self.waiting = quote(f"{table.plain_name}_waiting")
        text, data = table.column("text"), table.dialect.as_text(table.column("data"))
        found_by = f"SUBSTR({data}, 1, {len(FOUND_BY_JSON)}) = '{FOUND_BY_JSON}'"
        #: The text a record is found by, as far as terms are made of it, and its data when that says what it is found by.
        self.said = f"SUBSTR({text}, 1, {MOST_CHARACTERS}), CASE WHEN {text} = '' OR {found_by} THEN {data} ELSE '' END"
        parts = [table.column(part) for part in ("tenant", "user", "agent", "session")]
        #: What joins a record's row with its entry, which is `b` then.
        self.joined = f"JOIN {self.terms} AS b ON b.number = rowno"
        #: What an entry is made of.
        self.content = ", ".join(["rowno", *parts, self.said])

    def names(self) -> tuple[str, ...]:
        """The names of all its tables."""
        return (f"{self.table.plain_name}_terms", f"{self.table.plain_name}_waiting")

    def create(self) -> list[str]:
        """The statements that make its tables."""
        raise NotImplementedError

    def queue(self, numbers: Sequence[int]) -> Script[None]:
        """Note that these records have another text than before; new ones are noted without it."""
        raise NotImplementedError

    def claim(self, most: int) -> Script[list[int]]:
        """The numbers of some records that wait, which nobody else indexes until this transaction ends."""
        raise NotImplementedError

    def settle(self, numbers: Sequence[int]) -> Script[None]:
        """Note that what was claimed has been indexed."""
        raise NotImplementedError

    def put(self, entries: list[IndexedRecord]) -> Script[None]:
        """Have these entries in place of those that are kept under their numbers."""
        raise NotImplementedError

    def forget(self, numbers: Sequence[int]) -> Script[None]:
        """Remove the entries of records that were removed."""
        raise NotImplementedError

    def candidates(self, values: list[Any], asked: ScopeTags, words: Sequence[str] | None) -> tuple[str, str]:
        """What to select from to see the indexed records of a scope that hold any of the words, and a test of it.

        Without words: all of them. The entry is `b` there, and the record's row beside it. Adds the values it binds.
        """
        raise NotImplementedError

    def holders(self, values: list[Any], asked: ScopeTags, words: Sequence[str] | None) -> tuple[str, str]:
        """The same without the entry, where that is less to read."""
        return self.candidates(values, asked, words)

    def count(
        self, values: list[Any], asked: ScopeTags, words: Sequence[str], but: Sequence[int], most: int
    ) -> str:
        """An expression: how many indexed records of a scope hold any of the words, without some of them; up to `most`."""
        raise NotImplementedError

    def estimate(self, words: Sequence[str]) -> Fetch | None:
        """The commonest of the words, each with about how many entries hold it; None where counting all is quick."""
        del words
        return None

    def size(self, asked: ScopeTags, most: int) -> Fetch:
        """How many indexed records are in a scope, counted up to `most`."""
        raise NotImplementedError

    def find_lost(self, entries: Sequence[IndexedRecord]) -> Script[list[int]]:
        """The numbers of entries that the database's own index does not find by all of their words."""
        del entries
        yield from ()
        return []

    def mend(self) -> Script[None]:
        """Make the database's own index anew from the entries."""
        yield from ()

    def analyze(self) -> Script[None]:
        """Let the planner look at tables that have grown by much: until it does so by itself, it guesses."""
        yield from ()

    def entries(self, numbers: Sequence[int]) -> Script[list[IndexedRecord]]:
        """What is kept under these numbers now, whatever the transaction saw before."""
        found: list[IndexedRecord] = []
        for start in range(0, len(numbers), AT_ONCE):
            some = in_list(numbers[start : start + AT_ONCE])
            sql = f"SELECT number, length, bag, more, tags FROM {self.terms} WHERE number IN ({some})"
            found += [IndexedRecord(*row) for row in (yield Fetch(sql + self.table.dialect.lock_rows))]
        return found

    def bind(self, values: list[Any], value: Any) -> str:
        """Bind one more value; answer its placeholder."""
        values.append(value)
        return self.table.dialect.placeholder(len(values))

    def _delete(self, table: str, numbers: Sequence[int]) -> Script[None]:
        for start in range(0, len(numbers), AT_ONCE):
            yield Do(f"DELETE FROM {table} WHERE number IN ({in_list(numbers[start : start + AT_ONCE])})")
