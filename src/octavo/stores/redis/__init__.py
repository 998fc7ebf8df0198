"""Records in Redis: `redis://`, `rediss://`, `unix://` and `redis+sentinel://`. Needs the package `redis`, which is imported on use."""

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from octavo.errors import ConfigError

if TYPE_CHECKING:
    from octavo.stores.redis.store import RedisStore

__all__ = ["RedisStore", "open_redis"]

_CONNECT_SECONDS = 5
_ANSWER_SECONDS = 30  # a batch of 40,000 records on a busy machine takes a few
_THEIRS = "socket_timeout, socket_connect_timeout, max_connections, client_name, health_check_interval, ssl_ca_certs, …"


def open_redis(url: str) -> "RedisStore":
    """Open `redis://[[user]:password@]host[:port][/db][?prefix=octavo&ttl=seconds&…]`, `rediss://…` or `unix://path`.

    `redis+sentinel://host:port,host:port/service[/db]` (or `rediss+sentinel`) is the primary that these Sentinels know.
    Any other option is one of redis-py's connection, such as `ssl_ca_certs=/path`.
    """
    store = _store()
    import redis.asyncio

    watched, scheme = None, urlsplit(url).scheme
    if scheme.endswith("+cluster"):
        from octavo.stores.redis.connection import CLUSTERED

        raise ConfigError(CLUSTERED)
    if scheme.endswith("+sentinel"):
        from octavo.stores.redis.connection import Watched

        url, watched = Watched.read(url)
    bare, prefix, ttl, timeout = _options(url)
    defaults = {
        "socket_connect_timeout": min(_CONNECT_SECONDS, timeout),
        "socket_timeout": timeout,
        "protocol": 2,  # what every server speaks
    }
    try:
        pool = redis.asyncio.ConnectionPool.from_url(bare, **defaults)
        pool.make_connection()  # type: ignore[no-untyped-call] # connects to nothing yet, but refuses an option it does not know
    except (TypeError, ValueError, redis.RedisError) as error:
        raise refuse_options(error, "prefix, ttl, timeout") from error
    if watched is not None:
        pool = watched.pool(pool)
    return store(pool, prefix=prefix, ttl=ttl, owned=True)


def refuse_options(error: Exception, ours: str = "") -> ConfigError:
    """What redis-py has against a URL; an option that it does not know comes as a TypeError when it connects."""
    if isinstance(error, TypeError) and (unknown := re.search(r"argument '(\w+)'", str(error))):
        known = f"{ours}{', ' if ours else ''}and redis-py's: {_THEIRS}"
        return ConfigError(f"unknown option {unknown[1]} in the redis URL; known: {known}")
    return ConfigError(f"not the URL of a Redis server, as in redis://localhost:6379/0: {error}")


def _options(url: str) -> tuple[str, str, int | None, float]:
    """The URL as redis-py takes it, and what of it is ours."""
    parts = urlsplit(url)
    scheme = parts.scheme.partition("+")[0]
    ours = {"prefix": "octavo", "ttl": "", "timeout": str(_ANSWER_SECONDS)}
    theirs = []
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name in ours:
            ours[name] = value
        else:
            theirs.append((name, value))
    if ours["ttl"] and not (ours["ttl"].isascii() and ours["ttl"].isdigit() and int(ours["ttl"])):
        raise ConfigError(f"ttl={ours['ttl']} in a Redis URL: a number of seconds from 1 on is needed")
    try:
        timeout = float(ours["timeout"])
    except ValueError:
        raise ConfigError(
            f"timeout={ours['timeout']} in a Redis URL: a number of seconds is needed"
        ) from None
    database = parts.path.strip("/")
    if scheme != "unix" and database and not (database.isascii() and database.isdigit()):
        raise ConfigError(f"a Redis database is a number, as in redis://localhost/0; got {database!r}")
    bare = urlunsplit((scheme, parts.netloc, parts.path, urlencode(theirs), ""))
    if scheme == "unix" and not bare.startswith("unix://"):  # what urlunsplit makes of an empty host
        bare = "unix://" + bare.removeprefix("unix:")
    return bare, ours["prefix"], int(ours["ttl"]) if ours["ttl"] else None, timeout


def _store() -> type["RedisStore"]:
    try:
        import redis.asyncio  # noqa: F401
    except ImportError as error:
        raise ConfigError("a Redis store needs the package redis: pip install 'octavo[redis]'") from error
    from octavo.stores.redis.store import RedisStore

    return RedisStore


def __getattr__(name: str) -> Any:
    if name == "RedisStore":
        return _store()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
