"""The memory store that a URL, or the name of somebody's own class, stands for."""

import importlib
import sys
from pathlib import Path

from octavo.errors import ConfigError
from octavo.events import BaseMemoryStore, EventStore


def open_named(named: str) -> BaseMemoryStore:
    """A store by URL, or by `module:name` of a subclass of BaseMemoryStore or of a function that makes one."""
    if "://" in named or ":" not in named:
        return EventStore(named)
    module_name, _, name = named.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does: the class is most likely in a file of this folder
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name.partition(".")[0] and error.name != module_name:
            raise ConfigError(
                f"{module_name} needs the module {error.name}, which is not installed"
            ) from error
        raise ConfigError(f"there is no module {module_name!r}, in this folder or installed") from error
    made = getattr(module, name, None)
    if made is None:
        raise ConfigError(f"the module {module_name!r} has no {name!r}")
    if not isinstance(made, BaseMemoryStore) and callable(made):
        made = made()
    if not isinstance(made, BaseMemoryStore):
        raise ConfigError(f"{named} is a {type(made).__name__}, not a BaseMemoryStore")
    return made
