"""The documented stores: each turns its config into a URL, and is `EventStore` for everything else."""

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, ClassVar, Literal
from urllib.parse import quote, urlencode

import msgspec

from octavo.errors import ConfigError
from octavo.events.store import EventStore


class Keys(msgspec.Struct, kw_only=True):
    """The keys every config may have."""

    retention: Any = None  # timedelta(days=7) or "7d": what is older is cleared

    def url(self) -> str:
        raise NotImplementedError


class MemoryKeys(Keys):
    def url(self) -> str:
        return "memory://"


class FileKeys(Keys):
    base_path: str = "agent_memory"
    format: Literal["jsonl", "json"] = "jsonl"
    file_per_session: bool = True
    rotate_size: int = 10 * 1024 * 1024

    def url(self) -> str:
        options = {
            "format": self.format,
            "per_session": str(self.file_per_session).lower(),
            "rotate_bytes": self.rotate_size,
        }
        return f"file://{quote(self.base_path)}?{urlencode(options)}"


class SQLiteKeys(Keys):
    db_path: str = "agent_memory.db"
    wal_mode: bool = True

    def url(self) -> str:
        if not self.wal_mode:
            raise ConfigError("wal_mode=False is not offered: a database is always in WAL mode; leave it out")
        return f"sqlite:///{quote(self.db_path, safe='/:')}"


class ServerKeys(Keys):
    host: str = "localhost"
    port: int = 0
    user: str = ""
    password: str = ""

    @property
    def address(self) -> str:
        who = quote(self.user, safe="") + (f":{quote(self.password, safe='')}" if self.password else "")
        host = f"[{self.host}]" if ":" in self.host else quote(self.host, safe="")
        return f"{who}{'@' * bool(who)}{host}:{self.port}"


class MySQLKeys(ServerKeys):
    port: int = 3306
    user: str = "root"
    database: str = "agent_memory"

    def url(self) -> str:
        return f"mysql://{self.address}/{quote(self.database, safe='')}"


class PostgreSQLKeys(ServerKeys):
    port: int = 5432
    user: str = "postgres"
    database: str = "agent_memory"

    def url(self) -> str:
        return f"postgresql://{self.address}/{quote(self.database, safe='')}"


class RedisKeys(ServerKeys):
    port: int = 6379
    db: int = 0
    prefix: str = "octavo"
    ttl: int | None = None  # seconds

    def url(self) -> str:
        options = {"prefix": self.prefix} | ({} if self.ttl is None else {"ttl": str(self.ttl)})
        return f"redis://{self.address}/{self.db}?{urlencode(options)}"


class NamedStore(EventStore):
    """A documented store, made from its config."""

    keys: ClassVar[type[Keys]]

    def __init__(
        self, config: Mapping[str, Any] | None = None, *, retention: timedelta | str | None = None
    ) -> None:
        asked = _read_config(type(self).__name__, self.keys, config)
        super().__init__(
            asked.url(), retention=asked.retention if retention is None else retention, config=config
        )


class InMemoryMemoryStore(NamedStore):
    """Events in this process's memory: for tests, and what need not outlive the process."""

    keys = MemoryKeys


class FileMemoryStore(NamedStore):
    """Events as JSON that people, grep and jq can read: for logs and audits."""

    keys = FileKeys


class SQLiteMemoryStore(NamedStore):
    """Events in one SQLite file: for everything on one machine."""

    keys = SQLiteKeys


class MySQLMemoryStore(NamedStore):
    """Events in a MySQL or MariaDB database. Needs `octavo[mysql]`."""

    keys = MySQLKeys


class PostgreSQLMemoryStore(NamedStore):
    """Events in a PostgreSQL database. Needs `octavo[postgres]`."""

    keys = PostgreSQLKeys


class RedisMemoryStore(NamedStore):
    """Events in Redis. Needs `octavo[redis]`."""

    keys = RedisKeys


def _read_config(owner: str, keys: type[Keys], config: Mapping[str, Any] | None) -> Keys:
    """The config with its defaults; a key nobody knows, or a value of the wrong type, is refused by name."""
    known = keys.__struct_fields__
    given = {
        key: os.fspath(value) if isinstance(value, os.PathLike) else value
        for key, value in dict(config or {}).items()
    }
    if unknown := [key for key in given if key not in known]:
        raise ConfigError(f"unknown key {unknown[0]!r} in the config of {owner}; known: {', '.join(known)}")
    try:
        return msgspec.convert(given, keys)
    except msgspec.ValidationError as error:
        # The value is not shown: it may be a password.
        raise ConfigError(f"the config of {owner} is wrong: {error}") from None
