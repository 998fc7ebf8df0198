"""Where memory comes from, and what reads it."""

import importlib
from pathlib import Path
from typing import Protocol

import msgspec

from octavo.config import local_path
from octavo.errors import ConfigError
from octavo.importers.formats import FORMATS
from octavo.importers.values import Items, Owner
from octavo.util.secrets import shown

_SERVERS = ("postgresql", "postgres", "mysql", "mariadb")


class Source(msgspec.Struct, frozen=True):
    """Where memory comes from: a file or folder, or the URL of a database server."""

    path: Path | None = None
    url: str | None = None

    @classmethod
    def parse(cls, given: str, format_: str) -> "Source":
        """What was named; ConfigError when it is not there, or cannot be what the format is read from."""
        if format_ not in FORMATS:
            raise ConfigError(f"unknown format {format_!r}; known: {', '.join(FORMATS)}")
        scheme = given.partition("://")[0].partition("+")[0].lower() if "://" in given else ""
        if scheme in ("http", "https", "ftp"):
            raise ConfigError("nothing is fetched from the network: download the file, and import that")
        if scheme in _SERVERS:
            if not FORMATS[format_][1]:
                raise ConfigError(f"{format_} is read from a file or a folder; got {shown(given)}")
            return cls(url=given)
        named = (local_path(given) if scheme else given) or ""
        if scheme and not named:
            raise ConfigError(f"a source is a file, a folder or the URL of a database; got {shown(given)}")
        path = Path(named).expanduser()
        if not path.exists():
            raise ConfigError(f"there is no {path}")
        return cls(path=path)

    @property
    def file(self) -> Path:
        """The file or folder, for what is never a server."""
        if self.path is None:
            raise ConfigError(f"this is read from a file or a folder; got {shown(self.url or '')}")
        return self.path


class Reader(Protocol):
    """Reads one format from its beginning to its end."""

    def __call__(self, source: Source, owner: Owner) -> Items: ...


def open_reader(format_: str) -> Reader:
    """The reader of a format."""
    module, _, name = FORMATS[format_][0].partition(":")
    reader: Reader = getattr(importlib.import_module(f"octavo.importers.{module}"), name)
    return reader
