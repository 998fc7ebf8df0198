"""The commands: each opens its stores, calls one function of the package and says what came of it."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from octavo import __version__
from octavo.cli import running
from octavo.cli.aside import Aside
from octavo.cli.bench import bench
from octavo.cli.catalogue import stores
from octavo.cli.completion import completion
from octavo.cli.events import events
from octavo.cli.keys import keys
from octavo.cli.memory import memory
from octavo.cli.options import pace, reach, voice
from octavo.cli.queue import queue
from octavo.cli.reindex import reindex_command
from octavo.cli.serve import serve_command
from octavo.cli.settings import configured, resolved, store_url
from octavo.cli.teller import Styled, Teller, several
from octavo.cli.vault import vault
from octavo.errors import ConfigError
from octavo.kernel.ports import Finding
from octavo.stores import open_store
from octavo.stores.doctor import Report, examine
from octavo.transfer import Moved, Progress, copy, export, import_
from octavo.util.file_modes import access, usable_folder
from octavo.util.secrets import shown


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="octavo", message="%(prog)s %(version)s")
def octavo() -> None:
    """Move, save and examine an agent's memory.

    A store is named by its URL: sqlite:///octavo.db, file:///folder, postgresql://user:password@host/database,
    mysql://…, redis://… `octavo stores` lists them.

    Exit status: 0 is well, 1 is failed or found wrong, 2 is a mistake in what was asked, 130 is interrupted.
    """


@octavo.command("copy")
@click.argument("source")
@click.argument("target")
@reach
@pace
@voice
def copy_command(source: str, target: str, as_json: bool, quiet: bool, debug: bool, **options: Any) -> None:
    """Copy every record of SOURCE into TARGET.

    Order, ids, times and marks are kept; what TARGET already keeps is left as it is, so that copying twice adds
    nothing. An interrupted copy goes on where it stopped when the same command is run again.

    \b
    Example: octavo copy sqlite:///octavo.db postgresql://octavo@localhost/octavo
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    async def move(given: dict[str, Any], progress: Progress) -> Moved:
        async with open_store(source) as old, open_store(target) as new:
            running.warn_of_tenants(teller, old, given)
            return await copy(old, new, progress=progress, **given)

    def work() -> int:
        running.existing(source)
        moved, seconds = running.move(teller, "copy", "copied", [source, target], options, move)
        teller.say(f"{running.told('copied', moved)} in {seconds:.1f} s")
        running.document(teller, "copy", moved, seconds, source=shown(source), target=shown(target))
        return 0

    running.run(teller, [source, target], work)


@octavo.command("export")
@click.argument("url", required=False)
@click.argument("file", required=False)
@reach
@pace
@configured
@voice
def export_command(
    url: str | None,
    file: str | None,
    config: str | None,
    verbose: bool,
    as_json: bool,
    quiet: bool,
    debug: bool,
    **options: Any,
) -> None:
    """Write every record of a store to a file of JSON lines.

    Without FILE, or with -, the lines go to stdout. A FILE ending in .gz is compressed. FILE appears only when it is
    whole. URL may be left out when OCTAVO_URL or the settings name a store.

    \b
    Example: octavo export sqlite:///octavo.db memory.jsonl.gz
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    def work() -> int:
        store, to = _export_names(teller, url, file, config, verbose)

        async def move(given: dict[str, Any], progress: Progress) -> Moved:
            async with open_store(store) as opened:
                running.warn_of_tenants(teller, opened, given)
                out = sys.stdout.buffer if to == "-" else to
                return await export(opened, out, progress=progress, **given)

        running.existing(store)
        if as_json and to == "-":
            raise ConfigError("--json needs a FILE to export to, since stdout carries the records")
        moved, seconds = running.move(teller, "export", "exported", [store, to], options, move)
        teller.say(f"{running.told('exported', moved)} in {seconds:.1f} s", err=to == "-")
        running.document(teller, "export", moved, seconds, source=shown(store), file=to)
        return 0

    running.run(teller, [url or ""], work)


def _export_names(
    teller: Teller, url: str | None, file: str | None, config: str | None, verbose: bool
) -> tuple[str, str]:
    """The store and the file: a single word that is no URL is the file, where something else names a store.

    Without that, it is more likely the path of a database than a file to write over.
    """
    if url is not None and file is None and "://" not in url:
        found = resolved(teller, config, verbose=False, options={})
        if url == "-" or "database.dsn" in found.origins:
            url, file = None, url
    return store_url(teller, url, config, verbose, "URL"), file or "-"


@octavo.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.argument("url", required=False)
@click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="At a line that holds no record: stop, with all before it kept; or set it aside and go on.",
)
@click.option("--set-aside", metavar="FILE", help="Where skipped lines go. [default: FILE.bad]")
@pace
@configured
@voice
def import_command(
    file: str,
    url: str | None,
    config: str | None,
    verbose: bool,
    on_error: str,
    set_aside: str | None,
    as_json: bool,
    quiet: bool,
    debug: bool,
    **options: Any,
) -> None:
    """Add every record of an exported file to a store.

    With - for FILE the lines come from stdin. A FILE ending in .gz is uncompressed. What the store already keeps is
    left as it is, so that importing twice adds nothing. URL may be left out when OCTAVO_URL or the settings name a store.

    \b
    Example: octavo import memory.jsonl.gz sqlite:///octavo.db
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)
    aside = Aside(Path(set_aside or ("octavo-import.bad" if file == "-" else f"{file}.bad")), teller)

    def work() -> int:
        store = store_url(teller, url, config, verbose, "URL")

        async def move(given: dict[str, Any], progress: Progress) -> Moved:
            if file == "-" and sys.stdin.isatty():
                raise ConfigError("stdin is a terminal; name a FILE or send an export through a pipe")
            async with open_store(store) as opened:
                taking = aside.take if on_error == "skip" else None
                return await import_(
                    sys.stdin.buffer if file == "-" else file,
                    opened,
                    on_bad=taking,
                    progress=progress,
                    **given,
                )

        moved, seconds = running.move(teller, "import", "imported", [file, store], options, move)
        teller.say(f"{running.told('imported', moved)} in {seconds:.1f} s")
        if moved.bad:
            teller.note(f"octavo: {several(moved.bad, 'bad line')}{aside.where}")
        bad = [{"line": each.number, "reason": each.reason} for each in aside.first]
        running.document(
            teller, "import", moved, seconds, file=file, target=shown(store), bad=moved.bad, bad_lines=bad,
            set_aside=str(aside.path) if aside.written else None,
        )  # fmt: skip
        return 1 if moved.bad else 0

    running.run(teller, [url or ""], work)


