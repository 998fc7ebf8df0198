"""What a batch of writes comes to, worked out before any of it is done.

For stores without transactions of their own (memory, file, Redis): the draft asks for what it must know and answers a
list of effects, so that a batch that fails half-way through has changed nothing.
"""

from collections.abc import Generator, Iterable
from typing import Any, TypeAlias

import msgspec

from octavo.kernel.codec import Kept, Prepared, Sealed, seal
from octavo.kernel.model import Change, Query, Record, check_expected

Key: TypeAlias = tuple[str, str]


class Lookup(msgspec.Struct, frozen=True):
    """Which of these keys are kept? Answered with the sealed records found, or whatever has the `key` of each."""

    collection: str
    keys: list[Key]


class Effect(msgspec.Struct, frozen=True):
    """One record before and after; None stands for absent."""

    before: Sealed | None
    after: Sealed | None


Asking: TypeAlias = Generator[Lookup | Query, list[Any], tuple[list[Effect], list[int]]]


def draft(ops: list[Prepared]) -> Asking:
    """Yield questions about what is kept now; return the effects of the batch and the count of each op."""
    overlay: dict[tuple[str, Key], Effect] = {}
    counts: list[int] = []
    for op in ops:
        if isinstance(op, Kept):
            counts.append((yield from _add(op.records, overlay)))
            check_expected(op.expect, counts[-1])
            continue
        found = yield from _found(op.query, overlay)
        check_expected(op.expect, len(found))
        changed = 0
        for sealed in found:
            after = _changed(op, sealed) if isinstance(op, Change) else None
            if after is not sealed:
                changed += 1
                _put(overlay, sealed, after)
        counts.append(changed)
    return [effect for effect in overlay.values() if effect.before is not effect.after], counts


def _add(
    records: list[Sealed], overlay: dict[tuple[str, Key], Effect]
) -> Generator[Lookup, list[Sealed], int]:
    fresh: dict[str, dict[Key, Sealed]] = {}
    for sealed in records:  # the first of several with one id wins
        fresh.setdefault(sealed.collection, {}).setdefault(sealed.key, sealed)
    added = 0
    for collection, batch in fresh.items():
        unknown = [key for key in batch if (collection, key) not in overlay]
        kept = {sealed.key for sealed in (yield Lookup(collection, unknown))} if unknown else set()
        for key, sealed in batch.items():
            effect = overlay.get((collection, key))
            if key in kept or (effect is not None and effect.after is not None):
                continue
            overlay[collection, key] = Effect(effect.before if effect else None, sealed)
            added += 1
    return added


def _found(
    query: Query, overlay: dict[tuple[str, Key], Effect]
) -> Generator[Query, list[Sealed], list[Sealed]]:
    """What the query finds once the effects so far are counted in."""
    drafted = {
        key: effect.after for (collection, key), effect in overlay.items() if collection == query.collection
    }
    if not drafted:
        return (yield query)
    stored = yield query.unpaged
    now: Iterable[Sealed] = [
        *(sealed for sealed in stored if sealed.key not in drafted),
        *(sealed for sealed in drafted.values() if sealed is not None),
    ]
    return query.over(now)  # type: ignore[arg-type, return-value] # Sealed answers to Record's names


def _changed(change: Change, sealed: Sealed) -> Sealed:
    record: Record = sealed.record
    after = change.applied_to(record)
    return sealed if after is record else seal(after)


def _put(overlay: dict[tuple[str, Key], Effect], sealed: Sealed, after: Sealed | None) -> None:
    where = (sealed.collection, sealed.key)
    effect = overlay.get(where)
    overlay[where] = Effect(effect.before if effect else sealed, after)
