"""The records of a store against the vectors of an index, however many there are; and the mending of what differs.

The order of the four looks is what makes the verdict right while others write: records, then markers, then the index, then again
the records that seemed to differ. A record embedded in between is never called missing, nor a fresh one stray.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from octavo.kernel.model import Add, Query, Scope
from octavo.kernel.pages import walk
from octavo.kernel.ports import EntryKey, Store
from octavo.wraps.vectors.waiting import (
    Target,
    VectorOutcome,
    keys_in,
    markers,
    markers_query,
    passage_of,
    passages,
    refresh,
)

_MOST_COUNTED = 1000  # tenants; counting more beforehand would take longer than a progress bar is worth
_PAGE = 100  # records read at once: few enough that others run in between
_FEW_MARKERS = 10  # read at once: each may name hundreds of records
_PAGE_BYTES = 4 * 1024 * 1024
_BATCH = 128  # differences mended at once
_TABLE = """
PRAGMA journal_mode = OFF;
BEGIN;
CREATE TABLE keys (
  collection, id, scope_key, scope, want, have, waits, PRIMARY KEY (collection, id, scope_key)
) WITHOUT ROWID;
"""


#: Told after each step what came of it; what it raises ends the work.
Each: TypeAlias = Callable[[VectorOutcome], Awaitable[None]]


class ComparedRecords(NamedTuple):
    """Which records are compared: these collections, of one tenant or of every one there is at that moment."""

    collections: Sequence[str]
    tenants: Callable[[], Awaitable[Sequence[str]]]
    tenant: str | None  # None where all are meant

    def has(self, key: EntryKey) -> bool:
        return key.collection in self.collections and self.tenant in (None, key.scope.tenant)

    async def queries(self) -> list[Query]:
        return [
            Query(collection=collection, scope=Scope(tenant=tenant))
            for tenant in await self.tenants()
            for collection in self.collections
        ]

    async def total(self, store: Store) -> int | None:
        """How many records there are now, or None when counting them would take long."""
        if len(await self.tenants()) > _MOST_COUNTED:
            return None
        return sum([(await store.tally(query)).total for query in await self.queries()])


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


class Difference(NamedTuple):
    """An entry whose vector is not of the text it should be of: the digests of both; a stray one has none to be of."""

    entry: EntryKey
    want: str | None
    have: str | None


class Comparison:
    """What should be in a space and what is there, side by side in a temporary file."""

    def __init__(self, store: Store, target: Target, reach: ComparedRecords) -> None:
        import apsw  # half of what `octavo` on the command line would load, and seldom needed

        self._store = store
        self._target = target
        self._reach = reach
        self._table = apsw.Connection("")  # a file without a name: whatever happens, nobody has to remove it
        self._table.execute(_TABLE).fetchall()  # to the last statement: the first one answers a row
        self._done = False  # whether all is compared
        self.records = self.entries = self.markers = 0

    def close(self) -> None:
        """Let go of the temporary file."""
        self._table.close()

    @property
    def progress(self) -> tuple[int, int | None]:
        """How many records are known to have their vectors, and how many there are, once all are compared."""
        # Strays are differences too, but no records: with many of them there would be less than nothing done.
        return (max(0, self.records - self._count_left()), self.records) if self._done else (0, None)

    async def compare(self, each: Each) -> None:
        """Compare from the beginning, a page at a time: after an error, what was read is of an unknown moment."""
        self._table.execute("DELETE FROM keys")
        self.records = self.entries = self.markers = 0
        for query in await self._reach.queries():
            async for page in walk(self._store, query, _PAGE, _PAGE_BYTES):
                rows = [(EntryKey.of(record), self._target.wants(passage_of(record))) for record in page]
                self._note("want", [(key, want) for key, want in rows if want])
                self.records += len(page)
                await each(VectorOutcome())
        for tenant in await self._reach.tenants():
            async for page in walk(self._store, markers_query(tenant), _FEW_MARKERS):
                self._note("waits", [(key, "yes") for marker in page for key in keys_in(marker)])
                self.markers += len(page)
                await each(VectorOutcome())
        entries = self._target.index.walk(self._target.space)
        try:
            async for found in entries:
                here = [(key, have) for key, have in found if self._reach.has(key)]
                self._note("have", here)
                self.entries += len(here)
                await each(VectorOutcome())
        finally:
            if isinstance(entries, AsyncGenerator):  # given up half way, it may hold a connection
                await entries.aclose()
        self._table.execute("DELETE FROM keys WHERE waits IS NOT NULL OR want IS have")
        self._done = True

    async def rebuild(self, each: Each) -> None:
        """Compare, and embed what differs; after an error another call goes on where it was.

        What is already embedded is never embedded again, so that an interrupted rebuild costs little.
        """
        if not self._done:
            await self.compare(each)
        while rows := self._list_first():
            outcome = await self._mend(rows)
            self._table.executemany(
                "DELETE FROM keys WHERE collection = ? AND id = ? AND scope_key = ?",
                [row.entry.order for row in rows],
            )
            await each(outcome)

    async def _mend(self, rows: list[Difference]) -> VectorOutcome:
        outcome = await refresh(self._store, [self._target], [row.entry for row in rows])
        if outcome.failed:
            # Left to those who take care of markers: a text the model refuses must not hold up all others.
            await self._store.apply([Add(markers(outcome.failed))])
        return outcome

    async def differences(self) -> Differences:
        """Every difference that is still one."""
        missing: list[EntryKey] = []
        stale: list[EntryKey] = []
        stray: list[EntryKey] = []
        rows = self._list_first()
        while rows:
            now = await passages(self._store, [row.entry for row in rows])
            for row in rows:
                # One that was changed since has a marker, or had one, and is somebody's business already.
                if self._target.wants(now[row.entry]) == row.want:
                    wrong = stray if row.want is None else missing if row.have is None else stale
                    wrong.append(row.entry)
            rows = self._list_first(rows[-1].entry)
        return Differences(
            space=self._target.space,
            records=self.records,
            entries=self.entries,
            missing=tuple(missing),
            stale=tuple(stale),
            stray=tuple(stray),
            waiting=self.markers,
        )

    # The table.

    def _note(self, column: str, rows: Iterable[tuple[EntryKey, str]]) -> None:
        """Enter what is known of these keys."""
        self._table.executemany(
            f"INSERT INTO keys (collection, id, scope_key, scope, {column}) VALUES (?, ?, ?, ?, ?) "
            f"ON CONFLICT DO UPDATE SET {column} = excluded.{column}",
            [(*entry.order, msgspec.json.encode(entry.scope), value) for entry, value in rows],
        )

    def _count_left(self) -> int:
        """How many differences there still are."""
        count: Any = self._table.execute("SELECT count(*) FROM keys").fetchall()
        return int(count[0][0])

    def _list_first(self, past: EntryKey | None = None) -> list[Difference]:
        """The first of the differences, or of those past this key."""
        rows: Any = self._table.execute(
            "SELECT collection, id, scope, want, have FROM keys "
            "WHERE (collection, id, scope_key) > (?, ?, ?) ORDER BY collection, id, scope_key LIMIT ?",
            (*(past.order if past else ("", "", "")), _BATCH),
        )
        return [
            Difference(EntryKey(collection, id_, msgspec.json.decode(scope, type=Scope)), want, have)
            for collection, id_, scope, want, have in rows
        ]
