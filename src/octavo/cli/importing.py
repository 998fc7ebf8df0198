"""What `octavo import --from` and `octavo export --format markdown-folder` do; apart, since it loads every face."""

from pathlib import Path
from typing import Any

import msgspec

from octavo.cli.command import Call, several, table
from octavo.cli.transfer import MOST_TOLD, moved_text
from octavo.errors import ConfigError
from octavo.importers.memory_folder import write_memory_folder
from octavo.importers.sources import Source, open_reader
from octavo.importers.values import Items, Owner
from octavo.importers.writing import Brought, Preview, bring, preview
from octavo.kernel.model import Scope
from octavo.kernel.text import spell
from octavo.memory.searching import DEFAULT_USER
from octavo.stores import open_store
from octavo.util.secrets import shown

_REST = ("collections", "bad", "unreadable", "left_out")


async def import_foreign(call: Call, named: str, store: str, format_: str, given: dict[str, Any]) -> int:
    """Import what another program keeps, or only look at it."""
    source, read = Source.parse(named, format_), open_reader(format_)
    owner = Owner(
        tenant=given["tenant"] or "", user=given["user"] or DEFAULT_USER, session=given["session"] or None
    )

    def begin() -> Items:
        return read(source, owner)

    if given["dry_run"]:
        with call.progress("read") as progress:
            told = await preview(begin, progress)
        return _tell_preview(call, told, shown(named), shown(store))
    run = spell(["import", format_, shown(named), msgspec.to_builtins(owner)])
    state = call.state_file(given["state"], given["restart"], call.command, run, shown(store))
    with call.progress("imported") as progress:
        async with open_store(store) as opened:
            brought = await bring(begin, opened, run, batch=given["batch"], progress=progress, resume=state)
    call.say(f"{moved_text('imported', brought)} in {call.seconds:.1f} s")
    _tell_rest(call, brought)
    numbers = {name: getattr(brought, name) for name in ("read", "added", "resumed", *_REST)}
    more = {"source": shown(named), "target": shown(store), "seconds": call.seconds}
    return call.document(ok=not brought.bad, **msgspec.to_builtins(numbers), **more)


def _tell_preview(call: Call, told: Preview, source: str, store: str) -> int:
    """Print what an import would bring; the exit status."""
    call.say(f"{source}: {several(told.read, 'record')}; nothing is written")
    rows = [(kind, f"{count:,}") for kind, count in sorted(told.kinds.items())]
    if rows:
        call.say_lines(table(rows))
    call.say(f"{several(told.users, 'user')}, {several(told.sessions, 'session')}")
    for sample in told.samples:
        call.say(f"  {' '.join(filter(None, (sample.user, sample.session, sample.kind)))}: {sample.text}")
    _tell_rest(call, told)
    numbers = {
        name: getattr(told, name) for name in ("read", "kinds", "users", "sessions", "samples", *_REST)
    }
    more = {"source": source, "target": store, "dry_run": True}
    return call.document(ok=not told.bad, **msgspec.to_builtins(numbers), **more)


def _tell_rest(call: Call, told: Brought | Preview) -> None:
    """Say what did not become a record, and where that stands."""
    for reason, count in told.left_out.items():
        call.say(f"left out: {count:,} {reason}")
    for each in told.unreadable[:MOST_TOLD]:
        call.note(f"{each.place}: {each.reason}")
    if told.bad:
        more = f"; the first {MOST_TOLD} are above, --json lists more" if told.bad > MOST_TOLD else ""
        call.note(f"{told.bad:,} could not be read{more}")


async def export_folder(call: Call, store: str, to: str, given: dict[str, Any]) -> int:
    """Export the facts of somebody as a memory folder."""
    if to == "-":
        raise ConfigError("--format markdown-folder needs the name of a folder")
    if given["session"] or given["collections"]:
        raise ConfigError("--format markdown-folder writes the facts of a --user or an --agent")
    agent, user = given["agent"], given["user"]
    owner = {"agent": agent} if agent and not user else {"user": user or DEFAULT_USER}
    async with open_store(store) as opened:
        pages = await write_memory_folder(opened, Path(to), Scope(tenant=given["tenant"] or "", **owner))
    call.say(f"exported {several(sum(pages.values()), 'fact')} to {to} in {call.seconds:.1f} s")
    return call.document(files=pages, facts=sum(pages.values()), source=shown(store), folder=to)
