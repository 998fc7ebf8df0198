"""The certificate of an erasure: what was removed where, whether its bytes were looked for, and what is out of reach.

Erased texts are looked for without being kept, by keyed digests of twelve bytes each, which any run of bytes is compared with:
one pass over a file compares every position with all digests at once. Whoever has the key can find out whether bytes hold an
erased text; nobody can read a text from its digests.
"""

import asyncio
import functools
import hashlib
import json
import os
import re
from array import array
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from octavo.erasing.subject import Part
from octavo.errors import OctavoError, StoreClosed
from octavo.kernel.model import Add, Change, Query, Record, Scope, exact_scope
from octavo.kernel.ports import Store
from octavo.kernel.terms.matching import index_terms, index_text
from octavo.kernel.text import fold, leaves, spell
from octavo.util.cache import clear_caches
from octavo.util.system import import_optional

#: Characters of the shortest text that is looked for, and bytes of what is compared.
WINDOW = 12
_MOST_WINDOWS = 8  # of one text in one spelling
_MOST_DIGESTS = 100_000  # of one erasure; of more, every n-th is kept
_CHUNK = 4 * 2**20
_FIELD = 2**64
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|[+-]\d\d:\d\d)?")
_BITS = 20  # of a digest, by which nearly all positions are passed over


@functools.cache
def _numpy() -> Any:
    """A hundred times as quick, and loaded when it is needed; without it all is the same."""
    return import_optional("numpy")


