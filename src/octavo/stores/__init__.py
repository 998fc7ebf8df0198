"""One URL opens any backend; nothing is imported until it is asked for."""

import importlib
from collections.abc import Callable
from types import MappingProxyType

from octavo.errors import ConfigError
from octavo.kernel.ports import Store

#: Scheme → the function that opens it. Third parties add theirs through the entry-point group `octavo.stores`.
SCHEMES = MappingProxyType({
    "file": "octavo.stores.file:open_file",
    "mariadb": "octavo.stores.sql:open_mysql",
    "memory": "octavo.stores.memory:open_memory",
    "mysql": "octavo.stores.sql:open_mysql",
    "postgres": "octavo.stores.sql:open_postgres",
    "postgresql": "octavo.stores.sql:open_postgres",
    "redis": "octavo.stores.redis:open_redis",
    "rediss": "octavo.stores.redis:open_redis",
    "sqlite": "octavo.stores.sql:open_sqlite",
    "unix": "octavo.stores.redis:open_redis",
})  # fmt: skip


def open_store(url: str) -> Store:
    """The store a URL names; it connects on first use or on `async with`.

    SQLAlchemy's spellings (`postgresql+asyncpg://…`) name the same stores.
    """
    if not isinstance(url, str):
        raise TypeError(
            f"open_store takes the URL of a store, such as sqlite:///octavo.db; got {url!r}"[:300]
        )
    scheme, mark, _ = url.partition("://")
    if not mark:
        raise ConfigError(f"{_mask_url(url)!r} is not a store URL; try sqlite:///octavo.db or memory://")
    return _opener(scheme.partition("+")[0].lower())(url)


def to_store(store: Store | str) -> Store:
    """The store that was handed in, or the one that a URL names; TypeError for what is neither, such as None."""
    if isinstance(store, str):
        return open_store(store)
    if not all(callable(getattr(store, verb, None)) for verb in ("apply", "find", "tally")):
        raise TypeError(
            f"a store is a URL such as sqlite:///octavo.db, or what open_store opens; got {store!r}"[:300]
        )
    return store


def _opener(scheme: str) -> Callable[[str], Store]:
    if (path := SCHEMES.get(scheme)) is not None:
        module, _, name = path.partition(":")
        opener: Callable[[str], Store] = getattr(importlib.import_module(module), name)
        return opener
    from importlib.metadata import entry_points  # a third of the time `import octavo` would take

    added = {point.name: point for point in entry_points(group="octavo.stores")}
    if scheme in added:
        loaded: Callable[[str], Store] = added[scheme].load()
        return loaded
    known = ", ".join(sorted({*SCHEMES, *added}))
    raise ConfigError(f"unknown store scheme {scheme!r}; known: {known}")


def _mask_url(url: str) -> str:
    """A URL fit for an error message: whatever stands before an @ may be a password."""
    return url if "@" not in url else "…@" + url.rpartition("@")[2]
