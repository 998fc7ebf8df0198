"""`octavo doctor`, `stores` and `completion`: what a store is, which there are, and help for the shell."""

from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click
import msgspec
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from octavo.cli import option
from octavo.cli.command import CommandCall, as_command, pluralize
from octavo.cli.commands import root
from octavo.config import Settings
from octavo.kernel.ports import Finding, Store
from octavo.stores import SCHEMES, open_store
from octavo.stores.doctor import DoctorReport, examine
from octavo.util.disk import describe_access, is_usable_folder
from octavo.util.secrets import mask_url
from octavo.util.system import missing_packages, store_extra

#: A URL of each store.
_EXAMPLES = (
    "file:///path/to/folder",
    "memory://",
    "mysql://user:password@host/database",
    "postgresql://user:password@host/database",
    "redis://host:6379/0",
    "sqlite:///octavo.db",
)
_SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@root.command("doctor")
@option.store_or_argument
@click.option("--probe/--no-probe", help="Whether to write, read and remove a few records. [default: not]")
@option.flag("--strict", "Fail (status 1) when there is a warning.")
@as_command
async def doctor_command(call: CommandCall, probe: bool, strict: bool) -> int:
    """Say what a store is and what is dangerous about it.

    It only looks, and makes no table, file or key. The probe works under a tenant of its own and leaves no record behind.
    URL left out is the store of OCTAVO_URL or the settings, or sqlite:///octavo.db.

    \b
    Example: octavo doctor redis://localhost/0
    """
    url = call.existing_store()
    async with open_store(url) as store:
        report = await examine(store, probe=probe)
        vectors = await _vector_findings(call.settings, store, report)
        beside = [*vectors, *_rerank_findings(call.settings), *_folder_findings(call.settings)]
    findings = [
        Finding(each.name, call.mask(each.value), call.mask(each.warning))
        for each in [*report.findings, *beside]
    ]
    report = msgspec.structs.replace(report, findings=findings)
    _say_report(call, url, report)
    broken = any(finding.name == "probe" for finding in report.warnings)
    bad = broken or (strict and bool(report.warnings))
    return call.document(ok=not bad, url=mask_url(url), **msgspec.to_builtins(report))


@root.command("stores")
@as_command
def stores_command(call: CommandCall) -> int:
    """List the stores a URL can name.

    \b
    Example: octavo stores
    """
    listed: list[dict[str, Any]] = []
    for example in _EXAMPLES:
        opens, extras = SCHEMES[example.partition("://")[0]], store_extra(example)
        names = [name for name, opener in SCHEMES.items() if opener == opens]
        ready = not missing_packages(*extras)
        listed.append({"schemes": names, "example": example, "extra": "".join(extras), "ready": ready})
    for point in entry_points(group="octavo.stores"):
        if point.name not in SCHEMES:
            example = f"{point.name}://…"
            listed.append({"schemes": [point.name], "example": example, "extra": "", "ready": True})
    for each in listed:
        lacking = "" if each["ready"] else f"   pip install 'octavo[{each['extra']}]'"
        call.say(f"{', '.join(each['schemes']):24}{each['example']}{lacking}")
    return call.document(stores=listed)


@root.command("completion")
@click.argument("shell", type=click.Choice(tuple(_SHELLS)))
@as_command
def completion_command(call: CommandCall, shell: str) -> int:
    """Print the script that lets a shell complete commands and options.

    \b
    bash: eval "$(octavo completion bash)"          in ~/.bashrc
    zsh:  eval "$(octavo completion zsh)"           in ~/.zshrc
    fish: octavo completion fish | source           in ~/.config/fish/config.fish

    \b
    Example: octavo completion bash
    """
    script = _SHELLS[shell](root, {}, "octavo", "_OCTAVO_COMPLETE").source()
    call.say_lines(script)
    return call.document(shell=shell, script=script)


async def _vector_findings(settings: Settings, store: Store, report: DoctorReport) -> list[Finding]:
    """How many of the records that are to be found by meaning have their vectors, of each model."""
    from octavo.assemble import open_index

    if not settings.vector.enabled:
        return []
    index = open_index(settings, store)
    try:
        spaces = await index.spaces()
    finally:
        await index.close()
    records = sum(report.collections.get(name, 0) for name in settings.vector.collections)
    told = [
        Finding(
            "vectors",
            f"{space.entries:,} of {records:,} records by {space.name}",
            "" if space.complete else "not complete: until it is, records are found by their words alone",
        )
        for space in spaces
    ]
    return told or [Finding("vectors", f"none yet of {records:,} records, by {settings.vector.embedder}")]


def _rerank_findings(settings: Settings) -> Iterator[Finding]:
    """Which model reads the best hits once more."""
    rerank = settings.rerank
    if rerank.model:
        where = f" at {rerank.base_url}" if rerank.base_url else ""
        yield Finding("re-ranking", f"the {rerank.top} best hits, by {rerank.model}{where}")


def _folder_findings(settings: Settings) -> Iterator[Finding]:
    """Who can read the folders beside the store, and whether the queue's can be used."""
    waiting = settings.failure_queue
    for name, folder in {"queue": waiting.directory, "vault": settings.vault.root_path}.items():
        if Path(folder).is_dir():
            who, warning = describe_access(Path(folder))
            yield Finding(name, f"{folder}, {who}", warning)
    if waiting.enabled and not is_usable_folder(Path(waiting.directory)):
        lost = "what the store does not take is refused; set failure_queue.directory to a folder that can be written to"
        yield Finding("queue", f"{waiting.directory}, which cannot be used", lost)


def _say_report(call: CommandCall, url: str, report: DoctorReport) -> None:
    call.say(mask_url(url))
    names = [finding.name for finding in report.findings] + list(report.collections)
    wide = max(14, *(len(name) + 2 for name in names)) if names else 14
    for finding in report.findings:
        call.say(f"  {finding.name:{wide}}{finding.value}")
        if finding.warning:
            call.say(f"  {'':{wide}}! {finding.warning}")
    for collection, total in report.collections.items():
        call.say(f"  {collection:{wide}}{pluralize(total, 'record')}")
    if (ms := report.latency) is not None:
        times = f"write {ms.write_ms:.2f} ms, read {ms.read_ms:.2f} ms, remove {ms.remove_ms:.2f} ms"
        call.say(f"  {'one record':{wide}}{times}")
    call.say(pluralize(len(report.warnings), "warning") if report.warnings else "no warnings")
