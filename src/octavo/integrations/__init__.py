"""Octavo inside other people's frameworks. Each module needs its framework, and is imported only by those who have it."""

from collections.abc import Iterator
from contextlib import contextmanager

from octavo.errors import ConfigError


@contextmanager
def require_package(module: str, framework: str, package: str) -> Iterator[None]:
    """Around the imports that a module of this package cannot do without: ConfigError says what to install for them."""
    try:
        yield
    except ImportError as error:
        raise ConfigError(f"{module} needs {framework} ({error}): pip install {package}") from error
