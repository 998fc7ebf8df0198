"""What a batch of writes comes to, worked out before any of it is done.

For stores without transactions of their own (memory, file, Redis): the draft asks for what it must know and answers a
list of effects, so that a batch that fails half-way through has changed nothing.
"""

import itertools
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from octavo.kernel.codec import CheckedAdd, Prepared, seal
from octavo.kernel.model import Change, Query, Record, Remove, check_expected
from octavo.kernel.shapes import StoredRecord

Key: TypeAlias = tuple[str, str]


class Lookup(msgspec.Struct, frozen=True):
    """Which of these keys are kept? Answered with those that are."""

    collection: str
    keys: list[Key]


class Effect(msgspec.Struct, frozen=True):
    """One record before and after; None stands for absent."""

    before: StoredRecord | None
    after: StoredRecord | None


_Overlay: TypeAlias = dict[tuple[str, Key], Effect]  # by collection and key, what the batch has done so far
Asking: TypeAlias = Generator[Lookup | Query, Sequence[Any], tuple[list[Effect], list[int]]]


def draft_effects(
    ops: list[Prepared], answer: Callable[[Lookup | Query], Sequence[Any]]
) -> tuple[list[Effect], list[int]]:
    """The effects of a batch and the count of each op, for a store that answers at once."""
    asking = draft(ops)
    try:
        question = next(asking)
        while True:
            question = asking.send(answer(question))
    except StopIteration as done:
        worked_out: tuple[list[Effect], list[int]] = done.value
        return worked_out


def draft(ops: list[Prepared]) -> Asking:
    """Yield questions about what is kept now; return the effects of the batch and the count of each op."""
    overlay: _Overlay = {}
    counts: list[int] = []
    for adding, run in itertools.groupby(ops, lambda op: isinstance(op, CheckedAdd)):
        if adding:  # asked about together: there may be many small ones
            counts += yield from _add([op for op in run if isinstance(op, CheckedAdd)], overlay)
        else:
            counts += yield from _alter([op for op in run if not isinstance(op, CheckedAdd)], overlay)
    return [effect for effect in overlay.values() if effect.before is not effect.after], counts


def _add(ops: list[CheckedAdd], overlay: _Overlay) -> Generator[Lookup, Sequence[Key], list[int]]:
    """Add the records of each op, one after the other; answer how many of each are new."""
    unknown: dict[str, list[Key]] = {}
    for sealed in itertools.chain.from_iterable(op.records for op in ops):
        if (sealed.collection, sealed.key) not in overlay:
            unknown.setdefault(sealed.collection, []).append(sealed.key)
    kept: set[tuple[str, Key]] = set()
    for collection, keys in unknown.items():
        found = yield Lookup(collection, list(dict.fromkeys(keys)))
        kept.update((collection, key) for key in found)
    counts = []
    for op in ops:
        added = 0
        for sealed in op.records:  # the first of several with one id wins
            where = (sealed.collection, sealed.key)
            effect = overlay.get(where)
            if where not in kept and (effect is None or effect.after is None):
                overlay[where] = Effect(effect.before if effect else None, sealed)
                added += 1
        check_expected(op.expect, added)
        counts.append(added)
    return counts


def _alter(
    ops: list[Change | Remove], overlay: _Overlay
) -> Generator[Query, Sequence[StoredRecord], list[int]]:
    """Change or remove what is found; answer how many records that are, for each operation."""
    counts = []
    for op in ops:
        found = yield from _find_drafted(op.query, overlay)
        check_expected(op.expect, len(found))
        changed = 0
        for sealed in found:
            after = _apply_change(op, sealed) if isinstance(op, Change) else None
            if after is not sealed:
                changed += 1
                where = (sealed.collection, sealed.key)
                effect = overlay.get(where)
                overlay[where] = Effect(effect.before if effect else sealed, after)
        counts.append(changed)
    return counts


def _find_drafted(
    query: Query, overlay: _Overlay
) -> Generator[Query, Sequence[StoredRecord], list[StoredRecord]]:
    """What the query finds once the effects so far are counted in."""
    drafted = {
        key: effect.after for (collection, key), effect in overlay.items() if collection == query.collection
    }
    if not drafted:
        return list((yield query))
    stored = yield query.unpaged
    now: Iterable[StoredRecord] = [
        *(sealed for sealed in stored if sealed.key not in drafted),
        *(sealed for sealed in drafted.values() if sealed is not None),
    ]
    return query.over(now)  # type: ignore[arg-type, return-value] # StoredRecord answers to Record's names


def _apply_change(change: Change, sealed: StoredRecord) -> StoredRecord:
    record: Record = sealed.record
    after = change.applied_to(record)
    return sealed if after is record else seal(after)
