"""A store that fails as it is told to, and what tests of the Journal say about records."""

import asyncio

from octavo import Add, Query, Record, Remove, Scope, open_store
from octavo.errors import StoreError, StoreUnavailable
from octavo.wraps import Journal, Wrap
from virtual_time import clock

COLLECTION = "observations"


def event(id_, session="s1", **more):
    return Record(collection=COLLECTION, id=id_, scope=Scope(session=session), text=f"event {id_}", **more)


def add(*ids, session="s1"):
    return Add([event(id_, session) for id_ in ids])


def those(session="s1", **more):
    return Query(collection=COLLECTION, scope=Scope(session=session), **more)


def remove(*ids, session="s1"):
    return Remove(those(session, ids=ids))


async def ids(store, session="s1"):
    return [record.id for record in await store.find(those(session))]


class Unsteady(Wrap):
    """A store with a `mood`: up, down, hang, read-only, refuse (an error that is no outage), or after (it commits, and then fails).

    What hangs goes on when the mood changes, as a slow network does: it is done then, however late.
    """

    def __init__(self, store, mood="up"):
        super().__init__(store)
        self.mood = mood
        self.poison = {}  # the error for whoever brings a record of this id
        self.calls = 0
        self.committed = []  # ids in the order in which their adds were first done
        self._moved = asyncio.Event()

    def turn(self, mood):
        self.mood = mood
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    async def _face(self):
        self.calls += 1
        while self.mood == "hang":
            await self._moved.wait()
        if self.mood == "down":
            raise StoreUnavailable("the store is down: postgresql://ann:secret@db/x")
        if self.mood == "refuse":
            raise StoreError("permission denied")

    async def apply(self, ops):
        await self._face()
        if self.mood == "read-only":
            raise StoreUnavailable("the disk is full")
        added = [record.id for op in ops if isinstance(op, Add) for record in op.records]
        for id_ in added:
            if id_ in self.poison:
                raise self.poison[id_]
        counts = await self.inner.apply(ops)
        self.committed += [id_ for id_ in added if id_ not in self.committed and "probe_" not in id_]
        if self.mood == "after":
            raise StoreUnavailable("the connection was lost while committing")
        return counts

    async def find(self, query):
        await self._face()
        return await self.inner.find(query)

    async def tally(self, query):
        await self._face()
        return await self.inner.tally(query)

    async def search(self, query, terms):
        await self._face()
        return await self.inner.search(query, terms)

    async def close(self):
        while self.mood == "hang":
            await self._moved.wait()
        await super().close()

    async def __aenter__(self):
        await self._face()
        return await super().__aenter__()


def journal_of(store, path, **more):
    return Journal(store, path / "queue", clock=clock, **more)


async def settled(journal):
    """Let time pass until nothing waits."""
    for _ in range(1000):
        if journal.status().state == "up" and not journal.status().waiting:
            return
        await asyncio.sleep(1)
    raise AssertionError(f"still not settled: {journal.status()}")


def unsteady(mood="up"):
    return Unsteady(open_store("memory://"), mood)
