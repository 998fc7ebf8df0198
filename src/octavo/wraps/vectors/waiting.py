"""What waits to be embedded: which records a write touches, the markers that say so in the store itself, and the embedding."""

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET

from octavo.errors import ModelError
from octavo.kernel.codec import check_query, is_answerable
from octavo.kernel.ids import now
from octavo.kernel.model import START, Add, Change, Op, Query, Record, Remove, Scope, exact_scope
from octavo.kernel.pages import list_heads
from octavo.kernel.ports import Embedder, Entry, EntryKey, Store, Vector, VectorIndex
from octavo.kernel.terms.matching import digest
from octavo.kernel.text import content, pluralize

PENDING = "pending"
KIND = "vector"
MOST_KEYS = 500  # in one marker
_PAGE = 1000
#: Of a record; models read less, and a book would cost the time of thousands of messages.
MOST_CHARACTERS = 8000
_PART = 32  # records of any size held at once
_HOPELESS = 3  # single texts refused one after the other before the model itself is taken to be down

Answer: TypeAlias = "Vector | ModelError"  # the first is spelled as a string, which `|` does not take


# Markers.


def markers_query(tenant: str) -> Query:
    """The markers of a tenant."""
    return Query(collection=PENDING, kinds=(KIND,), scope=Scope(tenant=tenant))


def markers(keys: Iterable[EntryKey], tries: int = 0, due: datetime | None = None) -> list[Record]:
    """Records that name what has to be embedded, each under an id of its own: a used one would not be added again.

    One that is `due` later is born in the future, and left alone until then.
    """
    by_tenant: dict[str, list[list[str | None]]] = {}
    for key in keys:
        scope = key.scope
        named = [key.collection, key.id, scope.user, scope.agent, scope.session]
        by_tenant.setdefault(scope.tenant, []).append(named)
    return [
        Record(
            collection=PENDING,
            kind=KIND,
            scope=Scope(tenant=tenant),
            data={"keys": named[start : start + MOST_KEYS], "tries": tries},
            created_at=due or now(),
        )
        for tenant, named in by_tenant.items()
        for start in range(0, len(named), MOST_KEYS)
    ]


def keys_in(marker: Record) -> Iterator[EntryKey]:
    """What a marker names."""
    for collection, id_, user, agent, session in marker.data["keys"]:
        scope = Scope(tenant=marker.scope.tenant, user=user, agent=agent, session=session)
        yield EntryKey(collection, id_, scope)


def remove_markers(read: Sequence[Record]) -> Remove:
    """The op that takes away exactly these markers, all of one tenant."""
    scope = exact_scope(read[0].scope)
    return Remove(Query(collection=PENDING, ids=tuple(marker.id for marker in read), scope=scope))


# What a write touches.


async def find_touched(store: Store, ops: Sequence[Op], collections: tuple[str, ...]) -> list[EntryKey]:
    """Every record of these collections whose vector the ops may change; perhaps a few more, never fewer.

    A record that another writer adds between this look and the write is not among them. That writer's own marker names it.
    """
    # Where a later op alters records, one that changes only marks matters too: the later one may look for those marks.
    altered = {op.query.collection for op in ops if not isinstance(op, Add) and _may_alter(op)}
    keys: dict[EntryKey, None] = {}
    # Collections whose records may not be as they are now when the next op looks at them.
    moved: set[str] = set()
    for op in ops:
        if isinstance(op, Add):
            here = [record for record in op.records if record.collection in collections]
            moved.update(record.collection for record in here)
            keys.update(dict.fromkeys(EntryKey.of(record) for record in here if record.text or record.data))
        elif (collection := op.query.collection) in collections and collection in altered:
            query = check_query(op.query)
            if collection in moved and (query.limit or query.offset):  # nobody knows yet whom it counts
                query = msgspec.structs.replace(query, limit=None, offset=0)
            keys.update(dict.fromkeys(await _find_keys(store, query)))
            moved.add(collection)
    return list(keys)


def _may_alter(op: Change | Remove) -> bool:
    """Whether a vector may be another afterwards."""
    if isinstance(op, Remove):
        return True
    # A record whose end is put off may have been dropped as expired.
    return any(value is not UNSET for value in (op.text, op.data, op.merge, op.expires_at))


async def _find_keys(store: Store, query: Query) -> list[EntryKey]:
    if not is_answerable(query):
        return []
    if query.ids is not None and query.scope.exact:  # no need to look: naming too many costs little
        return [EntryKey(query.collection, id_, query.scope) for id_ in dict.fromkeys(query.ids)]
    if query.after is None:  # from the newest on
        query = msgspec.structs.replace(query, after=START, newest_first=True)
    found: list[EntryKey] = []
    left = query.limit
    while left is None or left > 0:
        size = _PAGE if left is None else min(_PAGE, left)
        page = await list_heads(store, msgspec.structs.replace(query, limit=size))
        found += [EntryKey(query.collection, head.id, exact_scope(head.scope)) for head in page]
        if len(page) < size:
            break
        left = None if left is None else left - size
        query = msgspec.structs.replace(query, after=page[-1].cursor, offset=0)
    return found


