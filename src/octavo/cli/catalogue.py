"""The stores a URL can name."""

import importlib.util
from importlib.metadata import entry_points
from typing import Any

from octavo.stores import SCHEMES

#: scheme → an example, the extra it needs and the module that extra brings.
_EXAMPLES = {
    "file": ("file:///path/to/folder", "", ""),
    "memory": ("memory://", "", ""),
    "mysql": ("mysql://user:password@host/database", "mysql", "asyncmy"),
    "postgresql": ("postgresql://user:password@host/database", "postgres", "asyncpg"),
    "redis": ("redis://host:6379/0", "redis", "redis"),
    "sqlite": ("sqlite:///octavo.db", "", ""),
}


def stores() -> list[dict[str, Any]]:
    """Every store, with an example of its URL and whether what it needs is installed."""
    listed = []
    for scheme, (example, extra, module) in _EXAMPLES.items():
        names = [name for name, opener in SCHEMES.items() if opener == SCHEMES[scheme]]
        ready = not module or importlib.util.find_spec(module) is not None
        listed.append({"schemes": names, "example": example, "extra": extra, "ready": ready})
    added = [point.name for point in entry_points(group="octavo.stores") if point.name not in SCHEMES]
    return listed + [
        {"schemes": [name], "example": f"{name}://…", "extra": "", "ready": True} for name in added
    ]
