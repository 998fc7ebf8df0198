"""Database URLs, in Octavo's own spelling and in SQLAlchemy's."""

import re
from collections.abc import Callable, Container
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from octavo.errors import ConfigError

_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,30}")


class DatabaseUrl(msgspec.Struct):
    """A URL taken apart; options are popped as they are understood, so that what is left is unknown."""

    scheme: str
    hosts: tuple[tuple[str, int | None], ...]  # each with its port; one, unless the URL names a cluster
    user: str
    password: str
    path: str
    options: dict[str, str]

    @property
    def host(self) -> str:
        return self._only()[0]

    @property
    def port(self) -> int | None:
        return self._only()[1]

    def _only(self) -> tuple[str, int | None]:
        if len(self.hosts) > 1:
            raise ConfigError(f"the {self.scheme} URL names {len(self.hosts)} hosts; here it takes one")
        return self.hosts[0]

    def option(self, name: str, default: Any, read: Callable[[str], Any] = str) -> Any:
        """One option from the URL's query, read or refused with its name and value."""
        raw = self.options.pop(name, None)
        if raw is None:
            return default
        try:
            return read(raw)
        except ValueError as error:
            raise ConfigError(f"bad value {raw!r} for {name} in the {self.scheme} URL: {error}") from None

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        value: str = self.option(name, default)
        if value not in allowed:
            raise ConfigError(
                f"bad value {value!r} for {name} in the {self.scheme} URL; choose from {', '.join(allowed)}"
            )
        return value

    def prefix(self) -> str:
        """The table prefix."""
        return check_prefix(self.option("prefix", ""))

    def refuse_unknown(self, known: str, passed_on: Container[str] = ()) -> None:
        """Refuse options nobody asked for: a misspelt one must not be ignored."""
        if unknown := [name for name in self.options if name not in passed_on]:
            raise ConfigError(f"unknown option {', '.join(unknown)} in the {self.scheme} URL; known: {known}")


def check_prefix(prefix: str) -> str:
    """What stands before the names of tables, which must be a plain identifier since it becomes part of them."""
    if prefix and not _PREFIX.fullmatch(prefix):
        raise ConfigError(f"bad prefix {prefix!r}: letters, digits and _ only, 31 at most")
    return prefix


def parse(url: str) -> DatabaseUrl:
    """Take a URL apart, or say what is wrong with it without showing its password."""
    try:
        url.encode()  # what is half a surrogate pair, no driver can send
        if "#" in url:  # what follows it would be left out, be it half of a file's name or of a password
            raise ValueError("a # in it is written %23")
        parts = urlsplit(url)
        login, _, where = parts.netloc.rpartition("@")
        each = [where] if parts.scheme == "file" else where.split(",")
        hosts = tuple(
            (unquote(one.hostname or ""), one.port) for one in [urlsplit(f"//{name}") for name in each]
        )
    except ValueError as error:
        raise ConfigError(f"not a usable database URL: {error}") from None
    if len(hosts) > 1 and not all(host for host, _ in hosts):
        raise ConfigError(f"a host is missing between the commas of the {parts.scheme} URL")
    user, _, password = login.partition(":")
    return DatabaseUrl(
        scheme=parts.scheme.partition("+")[0],
        hosts=hosts,
        user=unquote(user),
        password=unquote(password),
        path=unquote(parts.path),
        options=dict(parse_qsl(parts.query, keep_blank_values=True)),
    )


def parse_sqlite(url: str) -> tuple[str, str, float, str]:
    """The path, durability, timeout and prefix that a SQLite URL names, whatever is opened in that file."""
    address = parse(url)
    if address.host:
        raise ConfigError(
            f"sqlite URLs take three slashes before a path: sqlite:///{address.host}{address.path}"
        )
    path = address.path.removeprefix("/")
    if not path:  # SQLite would keep everything in memory, or in a file that goes with the connection
        raise ConfigError(
            f"the {address.scheme} URL names no file; sqlite:///:memory: keeps everything in memory, "
            "sqlite:///octavo.db in a file"
        )
    durability = address.choice("durability", "full", ("full", "fast"))
    timeout = address.option("timeout", 60.0, float)
    prefix = address.prefix()
    address.options.pop("check_same_thread", None)  # SQLAlchemy URLs carry it; it means nothing here
    address.refuse_unknown("durability, timeout, prefix")
    return path, durability, timeout, prefix
