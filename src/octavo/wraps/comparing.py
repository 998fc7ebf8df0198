"""The records of a store against the vectors of an index, however many there are.

The order of the four looks is what makes the verdict right while others write: records, then markers, then the index, then again
the records that seemed to differ. A record embedded in between is never called missing, nor a fresh one stray.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from typing import Any

import msgspec

from octavo.kernel.model import START, Query, Scope
from octavo.kernel.ports import EntryKey, Store
from octavo.wraps.embedding import Target, contents, said
from octavo.wraps.marking import Key, key_of, keys_in, pages, waiting

MOST_COUNTED = 1000  # tenants; counting more beforehand would take longer than a progress bar is worth
_PART = 500
_BREATH = 50  # records between two chances for others to run
_TABLES = """
PRAGMA journal_mode = OFF;
BEGIN;
CREATE TABLE wanted (
  collection, id, place, tenant, user, agent, session, digest, found, PRIMARY KEY (collection, id, place)
) WITHOUT ROWID;
CREATE TABLE stray (collection, id, place, PRIMARY KEY (collection, id, place)) WITHOUT ROWID;
CREATE TABLE waiting (collection, id, place, PRIMARY KEY (collection, id, place)) WITHOUT ROWID;
"""
_THIS = "collection = ? AND id = ? AND place = ?"


class Reach:
    """Which records are compared: these collections, of one tenant or of every one there is at that moment.

    Only when every tenant is known can an entry be called stray.
    """

    def __init__(
        self,
        collections: Sequence[str],
        tenants: Callable[[], Awaitable[Sequence[str]]],
        *,
        every_tenant: bool,
    ) -> None:
        self.collections = collections
        self.tenants = tenants
        self.every_tenant = every_tenant

    def queries(self, tenants: Sequence[str]) -> list[Query]:
        return [
            Query(collection=collection, scope=Scope(tenant=tenant), after=START)
            for tenant in tenants
            for collection in self.collections
        ]

    async def total(self, store: Store) -> int | None:
        """How many records there are now, or None when counting them would take long."""
        if len(tenants := await self.tenants()) > MOST_COUNTED:
            return None
        return sum([(await store.tally(query)).total for query in self.queries(tenants)])


class Differences(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a space. Records that wait to be embedded are not wrong, and only counted as `waiting`."""

    space: str
    records: int  # that were looked at
    entries: int  # of the same collections in the index
    missing: tuple[EntryKey, ...] = ()  # records that should have a vector and have none
    stale: tuple[EntryKey, ...] = ()  # records whose vector was made of another text
    stray: tuple[EntryKey, ...] = ()  # vectors of records that are gone or should have none
    waiting: int = 0  # markers

    def __bool__(self) -> bool:
        return bool(self.missing or self.stale or self.stray)


