"""The index of terms against the records: compared one by one, or built anew while searches go on."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

import msgspec

from octavo.kernel.ports import Lexicon
from octavo.kernel.terms.matching import content, count_terms
from octavo.stores.redis import rows
from octavo.stores.redis.index_rows import MOST_COUNTED, Kept, facts, note, noted
from octavo.stores.redis.index_scripts import COMPARE, PLACES
from octavo.stores.redis.indexing import Gone, Index, State

_PLACES = 200
_NAMES = 500
_LOOKS = 3  # at a block that seems wrong: it may have been written while it was read

_pack = msgspec.msgpack.Encoder().encode
_compared = msgspec.msgpack.Decoder(list[tuple[str | bool, str, int]])


class Verdict(msgspec.Struct):
    """What is wrong with some part of an index: ids of records it does not know as they are, and entries of none."""

    missing: list[str] = []
    stray: int = 0


async def reindexed(indexes: Sequence[Index], progress: Callable[[int, int], None]) -> int:
    """Build these indexes anew; how many records are in them."""
    done = 0
    total = sum([await index.records() for index in indexes])
    for index in indexes:
        async with aclosing(rebuild(index)) as pages:
            async for records in pages:
                done += records
                progress(done, max(done, total))
    progress(done, done)
    return done


async def verified(
    collection: str, indexes: Sequence[Index], progress: Callable[[int, int], None]
) -> Lexicon:
    """Compare these indexes with their records."""
    records = waiting = stray = done = 0
    missing: list[str] = []
    total = sum([await index.records() for index in indexes])
    for index in indexes:
        async for verdict in verdicts(index):
            missing += verdict.missing
            stray += verdict.stray
        built, late = await index.standing()
        waiting += late
        last: str | None = ""
        while last is not None:
            after, kept, absent = await index.absent(last)
            records += kept
            done += kept
            # Before the first search there is no index, and every record waits for it.
            if built:
                missing += [name[:-21] for name in absent]
            else:
                waiting += len(absent)
            progress(done, max(done, total))
            last = after or None
    progress(done, done)
    names = tuple(dict.fromkeys(missing))
    return Lexicon(collection=collection, records=records, waiting=waiting, missing=names, stray=stray)


async def verdicts(index: Index) -> AsyncGenerator[Verdict, None]:
    """Compare every block with the records it stands for; records in line to be indexed are passed over."""
    async for place, blocks in _places(index):
        for block in blocks:
            verdict = Verdict()
            for _ in range(_LOOKS):
                verdict = await _compare(index, place, block)
                if not verdict.missing and not verdict.stray:
                    break
            yield verdict


async def rebuild(index: Index) -> AsyncGenerator[int, None]:
    """Enter every record anew into new blocks, then do away with the old ones; how many records, page by page.

    Until a record is entered anew, its old entry is found; both are exchanged in one step.
    """
    while True:
        state = await index.begin()
        if not state.id:
            return
        past = await index.last_block()
        try:
            async with aclosing(index.enter_all(state, past)) as pages:
                async for records in pages:
                    yield records
            await index.finish(state)
            async for place, blocks in _places(index):
                for block in blocks:
                    if block <= past:
                        await _empty(index, state, place, block, past)
        except Gone:
            continue
        return


async def _empty(index: Index, state: State, place: str, block: int, past: int) -> None:
    """Enter what a block holds into another, and do away with it."""
    await index.close(state, place, block, out=False)
    while names := [name for _, name, _, entry, _ in await _known(index, place, block) if entry]:
        await index.enter_named(state, names, past)
    await index.close(state, place, block, out=True)


async def _places(index: Index) -> AsyncGenerator[tuple[str, list[int]], None]:
    last = b""
    while flat := await index.wire.run(PLACES, index.keys, last, b"%d" % _PLACES):
        for place, blocks in zip(flat[::2], flat[1::2], strict=True):
            yield place.decode(), [int(block) for block in blocks.split()]
        last = flat[-2]


async def _known(index: Index, place: str, block: int) -> list[tuple[int, str, str | None, bool, bool]]:
    """The living records of a block: number, name, body if it is kept, whether it stands here, whether it waits."""
    found = []
    entries = [
        (number, f"{noted(text).id}\0{place}") for number, text in (await index.block(block)).notes.items()
    ]
    for start in range(0, len(entries), _NAMES):
        part = entries[start : start + _NAMES]
        names = _pack([name for _, name in part])
        answer = rows.unpacked(_compared, await index.wire.run(COMPARE, index.keys, index.base, names))
        for (number, name), (body, entry, waits) in zip(part, answer, strict=True):
            here = entry.startswith(f"{block} {number} ")
            found.append((number, name, body if isinstance(body, str) else None, here, bool(waits)))
    return found


async def _compare(index: Index, place: str, block: int) -> Verdict:
    kept = await index.block(block)
    verdict = Verdict(missing=[], stray=len(kept.counts.keys() - kept.notes.keys()))
    for number, name, body, here, waits in await _known(index, place, block):
        if waits or number not in kept.notes:
            continue
        if body is None or not here:
            verdict.stray += 1
        elif not _right(kept, number, body):
            verdict.missing.append(name[:-21])
    return verdict


def _right(kept: Kept, number: int, body: str) -> bool:
    sealed = rows.sealed(body)
    counted, length = count_terms(content(sealed.text, None if sealed.text else sealed.data))
    right = {term: min(count, MOST_COUNTED) for term, count in counted.items()}
    return (
        kept.counts.get(number, {}) == right
        and kept.notes[number] == note(sealed, length)
        and kept.facts.get(number) == facts(sealed)
    )
