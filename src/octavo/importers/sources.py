"""Where memory comes from: files, folders and zips with the items of JSON in them, and databases with their rows.

Items and rows are read one at a time: a file of gigabytes takes no more memory than its largest item.
"""

import codecs
import gzip
import importlib
import json
import sqlite3
import zipfile
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Protocol, cast

import msgspec

from octavo.config import local_path
from octavo.errors import ConfigError, StoreUnavailable
from octavo.importers import FORMATS
from octavo.importers.values import DefaultOwner, Items, Unreadable
from octavo.stores.sql.urls import parse
from octavo.util.secrets import mask_url
from octavo.util.system import missing_packages, store_extra

Row = dict[str, Any]
_SERVERS = ("postgresql", "postgres", "mysql", "mariadb")
_CHUNK = 1 << 20
_MOST_ITEM = 1 << 28  # characters: what is longer is no conversation
_ROWS = 500  # read at once
_NAMES = "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = "
_BETWEEN = " \t\r\n,"
_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile)


class ImportSource(msgspec.Struct, frozen=True):
    """Where memory comes from: a file or folder, or the URL of a database server."""

    path: Path | None = None
    url: str | None = None

    @classmethod
    def parse(cls, given: str, format_: str) -> "ImportSource":
        """What was named; ConfigError when it is not there, or cannot be what the format is read from."""
        if format_ not in FORMATS:
            raise ConfigError(f"unknown format {format_!r}; known: {', '.join(FORMATS)}")
        scheme = given.partition("://")[0].partition("+")[0].lower() if "://" in given else ""
        if scheme in ("http", "https", "ftp"):
            raise ConfigError("nothing is fetched from the network: download the file, and import that")
        if scheme in _SERVERS:
            if not FORMATS[format_][1]:
                raise ConfigError(f"{format_} is read from a file or a folder; got {mask_url(given)}")
            return cls(url=given)
        named = (local_path(given) if scheme else given) or ""
        if scheme and not named:
            raise ConfigError(f"a source is a file, a folder or the URL of a database; got {mask_url(given)}")
        path = Path(named).expanduser()
        if not path.exists():
            raise ConfigError(f"there is no file or folder {path}")
        return cls(path=path)

    @property
    def file(self) -> Path:
        """The file or folder, for what is never a server."""
        if self.path is None:
            raise ConfigError(f"this is read from a file or a folder; got {mask_url(self.url or '')}")
        return self.path

    @property
    def is_database(self) -> bool:
        """Whether it is a server, or a file with an SQLite database in it."""
        if self.path is None or not self.path.is_file():
            return self.path is None
        with self.path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"

    def files(self, *patterns: str) -> "list[SourceFile]":
        """The files it consists of: itself, or those of a folder or a zip with such names; ConfigError when there is none."""
        path = self.file
        if path.is_dir():
            found = sorted({each for pattern in patterns for each in path.rglob(pattern) if each.is_file()})
            files = [SourceFile(each, each.relative_to(path).as_posix()) for each in found]
            # What an editor keeps for itself is nobody's memory, nor are the notes in its bin.
            files = [file for file in files if "/." not in f"/{file.shown}"]
        elif path.suffix == ".zip":
            try:
                with zipfile.ZipFile(path) as archive:
                    names = [n for n in archive.namelist() if any(map(Path(n).match, patterns))]
            except zipfile.BadZipFile as error:
                raise ConfigError(f"{path} is no whole zip; get it once more ({error})") from error
            files = [SourceFile(path, f"{path.name}/{name}", name) for name in sorted(names)]
        else:
            files = [SourceFile(path, path.name)]
        if not files:
            raise ConfigError(f"{path} holds no {' or '.join(patterns)}")
        return files


