"""Vectors in PostgreSQL, compared by the extension pgvector."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

import asyncpg

from octavo.errors import ConfigError, StoreError
from octavo.kernel.model import Scope
from octavo.kernel.ports import Entry, EntryKey, Near, Space, Vector
from octavo.stores.sql.drivers.postgres import PostgresDriver
from octavo.stores.sql.statements import Ask, Do, DoEach, Duplicate, Script
from octavo.stores.sql.urls import parse
from octavo.vectors.base import BaseIndex, best, checked_prefix, cosine, mismatch, settled

_MOST_INDEXED = 2000  # dimensions that pgvector's HNSW takes
_PART = 1000
_BUILD_SECONDS = 24 * 3600.0
_BUILD_KILOBYTES = 2**20  # of memory at most, unless the server's own setting is higher

_MISSING = (
    "this PostgreSQL has no pgvector ({}): install it on the server and let an administrator run CREATE EXTENSION vector "
    "in the database; without it, exact+postgresql://… searches exactly with no extension"
)


class _Placed(NamedTuple):
    """A space: its table's number and how long its vectors are."""

    number: int
    dimensions: int


class PgVectorIndex(BaseIndex):
    """Vectors in tables of their own; an acknowledgement means COMMIT has returned.

    A scope that holds no more than `exact_below` entries is read off its index and compared exactly. Larger ones are searched by
    HNSW, whose index is built when a space is complete; `ef_search` candidates are looked at, and as many more as the filter asks for.
    """

    def __init__(
        self, url: str, prefix: str = "", *, exact_below: int = 10_000, ef_search: int = 200
    ) -> None:
        super().__init__()
        address = parse(url)
        prefix = checked_prefix(prefix) or address.prefix()
        self._driver = PostgresDriver(address)
        self._exact_below = exact_below
        self._ef_search = ef_search
        self._prefix = prefix
        self._list = f'"{prefix}octavo_spaces"'
        self._schema = ""  # where the extension lives, quoted
        self._iterates = False
        self._spaces_known: dict[str, _Placed] = {}
        self._large: set[tuple[_Placed, Scope]] = set()  # scopes seen to hold more than is compared exactly

    async def _open(self) -> None:
        await self._driver.open()
        try:
            schema, version = await self._extension()
            await self._driver.write(self._ensure)
        except BaseException:
            await self._driver.close()
            raise
        self._schema = schema
        self._iterates = version >= (0, 8)  # before, a filter could leave HNSW with nothing to answer

    def _abandon(self) -> None:
        self._driver.abandon()

    async def _close(self) -> None:
        await self._driver.close()

    async def _extension(self) -> tuple[str, tuple[int, ...]]:
        """The schema and the version of pgvector, which is created if this account may."""
        sql = (
            "SELECT quote_ident(nspname), extversion FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace "
            "WHERE extname = 'vector'"
        )
        rows = await self._driver.read(lambda: _ask(sql))
        if not rows:
            try:
                await self._driver.write(self._create_extension)
            except StoreError as error:
                refusals = (
                    asyncpg.FeatureNotSupportedError,
                    asyncpg.UndefinedFileError,
                    asyncpg.InsufficientPrivilegeError,
                    asyncpg.UndefinedObjectError,
                )
                if isinstance(error.__cause__, refusals):
                    raise ConfigError(_MISSING.format(error.__cause__)) from error
                raise
            rows = await self._driver.read(lambda: _ask(sql))
        numbers = [int(part) for part in rows[0][1].split(".") if part.isdigit()]
        return rows[0][0], tuple(numbers)

    def _create_extension(self) -> Script[None]:
        # Not under the prefix: there is one extension for all of them.
        yield from self._driver.dialect.lock_schema("octavo vector extension")
        yield Do("CREATE EXTENSION IF NOT EXISTS vector")

    def _lock(self) -> Script[None]:
        yield from self._driver.dialect.lock_schema(f"{self._prefix}octavo vectors schema")

    def _ensure(self) -> Script[None]:
        dialect, name = self._driver.dialect, f"{self._prefix}octavo_spaces"
        if (yield from dialect.exists(name)):
            return
        yield from self._lock()
        if (yield from dialect.exists(name)):
            return
        yield Do(
            f"CREATE TABLE {self._list} (number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
            'name TEXT COLLATE "C" NOT NULL UNIQUE, dimensions INTEGER NOT NULL, '
            "complete BOOLEAN NOT NULL DEFAULT false)"
        )

    def _table(self, space: _Placed) -> str:
        return f'"{self._prefix}octavo_space_{space.number}"'

    def _find_space(self, space: str) -> Script[_Placed | None]:
        # Locked against being forgotten while the transaction lasts, which would take the table away under its feet.
        sql = f"SELECT number, dimensions FROM {self._list} WHERE name = $1 FOR KEY SHARE"
        rows = yield Ask(sql, (space,))
        return _Placed(*rows[0]) if rows else None

    def _make_space(self, space: str, dimensions: int) -> Script[_Placed]:
        yield from self._lock()
        known = yield from self._find_space(space)
        if known is not None:
            return known
        sql = f"INSERT INTO {self._list} (name, dimensions) VALUES ($1, $2) RETURNING number"
        rows = yield Ask(sql, (space, dimensions))
        made = _Placed(rows[0][0], dimensions)
        table, name = self._table(made), f"{self._prefix}octavo_space_{made.number}"
        parts = ("tenant", "user_id", "agent_id", "session_id")
        columns = [
            f'{column} TEXT COLLATE "C" NOT NULL'
            for column in ("collection", "id", "place", *parts, "digest")
        ]
        columns.append(f"embedding {self._schema}.vector({dimensions}) NOT NULL")
        yield Do(f"CREATE TABLE {table} ({', '.join(columns)}, PRIMARY KEY (collection, id, place))")
        yield Do(f'CREATE INDEX "{name}_by_place" ON {table} (place)')
        for part in parts[1:]:
            yield Do(f'CREATE INDEX "{name}_by_{part}" ON {table} (tenant, {part})')
        return made

    # Writing.

    async def _put(self, space: str, entries: list[Entry]) -> None:
        entries.sort(
            key=lambda entry: entry.key
        )  # writers that take their row locks in one order do not dead-lock
        for start in range(0, len(entries), _PART):
            part = entries[start : start + _PART]
            await self._driver.write(lambda part=part: self._put_script(space, part))  # type: ignore[misc]

    def _put_script(self, space: str, entries: Sequence[Entry]) -> Script[None]:
        got = len(entries[0].vector)
        known = (yield from self._find_space(space)) or (yield from self._make_space(space, got))
        if known.dimensions != got:
            raise mismatch(space, known.dimensions, got)
        yield DoEach(
            f"INSERT INTO {self._table(known)} AS kept VALUES ($1, $2, $3, $4, $5, $6, $7, $8, "
            f"$9::real[]::{self._schema}.vector) ON CONFLICT (collection, id, place) "
            "DO UPDATE SET digest = excluded.digest, embedding = excluded.embedding",
            [
                (
                    *(e.collection, e.id, e.scope.place),
                    *(e.scope.tenant, e.scope.user or "", e.scope.agent or "", e.scope.session or ""),
                    e.digest,
                    e.vector,
                )
                for e in entries
            ],
        )

    async def _drop(self, space: str, keys: list[EntryKey]) -> None:
        await self._driver.write(lambda: self._drop_script(space, sorted(keys)))

    def _drop_script(self, space: str, keys: Sequence[EntryKey]) -> Script[None]:
        known = yield from self._find_space(space)
        if known is not None:
            yield DoEach(
                f"DELETE FROM {self._table(known)} WHERE collection = $1 AND id = $2 AND place = $3",
                [(key.collection, key.id, key.place) for key in keys],
            )

    async def _complete(self, space: str) -> None:
        known = await self._driver.write(lambda: self._find_space(space))
        if known is None:
            return
        if known.dimensions <= _MOST_INDEXED:
            await self._build(known)
        sql = f"UPDATE {self._list} SET complete = true WHERE name = $1"
        await self._driver.write(lambda: _do(sql, space))

    async def _build(self, known: _Placed) -> None:
        """Build the HNSW index, at once over all there is: many times quicker than growing it row by row."""
        name = f'"{self._prefix}octavo_space_{known.number}_nearest"'
        create = (
            f"CREATE INDEX IF NOT EXISTS {name} ON {self._table(known)} "
            f"USING hnsw (embedding {self._schema}.vector_cosine_ops)"
        )
        # In memory, or it would take ten times as long; and alone, since workers share memory that containers are short of.
        kilobytes = (
            "greatest(pg_size_bytes(current_setting('maintenance_work_mem')) / 1024, "
            f"least({_BUILD_KILOBYTES}, count(*) * {4 * known.dimensions + 700} / 1024))"
        )
        sql = (
            "SET LOCAL max_parallel_maintenance_workers = 0; "
            f"SELECT set_config('maintenance_work_mem', {kilobytes} || 'kB', true) FROM {self._table(known)}; {create}; "
            # Without fresh figures the planner takes every scope for a small one, and never uses the index.
            f"ANALYZE {self._table(known)}"
        )
        async with self._driver.connection() as connection:
            with contextlib.suppress(Duplicate):  # another process was quicker
                await self._driver.send(_Patient(connection), Do(sql))

    async def _forget(self, space: str) -> None:
        await self._driver.write(lambda: self._forget_script(space))
        self._spaces_known.pop(space, None)

    def _forget_script(self, space: str) -> Script[None]:
        rows = yield Ask(f"DELETE FROM {self._list} WHERE name = $1 RETURNING number, dimensions", (space,))
        for row in rows:
            yield Do(f"DROP TABLE {self._table(_Placed(*row))}")

    # Reading.

    async def _nearest(
        self, space: str, vector: Vector, scope: Scope, collections: list[str], limit: int
    ) -> list[Near]:
        known = await self._known(space)
        if known is not None and known.dimensions != len(vector):
            self._spaces_known.pop(space, None)  # another process may have made it anew
            known = await self._known(space)
        if known is None:
            return []
        if known.dimensions != len(vector):
            raise mismatch(space, known.dimensions, len(vector))
        asked = _Asked(self._table(known), self._schema, vector, scope, collections)
        try:
            if (known, scope) not in self._large:
                found = await self._exactly(asked, limit, self._exact_below)
                if found is not None:
                    return found
                self._note_large(known, scope)
            if self._iterates:
                found = await settled(lambda ask: self._by_hnsw(asked, ask), limit)
                if len(found) == limit:
                    return found
            return await self._exactly(asked, limit, None) or []
        except StoreError as error:
            if not isinstance(error.__cause__, asyncpg.UndefinedTableError):
                raise
        # Forgotten by another process, and perhaps made anew: the next look finds out.
        self._spaces_known.pop(space, None)
        return await self._nearest(space, vector, scope, collections, limit)

    async def _known(self, space: str) -> _Placed | None:
        known = self._spaces_known.get(space)
        if known is None:
            sql = f"SELECT number, dimensions FROM {self._list} WHERE name = $1"
            rows = await self._driver.read(lambda: _ask(sql, space))
            if rows:
                known = self._spaces_known[space] = _Placed(*rows[0])
        return known

    def _note_large(self, known: _Placed, scope: Scope) -> None:
        if len(self._large) > 10_000:  # forgetting costs each of them one more look
            self._large.clear()
        self._large.add((known, scope))

    async def _exactly(self, asked: "_Asked", limit: int, most: int | None) -> list[Near] | None:
        """The nearest of all inside, or None when there are more than `most`."""
        bound = "" if most is None else f"LIMIT {most + 1}"
        sql = (
            f"WITH inside AS MATERIALIZED ({asked.select} {bound}) "
            "SELECT collection, id, place, digest, distance, (SELECT count(*) FROM inside) FROM inside "
            # Rounded as scores are told, so that every tie is broken by key.
            f"ORDER BY round(distance * 1e6), collection, id, place LIMIT {limit}"
        )
        rows = await self._driver.read(lambda: _ask(sql, *asked.values))
        if most is not None and rows and rows[0][5] > most:
            return None
        return best([_near(row) for row in rows], limit)

    async def _by_hnsw(self, asked: "_Asked", limit: int) -> list[Near]:
        """The nearest as the HNSW index has them, scanning on until enough are inside."""
        sql = f"{asked.select} ORDER BY distance LIMIT {limit}"

        def script() -> Script[list[Any]]:
            candidates = str(min(max(self._ef_search, limit), 1000))
            yield Ask(
                "SELECT set_config('hnsw.iterative_scan', 'strict_order', true), "
                "set_config('hnsw.ef_search', $1, true)",
                (candidates,),
            )
            rows: list[Any] = yield Ask(sql, asked.values)
            return rows

        return [_near(row) for row in await self._driver.write(script)]

    async def _walk(self, space: str, size: int) -> AsyncIterator[list[tuple[EntryKey, str]]]:
        after = EntryKey("", "", "")
        while page := await self._driver.write(lambda after=after: self._page(space, after, size)):  # type: ignore[misc]
            yield page
            after = page[-1][0]

    def _page(self, space: str, after: EntryKey, size: int) -> Script[list[tuple[EntryKey, str]]]:
        known = yield from self._find_space(space)
        if known is None:
            return []
        sql = (
            f"SELECT collection, id, place, digest FROM {self._table(known)} "
            f"WHERE (collection, id, place) > ($1, $2, $3) ORDER BY collection, id, place LIMIT {size}"
        )
        rows = yield Ask(sql, (after.collection, after.id, after.place))
        return [(EntryKey(*row[:3]), row[3]) for row in rows]

    async def _spaces(self) -> list[Space]:
        return await self._driver.write(self._spaces_script)

    def _spaces_script(self) -> Script[list[Space]]:
        sql = f"SELECT number, dimensions, name, complete FROM {self._list} FOR KEY SHARE"
        found = []
        for number, dimensions, name, complete in (yield Ask(sql)):
            counted = yield Ask(f"SELECT count(*) FROM {self._table(_Placed(number, dimensions))}")
            found.append(Space(name=name, dimensions=dimensions, complete=complete, entries=counted[0][0]))
        return found


