"""The contract of a vector index as tests anybody can run: subclass VectorIndexContract, say how to open yours."""

import asyncio
import itertools
import math
import random

import pytest

from octavo.errors import InvalidQuery, InvalidRecord, StoreClosed
from octavo.kernel.ids import new_id
from octavo.kernel.model import Scope
from octavo.kernel.ports import Entry, EntryKey, Space, TellsDigests, Vector, VectorIndex
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


class Entries(VectorSubject):
    """What is kept, replaced, dropped and listed."""

    @on_an_index
    async def test_it_is_an_index(self, index: VectorIndex, home: Home) -> None:
        """It has the verbs of the port; a space that is not there holds nothing, and there is nothing to do with it."""
        assert isinstance(index, VectorIndex)
        key = home.entry("a", plane(1, 0)).key
        await index.drop(home.space, [key])
        await index.complete(home.space)
        await index.forget(home.space)
        await index.put(home.space, [])
        assert await told(index, home.space) is None
        assert await keys(index, home.space) == []
        assert await index.nearest(home.space, plane(1, 0), home.scope(), ["messages"], 5) == []

    @on_an_index
    async def test_put_and_nearest(self, index: VectorIndex, home: Home) -> None:
        """The nearest come first with their cosines, and no more of them than asked for."""
        vectors = {"east": plane(1, 0), "north-east": plane(1, 1), "north": plane(0, 1), "west": plane(-1, 0)}
        await index.put(home.space, [home.entry(name, vector) for name, vector in vectors.items()])
        asked = plane(1, 0)
        found = await index.nearest(home.space, asked, home.scope(user="u"), ["messages"], 10)
        assert [near.key.id for near in found] == ["east", "north-east", "north", "west"]
        assert [near.digest for near in found] == [f"d-{near.key.id}" for near in found]
        assert [round(near.score, 4) for near in found] == [1.0, 0.7071, 0.0, -1.0]
        assert all(-1 <= near.score <= 1 for near in found)
        assert await index.nearest(home.space, asked, home.scope(), ["messages"], 2) == found[:2]
        assert await index.nearest(home.space, asked, home.scope(), ["messages"], 0) == []
        assert await index.nearest(home.space, asked, home.scope(), [], 5) == []
        await refused(InvalidQuery, index.nearest(home.space, asked, home.scope(), ["messages"], -1), "limit")

    @on_an_index
    async def test_digest(self, index: VectorIndex, home: Home) -> None:
        """Of one record it is told which text its vector was made from; of another's, or one without a vector, nothing."""
        if not isinstance(index, TellsDigests):
            pytest.skip("not octavo.kernel.ports.TellsDigests")
        mine, theirs = home.scope(user="u"), home.scope(user="v")
        assert await index.digest(home.space, "messages", "a", mine) is None
        await index.put(
            home.space, [home.entry("a", plane(1, 0)), home.entry("b", plane(0, 1), scope=theirs)]
        )
        assert await index.digest(home.space, "messages", "a", mine) == "d-a"
        assert await index.digest(home.space, "messages", "b", theirs) == "d-b"
        for space, collection, id_, scope in (
            (home.space, "messages", "b", mine),
            (home.space, "messages", "a", home.scope()),
            (home.space, "profile", "a", mine),
            (f"{home.space} other", "messages", "a", mine),
            (home.space, "messages", "a\0", mine),
        ):
            assert await index.digest(space, collection, id_, scope) is None
        await index.put(home.space, [home.entry("a", plane(0, 1), digest="new")])
        assert await index.digest(home.space, "messages", "a", mine) == "new"
        await index.drop(home.space, [home.entry("a", plane(1, 0)).key])
        assert await index.digest(home.space, "messages", "a", mine) is None

    @on_an_index
    async def test_replace(self, index: VectorIndex, home: Home) -> None:
        """An entry of the same key takes the place of the old one, also within one call; the others stay."""
        await index.put(home.space, [home.entry("a", plane(1, 0)), home.entry("b", plane(1, 0))])
        twice = [home.entry("a", plane(1, 0), digest="old"), home.entry("a", plane(0, 1), digest="new")]
        await index.put(home.space, twice)
        found = await index.nearest(home.space, plane(0, 1), home.scope(), ["messages"], 5)
        assert [(near.key.id, near.digest) for near in found] == [("a", "new"), ("b", "d-b")]
        assert [round(near.score, 4) for near in found] == [1.0, 0.0]
        listed = [(key.id, digest) for key, digest in await keys(index, home.space)]
        assert listed == [("a", "new"), ("b", "d-b")]
        space = await told(index, home.space)
        assert space is not None
        assert space.entries == 2

    @on_an_index
    async def test_one_id_in_many_places(self, index: VectorIndex, home: Home) -> None:
        """An id in another collection, scope or space is another entry, and dropping one leaves the rest."""
        same = [
            home.entry("a", plane(1, 0), collection=collection, scope=scope)
            for collection in ("messages", "events")
            for scope in (home.scope(), home.scope(user="u"), Scope(tenant=f"{home.tenant}x"))
        ]
        other = f"{home.space} 2"
        await index.put(home.space, same)
        await index.put(other, same)
        assert [key for key, _ in await keys(index, home.space)] == sorted(entry.key for entry in same)
        unknown = [EntryKey("messages", "b", same[0].key.place), EntryKey("messages", "a", "nowhere")]
        await index.drop(home.space, [*unknown, same[1].key, same[1].key, EntryKey("a\0", "\ud800", "")])
        left = sorted(entry.key for entry in same if entry is not same[1])
        assert [key for key, _ in await keys(index, home.space)] == left
        assert [key for key, _ in await keys(index, other)] == sorted(entry.key for entry in same)
        await index.drop(home.space, left)
        assert await keys(index, home.space) == []
        space = await told(index, home.space)
        assert space is not None
        assert space.entries == 0

    @on_an_index
    async def test_scopes(self, index: VectorIndex, home: Home) -> None:
        """Each form of scope finds what `Scope.covers` says, and never another tenant's."""
        parts, source = (None, "x", "y"), random.Random(1)
        tenants = (home.tenant, f"{home.tenant}2")
        entries = [
            home.entry(
                str(n), direction(source), scope=Scope(tenant=tenant, user=user, agent=agent, session=session)
            )
            for n, (tenant, user, agent, session) in enumerate(
                itertools.product(tenants, parts, parts, parts)
            )
        ]
        await index.put(home.space, entries)
        asked, forms = direction(source), (None, "", "x", "z")
        for user, agent, session in itertools.product(forms, forms, forms):
            scope = home.scope(user=user, agent=agent, session=session)
            found = await index.nearest(home.space, asked, scope, ["messages"], 100)
            agree(found, rightly(entries, asked, scope, ["messages"], 100))
        odd = (home.scope(user="\ud800"), home.scope(session="x" * 300))
        for scope in (Scope(tenant="a\0"), *odd, Scope(tenant="no")):
            assert await index.nearest(home.space, asked, scope, ["messages"], 5) == []

    @on_an_index
    async def test_collections(self, index: VectorIndex, home: Home) -> None:
        """Only entries of the collections asked for are found, however near the others are."""
        source, names = random.Random(2), ("messages", "events", "knowledge")
        entries = [home.entry(str(n), direction(source), collection=names[n % 3]) for n in range(30)]
        await index.put(home.space, entries)
        asked = direction(source)
        for wanted in (["events"], ["events", "messages", "events"], [*names, "turns", "a\0b", ""]):
            found = await index.nearest(home.space, asked, home.scope(), wanted, 4)
            agree(found, rightly(entries, asked, home.scope(), wanted, 4))
        assert await index.nearest(home.space, asked, home.scope(), ["turns"], 4) == []

    @on_an_index
    async def test_ties(self, index: VectorIndex, home: Home) -> None:
        """Equal scores are ordered by key, also where a limit cuts through them."""
        source = random.Random(3)
        vector, far = direction(source), direction(source)
        names = [f"{number:03}" for number in range(60)]
        shuffled = source.sample(names, len(names))
        await index.put(home.space, [home.entry(name, vector) for name in shuffled])
        await index.put(home.space, [home.entry(f"far {name}", far) for name in names])
        for limit in (1, 7, 59):
            found = await index.nearest(home.space, vector, home.scope(), ["messages"], limit)
            assert [near.key.id for near in found] == names[:limit]
            assert {near.score for near in found} == {1.0}

    @on_an_index
    async def test_walk(self, index: VectorIndex, home: Home) -> None:
        """A walk tells every key once, in order, in pages of any size."""
        source = random.Random(4)
        entries = [
            home.entry(
                name,
                direction(source),
                collection=("messages", "events")[n % 2],
                scope=home.scope(session=name),
            )
            for n, name in enumerate(NAMES)
        ]
        await index.put(home.space, entries)
        right = sorted((entry.key, entry.digest) for entry in entries)
        for size in (1, 7, len(right), 1000):
            pages = [page async for page in index.walk(home.space, size)]
            assert [one for page in pages for one in page] == right
            assert [len(page) for page in pages[:-1]] == [size] * (len(pages) - 1)
        await refused(InvalidQuery, keys(index, home.space, 0), "size")

    @on_an_index
    async def test_hostile_names(self, index: VectorIndex, home: Home) -> None:
        """Whatever ids, users, digests and spaces are called, they are kept apart byte for byte."""
        source = random.Random(5)
        vectors = {name: direction(source) for name in NAMES}
        await index.put(
            home.space, [home.entry(n, v, scope=home.scope(user=n), digest=n) for n, v in vectors.items()]
        )
        for name in NAMES[::3]:
            found = await index.nearest(home.space, vectors[name], home.scope(user=name), ["messages"], 5)
            assert [(near.key.id, near.digest, near.score) for near in found] == [(name, name, 1.0)]
        spaces = [f"{name}{new_id()}" for name in NAMES[:40:4] if len(name) < 40]
        for space in spaces:
            await index.put(space, [home.entry("a", plane(1, 0), digest=space)])
        for space in spaces:
            assert [digest for _, digest in await keys(index, space)] == [space]
            await index.forget(space)

    @on_an_index
    async def test_spaces(self, index: VectorIndex, home: Home) -> None:
        """A space says how long its vectors are, whether it is complete and how many it holds, until it is forgotten."""
        one, two = f"{home.space} 1", f"{home.space} 2"
        await index.put(two, [home.entry("a", plane(1, 0, LONG))])
        await index.put(
            one,
            [
                home.entry("a", plane(1, 0)),
                home.entry("b", plane(0, 1), scope=Scope(tenant=f"{home.tenant}x")),
            ],
        )
        await index.complete(two)
        names = [space.name for space in await index.spaces()]
        assert names == sorted(names)
        assert await told(index, one) == Space(name=one, dimensions=SHORT, complete=False, entries=2)
        assert await told(index, two) == Space(name=two, dimensions=LONG, complete=True, entries=1)
        await index.put(two, [home.entry("b", plane(0, 1, LONG))])
        assert await told(index, two) == Space(name=two, dimensions=LONG, complete=True, entries=2)
        assert len(await index.nearest(two, plane(1, 0, LONG), home.scope(), ["messages"], 5)) == 2
        await index.forget(two)
        await index.forget(two)
        assert await told(index, two) is None
        assert await index.nearest(two, plane(1, 0, LONG), home.scope(), ["messages"], 5) == []
        await index.put(two, [home.entry("c", plane(1, 0))])  # made anew, with another length
        assert await told(index, two) == Space(name=two, dimensions=SHORT, complete=False, entries=1)
        found = await index.nearest(two, plane(1, 0), home.scope(), ["messages"], 5)
        assert [near.key.id for near in found] == ["c"]
        assert await told(index, one) == Space(name=one, dimensions=SHORT, complete=False, entries=2)

    @on_an_index
    async def test_refusals(self, index: VectorIndex, home: Home) -> None:
        """A vector of another length, or without a direction, is refused with a reason, and nothing of its call is kept."""
        good, nan = home.entry("a", plane(1, 0, LONG)), float("nan")
        await index.put(home.space, [good])
        wrong = index.put(home.space, [home.entry("b", plane(1, 0))])
        said = await refused(InvalidRecord, wrong, f"{LONG} dimensions")
        assert f"got one of {SHORT}" in said
        mixed = index.put(home.space, [home.entry("b", plane(0, 1, LONG)), home.entry("c", plane(1, 0))])
        await refused(InvalidRecord, mixed, f"{SHORT} and {LONG}")
        for vector in (plane(0, 0, 0), plane(0, 0, LONG), plane(nan, 0, LONG), plane(math.inf, 0, LONG)):
            put = index.put(home.space, [home.entry("b", plane(0, 1, LONG)), home.entry("c", vector)])
            await refused(InvalidRecord, put, "direction")
            asked = index.nearest(home.space, vector, home.scope(), ["messages"], 5)
            await refused(InvalidQuery, asked, "direction")
        for id_ in ("", "a\0", "x" * 256):
            await refused(InvalidRecord, index.put(home.space, [home.entry(id_, plane(0, 1, LONG))]))
        for bad in ({"collection": "no such"}, {"digest": "\ud800"}, {"scope": home.scope(user="x" * 256)}):
            await refused(InvalidRecord, index.put(home.space, [home.entry("b", plane(0, 1, LONG), **bad)]))
        for space in ("", "a\0", "x" * 256):
            await refused(InvalidRecord, index.put(space, [good]), "space")
        short = index.nearest(home.space, plane(1, 0), home.scope(), ["messages"], 5)
        await refused(InvalidRecord, short, f"{LONG} dimensions")
        assert await keys(index, home.space) == [(good.key, good.digest)]

    @on_an_index
    async def test_any_length_is_a_direction(self, index: VectorIndex, home: Home) -> None:
        """Vectors that are not of unit length have the same cosines as if they were."""
        await index.put(
            home.space, [home.entry("long", plane(30, 40)), home.entry("short", plane(-0.003, 0.004))]
        )
        found = await index.nearest(home.space, plane(6, 8), home.scope(), ["messages"], 5)
        assert [(near.key.id, round(near.score, 4)) for near in found] == [("long", 1.0), ("short", 0.28)]


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


__all__ = ["VectorIndexContract"]


class VectorIndexContract(Entries, Lives):
    """Every promise a vector index makes, as tests; see docs/vectors.md."""
