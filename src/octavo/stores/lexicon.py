"""The index of terms of the memory and file stores: beside the records, made on the first search, late but never seen so.

A record that comes or changes is only noted; its terms are made in idle time and before a search answers. What takes
long is done in steps (`Steps`), so that whoever runs them can let others go in between: records may come and go between
two steps, and the whole image may be read anew.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from octavo.kernel.model import Query
from octavo.kernel.ports import Lexicon
from octavo.kernel.terms.matches import Matches
from octavo.stores.image import Image
from octavo.stores.looking import look
from octavo.stores.term_index import STEP_WORK, Steps, TermIndex


def searched(image: Image, query: Query, terms: Sequence[str]) -> Steps[Matches]:
    """Bring the index up to date and answer as `matching` would from all records, in the same step."""
    index, left = None, 0
    while True:
        shelf = image.shelf(query.collection)
        if not shelf.indexes:
            shelf.indexes.append(TermIndex(shelf))
        if index is not shelf.indexes[0]:
            index = shelf.indexes[0]
            left = len(index.waiting)
        # Fewer with every step, whatever comes meanwhile: however fast others write, this comes to an end.
        left = index.catch_up(left)
        if not left:
            return look(index, shelf, query, terms)
        yield index.indexed, index.indexed + left


def reindexed(image: Image, collection: str) -> Steps[int]:
    """Build the index anew while the old one serves; answer how many records are in it."""
    index, left = None, 0
    while True:
        shelf = image.shelf(collection)
        if index is None or index not in shelf.indexes:
            if len(shelf.indexes) < 2:  # else somebody has begun already
                shelf.indexes.append(TermIndex(shelf))
            index = shelf.indexes[-1]
            left = len(index.waiting)
        left = index.catch_up(left)
        if not left:
            shelf.indexes[:] = [index]
            return index.indexed
        yield index.indexed, index.indexed + left


def verified(image: Image, collection: str) -> Steps[Lexicon]:
    """Compare the index with the records; one that was never searched waits as a whole."""
    shelf = image.shelf(collection)
    if not shelf.indexes:
        total = shelf.total()
        return Lexicon(collection=collection, records=total, waiting=total)
    return (yield from shelf.indexes[0].verified(collection))


def idle(image: Image) -> bool:
    """Use idle time for what waits in collections that are searched; answer whether anything still does."""
    waiting = [index for shelf in image.shelves.values() for index in shelf.indexes if index.waiting]
    for index in waiting:
        index.catch_up(len(index.waiting), max(STEP_WORK // len(waiting), 1))
    more = any(index.waiting for index in waiting)
    for shelf in image.shelves.values():
        if len(shelf.indexes) > 1 and not shelf.indexes[1].waiting:
            del shelf.indexes[0]
        elif len(shelf.indexes) == 1 and shelf.indexes[0].worn:
            shelf.indexes.append(TermIndex(shelf))
            more = True
    return more


class Step(msgspec.Struct, frozen=True):
    """What came of one step: how far the work is, or its result."""

    done: tuple[int, int] | None = None
    result: Any = None


def advance(steps: Steps[Any]) -> Step:
    """Take one step of a work."""
    try:
        return Step(done=next(steps))
    except StopIteration as end:
        return Step(result=end.value)
