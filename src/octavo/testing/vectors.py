"""The contract of a vector index as tests anybody can run: subclass VectorIndexContract, say how to open yours."""

import asyncio
import math
import random
from array import array
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, ClassVar

import msgspec
import pytest

from octavo.errors import InvalidQuery, InvalidRecord, StoreClosed
from octavo.kernel.ids import new_id
from octavo.kernel.model import Scope
from octavo.kernel.ports import Entry, EntryKey, Near, Space, TellsDigests, Vector, VectorIndex
from octavo.testing.subject import UnderTest, on_opened, refuses
from octavo.testing.texts import NAMES
from octavo.vectors import open_vectors

__all__ = ["VectorIndexContract"]

MANY = 5000
# Two lengths of vectors. Builds of pgvector made for newer processors than the one they run on crash when a length is no
# multiple of 32; those of real models are.
SHORT, LONG = 32, 64


class Home(msgspec.Struct, frozen=True):
    """What a test has to itself: a space and a tenant that nobody else uses."""

    space: str
    tenant: str

    def scope(self, **parts: str | None) -> Scope:
        return Scope(tenant=self.tenant, **parts)

    def entry(self, id_: str, vector: Vector, **fields: Any) -> Entry:
        given: dict[str, Any] = {
            "collection": "messages",
            "scope": self.scope(user="u"),
            "digest": f"d-{id_}",
        }
        return Entry(id=id_, vector=vector, **(given | fields))


class VectorSubject(UnderTest[VectorIndex]):
    """What a subclass says about its index. Every test has a space of its own, too."""

    #: How many of the true ten nearest an approximate index must find, on average.
    recall: ClassVar[float] = 0.95
    #: Whether a second index may be opened while the first one is.
    shared: ClassVar[bool] = True

    def open_url(self) -> VectorIndex:
        """The index that the URL names."""
        return open_vectors(self.url)

    async def compare(self, indexes: Sequence[VectorIndex], home: Home) -> None:
        """Put, replace and drop through any of the indexes; whichever is asked then answers as exact search does."""
        source, kept, ever = random.Random(7), dict[EntryKey, Entry](), dict[EntryKey, Entry]()
        tenants, collections = (home.tenant, f"{home.tenant}2"), ("messages", "events", "knowledge")

        def scope(*names: str | None) -> Scope:
            user, agent, session = (source.choice(names) for _ in range(3))
            return Scope(tenant=source.choice(tenants), user=user, agent=agent, session=session)

        for step in range(80):
            writer, reader = source.choice(indexes), source.choice(indexes)
            if source.random() < 0.7 or not kept:
                entries = [
                    home.entry(
                        id_, direction(source), collection=collection, scope=scope(None, None, "x", "y")
                    )
                    for id_, collection in zip("abcd", source.choices(collections, k=4), strict=True)
                ]
                again = msgspec.structs.replace(entries[0], vector=direction(source), digest=f"{step}")
                await writer.put(home.space, [*entries, again])
                kept |= {entry.key: entry for entry in (*entries, again)}
                ever |= kept
            else:
                gone = source.sample(sorted(kept), min(len(kept), source.randint(1, 5)))
                await writer.drop(
                    home.space, [*gone, gone[0], EntryKey("messages", "a", Scope(user="nowhere"))]
                )
                kept = {key: entry for key, entry in kept.items() if key not in gone}
            for limit in (4, 1000):
                asked, inside = direction(source), scope(None, None, "", "x", "z")
                wanted = source.choices([*collections, "turns", "a\0b"], k=3)
                found = await reader.nearest(home.space, asked, inside, wanted, limit)
                assert_agree(found, nearest_exactly(kept.values(), asked, inside, wanted, limit))
            if isinstance(reader, TellsDigests):
                key, one = source.choice(list(ever.items()))
                digest = await reader.digest(home.space, one.collection, one.id, one.scope)
                assert digest == (kept[key].digest if key in kept else None)
        for index in indexes:
            assert await keys(index, home.space) == sorted((e.key, e.digest) for e in kept.values())
            space = await find_space(index, home.space)
            assert space is not None
            assert space.entries == len(kept)


