"""A wrap is the store inside it, with all that one can do and nothing else."""

import copy
import inspect

import pytest
from faults import said

from documented import list_store
from octavo import Add, Indexed, Query, Scope, Store, StoreClosed, open_store, open_vectors
from octavo.kernel.ports import Describes, FindsWithin, ListsHeads, ListsTenants, Resembles, Searches
from octavo.stores.base import BaseStore
from octavo.testing.embedding import HashEmbedder
from octavo.wraps import Deduped, Wrap

CAPABILITIES = (Store, Searches, FindsWithin, ListsHeads, ListsTenants, Describes, Resembles)


class Bare(BaseStore):
    """A store with the three verbs and nothing else."""


class Counting(BaseStore):
    """One with an ability that Octavo has no word for."""

    mood = "calm"

    def count(self):
        return 7


def abilities(store):
    return [capability.__name__ for capability in CAPABILITIES if isinstance(store, capability)]


@pytest.mark.parametrize("make", [Bare, Counting, lambda: open_store("memory://")])
def test_a_wrap_can_do_what_its_store_can(make):
    """Exactly that, also through two wraps."""
    store = make()
    assert abilities(Wrap(store)) == abilities(Wrap(Wrap(store))) == abilities(store)
    for name in ("search", "tenants", "describe"):  # looked up as Python 3.12 and later do it for a protocol
        assert hasattr(store, name) == (inspect.getattr_static(Wrap(Wrap(store)), name, None) is not None)


def test_indexed_can_also_find_by_meaning():
    """And a wrap around it can too."""
    for store in (Bare(), open_store("memory://")):
        indexed = Indexed(store, open_vectors("memory://"), HashEmbedder())
        assert abilities(indexed) == abilities(Wrap(indexed)) == [*abilities(store), "Resembles"]


def test_what_octavo_has_no_word_for_is_forwarded_too():
    wrapped = Wrap(Wrap(Counting()))
    assert wrapped.count() == 7
    assert wrapped.mood == "calm"
    with pytest.raises(AttributeError, match="flavour"):
        _ = wrapped.flavour
    with pytest.raises(AttributeError, match="_gate_keeper"):
        _ = wrapped._gate_keeper
    assert copy.copy(wrapped).count() == 7  # a copy asks for attributes before there are any


async def test_the_verbs_are_forwarded():
    async with Wrap(open_store("memory://")) as wrapped:
        assert await wrapped.apply([Add([said("a", "hello")])]) == [1]
        assert [record.id for record in await wrapped.find(Query(collection="messages"))] == ["a"]
        assert (await wrapped.tally(Query(collection="messages"))).total == 1
        assert await wrapped.tenants() == [""]


async def test_a_wrap_closes_what_it_owns():
    """By default what was handed over; with owned=False somebody else does."""
    lent, given = open_store("memory://"), open_store("memory://")
    async with Wrap(lent, owned=False), Wrap(given):
        pass
    assert await lent.find(Query(collection="messages")) == []
    await lent.close()
    with pytest.raises(StoreClosed):
        await given.find(Query(collection="messages"))


class Closing:
    """Says whether it was closed."""

    closed = False

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    async def close(self):
        self.closed = True
        await self._inner.close()


@pytest.mark.parametrize("owned", [True, False])
async def test_indexed_closes_index_and_embedders_by_the_same_rule(owned):
    store, index = open_store("memory://"), Closing(open_vectors("memory://"))
    embedder, previous = Closing(HashEmbedder(8)), Closing(HashEmbedder(9))
    indexed = Indexed(store, index, embedder, previous=previous, owned=owned)
    async with indexed:
        await indexed.apply([Add([said("a", "hello")])])
    assert (index.closed, embedder.closed, previous.closed) == (owned, owned, owned)
    await indexed.close()
    for verb in (
        indexed.apply([Add([said("b", "hello")])]),
        indexed.find(Query(collection="messages")),
        indexed.resembling("hello", Scope(), ["messages"], 1),
        indexed.verify_vectors(),
        indexed.settle(),
    ):
        with pytest.raises(StoreClosed):
            await verb
    if not owned:
        assert (await store.tally(Query(collection="messages"))).total == 1
        await store.close()
        await index.close()


async def test_a_custom_store_can_be_wrapped():
    """The store that docs/custom-store.md shows, which knows nothing of vectors, has them."""
    store = list_store().ListStore()
    async with Indexed(store, open_vectors("memory://"), HashEmbedder()) as indexed:
        await indexed.apply([Add([said("a", "the red house", Scope(tenant="acme"))])])
        await indexed.settle(60)
        [found] = await indexed.resembling("a red house", Scope(tenant="acme"), ["messages"], 1)
        assert found.key.id == "a"


class Hiding(Wrap):
    """One that finds in a way of its own."""

    async def find(self, query):
        return [record for record in await self.inner.find(query) if record.id != "secret"]


class Unread(Wrap):
    """One whose store is never asked for whole records."""

    heads = None

    def __init__(self, store):
        super().__init__(store)
        self.__dict__["heads"] = store.heads

    async def find(self, query):
        raise AssertionError("whole records were read")


async def test_heads_are_of_what_a_wrap_finds(tmp_path):
    """Whoever answers `find` in his own way is not passed by; whoever adds nothing to it reads no records for heads."""
    async with open_store(f"sqlite:///{tmp_path}/octavo.db") as store:
        await store.apply([Add([said("a", "hello"), said("secret", "hidden")])])
        query = Query(collection="messages")
        for hiding in (
            Hiding(store),
            Wrap(Hiding(store)),
            Indexed(Hiding(store), open_vectors("memory://"), HashEmbedder()),
        ):
            assert [head.id for head in await hiding.heads(query)] == ["a"]
            assert [record.id for record in await hiding.find_within(query, 1000)] == ["a"]
            assert await hiding.find_within(query, 4) is None
        for plain in (Wrap, Deduped, lambda inner: Indexed(inner, open_vectors("memory://"), HashEmbedder())):
            assert [head.id for head in await plain(Unread(store)).heads(query)] == ["a", "secret"]
