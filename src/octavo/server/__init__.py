"""The REST server: layered memory, events and turns over HTTP. It needs the extra `server`, and says so when that is missing."""

from pathlib import Path
from typing import TYPE_CHECKING

from octavo.errors import ConfigError
from octavo.util.system import missing_packages

if TYPE_CHECKING:
    from fastapi import FastAPI

    from octavo.assemble import Assembled
    from octavo.config import Settings

__all__ = ["create_app"]


def create_app(
    settings: "Settings",
    *,
    assembled: "Assembled | None" = None,
    sample: bool = False,
    metrics_folder: "Path | None" = None,
) -> "FastAPI":
    """An ASGI application over the store of these settings; a memory that is handed in stays its owner's to close.

    With `sample` it begins with one user to look at, if there is none of that name. Processes that share a
    `metrics_folder` answer /metrics for all of them; without one, each answers for itself.
    """
    if needed := missing_packages("server"):
        raise ConfigError(f"the server needs {needed}")
    from octavo.server.app import create

    return create(settings, assembled=assembled, sample=sample, metrics_folder=metrics_folder)
