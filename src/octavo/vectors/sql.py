"""Vectors in tables of an SQL database: what sqlite-vec and pgvector have in common."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

from octavo.kernel.model import Scope
from octavo.kernel.ports import Entry, EntryKey, Near, Scrubbed, Space, Vector
from octavo.stores.base import ignore_progress
from octavo.stores.sql.drivers import Driver
from octavo.stores.sql.statements import Do, DoEach, Fetch, Script
from octavo.stores.sql.urls import check_prefix
from octavo.vectors.base import BaseIndex, mismatch, round_score

T = TypeVar("T")
_PART = 1000  # vectors in one transaction
_SCOPE_COLUMNS = ("tenant", "user_id", "agent_id", "session_id")
#: What is read of an entry, beside its vector.
ENTRY_COLUMNS = f"collection, id, {', '.join(_SCOPE_COLUMNS)}, digest"


class SpaceTable(NamedTuple):
    """Where the vectors of a space are: its number, which is part of the table's name, and how long they are."""

    number: int
    dimensions: int


class SqlIndex(BaseIndex):
    """One table lists the spaces, and each space has a table of its own; an acknowledgement means COMMIT has returned.

    A subclass says how its database spells what no two databases spell alike.
    """

    text_type: ClassVar[str]  # compares byte by byte
    number_type: ClassVar[str]  # counts up by itself, and never gives a number twice
    share_lock: ClassVar[str]  # keeps a row of the list from being removed until the transaction ends
    collection_test: ClassVar[str]  # the column, spelled so that the index of a scope is preferred to its own

    def __init__(self, driver: Driver, prefix: str) -> None:
        super().__init__()
        self._driver = driver
        self._prefix = check_prefix(prefix)
        self._list = f'"{self._prefix}octavo_spaces"'

    # How a vector is spelled.

    def _vector_type(self, dimensions: int) -> str:
        """The type of a column of vectors."""
        raise NotImplementedError

    def _encode_vector(self, vector: Vector) -> Any:
        """A vector as the driver takes it."""
        raise NotImplementedError

    def _vector_value(self, hole: str) -> str:
        """A vector that is bound, as a value of the column's type."""
        raise NotImplementedError

    def _distance(self, hole: str) -> str:
        """The cosine distance between the column `embedding` and a vector that is bound."""
        raise NotImplementedError

    # Opening.

    async def _open(self) -> None:
        await self._driver.open()
        try:
            await self._prepare()
            await self._driver.make("vectors", self._make_list)
        except BaseException:
            await self._driver.close()
            raise

    async def _prepare(self) -> None:
        """What has to be known of the database before its tables are made."""

    async def _leave(self) -> None:
        await self._driver.leave()

    def _abandon(self) -> None:
        self._driver.abandon()

    async def _close(self) -> None:
        await self._driver.close()

    async def scrub(self, progress: Callable[[int, int], None] | None = None) -> Scrubbed:
        """Have the tables of vectors written anew without those that were dropped."""
        await self._ensure_open()
        spaces = await self._look(self._tables_script)
        return await self._driver.scrub(spaces, progress or ignore_progress)

    def _tables_script(self) -> Script[list[str]]:
        rows = yield Fetch(f"SELECT number, dimensions FROM {self._list}")
        return [self._table(SpaceTable(*row)) for row in rows]

    def _make_list(self) -> Script[bool]:
        name = f"{self._prefix}octavo_spaces"
        if not (yield from self._driver.dialect.exists(name)):
            yield from self._lock("vectors schema")
            if not (yield from self._driver.dialect.exists(name)):
                yield Do(
                    f"CREATE TABLE {self._list} (number {self.number_type}, name {self.text_type} NOT NULL UNIQUE, "
                    "dimensions INTEGER NOT NULL, complete BOOLEAN NOT NULL DEFAULT false)"
                )
        return False

    def _lock(self, what: str) -> Script[None]:
        yield from self._driver.dialect.lock_schema(f"{self._prefix}octavo {what}")

    # Spaces.

    def _table(self, space: SpaceTable) -> str:
        return f'"{self._prefix}octavo_space_{space.number}"'

    def _find_space(self, space: str, lock: str = "") -> Script[SpaceTable | None]:
        rows = yield Fetch(f"SELECT number, dimensions FROM {self._list} WHERE name = $1 {lock}", (space,))
        return SpaceTable(*rows[0]) if rows else None

    def _make_space(self, space: str, dimensions: int) -> Script[SpaceTable]:
        yield from self._lock("vectors schema")
        known = yield from self._find_space(space, self.share_lock)
        if known is not None:  # another process was quicker
            return known
        sql = f"INSERT INTO {self._list} (name, dimensions) VALUES ($1, $2) RETURNING number"
        rows = yield Fetch(sql, (space, dimensions))
        made = SpaceTable(rows[0][0], dimensions)
        table, name = self._table(made), f"{self._prefix}octavo_space_{made.number}"
        names = ("collection", "id", "scope_key", *_SCOPE_COLUMNS, "digest")
        columns = [f"{column} {self.text_type} NOT NULL" for column in names]
        columns.append(f"embedding {self._vector_type(dimensions)} NOT NULL")
        yield Do(f"CREATE TABLE {table} ({', '.join(columns)}, PRIMARY KEY (collection, id, scope_key))")
        yield Do(f'CREATE INDEX "{name}_by_scope_key" ON {table} (scope_key)')
        for column in _SCOPE_COLUMNS[1:]:
            yield Do(f'CREATE INDEX "{name}_by_{column}" ON {table} (tenant, {column})')
        return made

    async def _spaces(self) -> list[Space]:
        return await self._look(self._spaces_script)

    def _spaces_script(self) -> Script[list[Space]]:
        rows = yield Fetch(f"SELECT number, dimensions, name, complete FROM {self._list} {self.share_lock}")
        found = []
        for number, dimensions, name, complete in rows:
            counted = yield Fetch(f"SELECT count(*) FROM {self._table(SpaceTable(number, dimensions))}")
            space = Space(name=name, dimensions=dimensions, complete=bool(complete), entries=counted[0][0])
            found.append(space)
        return found

    async def _complete(self, space: str) -> None:
        await self._driver.write(lambda: self._complete_script(space))

    def _complete_script(self, space: str) -> Script[None]:
        yield Do(f"UPDATE {self._list} SET complete = true WHERE name = $1", (space,))

    async def _forget(self, space: str) -> None:
        await self._driver.write(lambda: self._forget_script(space))

    def _forget_script(self, space: str) -> Script[None]:
        rows = yield Fetch(f"DELETE FROM {self._list} WHERE name = $1 RETURNING number, dimensions", (space,))
        for row in rows:
            yield Do(f"DROP TABLE {self._table(SpaceTable(*row))}")

    # Entries.

    async def _put(self, space: str, entries: list[Entry]) -> None:
        entries.sort(
            key=lambda entry: entry.key.order
        )  # writers that lock rows in one order do not dead-lock
        for start in range(0, len(entries), _PART):
            part = entries[start : start + _PART]
            await self._driver.write(lambda part=part: self._put_script(space, part))  # type: ignore[misc]

    def _put_script(self, space: str, entries: Sequence[Entry]) -> Script[None]:
        got = len(entries[0].vector)
        known = yield from self._find_space(space, self.share_lock)
        known = known or (yield from self._make_space(space, got))
        _check_length(space, known, got)
        sql = (
            f"INSERT INTO {self._table(known)} VALUES ($1, $2, $3, $4, $5, $6, $7, $8, {self._vector_value('$9')}) "
            "ON CONFLICT (collection, id, scope_key) "
            "DO UPDATE SET digest = excluded.digest, embedding = excluded.embedding"
        )
        rows = []
        for entry in entries:
            key = entry.key
            owner = (key.scope.tenant, key.scope.user, key.scope.agent, key.scope.session)
            rows.append((*key.order, *owner, entry.digest, self._encode_vector(entry.vector)))
        yield DoEach(sql, rows)

    async def _drop(self, space: str, keys: list[EntryKey]) -> None:
        await self._driver.write(lambda: self._drop_script(space, sorted(keys)))

    def _drop_script(self, space: str, keys: Sequence[EntryKey]) -> Script[None]:
        known = yield from self._find_space(space, self.share_lock)
        if known is not None:
            sql = f"DELETE FROM {self._table(known)} WHERE collection = $1 AND id = $2 AND scope_key = $3"
            yield DoEach(sql, [key.order for key in keys])

    async def _digest(self, space: str, key: EntryKey) -> str | None:
        return await self._look(lambda: self._digest_script(space, key))

    def _digest_script(self, space: str, key: EntryKey) -> Script[str | None]:
        known = yield from self._find_space(space, self.share_lock)
        if known is None:
            return None
        sql = f"SELECT digest FROM {self._table(known)} WHERE collection = $1 AND id = $2 AND scope_key = $3"
        rows = yield Fetch(sql, key.order)
        return rows[0][0] if rows else None

    async def _walk(self, space: str, size: int) -> AsyncIterator[list[tuple[EntryKey, str]]]:
        after = ("", "", "")
        while page := await self._look(lambda after=after: self._page_script(space, after, size)):  # type: ignore[misc]
            yield page
            after = page[-1][0].order

    def _page_script(
        self, space: str, after: tuple[str, str, str], size: int
    ) -> Script[list[tuple[EntryKey, str]]]:
        known = yield from self._find_space(space, self.share_lock)
        if known is None:
            return []
        sql = (
            f"SELECT {ENTRY_COLUMNS} FROM {self._table(known)} "
            f"WHERE (collection, id, scope_key) > ($1, $2, $3) ORDER BY collection, id, scope_key LIMIT {size}"
        )
        return [_entry_of(row) for row in (yield Fetch(sql, after))]

    async def _look(self, script: Callable[[], Script[T]]) -> T:
        """Read as of one moment: a space that is found is not forgotten before its rows are read."""
        return await self._driver.read(script)

    # Searching.

    async def _nearest(
        self, space: str, vector: Vector, scope: Scope, collections: list[str], limit: int
    ) -> list[Near]:
        question = VectorQuestion(self._encode_vector(vector), scope, collections, limit)
        return await self._driver.read(lambda: self._nearest_script(space, len(vector), question))

    def _nearest_script(self, space: str, got: int, question: "VectorQuestion") -> Script[list[Near]]:
        known = yield from self._find_space(space)
        if known is None:
            return []
        _check_length(space, known, got)
        return (yield from self._rank(known, question))

    def _rank(self, known: SpaceTable, question: "VectorQuestion") -> Script[list[Near]]:
        """The nearest of all entries inside, each of them compared."""
        test, values = question.make_test(2, self.collection_test)
        # Ordered by the distance in millionths, as scores are told, so that every tie is broken by key.
        sql = (
            f"SELECT {ENTRY_COLUMNS}, round({self._distance('$1')} * 1e6) AS distance "
            f"FROM {self._table(known)} WHERE {test} ORDER BY distance, collection, id, scope_key LIMIT {question.limit}"
        )
        return [near(row, row[-1] / 1e6) for row in (yield Fetch(sql, [question.vector, *values]))]


