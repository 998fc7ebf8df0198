"""Vectors of records, searched by nearness: one URL opens any index, and nothing is imported until it is asked for."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from octavo.errors import ConfigError
from octavo.kernel.ports import VectorIndex
from octavo.stores import find_opener

if TYPE_CHECKING:
    from octavo.vectors.exact import ExactIndex
    from octavo.vectors.pgvector import PgVectorIndex
    from octavo.vectors.qdrant import QdrantIndex
    from octavo.vectors.sqlite_vec import SqliteVecIndex

__all__ = ["SCHEMES", "ExactIndex", "PgVectorIndex", "QdrantIndex", "SqliteVecIndex", "open_vectors"]

#: Scheme → the function that opens it. Third parties add theirs through the entry-point group `octavo.vectors`.
SCHEMES = MappingProxyType({
    "exact": "octavo.vectors.exact:open_exact",
    "memory": "octavo.vectors.exact:open_exact",
    "postgres": "octavo.vectors.pgvector:open_pgvector",
    "postgresql": "octavo.vectors.pgvector:open_pgvector",
    "qdrant": "octavo.vectors.qdrant:open_qdrant",
    "sqlite": "octavo.vectors.sqlite_vec:open_sqlite_vec",
})  # fmt: skip

_CLASSES = {
    "ExactIndex": "exact",
    "PgVectorIndex": "pgvector",
    "QdrantIndex": "qdrant",
    "SqliteVecIndex": "sqlite_vec",
}
_EXTRAS = {"asyncpg": "postgres", "numpy": "vectors", "qdrant_client": "qdrant", "sqlite_vec": "vectors"}


def open_vectors(url: str) -> VectorIndex:
    """The vector index a URL names; it connects on first use or on `async with`."""
    with _name_extra():
        index: VectorIndex = find_opener(url, SCHEMES, "octavo.vectors", "vector index")(url)
        return index


@contextmanager
def _name_extra() -> Iterator[None]:
    """Say how to install what an index needs; what else is broken must not hide behind advice that does not help."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        raise ConfigError(
            f"this vector index needs {error.name}: pip install 'octavo[{_EXTRAS[error.name]}]'"
        ) from error


def __getattr__(name: str) -> Any:
    if name in _CLASSES:
        with _name_extra():
            return getattr(importlib.import_module(f"{__name__}.{_CLASSES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