class Digester:
    """Makes and compares digests with one key."""

    def __init__(self, key: bytes) -> None:
        self._key = hashlib.blake2b(key, digest_size=32, person=b"octavo-erasing").digest()
        # Odd, so that two runs that differ in only one of the two parts never have the same digest.
        self._low = int.from_bytes(self._key[:8], "little") | 1
        self._high = int.from_bytes(self._key[8:16], "little") | 1

    def name(self, *parts: str) -> str:
        """A name that says nothing without the key."""
        return hashlib.blake2b(spell(parts).encode(), key=self._key, digest_size=16).hexdigest()

    def digests(self, texts: Iterable[str]) -> Iterator[int]:
        """The digests of texts in every spelling they may stand in."""
        for text in texts:
            for spelled in _spellings(text):
                last = len(spelled) - WINDOW
                step = max(WINDOW, -(-last // _MOST_WINDOWS))
                for start in {*range(0, last + 1, step), last}:
                    yield self._digest(spelled[start : start + WINDOW])

    def _digest(self, window: bytes) -> int:
        low, high = int.from_bytes(window[:8], "little"), int.from_bytes(window[8:], "little")
        return (low * self._low + high * self._high) % _FIELD

    def find(self, data: bytes, digests: "Digests") -> Counter[int]:
        """How often each of the digests is that of twelve bytes in a row of the data."""
        count = len(data) - WINDOW + 1
        if count <= 0 or not digests:
            return Counter()
        numpy = _numpy()
        if numpy is None:
            every = (self._digest(data[at : at + WINDOW]) for at in range(count))
            return Counter(found for found in every if found in digests.all)
        low = numpy.ndarray((count,), "<u8", data, 0, (1,))
        high = numpy.ndarray((count,), "<u4", data, 8, (1,))
        every = low * numpy.uint64(self._low) + high * numpy.uint64(self._high)
        likely = every[digests.likely[every >> numpy.uint64(64 - _BITS)]]
        return Counter(found for found in likely.tolist() if found in digests.all)

    def find_in_file(self, path: str, digests: "Digests") -> tuple[Counter[int], int]:
        """The same for a file and its name; and how many bytes it has. One that is gone has none."""
        found, size, before = self.find(os.fsencode(path), digests), 0, b""
        try:
            with open(path, "rb") as file:  # noqa: PTH123
                while chunk := file.read(_CHUNK):
                    found += self.find(before + chunk, digests)
                    before, size = (before + chunk)[-WINDOW + 1 :], size + len(chunk)
        except FileNotFoundError:
            pass
        return found, size


class Digests:
    """A set of digests, to be compared with."""

    def __init__(self, digests: Iterable[int] = ()) -> None:
        found = sorted(set(digests))
        self.total = len(found)
        self.all = frozenset(found[:: -(-len(found) // _MOST_DIGESTS)] if found else ())
        self.likely: Any = None  # by the first bits of a digest, whether there may be such a one
        if (numpy := _numpy()) is not None:
            self.likely = numpy.zeros(2**_BITS, bool)
            self.likely[[each >> (64 - _BITS) for each in self.all]] = True

    def __bool__(self) -> bool:
        return bool(self.all)

    def to_text(self) -> str:
        """As text, to be kept."""
        return b64encode(array("Q", sorted(self.all)).tobytes()).decode()

    @classmethod
    def read(cls, spelled: str) -> "Digests":
        """What `to_text` made."""
        return cls(array("Q", b64decode(spelled)))


def texts_of(record: Record) -> list[str]:
    """What a record says that can be looked for: its id, its names, and its texts; no times, no agent, no kind.

    Of an id, the end: what it begins with, a kind and a time, is that of others too.
    """
    names = [record.id[-WINDOW:], record.scope.user or "", record.scope.session or "", *record.marks]
    said = [record.text, *leaves(record.data), *leaves(record.metadata)]
    return [text for text in (*names, *said) if len(text) >= WINDOW and not _TIME.fullmatch(text)]


def everything_of(record: Record) -> bytes:
    """All that a record says, in every spelling, to see what others still hold."""
    scope = record.scope
    names = [record.collection, record.id, record.kind, scope.tenant, scope.user, scope.agent, scope.session]
    said = [*names, *record.marks, record.text, *_gather_texts(record.data), *_gather_texts(record.metadata)]
    # Words of an index, cut to their stems.
    indexed = " ".join(index_terms(*index_text(record.text, record.data))[0])
    return b"\n".join(spelled for text in (*said, indexed) if text for spelled in _spellings(text))


def _gather_texts(value: Any) -> list[str]:
    """The texts in a JSON document, its keys too."""
    return [*leaves(value), *_keys(value)]


def _keys(value: Any) -> Iterator[str]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict):
        yield from value
    for each in inner:
        yield from _keys(each)


def _spellings(text: str) -> set[bytes]:
    """The bytes that stand for a text: plain, folded for search, inside JSON with and without escapes, in a file's name."""
    escaped = json.dumps(text)[1:-1]
    spelled = {text, fold(text), spell(text)[1:-1], escaped, quote(text, safe="")}
    found = {each.encode("utf-8", "surrogatepass") for each in spelled}
    return {each for each in found if len(each) >= WINDOW}


COLLECTION = "erasures"
_SCOPE = Scope(user="", agent="", session="octavo:erasures")
_ALL = Query(collection=COLLECTION, scope=exact_scope(_SCOPE))
LOOK_SECONDS = 5.0
#: Nobody's program reaches these.
BEYOND = (
    "backups and copies that were made before",
    "replicas, until they have followed",
    "freed blocks of the disk, until it writes them over",
    "other machines: their vaults, queues and memory",
)


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """What an erasure did. It holds counts, and a keyed digest in place of a name; no content."""

    id: str
    what: Part
    subject: str  # a keyed digest of the name
    tenant: str = ""
    asked_at: datetime
    erased_at: datetime | None = None
    dry_run: bool = False
    removed: dict[str, int] = {}  # by where it was; of a dry run, what would be
    users: int = 0  # whose it was
    named: tuple[str, ...] = ()  # of a dry run, the first of them
    digests: int = 0  # pieces of erased texts that a scrub looks for
    scrub: Literal["pending", "done", "found"] = "pending"
    scrubbed_at: datetime | None = None
    scrubbed: tuple[str, ...] = ()  # what was done about the bytes left behind
    scanned: dict[str, int] = {}  # files and bytes that were looked through
    found: int = 0  # pieces that are still there, and that no other record holds
    unreached: tuple[str, ...] = BEYOND

    @property
    def total(self) -> int:
        """How much was removed in all."""
        return sum(self.removed.values())


async def keep(store: Store, certificate: Certificate, digests: Digests | None) -> None:
    """Keep a certificate, in place of what it said before; its digests as long as they are looked for."""
    data: dict[str, Any] = {"certificate": msgspec.to_builtins(certificate)}
    if digests is not None:
        data["digests"] = digests.to_text()
    record = Record(
        collection=COLLECTION,
        id=certificate.id,
        kind=certificate.scrub,
        scope=_SCOPE,
        text="-",  # or the digests would be searched
        data=data,
    )
    named = msgspec.structs.replace(_ALL, ids=(certificate.id,))
    await store.apply([Add([record]), Change(query=named, kind=certificate.scrub, data=data)])


async def certificates(store: Store, tenant: str | None = None) -> list[Certificate]:
    """All certificates that are kept, oldest first; of one tenant, or of all."""
    return [each for each, _ in await read_certificates(store) if tenant is None or each.tenant == tenant]


async def read_certificates(store: Store, *, pending: bool = False) -> list[tuple[Certificate, Digests]]:
    """The certificates with their digests, all of them or those whose bytes are still to be looked for."""
    kinds = ("pending", "found") if pending else None
    found = [record.data for record in await store.find(msgspec.structs.replace(_ALL, kinds=kinds))]
    return [
        (msgspec.convert(data["certificate"], Certificate), Digests.read(data.get("digests", "")))
        for data in found
    ]


async def watch_erasures(store: Store, seconds: float = LOOK_SECONDS) -> None:
    """Clear the caches of this process whenever something was erased, by whichever process, until it is cancelled."""
    newest = msgspec.structs.replace(_ALL, newest_first=True, limit=1)
    seen: object = None
    known = False
    while True:
        try:
            found = [(record.id, record.updated_at) for record in await store.find(newest)]
        except StoreClosed:
            return
        except OctavoError:  # a store that is away is asked again
            pass
        else:
            if known and found != seen:
                clear_caches()
            seen, known = found, True
        await asyncio.sleep(seconds)