@octavo.command("doctor")
@click.argument("url", required=False)
@click.option("--probe/--no-probe", help="Whether to write, read and remove a few records. [default: not]")
@click.option("--strict", is_flag=True, help="Fail (status 1) when there is a warning.")
@configured
@voice
def doctor_command(
    url: str | None,
    probe: bool,
    strict: bool,
    config: str | None,
    verbose: bool,
    as_json: bool,
    quiet: bool,
    debug: bool,
) -> None:
    """Say what a store is and what is dangerous about it.

    It only looks, and makes no table, file or key. The probe works under a tenant of its own and leaves no record behind.
    URL may be left out when OCTAVO_URL or the settings name a store.

    \b
    Example: octavo doctor redis://localhost/0
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    async def look(store: str) -> Report:
        async with open_store(store) as opened:
            return await examine(opened, probe=probe)

    def work() -> int:
        settings = resolved(teller, config, verbose, {"database.dsn": ("URL", url)}).settings
        store = settings.database.dsn
        running.existing(store)
        report = asyncio.run(look(store))
        queue = settings.failure_queue
        folders = {"queue": queue.directory, "vault": settings.vault.root_path}
        report.findings.extend(
            _access(name, Path(folder)) for name, folder in folders.items() if Path(folder).is_dir()
        )
        if queue.enabled and not usable_folder(Path(queue.directory)):
            lost = "what the store does not take is refused; set failure_queue.directory to a folder that can be written to"
            report.findings.append(Finding("queue", f"{queue.directory}, which cannot be used", lost))
        said = [
            Finding(each.name, teller.hidden(each.value), teller.hidden(each.warning))
            for each in report.findings
        ]
        report = msgspec.structs.replace(report, findings=said)
        _tell_report(teller, store, report)
        broken = any(finding.name == "probe" for finding in report.warnings)
        bad = broken or (strict and bool(report.warnings))
        teller.document(ok=not bad, command="doctor", url=shown(store), **msgspec.to_builtins(report))
        return 1 if bad else 0

    running.run(teller, [url or ""], work)


@octavo.command("stores")
@voice
def stores_command(as_json: bool, quiet: bool, debug: bool) -> None:
    """List the stores a URL can name.

    \b
    Example: octavo stores
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)
    listed = stores()
    for each in listed:
        lacking = "" if each["ready"] else f"   pip install 'octavo[{each['extra']}]'"
        teller.say(f"{', '.join(each['schemes']):24}{each['example']}", Styled(lacking, fg="yellow"))
    teller.document(ok=True, command="stores", stores=listed)


octavo.add_command(reindex_command)
octavo.add_command(bench)
octavo.add_command(queue)
octavo.add_command(vault)
octavo.add_command(events)
octavo.add_command(memory)
octavo.add_command(serve_command)
octavo.add_command(keys)
octavo.add_command(completion)


def _access(name: str, folder: Path) -> Finding:
    who, warning = access(folder)
    return Finding(name, f"{folder}, {who}", warning)


def _tell_report(teller: Teller, url: str, report: Report) -> None:
    teller.say(Styled(shown(url), bold=True))
    names = [finding.name for finding in report.findings] + list(report.collections)
    wide = max(14, *(len(name) + 2 for name in names)) if names else 14
    for finding in report.findings:
        teller.say(f"  {finding.name:{wide}}{finding.value}")
        if finding.warning:
            teller.say(Styled(f"  {'':{wide}}! {finding.warning}", fg="yellow"))
    for collection, total in report.collections.items():
        teller.say(f"  {collection:{wide}}{several(total, 'record')}")
    if report.latency is not None:
        times = report.latency
        spelled = (
            f"write {times.write_ms:.2f} ms, read {times.read_ms:.2f} ms, remove {times.remove_ms:.2f} ms"
        )
        teller.say(f"  {'one record':{wide}}{spelled}")
    dangers = len(report.warnings)
    teller.say(
        "no warnings" if not dangers else Styled(f"{dangers} warning{'s'[: dangers != 1]}", fg="yellow")
    )