def on_an_index(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run `async def test(self, index, home)` on an open index."""
    return on_opened(test, lambda: Home(f"space {new_id()}", new_id()))


def direction(source: random.Random, dimensions: int = SHORT) -> Vector:
    """A vector of unit length that points anywhere."""
    return unit([source.gauss(0, 1) for _ in range(dimensions)])


def unit(floats: Sequence[float]) -> Vector:
    """These numbers as a vector of unit length."""
    length = math.hypot(*floats)
    return array("f", [number / length for number in floats])


def plane(x: float, y: float, dimensions: int = SHORT) -> Vector:
    """A vector in the plane of the first two numbers."""
    return array("f", [x, y, *[0] * LONG][:dimensions])


def nearest_exactly(
    entries: Iterable[Entry], vector: Vector, scope: Scope, collections: Sequence[str], limit: int
) -> list[Near]:
    """The answer that exact search gives, for vectors of unit length."""
    inside = [e for e in entries if e.collection in collections and scope.covers(e.scope)]
    found = [Near(e.key, e.digest, sum(a * b for a, b in zip(e.vector, vector, strict=True))) for e in inside]
    return sorted(found, key=lambda near: (-round(near.score, 5), near.key))[:limit]


def assert_agree(found: list[Near], right: list[Near]) -> None:
    """Hold an answer to the right one: the same entries with the same scores."""
    assert sorted((near.key, near.digest) for near in found) == sorted(
        (near.key, near.digest) for near in right
    )
    assert [near.score for near in found] == sorted((near.score for near in found), reverse=True)
    right_scores = {near.key: near.score for near in right}
    assert all(abs(near.score - right_scores[near.key]) < 1e-4 for near in found)


async def keys(index: VectorIndex, space: str, size: int = 1000) -> list[tuple[EntryKey, str]]:
    """All that a walk tells."""
    return [one async for page in index.walk(space, size) for one in page]


async def find_space(index: VectorIndex, space: str) -> Space | None:
    """What the index says about a space."""
    return next((one for one in await index.spaces() if one.name == space), None)


class Entries(VectorSubject):
    """What is kept, replaced, dropped and listed."""

    @on_an_index
    async def test_answers_agree(self, index: VectorIndex, home: Home) -> None:
        """Whatever was put, replaced and dropped, each scope, collection and limit finds what exact search finds."""
        await self.compare([index], home)
        for scope in (Scope(tenant="a\0"), home.scope(user="\ud800"), home.scope(session="x" * 300)):
            assert await index.nearest(home.space, plane(1, 0), scope, ["messages"], 5) == []
        await index.drop(home.space, [EntryKey("a\0", "\ud800", Scope(user="\ud800"))])
        if isinstance(index, TellsDigests):
            assert await index.digest(home.space, "messages", "a\0", home.scope()) is None
            assert await index.digest(f"{home.space} 2", "messages", "a", home.scope()) is None

    @on_an_index
    async def test_it_is_an_index(self, index: VectorIndex, home: Home) -> None:
        """It has the verbs of the port; a space that is not there holds nothing, and there is nothing to do with it."""
        assert isinstance(index, VectorIndex)
        key = home.entry("a", plane(1, 0)).key
        await index.drop(home.space, [key])
        await index.complete(home.space)
        await index.forget(home.space)
        await index.put(home.space, [])
        assert await find_space(index, home.space) is None
        assert await keys(index, home.space) == []
        assert await index.nearest(home.space, plane(1, 0), home.scope(), ["messages"], 5) == []

    @on_an_index
    async def test_put_and_nearest(self, index: VectorIndex, home: Home) -> None:
        """The nearest come first with their cosines, however long the vectors are, and no more of them than asked for."""
        points = (("east", 1, 0), ("north-east", 30, 30), ("north", 0, 0.004), ("west", -1, 0))
        await index.put(home.space, [home.entry(name, plane(x, y)) for name, x, y in points])
        asked = plane(1, 0)
        found = await index.nearest(home.space, asked, home.scope(user="u"), ["messages"], 10)
        assert [near.key.id for near in found] == ["east", "north-east", "north", "west"]
        assert [near.digest for near in found] == [f"d-{near.key.id}" for near in found]
        assert [round(near.score, 4) for near in found] == [1.0, 0.7071, 0.0, -1.0]
        assert all(-1 <= near.score <= 1 for near in found)
        assert await index.nearest(home.space, asked, home.scope(), ["messages"], 2) == found[:2]
        assert await index.nearest(home.space, asked, home.scope(), ["messages"], 0) == []
        assert await index.nearest(home.space, asked, home.scope(), [], 5) == []
        await refuses(InvalidQuery, index.nearest(home.space, asked, home.scope(), ["messages"], -1), "limit")

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
        """A walk tells every key once, in order, in pages of any size; names are kept apart byte for byte."""
        source = random.Random(4)
        entries = [
            home.entry(name, direction(source), scope=home.scope(user=name), digest=name) for name in NAMES
        ]
        await index.put(home.space, entries)
        right = sorted((entry.key, entry.digest) for entry in entries)
        for size in (1, 7, len(right), 1000):
            pages = [page async for page in index.walk(home.space, size)]
            assert [one for page in pages for one in page] == right
            assert [len(page) for page in pages[:-1]] == [size] * (len(pages) - 1)
        await refuses(InvalidQuery, keys(index, home.space, 0), "size")
        for entry in entries[::3]:
            found = await index.nearest(home.space, entry.vector, entry.scope, ["messages"], 5)
            assert [(near.key, near.digest, near.score) for near in found] == [(entry.key, entry.id, 1.0)]
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
        assert await find_space(index, one) == Space(name=one, dimensions=SHORT, complete=False, entries=2)
        assert await find_space(index, two) == Space(name=two, dimensions=LONG, complete=True, entries=1)
        await index.put(two, [home.entry("b", plane(0, 1, LONG))])
        assert await find_space(index, two) == Space(name=two, dimensions=LONG, complete=True, entries=2)
        assert len(await index.nearest(two, plane(1, 0, LONG), home.scope(), ["messages"], 5)) == 2
        await index.forget(two)
        await index.forget(two)
        assert await find_space(index, two) is None
        assert await index.nearest(two, plane(1, 0, LONG), home.scope(), ["messages"], 5) == []
        await index.put(two, [home.entry("c", plane(1, 0))])  # made anew, with another length
        assert await find_space(index, two) == Space(name=two, dimensions=SHORT, complete=False, entries=1)
        found = await index.nearest(two, plane(1, 0), home.scope(), ["messages"], 5)
        assert [near.key.id for near in found] == ["c"]
        assert await find_space(index, one) == Space(name=one, dimensions=SHORT, complete=False, entries=2)

    @on_an_index
    async def test_refusals(self, index: VectorIndex, home: Home) -> None:
        """A vector of another length, or without a direction, is refused with a reason, and nothing of its call is kept."""
        good, nan = home.entry("a", plane(1, 0, LONG)), float("nan")
        await index.put(home.space, [good])
        wrong = index.put(home.space, [home.entry("b", plane(1, 0))])
        said = await refuses(InvalidRecord, wrong, f"{LONG} dimensions")
        assert f"got one of {SHORT}" in said
        mixed = index.put(home.space, [home.entry("b", plane(0, 1, LONG)), home.entry("c", plane(1, 0))])
        await refuses(InvalidRecord, mixed, f"{SHORT} and {LONG}")
        for vector in (plane(0, 0, 0), plane(0, 0, LONG), plane(nan, 0, LONG), plane(math.inf, 0, LONG)):
            put = index.put(home.space, [home.entry("b", plane(0, 1, LONG)), home.entry("c", vector)])
            await refuses(InvalidRecord, put, "direction")
            asked = index.nearest(home.space, vector, home.scope(), ["messages"], 5)
            await refuses(InvalidQuery, asked, "direction")
        for id_ in ("", "a\0", "x" * 256):
            await refuses(InvalidRecord, index.put(home.space, [home.entry(id_, plane(0, 1, LONG))]))
        for bad in ({"collection": "no such"}, {"digest": "\ud800"}, {"scope": home.scope(user="x" * 256)}):
            await refuses(InvalidRecord, index.put(home.space, [home.entry("b", plane(0, 1, LONG), **bad)]))
        for space in ("", "a\0", "x" * 256):
            await refuses(InvalidRecord, index.put(space, [good]), "space")
        short = index.nearest(home.space, plane(1, 0), home.scope(), ["messages"], 5)
        await refuses(InvalidRecord, short, f"{LONG} dimensions")
        assert await keys(index, home.space) == [(good.key, good.digest)]


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
        """Two indexes on the same entries make a space once, and see each other's puts, drops and replacements at once."""
        if not self.shared:
            pytest.skip("one at a time: `shared` is False")
        async with self.opened_again() as other:
            both, shared = (index, other), f"{home.space} 2"
            entries = [home.entry(str(number), plane(1, number)) for number in range(20)]
            await asyncio.gather(*(both[n % 2].put(shared, [entry]) for n, entry in enumerate(entries)))
            space = Space(name=shared, dimensions=SHORT, complete=False, entries=20)
            assert await find_space(index, shared) == await find_space(other, shared) == space
            await self.compare(both, home)
            await other.complete(home.space)
            assert await find_space(index, home.space) == await find_space(other, home.space)
            await index.forget(home.space)
            assert await other.nearest(home.space, plane(1, 0), home.scope(), ["messages"], 5) == []
            await other.put(home.space, [home.entry("z", plane(1, 0, LONG))])
            found = await index.nearest(home.space, plane(1, 0, LONG), home.scope(), ["messages"], 5)
            assert [near.key.id for near in found] == ["z"]

    @on_an_index
    async def test_reopened(self, index: VectorIndex, home: Home) -> None:
        """What was put, dropped and completed before an index was closed is so when it is opened again."""
        source = random.Random(8)
        entries = [home.entry(name, direction(source)) for name in NAMES]
        await index.put(home.space, entries)
        await index.drop(home.space, [entry.key for entry in entries[:10]])
        await index.complete(home.space)
        await index.close()
        async with self.opened_again() as later:
            assert await keys(later, home.space) == sorted((e.key, e.digest) for e in entries[10:])
            space = Space(name=home.space, dimensions=SHORT, complete=True, entries=len(entries) - 10)
            assert await find_space(later, home.space) == space
            asked = direction(source)
            found = await later.nearest(home.space, asked, home.scope(), ["messages"], 200)
            assert_agree(found, nearest_exactly(entries[10:], asked, home.scope(), ["messages"], 200))

    @on_an_index
    async def test_use_after_close(self, index: VectorIndex, home: Home) -> None:
        """`async with` gives the index itself and closes it; a closed index refuses every verb."""
        async with index as entered:
            assert entered is index
        await index.close()
        entry = home.entry("a", plane(1, 0))
        await refuses(StoreClosed, index.put(home.space, [entry]))
        await refuses(StoreClosed, index.drop(home.space, [entry.key]))
        await refuses(StoreClosed, index.nearest(home.space, entry.vector, home.scope(), ["messages"], 5))
        await refuses(StoreClosed, keys(index, home.space))
        for verb in (
            index.spaces(),
            index.complete(home.space),
            index.forget(home.space),
            index.__aenter__(),
        ):
            await refuses(StoreClosed, verb)

    @on_an_index
    async def test_recall(self, index: VectorIndex, home: Home) -> None:
        """Of the true ten nearest among 5,000, nearly all are found, in a scope of one in fifty and in all of them."""
        source = random.Random(9)
        # As texts are: about something, and then about something else.
        topics = [direction(source) for _ in range(100)]

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
                right = {n.key for n in nearest_exactly(inside, asked, scope, ["messages"], 10)}
                found = await index.nearest(home.space, asked, scope, ["messages"], 10)
                assert len(found) == 10
                shares.append(len(right & {n.key for n in found}) / 10)
            assert sum(shares) / len(shares) >= self.recall, f"{scope}: {shares}"


class VectorIndexContract(Entries, Lives):
    """Every promise a vector index makes, as tests; see docs/vectors.md."""
