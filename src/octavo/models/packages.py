"""Packages that not everybody has: models are opened without them loaded, and missing ones are told with the cure."""

import importlib
import importlib.util
from typing import Any

from octavo.errors import ConfigError


def import_package(package: str, extra: str) -> Any:
    """An optional package, imported; where it is missing, the cure."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise _missing(package, extra) from error


def require_package(package: str, extra: str) -> None:
    """Fail at once when an optional package is not installed, without paying for its import."""
    try:
        found = importlib.util.find_spec(package)
    except ValueError:  # somebody put None in sys.modules, which makes the import fail
        found = None
    if found is None:
        raise _missing(package, extra)


def _missing(package: str, extra: str) -> ConfigError:
    return ConfigError(f"this model needs the package {package}: pip install 'octavo[{extra}]'")