class VectorQuestion(NamedTuple):
    """What is asked for: a vector as the driver takes it, and where its neighbours may be."""

    vector: Any
    scope: Scope
    collections: Sequence[str]
    limit: int

    def make_test(self, first: int, collection_test: str) -> tuple[str, list[str]]:
        """The test of a row for being inside the scope and the collections, and its values, bound from that number on."""
        scope = self.scope
        owner = (scope.tenant, scope.user, scope.agent, scope.session)
        parts = {"scope_key": scope.key} if scope.exact else dict(zip(_SCOPE_COLUMNS, owner, strict=True))
        given = {name: value for name, value in parts.items() if value is not None}
        values = [*given.values(), *self.collections]
        holes = [f"${number}" for number in range(first, first + len(values))]
        tests = [f"{name} = {hole}" for name, hole in zip(given, holes, strict=False)]
        return " AND ".join([*tests, f"{collection_test} IN ({', '.join(holes[len(given) :])})"]), values


def _check_length(space: str, known: SpaceTable, got: int) -> None:
    if known.dimensions != got:
        raise mismatch(space, known.dimensions, got)


def _entry_of(row: Sequence[Any]) -> tuple[EntryKey, str]:
    """The key and the digest in a row of ENTRY_COLUMNS."""
    collection, id_, tenant, user, agent, session, digest = row[:7]
    return EntryKey(collection, id_, Scope(tenant=tenant, user=user, agent=agent, session=session)), digest


def near(row: Sequence[Any], distance: float) -> Near:
    """A candidate at that distance."""
    return Near(*_entry_of(row), round_score(1 - distance))
