"""Markdown as memory: notes, and folders with a `MEMORY.md` and topic files as Claude Code, AgentScope 2 and Agent Framework have them."""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from octavo.errors import ConfigError
from octavo.importers.sources import ImportSource, SourceFile
from octavo.importers.values import (
    DefaultOwner,
    Item,
    Items,
    LeftOut,
    Times,
    Unreadable,
    fact_records,
    moment,
    stable_id,
    try_make,
)
from octavo.kernel.ids import now
from octavo.kernel.model import Query, Record, Scope
from octavo.kernel.pages import walk
from octavo.kernel.ports import Store
from octavo.kernel.text import pluralize
from octavo.layers.records import COLLECTIONS
from octavo.layers.values import CATEGORIES, Layer
from octavo.service.vault.documents import compose, parse
from octavo.transfer.copying import refuse_own_file
from octavo.util.disk import make_folder, replace_file

INDEX = "MEMORY.md"
_BULLET = re.compile(r"(?:[-*+]|\d{1,9}[.)]) +(?:\[[ xX]\] +)?")
_HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*\s*")
_RULE = re.compile(r"([-*_])(?:[ \t]*\1){2,}[ \t]*")  # a line across the page
_FENCE = re.compile(r"\s*(```|~~~)")
_LINK = re.compile(r"\[[^\]]*\]\(<?([^)>\s]+)>?\)")
_NOTE = re.compile(r"\s*<!-- (\{.*\}) -->$")
_OURS = "octavo"
_HOOK_CHARACTERS = 80
_UNSAFE = re.compile("[<>\x7f-\x9f\u2028\u2029]")  # what would end the comment, or a line
_TYPES: dict[Layer, str] = {"profile": "user", "event": "project"}  # as Claude Code sorts its memories


class MarkdownBlock(msgspec.Struct, frozen=True):
    """One bullet or paragraph of a page."""

    text: str
    line: int
    heading: str = ""
    bullet: bool = False


class Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an export writes behind a fact, so that it is known again; `sum` is of the text it was written behind."""

    id: str
    sum: str
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    is_permanent: bool | None = None
    text: str | None = None  # where Markdown cannot say it
    metadata: dict[str, Any] = {}


def text_sum(text: str) -> str:
    """By which an edited text is told from the one that was written."""
    return stable_id(text)[:8]


def blocks_of(body: str) -> Iterator[MarkdownBlock]:
    """The bullets and paragraphs of a page; what is indented below a bullet, and fenced code, belongs to it."""
    heading, start, bullet, fence = "", 0, False, ""
    held: list[str] = []

    def finish_block() -> Iterator[MarkdownBlock]:
        if text := "\n".join(held).strip("\n"):
            yield MarkdownBlock(text, start, heading, bullet)
        held.clear()

    for number, line in enumerate(body.splitlines(), 1):
        opened = _FENCE.match(line)
        if fence:
            held.append(line[2:] if bullet and line.startswith("  ") else line)
            fence = "" if opened and opened[1] == fence else fence
            continue
        if _RULE.fullmatch(line):
            yield from finish_block()
            bullet = False
            continue
        found = _BULLET.match(line)
        if found or (title := _HEADING.fullmatch(line)):
            yield from finish_block()
            bullet, start = bool(found), number
            if found:
                held.append(line[found.end() :])
            elif title:
                heading = title[1]
        elif not line.strip():
            if bullet:
                held.append("")  # what comes may be indented still
            else:
                yield from finish_block()
        elif bullet and line[:1] in " \t":
            held.append(line[2:] if line.startswith("  ") else line.lstrip())
        else:
            if (bullet and held and held[-1] == "") or not held:
                yield from finish_block()
                bullet, start = False, number
            held.append(line)
        if opened and held:
            fence = opened[1]
    yield from finish_block()


async def read_markdown(source: ImportSource, owner: DefaultOwner) -> Items:
    """Notes: each bullet and each paragraph is a fact."""
    for file in source.files("*.md"):
        for item in _read_page(file, owner, "markdown", whole=False):
            yield item


async def read_memory_folder(source: ImportSource, owner: DefaultOwner) -> Items:
    """A memory folder: the bullets of a topic file are facts, and one without bullets is one. The index leads to them."""
    folder = source.file if source.file.is_dir() else source.file.parent
    if not (folder / INDEX).is_file():
        raise ConfigError(f"there is no {INDEX} in {folder}")
    for file in ImportSource(path=folder).files("*.md"):
        for item in _read_page(file, owner, "claude-code", whole=file.path.name != INDEX):
            yield item


def _read_page(file: SourceFile, owner: DefaultOwner, format_: str, *, whole: bool) -> Iterator[Item]:
    path, shown = file.path, file.shown
    try:
        page = parse(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        yield Unreadable(shown, f"it is no UTF-8: {error.reason} at byte {error.start}")
        return
    skipped = page.head.count("\n")
    blocks = [msgspec.structs.replace(block, line=block.line + skipped) for block in blocks_of(page.body)]
    if whole and page.front and not all(block.bullet for block in blocks):
        blocks = [MarkdownBlock(page.body.strip(), skipped + 1)]
    times = Times(file.modified)
    for block in blocks:
        link = _LINK.match(block.text)
        if path.name == INDEX and link and (path.parent / link[1]).is_file():
            yield LeftOut("lines of the index")
        else:
            where = f"{shown}, line {block.line}"
            yield try_make(where, _fact, block, page.front, shown, times, owner, format_)


def _fact(
    block: MarkdownBlock, front: dict[str, Any], shown: str, times: Times, owner: DefaultOwner, format_: str
) -> Item:
    text, note = read_note(block.text)
    layer: Layer = "event" if front.get("layer") == "event" else "profile"
    category = front.get("category")
    known = category if category in CATEGORIES[layer] else None
    if note is not None:
        return fact_records(
            owner,
            note.id,
            note.text or text,
            note.created_at,
            came_from=shown,
            layer=layer,
            category=known,
            metadata=note.metadata,
            updated_at=note.updated_at,
            expires_at=note.expires_at,
            is_permanent=note.is_permanent,
        )
    told = {"topic": front.get("name"), "type": front.get("type"), "heading": block.heading}
    metadata = {"file": shown, **{name: value for name, value in told.items() if value}}
    at = times.next(moment(front.get("created_at")))
    id_ = stable_id(format_, shown, text)
    return fact_records(owner, id_, text, at, came_from=shown, layer=layer, category=known, metadata=metadata)


def read_note(text: str) -> tuple[str, Note | None]:
    """A text and what an export wrote behind it, unless the text was edited since."""
    found = _NOTE.search(text)
    if found is None:
        return text, None
    bare = text[: found.start()]
    try:
        note = msgspec.json.decode(found[1], type=Note)
    except msgspec.DecodeError:
        return text, None
    return bare, note if note.sum == text_sum(bare) else None


# --- and out again


async def write_memory_folder(store: Store, folder: Path, scope: Scope) -> dict[str, int]:
    """Write the facts of a user or an agent; answer how many each file has.

    Files that an earlier export left and this one has no facts for are removed. Others in the folder are not touched.
    """
    _check_folder(store, folder)
    index = folder / INDEX
    pages: dict[str, tuple[Layer, list[Record]]] = {}
    for layer, collection in COLLECTIONS.items():
        query = Query(collection=collection, scope=scope, alive_at=now())
        async for page in walk(store, query):
            for fact in page:
                pages.setdefault(fact.kind, (layer, []))[1].append(fact)
    make_folder(folder)
    for category in (each for layer in CATEGORIES.values() for each in layer):
        if category not in pages and _is_ours(left := folder / f"{category}.md"):
            left.unlink()
    lines = []
    for category, (layer, facts) in sorted(pages.items()):
        hook = " ".join(facts[-1].text.split())[:_HOOK_CHARACTERS]
        told = f"{pluralize(len(facts), 'fact')}, such as: {hook}"
        replace_file(folder / f"{category}.md", [_page(category, layer, told, facts)])
        lines.append(f"- [{category.capitalize()}]({category}.md) — {told}\n")
    replace_file(index, [compose("# Memory\n\n" + "".join(lines), {"source": _OURS}).raw])
    return {category: len(facts) for category, (_, facts) in sorted(pages.items())}


def _check_folder(store: Store, folder: Path) -> None:
    """Refuse what is no folder, and one that is the store's or somebody's."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file; name a folder, which is made if it is not there")
    refuse_own_file(store, folder)
    index = folder / INDEX
    if index.exists() and not _is_ours(index):
        raise ConfigError(f"{index} was not written by this command; name an empty folder, or move it away")


def _page(category: str, layer: Layer, told: str, facts: list[Record]) -> bytes:
    front = {
        "name": category,
        "description": told,
        "type": _TYPES[layer],
        "layer": layer,
        "category": category,
    }
    body = f"# {category.capitalize()}\n\n" + "".join(map(spell_fact, facts))
    return compose(body, {**front, "source": _OURS}).raw


def spell_fact(fact: Record) -> str:
    """A fact as a bullet, with what it takes to know it again; one that Markdown cannot say stands in that whole."""
    spelled = _bullet(fact, fact.text)
    read = [*blocks_of(spelled + "- next")]
    if len(read) == 2 and read_note(read[0].text)[0] == fact.text:
        return spelled
    return _bullet(fact, " ".join(re.sub(r"<!--|```+|~~~+", " ", fact.text).split()) or "…")


def _bullet(fact: Record, said: str) -> str:
    note = Note(
        id=fact.id,
        sum=text_sum(said),
        created_at=fact.created_at,
        updated_at=fact.updated_at or fact.created_at,
        expires_at=fact.expires_at,
        is_permanent=fact.data.get("is_permanent"),
        text=None if said == fact.text else fact.text,
        metadata=fact.metadata,
    )
    plain = msgspec.json.encode(note).decode()
    spelled = _UNSAFE.sub(lambda sign: f"\\u{ord(sign[0]):04x}", plain)
    indented = said.replace("\n", "\n  ")
    return f"- {indented} <!-- {spelled} -->\n"


def _is_ours(path: Path) -> bool:
    return (
        path.is_file()
        and parse(path.read_text(encoding="utf-8", errors="replace")).front.get("source") == _OURS
    )
