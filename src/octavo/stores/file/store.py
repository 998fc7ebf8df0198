"""The file store: plain JSON lines that people, grep and jq can read, kept in step by many processes."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from octavo.errors import ConfigError
from octavo.kernel.codec import Prepared
from octavo.kernel.model import Head, Query, Record, Tally
from octavo.kernel.ports import Finding, Lexicon
from octavo.kernel.terms.matches import Matches
from octavo.stores.base import Progress, SearchingStore
from octavo.stores.file.book import Book, Layout
from octavo.stores.file.desk import Desk
from octavo.util.file_modes import access

if TYPE_CHECKING:
    from octavo.stores.term_index import Steps

_OPTIONS = ("format", "per_session", "rotate_bytes", "sync")


class FileStore(SearchingStore):
    """Records as lines of JSON in a directory, one file per session.

    An acknowledgement means that the record survives `kill -9` (`sync="flush"`) or a power cut (`sync="fsync"`). All
    records are also held in memory, which is what answers questions: a directory is read once, when it is opened, and
    then followed. The index of terms lives there too and is made when something is first searched for. What a person edits while it is open is noticed when the store next writes to that file.
    `format="json"` rewrites the session's file with every write, so that it always loads whole: for small files.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        format: str = "jsonl",  # noqa: A002 - the documented name
        per_session: bool = True,
        rotate_bytes: int = 10 * 1024 * 1024,
        sync: str = "flush",
    ) -> None:
        super().__init__()
        _one_of("format", format, ("jsonl", "json"))
        _one_of("sync", sync, ("flush", "fsync"))
        if rotate_bytes < 1:
            raise ConfigError(f"rotate_bytes must be 1 or more; got {rotate_bytes}")
        self._path = Path(path).absolute()
        self._layout = Layout(format=format, per_session=per_session, rotate_bytes=rotate_bytes, sync=sync)
        self._book = Book(self._path, self._layout)
        self._desk = Desk(self._book)
        self._read = False

    @property
    def path(self) -> Path:
        """The directory, as an absolute path."""
        return self._path

    async def tenants(self) -> list[str]:
        """Every tenant that has a record, sorted."""
        await self._ready()
        return await self._desk.ask(self._book.records.tenants)

    async def size_bytes(self) -> int:
        """How many bytes the data files take, archives included."""
        await self._ready()
        return (await self._desk.ask(self._book.facts))["bytes"]

    async def describe(self) -> list[Finding]:
        """What this store is and holds, and what deserves attention."""
        await self._ready()
        facts = await self._desk.ask(self._book.facts)
        durability = {"flush": "survives kill -9", "fsync": "survives power loss"}[self._layout.sync]
        damaged = "unreadable lines were set aside; look into .octavo/damaged" if facts["damaged"] else ""
        return [
            Finding("store", "file"),
            Finding("path", str(self._path)),
            Finding("format", self._layout.format),
            Finding("files", str(facts["files"])),
            Finding("records", str(facts["records"])),
            Finding("bytes", str(facts["bytes"])),
            Finding("durability", f"{self._layout.sync}: {durability}"),
            Finding("damaged lines", str(facts["damaged"]), damaged),
            Finding("access", *access(self._path)),
        ]

    async def _open(self) -> None:
        self._opened = True  # also when this fails or is cancelled half-way: there is a thread to end
        if not self._read:  # in the next event loop everything is still there
            await self._desk.open()
            self._read = True

    async def _leave(self) -> None:
        """Nothing: the thread works for any event loop, one after the other."""

    async def _close(self) -> None:
        await self._desk.close()

    async def _apply(self, ops: list[Prepared]) -> list[int]:
        return await self._desk.write(ops)

    async def _find(self, query: Query) -> list[Record]:
        return await self._desk.ask(lambda: self._book.records.find(query))

    async def _heads(self, query: Query) -> list[Head]:
        return await self._desk.ask(lambda: self._book.records.heads(query))

    async def _tally(self, query: Query) -> Tally:
        return await self._desk.ask(lambda: self._book.records.tally(query))

    async def _search(self, query: Query, terms: tuple[str, ...]) -> Matches:
        matches: Matches = await self._in_steps(self._book.records.searched(query, terms))
        return matches

    async def _reindex(self, collection: str, progress: Progress) -> int:
        total: int = await self._in_steps(self._book.records.reindexed(collection), progress)
        progress(total, total)
        return total

    async def _verify(self, collection: str, progress: Progress) -> Lexicon:
        lexicon: Lexicon = await self._in_steps(self._book.records.verified(collection), progress)
        progress(lexicon.records, lexicon.records)
        return lexicon

    async def _in_steps(self, steps: "Steps[Any]", progress: Progress | None = None) -> Any:
        """Do a long work and let other callers' work, and what other processes wrote, in between its steps."""
        from octavo.stores.lexicon import advance

        while (step := await self._desk.ask(lambda: advance(steps))).done is not None:
            if progress is not None:
                progress(*step.done)
        return step.result


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
    _one_of("per_session", per_session, ("true", "false"))
    rotate_bytes = given.get("rotate_bytes", str(Layout().rotate_bytes))
    if not (rotate_bytes.isascii() and rotate_bytes.isdigit()):
        raise ConfigError(f"rotate_bytes must be a number of bytes; got {rotate_bytes!r}")
    return FileStore(
        path,
        format=given.get("format", "jsonl"),
        per_session=per_session == "true",
        rotate_bytes=int(rotate_bytes),
        sync=given.get("sync", "flush"),
    )


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigError(f"{name} must be one of {', '.join(known)}; got {value!r}")
