"""What a vector index keeps, replaces, drops, finds and refuses."""

import itertools
import math
import random

from octavo.errors import InvalidQuery, InvalidRecord
from octavo.kernel.ids import new_id
from octavo.kernel.model import Scope
from octavo.kernel.ports import EntryKey, Space, VectorIndex
from octavo.testing.subject import refused
from octavo.testing.texts import NAMES
from octavo.testing.vector_subject import (
    LONG,
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
        vectors = {
            "east": plane(1, 0),
            "north-east": plane(1, 1),
            "north": plane(0, 1),
            "west": plane(-1, 0),
        }
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
    async def test_replace(self, index: VectorIndex, home: Home) -> None:
        """An entry of the same key takes the place of the old one, also within one call; the others stay."""
        await index.put(home.space, [home.entry("a", plane(1, 0)), home.entry("b", plane(1, 0))])
        twice = [home.entry("a", plane(1, 0), digest="old"), home.entry("a", plane(0, 1), digest="new")]
        await index.put(home.space, twice)
        found = await index.nearest(home.space, plane(0, 1), home.scope(), ["messages"], 5)
        assert [(near.key.id, near.digest, round(near.score, 4)) for near in found] == [
            ("a", "new", 1.0),
            ("b", "d-b", 0.0),
        ]
        assert [(key.id, digest) for key, digest in await keys(index, home.space)] == [
            ("a", "new"),
            ("b", "d-b"),
        ]
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
        nobody = (
            Scope(tenant="a\0"),
            home.scope(user="\ud800"),
            home.scope(session="x" * 300),
            Scope(tenant="no"),
        )
        for scope in nobody:
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