class _Asked:
    """The entries inside a scope and some collections with their distances: the statement, and what it binds."""

    def __init__(
        self, table: str, schema: str, vector: Vector, scope: Scope, collections: Sequence[str]
    ) -> None:
        self.values: list[Any] = [vector, list(collections)]
        if scope.exact:
            parts = {"place": scope.place}
        else:
            named = {"user_id": scope.user, "agent_id": scope.agent, "session_id": scope.session}
            parts = {"tenant": scope.tenant} | {k: v for k, v in named.items() if v is not None}
        self.values += parts.values()
        tests = [f"{name} = ${number}" for number, name in enumerate(parts, 3)]
        self.select = (
            "SELECT collection, id, place, digest, "
            f"embedding OPERATOR({schema}.<=>) $1::real[]::{schema}.vector AS distance "
            f"FROM {table} WHERE {' AND '.join(tests)} AND collection = ANY($2::text[])"
        )


class _Patient:
    """A connection that waits for as long as the building of an index takes."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def execute(self, sql: str) -> str:
        status: str = await self._connection.execute(sql, timeout=_BUILD_SECONDS)
        return status


def _near(row: Sequence[Any]) -> Near:
    return Near(EntryKey(row[0], row[1], row[2]), row[3], cosine(1 - row[4]))


def _ask(sql: str, *values: Any) -> Script[list[Any]]:
    rows: list[Any] = yield Ask(sql, values)
    return rows


def _do(sql: str, *values: Any) -> Script[int]:
    count: int = yield Do(sql, values)
    return count


def open_pgvector(url: str) -> PgVectorIndex:
    """Open `postgresql://user:password@host:port/database?prefix=…`."""
    return PgVectorIndex(url)
