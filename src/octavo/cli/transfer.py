"""`octavo copy`, `octavo export` and `octavo import`: moving records between stores and files, and bringing along other people's."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from octavo.cli import option
from octavo.cli.command import CommandCall, as_command, check_exists, pluralize, writing_stdout
from octavo.cli.commands import root
from octavo.cli.tables import figures, quote
from octavo.errors import ConfigError, NotFound, OctavoError
from octavo.importers import FORMATS
from octavo.kernel.codec import MAX_NAME_BYTES, is_name
from octavo.kernel.model import Scope
from octavo.kernel.ports import Store
from octavo.kernel.shapes import SHAPES
from octavo.kernel.text import spell
from octavo.layers.values import DEFAULT_USER
from octavo.memory.exporting import PersonReach, check_page, write_page
from octavo.stores import open_store
from octavo.transfer import BadLine, BadLineError, Moved, copy, export, import_
from octavo.transfer.copying import CopiedRecords, refuse_own_file
from octavo.util.disk import open_file
from octavo.util.secrets import mask_url

if TYPE_CHECKING:
    from octavo.importers.values import Brought, Preview

MOST_TOLD = 10  # bad lines on stderr; the file of skipped lines has them all
_REST = ("collections", "bad", "unreadable", "left_out")
_OWNERS = ("tenant", "user", "agent", "session")

_which = option.combine(
    option.collections("Only this collection; may be given several times. [default: all]", SHAPES),
    option.text("--tenant", "NAME", "Only this tenant's records. [default: every tenant]"),
    option.text("--user", "NAME", "Only this user's records."),
    option.text("--agent", "NAME", "Only this agent's records."),
    option.text("--session", "NAME", "Only this session's records."),
)
_pace = option.combine(
    option.number("--batch", "Records per read and write; fewer when they are large.", 1, default=1000),
    option.resumable,
)


@root.command("copy")
@click.argument("source")
@click.argument("target", required=False)
@_which
@_pace
@option.store
@as_command
async def copy_command(call: CommandCall, source: str, target: str | None, **given: Any) -> int:
    """Copy every record of SOURCE into TARGET, or into the store of --store.

    Order, ids, times and marks are kept; what TARGET already keeps is left as it is, so that copying twice adds
    nothing. An interrupted copy goes on where it stopped when the same command is run again.

    \b
    Example: octavo copy sqlite:///octavo.db postgresql://octavo@localhost/octavo
    """
    check_exists(source)
    target = _store(call, target)
    if source == target:
        raise ConfigError(f"the source and the target are one store, {mask_url(source)}; name two")
    arguments = _arguments(call, given, source, target)
    with call.progress("copied") as progress:
        async with open_store(source) as old:
            await _check_there(old, arguments)  # before a target is made
            async with open_store(target) as new:
                if arguments["scope"] is None:
                    call.warn_of_tenants(old)
                moved = await copy(old, new, progress=progress, **arguments)
    return _tell(call, "copied", moved, source=mask_url(source), target=mask_url(target))


@root.command("export")
@click.argument("source", metavar="[URL]", required=False)
@click.argument("file", required=False)
@option.choice(
    "--format format_",
    ["jsonl", "markdown-folder"],
    "JSON lines of all records, or the facts of a user (--user, --agent) as a folder with a MEMORY.md.",
    default="jsonl",
)
@_which
@option.text("--page", "FILE", "With --user: also a page of Markdown to read.")
@_pace
@option.store
@as_command
async def export_command(
    call: CommandCall, source: str | None, file: str | None, format_: str, page: str | None, **given: Any
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
    elif word:
        raise ConfigError(
            f"{source!r} is not the URL of a store; name one before a FILE: "
            f"octavo export {call.settings.database.dsn} FILE"
        )
    store, to = check_exists(_store(call, source)), file or "-"
    if format_ == "markdown-folder":
        return await _export_folder(call, store, to, given)
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
            await _check_there(opened, arguments)
            check_page(opened, to, page)
            if person and page is not None:
                await write_page(opened, reach, page)
            if to == "-":
                with writing_stdout():
                    moved = await export(opened, sys.stdout.buffer, progress=progress, **arguments)
            else:
                moved = await export(opened, to, progress=progress, **arguments)
    return _tell(call, "exported", moved, source=mask_url(store), file=to)


@root.command("import")
@click.argument("source")
@click.argument("target", metavar="[URL]", required=False)
@option.choice("--from format_", FORMATS, "What SOURCE is. [default: what `octavo export` writes]")
@option.flag("--dry-run", "Say what would come in, with samples, and write nothing.")
@option.text("--tenant", "NAME", "Whose tenant it becomes. [default: the empty one]")
@option.text("--user", "NAME", "Whose it becomes where SOURCE does not say. [default: default_user]")
@option.text(
    "--session", "NAME", "The session that all messages become part of. [default: as SOURCE has them]"
)
@option.choice(
    "--on-error",
    ["stop", "skip"],
    "At a line of an export that holds no record: stop, with all before it kept; or set it aside and go on.",
    default="stop",
)
@option.text("--set-aside", "FILE", "Where skipped lines of an export go. [default: SOURCE.bad]")
@_pace
@option.store
@as_command
async def import_command(
    call: CommandCall, source: str, target: str | None, format_: str | None, **given: Any
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
        return await _import_foreign(call, source, store, format_, given)
    return await _import_export(call, source, store, given)


async def _import_export(call: CommandCall, file: str, store: str, given: dict[str, Any]) -> int:
    """Import what `octavo export` wrote."""
    if unused := [
        f"--{name.replace('_', '-')}" for name in ("dry_run", "tenant", "user", "session") if given[name]
    ]:
        raise ConfigError(f"{unused[0]} needs --from: an export says itself whose its records are")
    if file == "-" and (sys.stdin is None or sys.stdin.isatty()):
        state = "closed" if sys.stdin is None else "a terminal"
        raise ConfigError(f"stdin is {state}; name a FILE or send an export through a pipe")
    set_aside = Path(given["set_aside"] or ("octavo-import.bad" if file == "-" else f"{file}.bad"))
    _check_file(file, set_aside)
    first: list[dict[str, Any]] = []  # of the bad lines
    written = False

    def skip(bad: BadLine) -> None:
        """Append a line as it is to a file, so that it can be mended and imported, and say what is wrong with it."""
        nonlocal written
        if bad.line:
            with open(set_aside, "ab", opener=open_file) as lines:
                lines.write(bad.line if bad.line.endswith(b"\n") else bad.line + b"\n")
            written = True
        if len(first) < MOST_TOLD:
            call.note(f"line {bad.number}: {bad.reason}")
        if len(first) < 100:
            first.append({"line": bad.number, "reason": bad.reason})

    arguments = _arguments(call, given, file, store)
    with call.progress("imported") as progress:
        async with open_store(store) as opened:
            refuse_own_file(opened, set_aside)
            try:
                moved = await import_(
                    sys.stdin.buffer if file == "-" else file,
                    opened,
                    on_bad=skip if given["on_error"] == "skip" else None,
                    progress=progress,
                    **arguments,
                )
            except BadLineError as error:
                if error.bad.number > 1:
                    raise
                cure = "what another program wrote is read with --from, and a store with octavo copy"
                raise OctavoError(f"{error}; is it what octavo export wrote? {cure}") from error
    more = {"bad": moved.bad, "bad_lines": first, "set_aside": str(set_aside) if written else None}
    return _tell(call, "imported", moved, file=file, target=mask_url(store), **more)


def _check_file(file: str, set_aside: Path) -> None:
    """Refuse what no export can be, and to read what is written meanwhile."""
    if file != "-" and (not Path(file).exists() or Path(file).is_dir()):
        wrong = "is a folder; --from says what it holds" if Path(file).is_dir() else "does not exist"
        raise ConfigError(f"{file!r} {wrong}")
    if file != "-" and set_aside.exists() and set_aside.samefile(file):
        raise ConfigError(f"{set_aside} is the file that is read; name another by --set-aside")


def _store(call: CommandCall, url: str | None) -> str:
    """The store that is meant: the one that stands in its place, or of --store or the settings."""
    if url is not None:
        if "database.dsn" in call.overrides:
            raise ConfigError(f"two stores are named: {mask_url(url)} and --store; name one")
        call.overrides["database.dsn"] = ("URL", url)
    return call.settings.database.dsn


def _arguments(call: CommandCall, given: dict[str, Any], source: str, target: str) -> dict[str, Any]:
    """What a move is told: which records, how many at once, and where it keeps how far it has come."""
    told: dict[str, Any] = {}
    if "collections" in given:
        named = any(given[name] is not None for name in _OWNERS)
        owners = {name: given[name] for name in _OWNERS}
        scope = Scope(**{**owners, "tenant": given["tenant"] or ""}) if named else None
        told = {"collections": given["collections"] or None, "scope": scope}
    state = None
    if "-" not in (source, target):  # a stream cannot be taken up again
        names = [mask_url(source), mask_url(target)], msgspec.to_builtins(told)
        state = call.state_file(given["state"], given["restart"], call.command, *names)
    return {**told, "resume": state, "batch": given["batch"]}


async def _check_there(store: Store, told: dict[str, Any]) -> None:
    """NotFound if there is nothing of whoever is named."""
    if (scope := told["scope"]) is None:
        return
    reach = told.get("reach") or await CopiedRecords.of(store, told["collections"], scope)
    for query in reach.queries():
        if await store.find(msgspec.structs.replace(query, newest_first=True, limit=1)):
            return
    named = " and ".join(f"{name} {quote(of)}" for name in _OWNERS if (of := getattr(scope, name)))
    raise NotFound(f"nothing is kept of {named or 'the tenant without a name'}")


def moved_text(done: str, moved: Any, thing: str = "record") -> str:
    """A move in a few words, with what did not have to be moved in brackets."""
    aside = [f"{moved.read - moved.added:,} already there"] if moved.read > moved.added else []
    aside += [f"{moved.resumed:,} more by an earlier run"] if moved.resumed else []
    inside = f" ({', '.join(aside)})" if aside else ""
    return f"{done} {pluralize(moved.read, thing)}{inside}"


def _tell(call: CommandCall, done: str, moved: Moved, **more: Any) -> int:
    """Print what a move came to; the exit status."""
    seconds, to_stdout = call.seconds, more.get("file") == "-" and done == "exported"
    call.say(f"{moved_text(done, moved)} in {seconds:.1f} s", err=to_stdout)
    if moved.bad:
        where = f", set aside in {more['set_aside']}" if more["set_aside"] else ""
        call.note(f"{pluralize(moved.bad, 'bad line')}{where}")
    numbers = {name: getattr(moved, name) for name in ("read", "added", "resumed", "collections")}
    return call.document(ok=not moved.bad, **{**numbers, **more}, seconds=seconds)


# --- other programs' memory


async def _import_foreign(
    call: CommandCall, named: str, store: str, format_: str, given: dict[str, Any]
) -> int:
    """Import what another program keeps, or only look at it."""
    # Loaded here: they load every face, which other commands need not wait for.
    from octavo.importers.sources import ImportSource, open_reader
    from octavo.importers.values import DefaultOwner, bring, preview

    for name in ("user", "session"):
        if given[name] is not None and not is_name(given[name]):
            raise ConfigError(
                f"--{name} must be a name of 1 to {MAX_NAME_BYTES} bytes; got {given[name][:80]!r}"
            )
    source, read = ImportSource.parse(named, format_), open_reader(format_)
    owner = DefaultOwner(
        tenant=given["tenant"] or "", user=given["user"] or DEFAULT_USER, session=given["session"]
    )
    begin = partial(read, source, owner)
    if given["dry_run"]:
        with call.progress("read") as progress:
            told = await preview(begin, progress)
        return _tell_preview(call, told, mask_url(named), mask_url(store))
    run = spell(["import", format_, mask_url(named), msgspec.to_builtins(owner)])
    state = call.state_file(given["state"], given["restart"], call.command, run, mask_url(store))
    with call.progress("imported") as progress:
        async with open_store(store) as opened:
            brought = await bring(begin, opened, run, batch=given["batch"], progress=progress, resume=state)
    call.say(f"{moved_text('imported', brought)} in {call.seconds:.1f} s")
    _tell_rest(call, brought)
    numbers = {name: getattr(brought, name) for name in ("read", "added", "resumed", *_REST)}
    more = {"source": mask_url(named), "target": mask_url(store), "seconds": call.seconds}
    return call.document(ok=not brought.bad, **msgspec.to_builtins(numbers), **more)


def _tell_preview(call: CommandCall, told: "Preview", source: str, store: str) -> int:
    """Print what an import would bring; the exit status."""
    call.say(f"{source}: {pluralize(told.read, 'record')}; nothing is written")
    rows = [(kind, f"{count:,}") for kind, count in sorted(told.kinds.items())]
    if rows:
        call.say_lines(figures(rows))
    call.say(f"{pluralize(told.users, 'user')}, {pluralize(told.sessions, 'session')}")
    for sample in told.samples:
        call.say(f"  {' '.join(filter(None, (sample.user, sample.session, sample.kind)))}: {sample.text}")
    _tell_rest(call, told)
    numbers = {
        name: getattr(told, name) for name in ("read", "kinds", "users", "sessions", "samples", *_REST)
    }
    more = {"source": source, "target": store, "dry_run": True}
    return call.document(ok=not told.bad, **msgspec.to_builtins(numbers), **more)


def _tell_rest(call: CommandCall, told: "Brought") -> None:
    """Say what did not become a record, and where that stands."""
    for reason, count in told.left_out.items():
        call.say(f"left out: {count:,} {reason}")
    for each in told.unreadable[:MOST_TOLD]:
        call.note(f"{each.position}: {each.reason}")
    if told.bad:
        more = f"; the first {MOST_TOLD} are above, --json lists more" if told.bad > MOST_TOLD else ""
        call.note(f"{told.bad:,} could not be read{more}")


async def _export_folder(call: CommandCall, store: str, to: str, given: dict[str, Any]) -> int:
    """Export the facts of somebody as a memory folder."""
    from octavo.importers.markdown import write_memory_folder

    if to == "-":
        raise ConfigError("--format markdown-folder needs the name of a folder")
    if given["session"] or given["collections"]:
        raise ConfigError("--format markdown-folder writes the facts of a --user or an --agent")
    agent, user = given["agent"], given["user"]
    owner = {"agent": agent} if agent and not user else {"user": user or DEFAULT_USER}
    async with open_store(store) as opened:
        pages = await write_memory_folder(opened, Path(to), Scope(tenant=given["tenant"] or "", **owner))
    call.say(f"exported {pluralize(sum(pages.values()), 'fact')} to {to} in {call.seconds:.1f} s")
    return call.document(files=pages, facts=sum(pages.values()), source=mask_url(store), folder=to)
