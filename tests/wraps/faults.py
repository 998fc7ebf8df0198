"""Indexes and embedders that fail when they are told to, and what tests of vectors say about records."""

from octavo import Query, Record, Scope
from octavo.errors import ModelError, StoreUnavailable
from octavo.kernel.model import exact_scope
from octavo.kernel.ports import EntryKey
from octavo.testing.embedding import HashEmbedder
from octavo.wraps import Wrap

PATIENCE = (0.001, 0.01)
SETTLED = 60  # seconds, after which a test fails rather than hang
HOME = Scope(user="ann", session="s1")


def said(id_, text, scope=HOME, collection="messages", **more):
    return Record(collection=collection, id=id_, scope=scope, text=text, **more)


def key(id_, scope=HOME, collection="messages"):
    return EntryKey(collection, id_, exact_scope(scope))


async def near(indexed, text, scope=HOME, limit=1, collections=("messages",)):
    """The ids of the nearest."""
    return [found.key.id for found in await indexed.resembling(text, scope, collections, limit)]


async def left(store, *tenants):
    """How many markers there are."""
    scopes = [Scope(tenant=tenant) for tenant in tenants or ("",)]
    return sum([(await store.tally(Query(collection="pending", scope=scope))).total for scope in scopes])


async def entries(index, space):
    """Every key in a space, with its digest."""
    return {key: digest async for page in index.walk(space) for key, digest in page}


class FailingIndex(Wrap):
    """An index in front of another; while `down`, nothing can be written to it."""

    def __init__(self, index):
        super().__init__(index)
        self.down = False
        self.refused = 0
        self.puts = 0

    def _check(self):
        if self.down:
            self.refused += 1
            raise StoreUnavailable("the index is down")

    async def put(self, space, entries):
        self._check()
        self.puts += len(entries)
        await self.inner.put(space, entries)

    async def drop(self, space, keys):
        self._check()
        await self.inner.drop(space, keys)


class FailingEmbedder(HashEmbedder):
    """While `down`, it answers nothing; texts with `poison` in them it never answers, nor reads those of `foreign`."""

    def __init__(self, dimensions=64, *, poison=None, foreign=None):
        super().__init__(dimensions)
        self.down = False
        self.poison = poison
        self.foreign = foreign
        self.refused = 0
        self.read = []
        self.asked = []

    def reads(self, text):
        return self.foreign is None or self.foreign not in text

    async def embed(self, texts, *, asking=False):
        if self.down or (self.poison and any(self.poison in text for text in texts)):
            self.refused += 1
            raise ModelError("the model is down" if self.down else "the model refuses this text")
        (self.asked if asking else self.read).extend(texts)
        return await super().embed(texts)
