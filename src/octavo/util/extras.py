"""The packages that each extra brings, and one sentence about what is missing."""

import importlib
import importlib.util
from types import MappingProxyType
from typing import Any

from octavo.errors import ConfigError

#: extra → its packages, as Python imports them.
PACKAGES = MappingProxyType({
    "cli": ("click",),
    "mcp": ("click", "mcp"),
    "server": ("click", "fastapi", "uvicorn", "yaml", "jinja2", "prometheus_client"),
    "postgres": ("asyncpg",),
    "mysql": ("asyncmy",),
    "redis": ("redis",),
    "otel": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
})  # fmt: skip
_STORES = {
    **dict.fromkeys(("postgresql", "postgres"), "postgres"),
    **dict.fromkeys(("mysql", "mariadb"), "mysql"),
    **dict.fromkeys(("redis", "rediss", "unix"), "redis"),
}


def store_extra(url: str) -> tuple[str, ...]:
    """The extra that the store of a URL needs, if any: `()` or one."""
    scheme = url.partition("://")[0].partition("+")[0].lower()
    return (_STORES[scheme],) if "://" in url and scheme in _STORES else ()


def missing_packages(*extras: str) -> str:
    """What has to be installed for all of these: `click and fastapi: pip install 'octavo[server]'`, or nothing."""
    lacking = {extra: [name for name in PACKAGES[extra] if _is_missing(name)] for extra in extras}
    names = [*dict.fromkeys(name for packages in lacking.values() for name in packages)]
    if not names:
        return ""
    wanted = ",".join(extra for extra, packages in lacking.items() if packages)
    listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    return f"{listed}: pip install 'octavo[{wanted}]'"


def import_extra(package: str, extra: str, who: str = "this model") -> Any:
    """A package that may be missing, imported; without it, ConfigError says who needs it and what brings it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise _needs(who, package, extra) from error


def require_extra(package: str, extra: str, who: str = "this model") -> None:
    """Fail at once where the package is missing, without paying for its import."""
    if _is_missing(package):
        raise _needs(who, package, extra)


def _needs(who: str, package: str, extra: str) -> ConfigError:
    return ConfigError(f"{who} needs the package {package}: pip install 'octavo[{extra}]'")


def _is_missing(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is None
    except (ModuleNotFoundError, ValueError):  # not even what it is a part of; or None in sys.modules
        return True
