"""One URL opens any backend; nothing is imported until it is asked for."""

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

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
    store: Store = find_opener(url, SCHEMES, "octavo.stores", "store")(url)
    return store


def to_store(store: Store | str) -> Store:
    """The store that was handed in, or the one that a URL names; TypeError for what is neither, such as None."""
    if isinstance(store, str):
        return open_store(store)
    if not all(callable(getattr(store, verb, None)) for verb in ("apply", "find", "tally")):
        raise TypeError(
            f"a store is a URL such as sqlite:///octavo.db, or what open_store opens; got {store!r}"[:300]
        )
    return store


def find_opener(url: Any, schemes: Mapping[str, str], group: str, what: str) -> Callable[[str], Any]:
    """The function that opens what a URL names, by its scheme: one of ours, or one that an entry point of the group adds."""
    if not isinstance(url, str):
        raise TypeError(f"the URL of a {what} is a text such as sqlite:///octavo.db; got {url!r}"[:300])
    scheme, mark, _ = url.partition("://")
    if not mark:
        # Whatever stands before an @ or after a ? may be a secret.
        shown = "…@" * ("@" in url) + url.partition("?")[0].rpartition("@")[2]
        raise ConfigError(f"{shown!r} is not the URL of a {what}; try sqlite:///octavo.db or memory://")
    scheme = scheme.partition("+")[0].lower()
    if (path := schemes.get(scheme)) is not None:
        module, _, name = path.partition(":")
        opener: Callable[[str], Any] = getattr(importlib.import_module(module), name)
        return opener
    from importlib.metadata import entry_points  # a third of the time `import octavo` would take

    added = {point.name: point for point in entry_points(group=group)}
    if scheme not in added:
        known = ", ".join(sorted({*schemes, *added}))
        raise ConfigError(f"unknown {what} scheme {scheme!r}; known: {known}")
    loaded: Callable[[str], Any] = added[scheme].load()
    return loaded
