"""The index against the store: every difference is named, and mended when asked for."""

from array import array

import pytest
from faults import HOME, SETTLED, FailingEmbedder, FailingIndex, entries, key, left, said

from octavo import Add, Indexed, Query, Remove, Scope, StoreUnavailable, open_store, open_vectors
from octavo.kernel.ports import Entry
from octavo.kernel.terms.matching import digest
from octavo.stores.base import BaseStore
from octavo.testing.embedding import HashEmbedder
from octavo.wraps import Wrap

STORES = ["memory", "sqlite", "file", "postgres", "mysql", "redis"]
SPACE = HashEmbedder().name
ACME = Scope(tenant="acme", user="bob")


@pytest.fixture
def index(request, place):
    return open_vectors(place(request.param) if hasattr(request, "param") else "memory://")


def entry(id_, scope=HOME, collection="messages", text="another text"):
    vector = array("f", [1.0] + [0.0] * 63)
    return Entry(collection=collection, id=id_, scope=scope, digest=digest(text), vector=vector)


async def filled(wrap, store, index, embedder=None, **more):
    indexed = await wrap(store, index, embedder, **more)
    notes = [said(f"m{n}", f"word{n} of many", scope) for n in range(50) for scope in (HOME, ACME)]
    await indexed.apply([Add(notes), Add([said("f", "a fact", ACME, "knowledge")])])
    await indexed.settle(SETTLED)
    return indexed


async def damage(index):
    """Take two vectors away, make two of another text, add two that belong to no record."""
    await index.drop(SPACE, [key("m7"), key("f", ACME, "knowledge")])
    await index.put(SPACE, [entry("m3"), entry("m3", ACME), entry("gone"), entry("m1", Scope(user="eve"))])


@pytest.mark.parametrize("kind", STORES)
async def test_every_difference_is_named(kind, place, wrap, index):
    """Exactly those, and after a reindex none; what is right is not embedded again."""
    embedder = FailingEmbedder()
    indexed = await filled(wrap, open_store(place(kind)), index, embedder)
    assert not await indexed.verify_vectors()
    await damage(index)
    steps = []
    found = await indexed.verify_vectors(lambda done, total: steps.append((done, total)))
    assert set(found.missing) == {key("m7"), key("f", ACME, "knowledge")}
    assert set(found.stale) == {key("m3"), key("m3", ACME)}
    assert set(found.stray) == {key("gone"), key("m1", Scope(user="eve"))}
    assert (found.space, found.records, found.entries, found.waiting) == (SPACE, 101, 101, 0)
    assert bool(found)
    assert steps[-1] == (101, 101)
    assert steps == sorted(steps)

    embedder.read.clear()
    assert await indexed.reindex_vectors(lambda done, total: steps.append((done, total))) == 4
    assert sorted(embedder.read) == ["a fact", "word3 of many", "word3 of many", "word7 of many"]
    assert steps[-1] == (101, 101)
    assert not await indexed.verify_vectors()
    assert len(await entries(index, SPACE)) == 101


@pytest.mark.parametrize("index", ["sqlite", "pgvector"], indirect=True)
async def test_on_other_indexes(wrap, index):
    indexed = await filled(wrap, open_store("memory://"), index)
    await damage(index)
    found = await indexed.verify_vectors()
    assert (len(found.missing), len(found.stale), len(found.stray)) == (2, 2, 2)
    await indexed.reindex_vectors()
    assert not await indexed.verify_vectors()


async def test_part_of_it(wrap, index):
    """One collection, or one tenant, of which the strays are told as well."""
    indexed = await filled(wrap, open_store("memory://"), index)
    await damage(index)
    await index.put(SPACE, [entry("lost", ACME)])
    found = await indexed.verify_vectors(collections=["knowledge"])
    assert (found.missing, found.stale, found.stray) == ((key("f", ACME, "knowledge"),), (), ())
    assert (found.records, found.entries) == (1, 0)
    found = await indexed.verify_vectors(tenant="acme")
    assert (found.missing, found.stale, found.stray) == (
        (key("f", ACME, "knowledge"),),
        (key("m3", ACME),),
        (key("lost", ACME),),
    )
    assert await indexed.reindex_vectors(tenant="acme", collections=["messages"]) == 1
    found = await indexed.verify_vectors()
    assert (len(found.missing), len(found.stale), len(found.stray)) == (2, 1, 2)


async def test_what_waits_is_not_missing(wrap):
    """A record that is to be embedded soon is only counted, also when it is to be dropped."""
    index = FailingIndex(open_vectors("memory://"))
    indexed = await filled(wrap, open_store("memory://"), index)
    index.down = True
    await indexed.apply([Add([said("new", "not yet there")])])
    await indexed.apply([Remove(Query(collection="messages", ids=("m7",), scope=HOME))])
    found = await indexed.verify_vectors()
    assert not found
    assert found.waiting == 2
    with pytest.raises(StoreUnavailable):
        await indexed.reindex_vectors()
    index.down = False
    await indexed.reindex_vectors()
    assert await left(indexed.inner) == 0
    assert not await indexed.verify_vectors()


class Changing(Wrap):
    """An index that lets somebody write just before it is walked."""

    meanwhile = None

    async def walk(self, space, size=1000):
        if self.meanwhile is not None:
            await self.meanwhile()
        async for page in self.inner.walk(space, size):
            yield page


async def test_what_is_written_meanwhile_is_no_difference(wrap):
    """Records that come, change and go between the two looks are told from those that are really wrong."""
    index = Changing(open_vectors("memory://"))
    indexed = await filled(wrap, open_store("memory://"), index)
    await index.drop(SPACE, [key("m9")])

    async def write():
        index.meanwhile = None
        await indexed.apply([
            Add([said("new", "just in time"), said("new", "in a new tenant", Scope(tenant="fresh"))]),
            Remove(Query(collection="messages", ids=("m7",), scope=HOME)),
        ])  # fmt: skip
        await indexed.settle(SETTLED)

    index.meanwhile = write
    found = await indexed.verify_vectors()
    assert (found.missing, found.stale, found.stray) == ((key("m9"),), (), ())
    index.meanwhile = write
    await indexed.reindex_vectors()
    assert not await indexed.verify_vectors()


class Quiet(BaseStore):
    """A store that cannot list its tenants."""

    def __init__(self):
        super().__init__()
        self._inner = open_store("memory://")
        self._apply, self._find, self._tally = self._inner._apply, self._inner._find, self._inner._tally


async def test_tenants_that_cannot_be_listed(wrap, index):
    """Those seen are looked after; the vectors of the others are not taken for strays."""
    store = Quiet()
    indexed = await filled(wrap, store, index, owned=False)
    await indexed.close()
    again = await wrap(store, index)
    found = await again.verify_vectors()
    assert (found.records, bool(found)) == (50, False)
    await again.reindex_vectors()
    assert len(await entries(index, SPACE)) == 101


async def test_an_index_that_was_lost(wrap, index):
    """All of it can be made again from the store: by one who only does that, and by one who is also at work on it."""
    store = open_store("memory://")
    await filled(wrap, store, index)
    first, second = open_vectors("memory://"), open_vectors("memory://")
    assert await Indexed(store, first, HashEmbedder()).reindex_vectors() == 101
    await (await wrap(store, second)).reindex_vectors()
    for new in (first, second):
        [space] = await new.spaces()
        assert (space.complete, space.entries) == (True, 101)
