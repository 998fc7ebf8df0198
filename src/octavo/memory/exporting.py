"""Everything of one person, as the lines that `octavo import` reads and as a page to read; page by page, whatever there is."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from io import FileIO
from pathlib import Path

import msgspec

from octavo.erasing.subject import TALK, own_sessions
from octavo.errors import ConfigError
from octavo.kernel.codec import encode_record
from octavo.kernel.model import Query, Record, Scope
from octavo.kernel.pages import walk
from octavo.kernel.ports import Store
from octavo.kernel.shapes import SHAPES
from octavo.kernel.text import content
from octavo.transfer.copying import PAGE_BYTES, CopiedRecords, Moved, Progress, refuse_own_file
from octavo.transfer.files import FORMAT, End, Header, export
from octavo.util.disk import open_file

#: What is made anew from the rest, or belongs to nobody who could ask for it. Digests of what was rejected say nothing elsewhere.
_LEFT_OUT = ("vectors", "pending", "keys", "owners")
EXPORTED = tuple(name for name in SHAPES if name not in _LEFT_OUT)
_PAGE = 1000
_PIECE = 2**16  # characters
_TITLES = {
    "profile": "Who you are", "episodes": "What happened", "log": "What was changed, and why",
    "messages": "What was said", "summaries": "Summaries of conversations", "entities": "People and things",
    "exchanges": "Exchanges", "observations": "What was observed", "turns": "What the agent did",
    "events": "Events of agents", "configs": "Documents", "knowledge": "Knowledge", "versions": "Earlier documents",
}  # fmt: skip
_SPACE = re.compile(r"\s+")
_SIGNS = re.compile(r"([\\`*_\[\]<>#|~])")


class PersonReach(CopiedRecords, frozen=True):
    """All records of a user, and those of nobody in sessions where he is the only user."""

    sessions: Sequence[str] = ()

    @classmethod
    async def of_user(cls, store: Store, user: str, tenant: str = "") -> "PersonReach":
        """What is kept of that user."""
        sessions = await own_sessions(store, user, tenant)
        return cls([tenant], EXPORTED, Scope(tenant=tenant, user=user), sessions)

    def queries(self) -> Iterator[Query]:
        """One question for each collection, and one for each session in it."""
        for query in super().queries():
            yield query
            for session in self.sessions if query.collection in TALK else ():
                scope = Scope(tenant=self.scope.tenant, user="", session=session)
                yield Query(collection=query.collection, scope=scope)


async def export_user(
    store: Store,
    user: str,
    to: Path | str,
    page: Path | str | None = None,
    *,
    tenant: str = "",
    progress: Progress | None = None,
) -> Moved:
    """Write everything of a user to a file of JSON lines, and as a page of Markdown if that is wanted."""
    check_page(store, to, page)
    reach = await PersonReach.of_user(store, user, tenant)
    moved = await export(store, to, reach=reach, progress=progress)
    if page is not None:
        await write_page(store, reach, page)
    return moved


def check_page(store: Store, to: Path | str, page: Path | str | None) -> None:
    """Refuse a page that would be written over the records."""
    if page is None:
        return
    if isinstance(to, Path | str) and Path(page).resolve() == Path(to).resolve():
        raise ConfigError(f"the records and the page would be one file, {page}; name two")
    refuse_own_file(store, page)


async def write_page(store: Store, reach: CopiedRecords, path: Path | str) -> None:
    """Write the page for people."""
    with FileIO(path, "wb", opener=open_file) as file:
        async for text in markdown(store, reach):
            file.write(text)


async def json_lines(store: Store, reach: CopiedRecords) -> AsyncIterator[bytes]:
    """The lines of an export, a page of records at a time."""
    yield msgspec.json.encode(Header(FORMAT)) + b"\n"
    count = 0
    async for page in _pages(store, reach):
        count += len(page)
        yield b"".join([encode_record(record) + b"\n" for record in page])
    yield msgspec.json.encode(End(count)) + b"\n"


async def markdown(store: Store, reach: CopiedRecords) -> AsyncIterator[bytes]:
    """The same for people: each thing on a line with its time, under what it is."""
    yield f"# What is kept about {_plain(reach.scope.user or '')}\n".encode()
    title = ""
    count = 0
    async for page in _pages(store, reach):
        lines = []
        for record, line in zip(page, await asyncio.to_thread(list, map(_line, page)), strict=True):
            if (wanted := _TITLES.get(record.collection, record.collection)) != title:
                title = wanted
                lines.append(f"\n## {title}\n")
            lines.append(line)
        count += len(page)
        yield ("\n".join(lines) + "\n").encode("utf-8", "replace")
    yield f"\nThat is all: {count:,} records.\n".encode()


async def _pages(store: Store, reach: CopiedRecords) -> AsyncIterator[list[Record]]:
    for query in reach.queries():
        async for page in walk(store, query, _PAGE, PAGE_BYTES):
            yield page


def _line(record: Record) -> str:
    at = (record.updated_at or record.created_at).strftime("%Y-%m-%d %H:%M")
    who = record.id if record.collection in ("configs", "knowledge", "entities") else record.kind
    where = f" ({_plain(record.scope.session)})" if record.scope.session else ""
    return f"- {at}{where} {_plain(who)}: {_plain(content(record.text, record.data))}"


def _plain(text: str) -> str:
    """A text on one line, in which no sign means anything."""
    # In pieces: while a regular expression runs, no other thread gets a turn.
    pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
    return "".join(_SIGNS.sub(r"\\\1", _SPACE.sub(" ", piece)) for piece in pieces).strip()
