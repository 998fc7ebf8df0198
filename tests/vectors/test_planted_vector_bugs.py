"""The contract of vector indexes notices what it says it notices: each of these indexes has one bug."""

import msgspec
import pytest

from octavo.kernel.model import Scope
from octavo.stores.memory import MemoryStore
from octavo.testing.vectors import VectorIndexContract
from octavo.vectors import ExactIndex
from octavo.vectors.base import BaseIndex


class AnyTenant(ExactIndex):
    """Looks for another tenant's entries."""

    async def nearest(self, space, vector, scope, collections, limit):
        found = []
        for tenant in await self._all_tenants():
            found += await super().nearest(
                space, vector, msgspec.structs.replace(scope, tenant=tenant), collections, limit
            )
        return sorted(found, key=lambda near: (-near.score, near.key))[:limit]


class EmptyIsAny(ExactIndex):
    """Takes "" for any."""

    async def nearest(self, space, vector, scope, collections, limit):
        loose = Scope(
            tenant=scope.tenant,
            user=scope.user or None,
            agent=scope.agent or None,
            session=scope.session or None,
        )
        return await super().nearest(space, vector, loose, collections, limit)


class RankedFirst(ExactIndex):
    """Filters by collection what it has ranked and cut."""

    async def nearest(self, space, vector, scope, collections, limit):
        everything = ["messages", "events", "knowledge"]
        found = await super().nearest(space, vector, scope, everything, limit)
        return [near for near in found if near.key.collection in collections]


class Stale(ExactIndex):
    """Never looks again at what it holds."""

    async def _version(self, space, scope):
        return "always the same"


class Unordered(ExactIndex):
    """Walks in any order."""

    async def walk(self, space, size=1000):
        async for page in super().walk(space, size):
            yield page[::-1]


class FirstStays(ExactIndex):
    """Leaves an entry alone whose key is kept."""

    async def _put(self, space, entries):
        kept = {key async for page in self.walk(space) for key, _ in page}
        if new := [entry for entry in entries if entry.key not in kept]:
            await super()._put(space, new)


class OpenForEver(ExactIndex):
    """Answers after it was closed."""

    async def _ensure_open(self):
        pass


class AnyLength(ExactIndex):
    """Keeps vectors of any length in one space."""

    async def put(self, space, entries):
        for entry in entries:
            await BaseIndex.put(self, f"{space} {len(entry.vector)}", [entry])


BUGS = {
    AnyTenant: "test_answers_agree",
    EmptyIsAny: "test_answers_agree",
    RankedFirst: "test_answers_agree",
    Stale: "test_two_at_once",
    Unordered: "test_walk",
    FirstStays: "test_answers_agree",
    OpenForEver: "test_use_after_close",
    AnyLength: "test_refusals",
}


@pytest.mark.parametrize("bug", BUGS)
def test_it_is_noticed(bug):
    """The test named beside the bug fails on it, and passes without it."""
    store = MemoryStore()

    class Subject(VectorIndexContract):
        kind = bug

        async def open(self):
            return self.kind(store)

        async def again(self):
            return self.kind(store)

    with pytest.raises(AssertionError):
        getattr(Subject(), BUGS[bug])()
    sound = Subject()
    sound.kind = ExactIndex
    getattr(sound, BUGS[bug])()