class SourceFile(msgspec.Struct, frozen=True):
    """One file of a source, with the name to show; `inside` is what it is called in a zip."""

    path: Path
    shown: str
    inside: str | None = None

    @property
    def stem(self) -> str:
        """Its name without what says how it is written: the session, where each file is one."""
        return PurePosixPath(self.shown.removesuffix(".gz")).stem

    @property
    def modified(self) -> datetime:
        """When it was written."""
        return datetime.fromtimestamp(self.path.stat().st_mtime, UTC)

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The file, uncompressed."""
        if self.inside is not None:
            with zipfile.ZipFile(self.path) as archive, archive.open(self.inside) as file:
                yield cast("BinaryIO", file)
        else:
            with (gzip.open if self.path.suffix == ".gz" else open)(self.path, "rb") as file:
                yield cast("BinaryIO", file)

    def items(self, *, lines: bool = False) -> Iterator[tuple[str, Any]]:
        """The items of a JSON array, or of JSON lines, each with its position; what is no JSON is Unreadable."""
        try:
            with self.open() as file:
                yield from (_read_lines if lines else _read_array)(file, self.shown)
        except _DAMAGED as error:
            wrong = Unreadable(self.shown, f"it is damaged or cut short: {error}; nothing after it is read")
            yield self.shown, wrong


class FormatReader(Protocol):
    """Reads one format from its beginning to its end."""

    def __call__(self, source: ImportSource, owner: DefaultOwner) -> Items: ...


def open_reader(format_: str) -> FormatReader:
    """The reader of a format."""
    module, _, name = FORMATS[format_][0].partition(":")
    reader: FormatReader = getattr(importlib.import_module(f"octavo.importers.{module}"), name)
    return reader


def _read_array(file: BinaryIO, name: str) -> Iterator[tuple[str, Any]]:
    """The items of an array; of anything else, itself as the only one. Bad JSON ends it."""
    decode, utf8 = json.JSONDecoder().raw_decode, codecs.getincrementaldecoder("utf-8-sig")()
    text, at, number, ended = "", 0, 0, False
    array: bool | None = None
    while True:
        while at < len(text) and text[at] in _BETWEEN:
            at += 1
        if array is None and at < len(text):
            array = text[at] == "["
            at += array
            continue
        if array and text.startswith("]", at):
            return
        try:
            item, at = decode(text, at)
        except (json.JSONDecodeError, RecursionError) as error:
            wrong = "it is nested too deeply" if isinstance(error, RecursionError) else f"no JSON: {error}"
        else:
            number += 1
            yield f"{name}, item {number}", item
            if array:
                continue
            return
        if ended or len(text) - at > _MOST_ITEM:
            if at == len(text):
                wrong = "the file ends in the middle" if array else "the file is empty"
            break
        # It may only be cut off by the end of what was read. Twice as much is read each time: an item that spans many
        # reads is not parsed from its beginning for each of them.
        more = file.read(max(_CHUNK, len(text) - at))
        try:
            text, at, ended = text[at:] + utf8.decode(more, final=not more), 0, not more
        except UnicodeDecodeError as error:
            wrong = f"no UTF-8: {error.reason}"
            break
    position = f"{name}, item {number + 1}"
    yield position, Unreadable(position, f"{wrong}; nothing after it is read")


def _read_lines(file: BinaryIO, name: str) -> Iterator[tuple[str, Any]]:
    """The values of JSON lines."""
    for number, line in enumerate(file, 1):
        content = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if content.strip():
            position = f"{name}, line {number}"
            try:
                yield position, msgspec.json.decode(content)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                yield position, Unreadable(position, str(error))


# --- tables of other people's databases, read row by row


class SourceTables:
    """A database that is only read: `run` gives the rows of a statement, a few at a time."""

    def __init__(self, run: Callable[[str], AsyncIterator[Row]], names_sql: str, quote: str = '"') -> None:
        self._run = run
        self._names_sql = names_sql
        self._quote = quote

    async def names(self) -> set[str]:
        """The tables there are."""
        return {row["name"] async for row in self._run(self._names_sql)}

    async def require(self, what: str, *wanted: str) -> None:
        """Refuse a database without one of these tables."""
        there = await self.names()
        if missing := [name for name in wanted if name not in there]:
            found = ", ".join(sorted(there)[:8]) or "none"
            raise ConfigError(
                f"this is no database of {what}: there is no table {missing[0]!r} (found: {found})"
            )

    def rows(self, table: str, *order: str) -> AsyncIterator[Row]:
        """The rows of a table by these columns; the names are ours, never a caller's."""
        table, *by = [f"{self._quote}{name}{self._quote}" for name in (table, *order)]
        return self._run(f"SELECT * FROM {table} ORDER BY {', '.join(by)}")


