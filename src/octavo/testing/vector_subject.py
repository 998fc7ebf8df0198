"""The vector index under test: how it is opened, what a test has to itself, and what the right answers are."""

import asyncio
import functools
import math
import random
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import msgspec
import pytest

from octavo.kernel.ids import new_id
from octavo.kernel.model import Scope
from octavo.kernel.ports import Entry, EntryKey, Near, Space, Vector, VectorIndex
from octavo.vectors import open_vectors

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


class VectorSubject:
    """What a subclass says about its index: `open`, and `url` or `again` when its entries outlive an index object.

    Every test works in a space and a tenant of its own, so one database may serve them all and nothing is cleaned between them.
    """

    #: A URL that names the same entries each time it is opened; "" when there is none.
    url: str = ""
    #: A test that has not come to an end by then fails, rather than hang whoever runs it.
    seconds: ClassVar[float] = 240
    #: How many of the true ten nearest an approximate index must find, on average.
    recall: ClassVar[float] = 0.95
    #: Whether a second index may be opened while the first one is.
    shared: ClassVar[bool] = True

    async def open(self) -> VectorIndex:
        """An index to test; closed by the test."""
        if not self.url:
            raise NotImplementedError("a VectorIndexContract needs `async def open(self)` or a `url`")
        return open_vectors(self.url)

    async def again(self) -> VectorIndex:
        """Another index on the entries of those opened before by this test."""
        if not self.url:
            pytest.skip("entries end with the index object: neither `url` nor `again` is given")
        return await self.open()

    @asynccontextmanager
    async def another(self) -> AsyncIterator[VectorIndex]:
        """A second index, as another process would have it."""
        if not self.shared:
            pytest.skip("one at a time: `shared` is False")
        index = await self.again()
        try:
            yield index
        finally:
            await index.close()


def on_an_index(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run `async def test(self, index, home)` on an open index."""

    @functools.wraps(test)
    def run(self: VectorSubject) -> None:
        async def body() -> None:
            async with asyncio.timeout(self.seconds):
                index = await self.open()
                try:
                    await test(self, index, Home(f"space {new_id()}", new_id()))
                finally:
                    await index.close()

        asyncio.run(body())

    del run.__wrapped__  # pytest would take `index` and `home` for fixtures
    return run


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


def rightly(
    entries: Iterable[Entry], vector: Vector, scope: Scope, collections: Sequence[str], limit: int
) -> list[Near]:
    """The answer that exact search gives, for vectors of unit length."""
    inside = [e for e in entries if e.collection in collections and scope.covers(e.scope)]
    found = [Near(e.key, e.digest, sum(a * b for a, b in zip(e.vector, vector, strict=True))) for e in inside]
    return sorted(found, key=lambda near: (-round(near.score, 5), near.key))[:limit]


def agree(found: list[Near], right: list[Near]) -> None:
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


async def told(index: VectorIndex, space: str) -> Space | None:
    """What the index says about a space."""
    return next((one for one in await index.spaces() if one.name == space), None)
