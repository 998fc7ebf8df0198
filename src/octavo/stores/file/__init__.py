"""Records as files that people can read: `file:///path/to/dir`."""

from urllib.parse import parse_qsl, unquote

from octavo.errors import ConfigError
from octavo.stores.file.files import ROTATE_BYTES
from octavo.stores.file.store import FileStore, check_option

__all__ = ["FileStore", "open_file"]

_OPTIONS = ("format", "per_session", "rotate_bytes", "sync")


def open_file(url: str) -> FileStore:
    """Open `file:///absolute/dir` or `file://relative/dir`, with options such as `?format=json&sync=fsync`."""
    spelled, _, options = url.partition("://")[2].partition("?")
    path = unquote(spelled)
    if not path or "\0" in path:
        raise ConfigError(f"{url!r} names no directory; try file:///path/to/dir or file://./dir")
    given = dict(parse_qsl(options, keep_blank_values=True))
    if unknown := [name for name in given if name not in _OPTIONS]:
        raise ConfigError(
            f"unknown option {', '.join(unknown)} in the file URL; known: {', '.join(_OPTIONS)}"
        )
    per_session = given.get("per_session", "true").lower()
    check_option("per_session", per_session, ("true", "false"))
    rotate_bytes = given.get("rotate_bytes", str(ROTATE_BYTES))
    if not (rotate_bytes.isascii() and rotate_bytes.isdigit()):
        raise ConfigError(f"rotate_bytes must be a number of bytes; got {rotate_bytes!r}")
    return FileStore(
        path,
        format=given.get("format", "jsonl"),
        per_session=per_session == "true",
        rotate_bytes=int(rotate_bytes),
        sync=given.get("sync", "flush"),
    )
