"""Many callers, several indexes, and what is there afterwards."""

import asyncio
import random

from octavo.errors import StoreClosed
from octavo.kernel.ports import Entry, EntryKey, Space, Vector, VectorIndex
from octavo.testing.subject import refused
from octavo.testing.texts import NAMES
from octavo.testing.vector_subject import (
    LONG,
    MANY,
    SHORT,
    Home,
    VectorSubject,
    agree,
    direction,
    keys,
    on_an_index,
    plane,
    rightly,
    told,
    unit,
)


class Lives(VectorSubject):
    """Many callers, several indexes, and what is there afterwards."""

    @on_an_index
    async def test_many_at_once(self, index: VectorIndex, home: Home) -> None:
        """Callers that put and drop at the same moment lose nothing and double nothing, from the first use on."""
        source = random.Random(6)
        vectors = [direction(source) for _ in range(200)]
        batches = [
            [
                *(home.entry(str(n), vectors[n]) for n in range(caller, 200, 20)),
                home.entry("shared", vectors[0]),
            ]
            for caller in range(20)
        ]
        await asyncio.gather(*(index.put(home.space, batch) for batch in batches))
        gone = [home.entry(str(n), vectors[n]).key for n in range(0, 200, 2)]
        new = [home.entry(f"new {n}", vectors[n]) for n in range(20)]
        verbs = [index.drop(home.space, gone[part::10]) for part in range(10)]
        verbs += [index.put(home.space, [entry]) for entry in new]
        searches = [index.nearest(home.space, v, home.scope(), ["messages"], 3) for v in vectors[:20]]
        await asyncio.gather(*verbs, *searches)
        names = ["shared", *(str(n) for n in range(1, 200, 2)), *(entry.id for entry in new)]
        assert [key.id for key, _ in await keys(index, home.space)] == sorted(names)
        found = await index.nearest(home.space, vectors[1], home.scope(), ["messages"], 500)
        assert sorted(near.key.id for near in found) == sorted(names)

    @on_an_index
    async def test_two_at_once(self, index: VectorIndex, home: Home) -> None:
        """Two indexes on the same entries see each other's puts, drops and replacements at once, in every scope."""
        source, kept = random.Random(7), dict[EntryKey, Entry]()
        scopes = [home.scope(user=u, session=s) for u in ("a", "b", None) for s in ("1", None)]
        async with self.another() as other:
            for step in range(60):
                writer, reader = (index, other) if source.random() < 0.5 else (other, index)
                if source.random() < 0.7 or not kept:
                    entries = [
                        home.entry(
                            str(source.randrange(40)), direction(source), digest=f"{step}", scope=scope
                        )
                        for scope in source.sample(scopes, source.randint(1, 4))
                    ]
                    await writer.put(home.space, entries)
                    kept |= {entry.key: entry for entry in entries}
                else:
                    gone = source.sample(sorted(kept), min(len(kept), source.randint(1, 5)))
                    await writer.drop(home.space, gone)
                    kept = {key: entry for key, entry in kept.items() if key not in gone}
                asked, scope = direction(source), source.choice([*scopes, home.scope(), home.scope(user="a")])
                found = await reader.nearest(home.space, asked, scope, ["messages"], 1000)
                agree(found, rightly(kept.values(), asked, scope, ["messages"], 1000))
            assert await keys(other, home.space) == sorted((e.key, e.digest) for e in kept.values())
            await other.complete(home.space)
            assert await told(index, home.space) == await told(other, home.space)
            await index.forget(home.space)
            assert await other.nearest(home.space, direction(source), home.scope(), ["messages"], 5) == []
            await other.put(home.space, [home.entry("z", direction(source, LONG))])
            found = await index.nearest(home.space, direction(source, LONG), home.scope(), ["messages"], 5)
            assert [near.key.id for near in found] == ["z"]

    @on_an_index
    async def test_first_use_at_once(self, index: VectorIndex, home: Home) -> None:
        """Two indexes that make the same space at the same moment make it once."""
        async with self.another() as other:
            entries = [home.entry(str(number), plane(1, number)) for number in range(20)]
            await asyncio.gather(
                *((index, other)[n % 2].put(home.space, [entry]) for n, entry in enumerate(entries))
            )
            space = Space(name=home.space, dimensions=SHORT, complete=False, entries=20)
            assert await told(index, home.space) == await told(other, home.space) == space

    @on_an_index
    async def test_reopened(self, index: VectorIndex, home: Home) -> None:
        """What was put, dropped and completed before an index was closed is so when it is opened again."""
        source = random.Random(8)
        entries = [home.entry(name, direction(source)) for name in NAMES]
        await index.put(home.space, entries)
        await index.drop(home.space, [entry.key for entry in entries[:10]])
        await index.complete(home.space)
        await index.close()
        later = await self.again()
        try:
            assert await keys(later, home.space) == sorted((e.key, e.digest) for e in entries[10:])
            space = Space(name=home.space, dimensions=SHORT, complete=True, entries=len(entries) - 10)
            assert await told(later, home.space) == space
            asked = direction(source)
            found = await later.nearest(home.space, asked, home.scope(), ["messages"], 200)
            agree(found, rightly(entries[10:], asked, home.scope(), ["messages"], 200))
        finally:
            await later.close()

    @on_an_index
    async def test_use_after_close(self, index: VectorIndex, home: Home) -> None:
        """`async with` gives the index itself and closes it; a closed index refuses every verb."""
        async with index as entered:
            assert entered is index
        await index.close()
        entry = home.entry("a", plane(1, 0))
        await refused(StoreClosed, index.put(home.space, [entry]))
        await refused(StoreClosed, index.drop(home.space, [entry.key]))
        await refused(StoreClosed, index.nearest(home.space, entry.vector, home.scope(), ["messages"], 5))
        await refused(StoreClosed, keys(index, home.space))
        for verb in (
            index.spaces(),
            index.complete(home.space),
            index.forget(home.space),
            index.__aenter__(),
        ):
            await refused(StoreClosed, verb)

    @on_an_index
    async def test_recall(self, index: VectorIndex, home: Home) -> None:
        """Of the true ten nearest among 5,000, nearly all are found, in a scope of one in fifty and in all of them."""
        source = random.Random(9)
        topics = [
            direction(source) for _ in range(100)
        ]  # as texts are: about something, and then about something else

        def near(topic: Vector) -> Vector:
            return unit([number + source.gauss(0, 0.12) for number in topic])

        entries = [
            home.entry(f"{n:04}", near(source.choice(topics)), scope=home.scope(user=f"u{n % 50}"))
            for n in range(MANY)
        ]
        await index.put(home.space, entries)
        await index.complete(home.space)
        for scope in (home.scope(user="u7"), home.scope()):
            inside = [entry for entry in entries if scope.covers(entry.scope)]
            shares = []
            for _ in range(20):
                asked = near(source.choice(topics))
                right = {n.key for n in rightly(inside, asked, scope, ["messages"], 10)}
                found = await index.nearest(home.space, asked, scope, ["messages"], 10)
                assert len(found) == 10
                shares.append(len(right & {n.key for n in found}) / 10)
            assert sum(shares) / len(shares) >= self.recall, f"{scope}: {shares}"
