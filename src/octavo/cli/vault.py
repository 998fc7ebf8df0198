"""`octavo vault`: how the Markdown documents stand, and bringing them together with their store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from octavo.cli.command import CONFIG, Call, options, override, runs, several, store_option, text, time_text
from octavo.cli.reindex import rebuild_terms, rebuild_vectors
from octavo.errors import ConfigError, StoreUnavailable
from octavo.kernel.model import Scope
from octavo.kernel.ports import Searches
from octavo.stores import open_store

if TYPE_CHECKING:
    from octavo.assemble import Assembled
    from octavo.service.vault import Problem, SyncReport, Vault

_MOST_TOLD = 20  # keys of each sort; --json has them all
_DONE = {"pushed": "pushed", "pulled": "pulled", "conflicts": "conflict", "removed": "removed"}
_DONE |= {"unlinked": "file removed", "pending": "pending"}

_which = options(
    store_option,
    text(
        "--root",
        "DIR",
        "The vault. [default: vault.root_path]",
        type=click.Path(file_okay=False),
        **override("vault.root_path"),
    ),
    text(
        "--tenant",
        "NAME",
        "Whose documents they are in the store. [default: as configured]",
        **override("service.tenant"),
    ),
)


@click.group("vault")
def vault() -> None:
    """Look after Markdown documents that are files and records at once.

    Which vault is meant, and which store is its own, is said by --root and --store, or else by the environment or the
    settings. Every command takes --json, --quiet and --debug.

    \b
    Example: octavo vault sync --root vault --store sqlite:///octavo.db
    """


@vault.command("status")
@_which
@runs
async def status_command(call: Call) -> int:
    """Say which documents there are, which wait to be synced and what is wrong.

    The store is not asked, so this works while it is down.

    \b
    Example: octavo vault status --root vault
    """
    async with _open_files(call) as vault:
        status = await vault.status()
    call.say(status.root)
    for kind, count in status.documents.items():
        call.say(f"  {kind:14}{several(count, 'document')}")
    at = "never" if status.synced_at is None else time_text(status.synced_at)
    call.say(f"  {'last synced':14}{at}")
    _say_keys(call, "not synced", status.unsynced)
    _note_problems(call, status.problems)
    return call.document(ok=not status.problems, **msgspec.to_builtins(status))


@vault.command("list")
@click.argument("folder", required=False)
@text("--versions", "KEY", "Instead: what this document said before, from the store.")
@_which
@runs
async def list_command(call: Call, folder: str | None, versions: str | None) -> int:
    """List the documents, or those of a FOLDER such as users or facts.

    \b
    Example: octavo vault list users
    """
    if versions is not None:
        async with _open_vault(call) as (_, vault):
            earlier = await vault.versions(versions)
        for version in earlier:
            at = time_text(version.replaced_at)
            call.say(f"version {version.version}, {version.reason} {at}")
            call.say_lines(version.body.rstrip("\n"))
        return call.document(key=versions, versions=msgspec.to_builtins(earlier))
    async with _open_files(call) as vault:
        listed = await vault.list(folder)
    for each in listed:
        waits = "" if each.synced else "  not synced"
        row = f"{each.key:32} {each.kind:10} {each.updated_at:%Y-%m-%d %H:%M}"
        call.say(f"{row}  version {each.version}, {several(each.size, 'byte')}{waits}")
    return call.document(documents=msgspec.to_builtins(listed))


@vault.command("sync")
@_which
@runs
async def sync_command(call: Call) -> int:
    """Bring the files and the store together.

    A file that a person edited wins; what gives way is kept as a version. It does no harm while a service is running.

    \b
    Example: octavo vault sync --root vault --store sqlite:///octavo.db
    """
    async with _open_vault(call) as (_, vault):
        report = await _sync(call, vault)
    return call.document(ok=report.complete and not report.problems, **msgspec.to_builtins(report))


@vault.command("reindex")
@_which
@runs
async def reindex_command(call: Call) -> int:
    """Sync, then build anew what documents and all other records are found by.

    With vectors configured (vector.enabled), those that are missing or of another text are made and strays are dropped;
    without, the index of terms is built anew.

    \b
    Example: octavo vault reindex --config config/memory.yaml
    """
    async with _open_vault(call) as (assembled, vault):
        report = await _sync(call, vault)
        done = await _reindex(call, assembled)
    sound = report.complete and not report.problems and not done["refused"]
    return call.document(ok=sound, sync=msgspec.to_builtins(report), **done, seconds=call.seconds)


@asynccontextmanager
async def _open_files(call: Call) -> AsyncIterator["Vault"]:
    """The vault with what its files tell; its store is not opened."""
    from octavo.service.vault import Vault

    root = _root(call)
    if not root.is_dir():
        raise ConfigError(f"there is no vault at {root}; name one by --root or --config")
    async with Vault(str(root), open_store("memory://")) as vault:
        yield vault


@asynccontextmanager
async def _open_vault(call: Call) -> AsyncIterator[tuple["Assembled", "Vault"]]:
    """The vault with its store, and what else the settings put together."""
    from octavo.assemble import assemble
    from octavo.service.vault import Vault

    root, settings = _root(call), call.unqueued_settings()
    async with assemble(settings) as assembled:
        scope = Scope(tenant=settings.service.tenant)
        async with Vault(str(root), assembled.store, scope=scope) as vault:
            yield assembled, vault


def _root(call: Call) -> Path:
    """The folder of the vault that is meant."""
    root = Path(call.settings.vault.root_path)
    # Or a command that was started in the wrong folder would make a vault there.
    if not (call.by_file or "vault.root_path" in call.resolved.origins or root.is_dir()):
        raise ConfigError(f"there is no {CONFIG} here and no vault at {root}; name one by --config or --root")
    if not call.settings.vault.enabled and "vault.root_path" not in call.overrides:
        where = call.resolved.origin("vault.enabled")
        raise ConfigError(f"vault.enabled is false ({where}); name a vault by --root")
    return root


async def _sync(call: Call, vault: "Vault") -> "SyncReport":
    report = await vault.sync()
    if report.store_error is not None:
        raise StoreUnavailable(report.store_error)
    for name, word in _DONE.items():
        _say_keys(call, word, getattr(report, name))
    _note_problems(call, report.problems)
    call.say(f"{several(report.changed, 'document')} changed, {report.unchanged:,} unchanged")
    return report


async def _reindex(call: Call, assembled: "Assembled") -> dict[str, Any]:
    """Build anew the vectors, if there are any, or else the index of terms."""
    store, indexed = assembled.store, assembled.indexed
    if indexed is None:
        if not isinstance(store, Searches):
            raise ConfigError(
                "no vectors are configured (vector.enabled), and this store keeps no index of terms"
            )
        terms = await rebuild_terms(call, store)
        total = several(sum(terms.values()), "record")
        call.say(f"no vectors are configured (vector.enabled); indexed {total} by terms")
        return {"terms": terms, "embedded": None, "refused": 0}
    return {"terms": {}, **await rebuild_vectors(call, indexed)}


def _say_keys(call: Call, word: str, keys: list[str]) -> None:
    for key in keys[:_MOST_TOLD]:
        call.say(f"  {word:14}{key}")
    if len(keys) > _MOST_TOLD:
        call.say(f"  {word:14}and {len(keys) - _MOST_TOLD:,} more")


def _note_problems(call: Call, problems: "list[Problem]") -> None:
    for problem in problems:
        call.note(f"{problem.path}: {problem.reason}")
