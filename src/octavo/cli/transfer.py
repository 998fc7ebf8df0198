"""`octavo copy`, `octavo export` and `octavo import`: moving records between stores and files, and bringing along other people's."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from octavo.cli.command import (
    Call,
    check_exists,
    flag,
    number,
    options,
    resumable,
    runs,
    several,
    store_option,
    text,
)
from octavo.errors import ConfigError
from octavo.importers.formats import FORMATS
from octavo.kernel.model import Scope
from octavo.kernel.shapes import SHAPES
from octavo.memory.exporting import PersonReach, write_page
from octavo.stores import open_store
from octavo.transfer import BadLine, Moved, copy, export, import_
from octavo.util.file_modes import open_file
from octavo.util.secrets import shown

MOST_TOLD = 10  # bad lines on stderr; the file of skipped lines has them all
_OWNERS = ("tenant", "user", "agent", "session")

_which = options(
    text(
        "--collection collections",
        "NAME",
        "Only this collection; may be given several times. [default: all]",
        multiple=True,
        type=click.Choice(tuple(SHAPES)),
    ),
    text("--tenant", "NAME", "Only this tenant's records. [default: every tenant]"),
    text("--user", "NAME", "Only this user's records."),
    text("--agent", "NAME", "Only this agent's records."),
    text("--session", "NAME", "Only this session's records."),
)
_pace = options(
    number("--batch", "Records per read and write; fewer when they are large.", 1, default=1000),
    resumable,
)


@click.command("copy")
@click.argument("source")
@click.argument("target", required=False)
@_which
@_pace
@store_option
@runs
async def copy_command(call: Call, source: str, target: str | None, **given: Any) -> int:
    """Copy every record of SOURCE into TARGET, or into the store of --store.

    Order, ids, times and marks are kept; what TARGET already keeps is left as it is, so that copying twice adds
    nothing. An interrupted copy goes on where it stopped when the same command is run again.

    \b
    Example: octavo copy sqlite:///octavo.db postgresql://octavo@localhost/octavo
    """
    check_exists(source)
    target = _store(call, target)
    arguments = _arguments(call, given, source, target)
    with call.progress("copied") as progress:
        async with open_store(source) as old, open_store(target) as new:
            if arguments["scope"] is None:
                call.warn_of_tenants(old)
            moved = await copy(old, new, progress=progress, **arguments)
    return _tell(call, "copied", moved, source=shown(source), target=shown(target))


@click.command("export")
@click.argument("source", metavar="[URL]", required=False)
@click.argument("file", required=False)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["jsonl", "markdown-folder"]),
    default="jsonl",
    show_default=True,
    help="JSON lines of all records, or the facts of a user (--user, --agent) as a folder with a MEMORY.md.",
)
@_which
@text("--page", "FILE", "With --user: also a page of Markdown to read.")
@_pace
@store_option
@runs
async def export_command(
    call: Call, source: str | None, file: str | None, format_: str, page: str | None, **given: Any
) -> int:
    """Write every record of a store to a file of JSON lines, or its facts to a folder of Markdown.

    Without FILE, or with -, the lines go to stdout. A FILE ending in .gz is compressed. FILE appears only when it is
    whole. URL left out is the store of OCTAVO_URL or the settings, or sqlite:///octavo.db. With --user alone it is everything
    of that person, also what was kept for nobody in sessions where that is the only user.

    \b
    Example: octavo export sqlite:///octavo.db memory.jsonl.gz
    """
    # A single word is the file where something else names a store. Without that it is more likely the path of a
    # database, which would be overwritten.
    word = source is not None and file is None and "://" not in source
    named = "database.dsn" in call.overrides or call.is_set("database.dsn")
    if word and (source == "-" or named or format_ == "markdown-folder"):
        source, file = None, source
    store, to = check_exists(_store(call, source)), file or "-"
    if format_ == "markdown-folder":
        from octavo.cli.importing import export_folder

        return await export_folder(call, store, to, given)
    if call.json and to == "-":
        raise ConfigError("--json needs a FILE to export to, since stdout carries the records")
    person = given["user"] is not None and not (given["agent"] or given["session"] or given["collections"])
    if page is not None and not person:
        raise ConfigError(
            "--page shows one person: give --user, and neither --agent, --session nor --collection"
        )
    arguments = _arguments(call, given, store, to)
    with call.progress("exported") as progress:
        async with open_store(store) as opened:
            if arguments["scope"] is None:
                call.warn_of_tenants(opened)
            if person:
                reach = await PersonReach.of_user(opened, given["user"], given["tenant"] or "")
                arguments |= {"reach": reach, "resume": None}
            if person and page is not None:
                await write_page(opened, reach, page)
            out = sys.stdout.buffer if to == "-" else to
            moved = await export(opened, out, progress=progress, **arguments)
    return _tell(call, "exported", moved, source=shown(store), file=to)


@click.command("import")
@click.argument("source")
@click.argument("target", metavar="[URL]", required=False)
@click.option(
    "--from",
    "format_",
    type=click.Choice(tuple(FORMATS)),
    help="What SOURCE is. [default: what `octavo export` writes]",
)
@flag("--dry-run", "Say what would come in, with samples, and write nothing.")
@text("--tenant", "NAME", "Whose tenant it becomes. [default: the empty one]")
@text("--user", "NAME", "Whose it becomes where SOURCE does not say. [default: default_user]")
@text("--session", "NAME", "The session that all messages become part of. [default: as SOURCE has them]")
@click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="At a line of an export that holds no record: stop, with all before it kept; or set it aside and go on.",
)
@text("--set-aside", "FILE", "Where skipped lines of an export go. [default: SOURCE.bad]")
@_pace
@store_option
@runs
async def import_command(
    call: Call, source: str, target: str | None, format_: str | None, **given: Any
) -> int:
    """Add everything of SOURCE to a store: an exported file, or what another program keeps.

    With --from, SOURCE is a file, a folder or the URL of a database; nothing is fetched from the network. Without it,
    SOURCE is an export, - is stdin, and a name ending in .gz is uncompressed. What the store already keeps is left as
    it is, so that importing twice adds nothing. The store is that of --store or URL, or of OCTAVO_URL or the settings,
    or sqlite:///octavo.db.

    \b
    Example: octavo import conversations.json --from chatgpt --user lin
    """
    store = _store(call, target)
    if format_ is not None:
        from octavo.cli.importing import import_foreign

        return await import_foreign(call, source, store, format_, given)
    return await _import_export(call, source, store, given)


async def _import_export(call: Call, file: str, store: str, given: dict[str, Any]) -> int:
    """Import what `octavo export` wrote."""
    if unused := [
        f"--{name.replace('_', '-')}" for name in ("dry_run", "tenant", "user", "session") if given[name]
    ]:
        raise ConfigError(f"{unused[0]} needs --from: an export says itself whose its records are")
    if file == "-" and sys.stdin.isatty():
        raise ConfigError("stdin is a terminal; name a FILE or send an export through a pipe")
    if file != "-":
        _check_file(Path(file))
    set_aside = given["set_aside"]
    skipped = _SkippedLines(call, Path(set_aside or ("octavo-import.bad" if file == "-" else f"{file}.bad")))
    arguments = _arguments(call, given, file, store)
    with call.progress("imported") as progress:
        async with open_store(store) as opened:
            moved = await import_(
                sys.stdin.buffer if file == "-" else file,
                opened,
                on_bad=skipped.take if given["on_error"] == "skip" else None,
                progress=progress,
                **arguments,
            )
    kept = str(skipped.path) if skipped.written else None
    lines = [{"line": each.number, "reason": each.reason} for each in skipped.first]
    more = {"bad": moved.bad, "bad_lines": lines, "set_aside": kept}
    return _tell(call, "imported", moved, file=file, target=shown(store), **more)


def _check_file(path: Path) -> None:
    """Refuse what no export can be."""
    if not path.exists() or path.is_dir():
        wrong = "is a folder; --from says what it holds" if path.is_dir() else "does not exist"
        raise ConfigError(f"{str(path)!r} {wrong}")


def _store(call: Call, url: str | None) -> str:
    """The store that is meant: the one that stands in its place, or of --store or the settings."""
    if url is not None:
        if "database.dsn" in call.overrides:
            raise ConfigError(f"two stores are named: {shown(url)} and --store; name one")
        call.overrides["database.dsn"] = ("URL", url)
    return call.settings.database.dsn


class _SkippedLines:
    """The lines that an import skips: appended to a file as they are, so that they can be mended and imported."""

    def __init__(self, call: Call, path: Path) -> None:
        self.path = path
        self.first: list[BadLine] = []
        self.written = False
        self._call = call

    def take(self, bad: BadLine) -> None:
        """Keep one line, and say what is wrong with it."""
        if bad.line:
            with open(self.path, "ab", opener=open_file) as file:
                file.write(bad.line if bad.line.endswith(b"\n") else bad.line + b"\n")
            self.written = True
        if len(self.first) < MOST_TOLD:
            self._call.note(f"line {bad.number}: {bad.reason}")
        if len(self.first) < 100:
            self.first.append(bad)


def _arguments(call: Call, given: dict[str, Any], source: str, target: str) -> dict[str, Any]:
    """What a move is told: which records, how many at once, and where it keeps how far it has come."""
    told: dict[str, Any] = {}
    if "collections" in given:
        named = any(given[name] is not None for name in _OWNERS)
        owners = {name: given[name] for name in _OWNERS}
        scope = Scope(**{**owners, "tenant": given["tenant"] or ""}) if named else None
        told = {"collections": given["collections"] or None, "scope": scope}
    state = None
    if "-" not in (source, target):  # a stream cannot be taken up again
        names = [shown(source), shown(target)], msgspec.to_builtins(told)
        state = call.state_file(given["state"], given["restart"], call.command, *names)
    return {**told, "resume": state, "batch": given["batch"]}


def moved_text(done: str, moved: Any, thing: str = "record") -> str:
    """A move in a few words, with what did not have to be moved in brackets."""
    aside = [f"{moved.read - moved.added:,} already there"] if moved.read > moved.added else []
    aside += [f"{moved.resumed:,} more by an earlier run"] if moved.resumed else []
    inside = f" ({', '.join(aside)})" if aside else ""
    return f"{done} {several(moved.read, thing)}{inside}"


def _tell(call: Call, done: str, moved: Moved, **more: Any) -> int:
    """Print what a move came to; the exit status."""
    seconds, to_stdout = call.seconds, more.get("file") == "-" and done == "exported"
    call.say(f"{moved_text(done, moved)} in {seconds:.1f} s", err=to_stdout)
    if moved.bad:
        where = f", set aside in {more['set_aside']}" if more["set_aside"] else ""
        call.note(f"{several(moved.bad, 'bad line')}{where}")
    numbers = {name: getattr(moved, name) for name in ("read", "added", "resumed", "collections")}
    return call.document(ok=not moved.bad, **{**numbers, **more}, seconds=seconds)