# Embedding it.


class Passage(NamedTuple):
    """What a record says: the part of it that is embedded, and the digest of all of it."""

    text: str
    digest: str


def passage_of(record: Record) -> Passage | None:
    """What is to be embedded of a record; None when that is nothing, as of an expired one."""
    whole = content(record.text, record.data)
    if not whole.strip() or (record.expires_at is not None and record.expires_at <= now()):
        return None
    return Passage(whole[:MOST_CHARACTERS], digest(whole))


class VectorOutcome:
    """What came of an attempt to bring vectors up to date."""

    def __init__(self) -> None:
        self.embedded = 0
        self.dropped = 0
        self.failed: dict[EntryKey, ModelError] = {}


class Target:
    """One model and its space in an index."""

    def __init__(self, index: VectorIndex, embedder: Embedder) -> None:
        self.index = index
        self.embedder = embedder
        self.space = embedder.name

    def wants(self, found: Passage | None) -> str | None:
        """The digest of the vector there should be; None when there should be none."""
        return found.digest if found is not None and self.embedder.reads(found.text) else None

    async def write(self, texts: dict[EntryKey, Passage | None], outcome: VectorOutcome) -> None:
        """Put a vector for each text and drop those of the rest; a text the model refuses is named in the outcome."""
        wanted = {key: found for key, found in texts.items() if found is not None and self.wants(found)}
        vectors = await _vectors(self.embedder, [found.text for found in wanted.values()])
        entries: list[Entry] = []
        for (key, found), vector in zip(wanted.items(), vectors, strict=True):
            if isinstance(vector, ModelError):
                outcome.failed[key] = vector
                continue
            entry = Entry(
                collection=key.collection, id=key.id, scope=key.scope, digest=found.digest, vector=vector
            )
            entries.append(entry)
        if entries:
            await self.index.put(self.space, entries)
            outcome.embedded += len(entries)
        if gone := [key for key in texts if key not in wanted]:
            await self.index.drop(self.space, gone)
            outcome.dropped += len(gone)


async def refresh(
    store: Store, targets: Sequence[Target], keys: Iterable[EntryKey], outcome: VectorOutcome | None = None
) -> VectorOutcome:
    """Bring the vectors of these records up to date in every target; what came of it is added to the outcome."""
    outcome = outcome or VectorOutcome()
    texts = await passages(store, keys)
    while texts:
        for target in targets:
            await target.write(texts, outcome)
        # Somebody else may have put a newer text's vector between our look at the record and our own write, and have
        # removed its marker. Without this second look, our old vector would stay.
        again = await passages(store, texts)
        texts = {key: found for key, found in again.items() if found != texts[key]}
    return outcome


async def passages(store: Store, keys: Iterable[EntryKey]) -> dict[EntryKey, Passage | None]:
    """What each of these records says now; None for one that is gone."""
    found: dict[EntryKey, Passage | None] = dict.fromkeys(keys)
    ids: dict[tuple[str, Scope], list[str]] = {}
    for key in found:
        ids.setdefault((key.collection, key.scope), []).append(key.id)
    for (collection, scope), ids_here in ids.items():
        for start in range(0, len(ids_here), _PART):
            part = tuple(ids_here[start : start + _PART])
            for record in await store.find(Query(collection=collection, ids=part, scope=scope)):
                found[EntryKey.of(record)] = passage_of(record)
    return found


async def _vectors(embedder: Embedder, texts: list[str]) -> list[Answer]:
    """A vector for each text, or why there is none; ModelError when the model answers for none of them."""
    if not texts:
        return []
    try:
        return list(await _embed(embedder, texts))
    except ModelError:
        if len(texts) == 1:
            raise
    # One text that the model refuses must not keep all others waiting for ever. In a random order, so that a few of
    # those at the front do not look like a model that is down.
    answers: dict[int, Answer] = {}
    worked = False
    for at in random.sample(range(len(texts)), len(texts)):
        try:
            [answers[at]] = await _embed(embedder, [texts[at]])
            worked = True
        except ModelError as error:
            answers[at] = error
            if not worked and len(answers) >= min(_HOPELESS, len(texts)):
                raise
    return [answers[at] for at in range(len(texts))]


async def _embed(embedder: Embedder, texts: list[str]) -> list[Vector]:
    vectors = await embedder.embed(texts)
    if len(vectors) != len(texts):
        raise ModelError(
            f"{embedder.name} answered {pluralize(len(vectors), 'vector')} for {pluralize(len(texts), 'text')}"
        )
    for vector in vectors:
        if not 0 < math.hypot(*vector) < math.inf:
            raise ModelError(f"{embedder.name} answered a vector that has no direction")
    return vectors
