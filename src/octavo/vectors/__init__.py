"""Vectors of records, searched by nearness: one URL opens any index, and nothing is imported until it is asked for."""

import importlib
from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from octavo.errors import ConfigError
from octavo.kernel.ports import VectorIndex

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
    if not isinstance(url, str):
        raise TypeError(
            f"open_vectors takes the URL of an index, such as sqlite:///octavo.db; got {url!r}"[:300]
        )
    scheme, mark, _ = url.partition("://")
    if not mark:
        raise ConfigError(
            f"{_mask_url(url)!r} is not the URL of a vector index; try sqlite:///octavo.db or memory://"
        )
    return _opener(scheme.partition("+")[0].lower())(url)


def _opener(scheme: str) -> Callable[[str], VectorIndex]:
    if (path := SCHEMES.get(scheme)) is not None:
        module, _, name = path.partition(":")
        opener: Callable[[str], VectorIndex] = getattr(_import(module), name)
        return opener
    from importlib.metadata import entry_points  # slow to load, and hardly ever needed

    added = {point.name: point for point in entry_points(group="octavo.vectors")}
    if scheme in added:
        loaded: Callable[[str], VectorIndex] = added[scheme].load()
        return loaded
    known = ", ".join(sorted({*SCHEMES, *added}))
    raise ConfigError(f"unknown vector index scheme {scheme!r}; known: {known}")


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Something else is broken, and must not hide behind advice that does not help.
        if error.name not in _EXTRAS:
            raise
        raise ConfigError(
            f"this vector index needs {error.name}: pip install 'octavo[{_EXTRAS[error.name]}]'"
        ) from error


def _mask_url(url: str) -> str:
    """A URL fit for an error message: what stands before an @ or after a ? may be a secret."""
    bare = url.partition("?")[0]
    return bare if "@" not in bare else "…@" + bare.rpartition("@")[2]


def __getattr__(name: str) -> Any:
    if name in _CLASSES:
        return getattr(_import(f"{__name__}.{_CLASSES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