def decode_json(value: Any) -> Any:
    """The value of a JSON column, whose text some drivers give; None for nothing."""
    return msgspec.json.decode(value) if isinstance(value, str | bytes) and value else value or None


@asynccontextmanager
async def open_tables(source: ImportSource) -> AsyncIterator[SourceTables]:
    """The database in a file, or behind a URL."""
    if not source.is_database:
        raise ConfigError(f"{source.path} is no SQLite database")
    url = source.url or ""
    if missing := missing_packages(*store_extra(url)):
        raise ConfigError(f"reading {mask_url(url)} needs {missing}")
    if source.path is not None:
        opening = _open_sqlite(source.path)
    else:
        opening = _open_postgres(url) if url.startswith("postgres") else _open_mysql(url)
    async with opening as tables:
        yield tables


@asynccontextmanager
async def _open_sqlite(path: Path) -> AsyncIterator[SourceTables]:
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)  # noqa: ASYNC240 - it only names the file
    connection.row_factory = sqlite3.Row

    async def run(sql: str) -> AsyncIterator[Row]:
        for row in connection.execute(sql):
            yield dict(row)

    try:
        yield SourceTables(run, "SELECT name FROM sqlite_master WHERE type = 'table'")
    except sqlite3.DatabaseError as error:
        raise StoreUnavailable(f"{path} cannot be read: {error}") from error
    finally:
        connection.close()


@asynccontextmanager
async def _open_postgres(url: str) -> AsyncIterator[SourceTables]:
    import asyncpg

    scheme, _, rest = url.partition("://")
    try:
        connection = await asyncpg.connect(f"{scheme.partition('+')[0]}://{rest}")
    except (OSError, asyncpg.PostgresError) as error:
        raise StoreUnavailable(f"{mask_url(url)} cannot be reached: {error}") from error

    async def run(sql: str) -> AsyncIterator[Row]:
        async for row in connection.cursor(sql, prefetch=_ROWS):
            yield dict(row)

    try:
        async with connection.transaction(readonly=True):
            yield SourceTables(run, f"{_NAMES}ANY (current_schemas(false))")
    finally:
        await connection.close()


@asynccontextmanager
async def _open_mysql(url: str) -> AsyncIterator[SourceTables]:
    import asyncmy
    from asyncmy.cursors import SSDictCursor

    address = parse(url)
    login = {
        "host": address.host or "localhost",
        "port": address.port or 3306,
        "user": address.user or "root",
        "password": address.password.encode(),
        "database": address.path.strip("/"),
        "charset": "utf8mb4",
        "unix_socket": address.option("unix_socket", None),
    }
    try:
        connection = await asyncmy.connect(**login)
    except (OSError, asyncmy.errors.Error) as error:
        raise StoreUnavailable(f"{mask_url(url)} cannot be reached: {error}") from error

    async def run(sql: str) -> AsyncIterator[Row]:
        async with connection.cursor(SSDictCursor) as cursor:
            await cursor.execute(sql)
            while page := await cursor.fetchmany(_ROWS):
                for row in page:
                    yield row

    try:
        yield SourceTables(run, f"{_NAMES}DATABASE()", quote="`")
    finally:
        await connection.ensure_closed()
