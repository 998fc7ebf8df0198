"""Facts out again, as a folder that Claude Code, AgentScope 2 and Agent Framework read: `MEMORY.md` and a topic file for each category."""

import re
from pathlib import Path

import msgspec

from octavo.errors import ConfigError
from octavo.importers.markdown import INDEX, Note, blocks_of, read_note, text_sum
from octavo.kernel.ids import now
from octavo.kernel.model import Query, Record, Scope
from octavo.kernel.ports import Store, walk
from octavo.layers.records import COLLECTIONS
from octavo.layers.values import CATEGORIES, Layer
from octavo.service.vault.documents import compose, parse
from octavo.util.file_modes import make_folder, open_file
from octavo.util.words import several

_OURS = "octavo"
_HOOK_CHARACTERS = 80
_UNSAFE = re.compile("[<>\x7f-\x9f\u2028\u2029]")  # what would end the comment, or a line
_TYPES: dict[Layer, str] = {"profile": "user", "event": "project"}  # as Claude Code sorts its memories


async def write_memory_folder(store: Store, folder: Path, scope: Scope) -> dict[str, int]:
    """Write the facts of a user or an agent; answer how many each file has.

    Files that an earlier export left and this one has no facts for are removed. Others in the folder are not touched.
    """
    index = folder / INDEX
    if index.exists() and not _is_ours(index):
        raise ConfigError(f"{index} was not written by this command; name an empty folder, or move it away")
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
        told = f"{several(len(facts), 'fact')}, such as: {hook}"
        _write(folder / f"{category}.md", _page(category, layer, told, facts))
        lines.append(f"- [{category.capitalize()}]({category}.md) — {told}\n")
    _write(index, compose("# Memory\n\n" + "".join(lines), {"source": _OURS}).raw)
    return {category: len(facts) for category, (_, facts) in sorted(pages.items())}


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


def _write(path: Path, content: bytes) -> None:
    part = path.with_name(f"{path.name}.part")
    with open(part, "wb", opener=open_file) as file:
        file.write(content)
    part.replace(path)
