"""Vectors in PostgreSQL, compared by the extension pgvector."""

from collections.abc import Callable
from typing import Any, TypeVar

import asyncpg

from octavo.errors import ConfigError, StoreError
from octavo.kernel.model import Scope
from octavo.kernel.ports import Near, Vector
from octavo.stores.sql.drivers.postgres import PostgresDriver
from octavo.stores.sql.statements import Build, Do, Fetch, Script
from octavo.stores.sql.urls import parse
from octavo.vectors.base import trust_nearest
from octavo.vectors.sql import ENTRY_COLUMNS, SpaceTable, SqlIndex, VectorQuestion, near

T = TypeVar("T")
_MOST_INDEXED = 2000  # dimensions that pgvector's HNSW takes
_BUILD_KILOBYTES = 2**20  # of memory at most, unless the server's own setting is higher

_MISSING = (
    "this PostgreSQL has no pgvector ({}): install it on the server and let an administrator run CREATE EXTENSION vector "
    "in the database; without it, exact+postgresql://… searches exactly with no extension"
)
_REFUSALS = (
    asyncpg.FeatureNotSupportedError,
    asyncpg.UndefinedFileError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.UndefinedObjectError,
)


class PgVectorIndex(SqlIndex):
    """Vectors in tables of their own.

    A scope that holds no more than `exact_below` entries is read off its index and compared exactly. Larger ones are searched by
    HNSW, whose index is built when a space is complete; `ef_search` candidates are looked at, and as many more as the filter asks for.
    """

    text_type = 'TEXT COLLATE "C"'
    number_type = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
    share_lock = "FOR KEY SHARE"
    collection_test = "collection"

    def __init__(
        self, url: str, prefix: str = "", *, exact_below: int = 10_000, ef_search: int = 200
    ) -> None:
        address = parse(url)
        prefix = prefix or address.prefix()
        super().__init__(PostgresDriver(address), prefix)
        self._exact_below = exact_below
        self._ef_search = ef_search
        self._schema = ""  # where the extension lives, quoted
        self._iterates = False

    def _vector_type(self, dimensions: int) -> str:
        return f"{self._schema}.vector({dimensions})"

    def _encode_vector(self, vector: Vector) -> Vector:
        return vector

    def _vector_value(self, hole: str) -> str:
        return f"{hole}::real[]::{self._schema}.vector"

    def _distance(self, hole: str) -> str:
        return f"(embedding OPERATOR({self._schema}.<=>) {self._vector_value(hole)})"

    # The extension.

    async def _prepare(self) -> None:
        try:
            self._schema, version = await self._driver.write(self._find_extension)
        except StoreError as error:
            if isinstance(error.__cause__, _REFUSALS):
                raise ConfigError(_MISSING.format(error.__cause__)) from error
            raise
        numbers = [int(part) for part in version.split(".") if part.isdigit()]
        self._iterates = numbers >= [0, 8]  # before, a filter could leave HNSW with nothing to answer

    def _find_extension(self) -> Script[tuple[str, str]]:
        """The schema and the version of pgvector, which is created if this account may."""
        find = Fetch(
            "SELECT quote_ident(nspname), extversion FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace "
            "WHERE extname = 'vector'"
        )
        rows = yield find
        if not rows:
            # Not under the prefix: there is one extension for all of them.
            yield from self._driver.dialect.lock_schema("octavo vector extension")
            yield Do("CREATE EXTENSION IF NOT EXISTS vector")
            rows = yield find
        return rows[0][0], rows[0][1]

    # Completing a space.

    def _complete_script(self, space: str) -> Script[None]:
        known = yield from self._find_space(space, self.share_lock)
        if known is None:
            return
        if known.dimensions <= _MOST_INDEXED:
            yield from self._build(known)
        yield from super()._complete_script(space)

    def _build(self, known: SpaceTable) -> Script[None]:
        """Build the HNSW index, at once over all there is: many times quicker than growing it row by row."""
        table, name = self._table(known), f"{self._prefix}octavo_space_{known.number}_nearest"
        yield from self._lock(name)  # one process builds it, the others wait
        # In memory, or it would take ten times as long; and alone, since workers share memory that containers are short of.
        kilobytes = (
            "greatest(pg_size_bytes(current_setting('maintenance_work_mem')) / 1024, "
            f"least({_BUILD_KILOBYTES}, count(*) * {4 * known.dimensions + 700} / 1024))"
        )
        yield Do("SET LOCAL max_parallel_maintenance_workers = 0")
        yield Fetch(f"SELECT set_config('maintenance_work_mem', {kilobytes} || 'kB', true) FROM {table}")
        operators = f"{self._schema}.vector_cosine_ops"
        yield Build(f'CREATE INDEX IF NOT EXISTS "{name}" ON {table} USING hnsw (embedding {operators})')
        # Without fresh figures the planner takes every scope for a small one, and never uses the index.
        yield Build(f"ANALYZE {table}")

    # Searching.

    async def _look(self, script: Callable[[], Script[T]]) -> T:
        return await self._driver.write(script)  # in a transaction, or the lock on the space would not hold

    async def _nearest(
        self, space: str, vector: Vector, scope: Scope, collections: list[str], limit: int
    ) -> list[Near]:
        try:
            return await super()._nearest(space, vector, scope, collections, limit)
        except StoreError as error:
            if isinstance(error.__cause__, asyncpg.UndefinedTableError):  # forgotten this very moment
                return []
            raise

    def _rank(self, known: SpaceTable, question: VectorQuestion) -> Script[list[Near]]:
        """The nearest of all inside; if those are many, as the HNSW index has them, scanning on until enough are inside."""
        test, values = question.make_test(1, self.collection_test)
        most = self._exact_below
        inside = f"SELECT 1 FROM {self._table(known)} WHERE {test} LIMIT {most + 1}"
        [[count]] = yield Fetch(f"SELECT count(*) FROM ({inside}) AS inside", values)
        test, values = question.make_test(2, self.collection_test)
        limit, ask, found = question.limit, question.limit + 16, None
        while self._iterates and count > most and found is None:
            yield Fetch(
                "SELECT set_config('hnsw.iterative_scan', 'strict_order', false), "
                "set_config('hnsw.ef_search', $1, false)",
                (str(min(max(self._ef_search, ask), 1000)),),
            )
            sql = (
                f"SELECT {ENTRY_COLUMNS}, {self._distance('$1')} AS distance "
                f"FROM {self._table(known)} WHERE {test} ORDER BY distance LIMIT {ask}"
            )
            rows: list[Any] = yield Fetch(sql, [question.vector, *values])
            found = trust_nearest([near(row, row[-1]) for row in rows], ask, limit)
            ask *= 4
        if found is not None and len(found) == limit:
            return found
        return (yield from super()._rank(known, question))  # HNSW gives up after so many


def open_pgvector(url: str) -> PgVectorIndex:
    """Open `postgresql://user:password@host:port/database?prefix=…`."""
    return PgVectorIndex(url)
