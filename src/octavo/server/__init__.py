"""The REST server: layered memory, events and turns over HTTP. It needs the extra `server`, and says so when that is missing."""

import importlib.util
from typing import TYPE_CHECKING

from octavo.errors import ConfigError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from octavo.assemble import Assembled
    from octavo.config import Settings

__all__ = ["create_app"]


def create_app(
    settings: "Settings", *, assembled: "Assembled | None" = None, sample: bool = False
) -> "FastAPI":
    """An ASGI application over the store of these settings; a memory that is handed in stays its owner's to close.

    With `sample` it begins with one user to look at, if there is none of that name.
    """
    check_packages()
    from octavo.server.app import create

    return create(settings, assembled=assembled, sample=sample)


def check_packages() -> None:
    """Refuse to go on without the packages of the server."""
    for package in ("fastapi", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            raise ConfigError(f"the server needs {package}: pip install 'octavo[server]'")
