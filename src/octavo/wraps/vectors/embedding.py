"""Bringing vectors up to date: the records as they are now, through a model, into an index."""

import math
import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from octavo.errors import ModelError
from octavo.kernel.ids import now
from octavo.kernel.model import Query, Record, Scope
from octavo.kernel.ports import Embedder, Entry, Store, Vector, VectorIndex
from octavo.kernel.terms.matching import content, digest
from octavo.wraps.vectors.waiting import Key, key_of

#: Of a record; models read less, and a book would cost the time of thousands of messages.
MOST_CHARACTERS = 8000
_PART = 32  # records of any size held at once
_HOPELESS = 3  # single texts refused one after the other before the model itself is taken to be down

Answer: TypeAlias = "Vector | ModelError"  # the first is spelled as a string, which `|` does not take


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


class Outcome:
    """What came of an attempt to bring vectors up to date."""

    def __init__(self) -> None:
        self.embedded = 0
        self.dropped = 0
        self.failed: dict[Key, ModelError] = {}


class Target:
    """One model and its space in an index."""

    def __init__(self, index: VectorIndex, embedder: Embedder) -> None:
        self.index = index
        self.embedder = embedder
        self.space = embedder.name

    def wants(self, found: Passage | None) -> str | None:
        """The digest of the vector there should be; None when there should be none."""
        return found.digest if found is not None and self.embedder.reads(found.text) else None

    async def write(self, texts: dict[Key, Passage | None], outcome: Outcome) -> None:
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
        if gone := [key.entry for key in texts if key not in wanted]:
            await self.index.drop(self.space, gone)
            outcome.dropped += len(gone)


async def refresh(
    store: Store, targets: Sequence[Target], keys: Iterable[Key], outcome: Outcome | None = None
) -> Outcome:
    """Bring the vectors of these records up to date in every target; what came of it is added to the outcome."""
    outcome = outcome or Outcome()
    texts = await passages(store, keys)
    while texts:
        for target in targets:
            await target.write(texts, outcome)
        # Somebody else may have put a newer text's vector between our look at the record and our own write, and have
        # removed its marker. Without this second look, our old vector would stay.
        again = await passages(store, texts)
        texts = {key: found for key, found in again.items() if found != texts[key]}
    return outcome


async def passages(store: Store, keys: Iterable[Key]) -> dict[Key, Passage | None]:
    """What each of these records says now; None for one that is gone."""
    found: dict[Key, Passage | None] = dict.fromkeys(keys)
    ids: dict[tuple[str, Scope], list[str]] = {}
    for key in found:
        ids.setdefault((key.collection, key.scope), []).append(key.id)
    for (collection, scope), ids_here in ids.items():
        for start in range(0, len(ids_here), _PART):
            part = tuple(ids_here[start : start + _PART])
            for record in await store.find(Query(collection=collection, ids=part, scope=scope)):
                found[key_of(record)] = passage_of(record)
    return found


async def _vectors(embedder: Embedder, texts: list[str]) -> list[Answer]:
    """A vector for each text, or why there is none; ModelError when the model answers for none of them."""
    if not texts:
        return []
    try:
        return list(await _embedded(embedder, texts))
    except ModelError:
        if len(texts) == 1:
            raise
    # One text that the model refuses must not keep all others waiting for ever. In a random order, so that a few of
    # those at the front do not look like a model that is down.
    answers: dict[int, Answer] = {}
    worked = False
    for at in random.sample(range(len(texts)), len(texts)):
        try:
            [answers[at]] = await _embedded(embedder, [texts[at]])
            worked = True
        except ModelError as error:
            answers[at] = error
            if not worked and len(answers) >= min(_HOPELESS, len(texts)):
                raise
    return [answers[at] for at in range(len(texts))]


async def _embedded(embedder: Embedder, texts: list[str]) -> list[Vector]:
    vectors = await embedder.embed(texts)
    if len(vectors) != len(texts):
        raise ModelError(f"{embedder.name} answered {len(vectors)} vectors for {len(texts)} texts")
    for vector in vectors:
        if not 0 < math.hypot(*vector) < math.inf:
            raise ModelError(f"{embedder.name} answered a vector that has no direction")
    return vectors