class Comparison:
    """What should be in a space, held in a temporary file, and crossed off as it is found there."""

    def __init__(self, store: Store, target: Target, reach: Reach) -> None:
        import apsw  # half of what `octavo` on the command line would load, and seldom needed

        self._store = store
        self._target = target
        self._reach = reach
        self._rows = apsw.Connection("")  # a file without a name: whatever happens, nobody has to remove it
        self._rows.execute(_TABLES).fetchall()  # to the last statement: the first one answers a row
        self.records = 0
        self.entries = 0
        self.markers = 0

    def close(self) -> None:
        self._rows.close()

    async def steps(self) -> AsyncGenerator[None, None]:
        """Compare, a page at a time."""
        for query in self._reach.queries(await self._reach.tenants()):
            async for page in pages(self._store, query):
                for start in range(0, len(page), _BREATH):
                    self._want(
                        (key_of(record), self._target.wants(said(record)))
                        for record in page[start : start + _BREATH]
                    )
                    await asyncio.sleep(0)
                self.records += len(page)
                yield
        for tenant in await self._reach.tenants():
            async for page in pages(self._store, msgspec.structs.replace(waiting(tenant), after=START)):
                self._wait(key.entry for marker in page for key in keys_in(marker))
                self.markers += len(page)
                yield
        walk = self._target.index.walk(self._target.space)
        try:
            async for entries in walk:
                for start in range(0, len(entries), _PART):
                    self._cross_off(entries[start : start + _PART])
                    await asyncio.sleep(0)
                yield
        finally:
            if isinstance(walk, AsyncGenerator):  # given up half way, it may hold a connection
                await walk.aclose()

    def _want(self, rows: Iterable[tuple[Key, str]]) -> None:
        self._rows.executemany(
            "INSERT OR REPLACE INTO wanted VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)",
            [
                (key.collection, key.id, key.scope.place, *msgspec.structs.astuple(key.scope), digest)
                for key, digest in rows
                if digest
            ],
        )

    def _wait(self, keys: Iterable[EntryKey]) -> None:
        named = [msgspec.structs.astuple(key) for key in keys]
        self._rows.executemany(f"DELETE FROM wanted WHERE {_THIS}", named)
        self._rows.executemany("INSERT OR IGNORE INTO waiting VALUES (?, ?, ?)", named)

    def _cross_off(self, entries: Sequence[tuple[EntryKey, str]]) -> None:
        for key, digest in entries:
            if key.collection not in self._reach.collections:
                continue
            self.entries += 1
            named = msgspec.structs.astuple(key)
            wanted = self._one(f"SELECT digest FROM wanted WHERE {_THIS}", named)
            if wanted is None:
                if self._reach.every_tenant and not self._one(f"SELECT 1 FROM waiting WHERE {_THIS}", named):
                    self._rows.execute("INSERT OR IGNORE INTO stray VALUES (?, ?, ?)", named)
            elif wanted == digest:
                self._rows.execute(f"DELETE FROM wanted WHERE {_THIS}", named)
            else:
                self._rows.execute(f"UPDATE wanted SET found = ? WHERE {_THIS}", (digest, *named))

    def _one(self, sql: str, named: tuple[Any, ...] = ()) -> Any:
        row = self._rows.execute(sql, named).fetchone()
        return row[0] if row else None

    # What was found, once all steps are done.

    @property
    def left(self) -> int:
        """How many differences there still are."""
        count: int = self._one("SELECT (SELECT count(*) FROM wanted) + (SELECT count(*) FROM stray)")
        return count

    def outdated(self, most: int, past: EntryKey | None = None) -> list[tuple[Key, str, str | None]]:
        """Some of the records without their right vector: the digest it should have, and the one it has."""
        return [
            (
                Key(collection, id_, Scope(tenant=tenant, user=user, agent=agent, session=session)),
                digest,
                found,
            )
            for collection, id_, tenant, user, agent, session, digest, found in self._rows.execute(
                "SELECT collection, id, tenant, user, agent, session, digest, found FROM wanted "
                "WHERE (collection, id, place) > (?, ?, ?) ORDER BY collection, id, place LIMIT ?",
                (*_named(past), most),
            )
        ]

    def strays(self, most: int, past: EntryKey | None = None) -> list[EntryKey]:
        """Some of the entries that have no record."""
        rows = self._rows.execute(
            "SELECT * FROM stray WHERE (collection, id, place) > (?, ?, ?) ORDER BY 1, 2, 3 LIMIT ?",
            (*_named(past), most),
        )
        return [EntryKey(*row) for row in rows]

    def settled(self, keys: Iterable[EntryKey]) -> None:
        """Cross these off: they are as they should be."""
        named = [msgspec.structs.astuple(key) for key in keys]
        for table in ("wanted", "stray"):
            self._rows.executemany(f"DELETE FROM {table} WHERE {_THIS}", named)

    async def living(self, strays: Sequence[EntryKey]) -> list[Key]:
        """Those of the entries whose records do exist now and should have a vector."""
        by_collection: dict[str, set[EntryKey]] = {}
        for entry in strays:
            by_collection.setdefault(entry.collection, set()).add(entry)
        # Listed anew: the records of a tenant that was not there before must not be taken for gone.
        tenants = await self._reach.tenants() if strays else ()
        found: list[Key] = []
        for collection, among in by_collection.items():
            ids = tuple(dict.fromkeys(entry.id for entry in among))
            for tenant in tenants:
                query = Query(collection=collection, ids=ids, scope=Scope(tenant=tenant))
                async for page in pages(self._store, query):
                    found += [
                        key
                        for record in page
                        if (key := key_of(record)).entry in among and self._target.wants(said(record))
                    ]
        return found

    async def differences(self) -> Differences:
        """Every difference that is still one."""
        missing: list[EntryKey] = []
        stale: list[EntryKey] = []
        past: EntryKey | None = None
        while rows := self.outdated(_PART, past):
            past = rows[-1][0].entry
            now = await contents(self._store, [key for key, _, _ in rows])
            for key, digest, found in rows:
                # One that was changed since has a marker, or had one, and is somebody's business already.
                if self._target.wants(now[key]) == digest:
                    (missing if found is None else stale).append(key.entry)
        stray: list[EntryKey] = []
        past = None
        while entries := self.strays(_PART, past):
            past = entries[-1]
            alive = {key.entry for key in await self.living(entries)}
            stray += [key for key in entries if key not in alive]
        return Differences(
            space=self._target.space,
            records=self.records,
            entries=self.entries,
            missing=tuple(missing),
            stale=tuple(stale),
            stray=tuple(stray),
            waiting=self.markers,
        )


def _named(past: EntryKey | None) -> tuple[str, str, str]:
    return ("", "", "") if past is None else (past.collection, past.id, past.place)
