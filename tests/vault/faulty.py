"""A store that is down when it is told to, or commits and then fails."""

from octavo import Query, StoreUnavailable
from octavo.service.vault.documents import COLLECTIONS
from octavo.wraps import Wrap


class Faulty(Wrap):
    def __init__(self, store):
        super().__init__(store)
        self.down = False
        self.after = False  # fail after committing
        self.writes = 0

    def _check(self):
        if self.down:
            raise StoreUnavailable("the store is down")

    async def apply(self, ops):
        self._check()
        self.writes += 1
        counts = await self.inner.apply(ops)
        if self.after:
            raise StoreUnavailable("the connection broke")
        return counts

    async def find(self, query):
        self._check()
        return await self.inner.find(query)

    async def tally(self, query):
        self._check()
        return await self.inner.tally(query)


async def texts(store, key=None):
    """Every text the store has: of documents, and of what they said before."""
    found = []
    for collection in COLLECTIONS:
        found += await store.find(Query(collection=collection, ids=None if key is None else (key,)))
    versions = await store.find(Query(collection="versions"))
    found += [record for record in versions if key in (None, record.scope.session)]
    return {record.text for record in found}


def files(vault):
    """What the files say, by path."""
    return {
        path.relative_to(vault.root).as_posix(): path.read_bytes().decode()
        for path in vault.root.rglob("*.md")
        if path.is_file()
    }
