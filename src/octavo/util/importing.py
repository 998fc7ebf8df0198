"""Names of a package that are imported when they are first asked for: whoever needs one does not pay for all."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def names_on_use(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: module → the names that are its own, between spaces."""
    home = {name: module for module, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
