"""`octavo vault`: how the Markdown documents stand, and bringing them together with their store."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from octavo.cli import running
from octavo.cli.options import voice
from octavo.cli.settings import CONFIG, resolved, store_option
from octavo.cli.teller import Styled, Teller, several
from octavo.errors import ConfigError, StoreUnavailable
from octavo.kernel.model import Scope
from octavo.kernel.ports import Searches
from octavo.kernel.shapes import SHAPES

if TYPE_CHECKING:
    from octavo.assemble import Assembled
    from octavo.config import Settings
    from octavo.service.vault import Problem, SyncReport, Vault

F = TypeVar("F", bound=Callable[..., Any])
_MOST_TOLD = 20  # keys of each sort; --json has them all


@click.group("vault")
def vault() -> None:
    """Look after Markdown documents that are files and records at once.

    Which vault is meant, and which store is its own, is said by --root and --store, or else by the environment or the
    settings. Every command takes --json, --quiet and --debug.

    \b
    Example: octavo vault sync --root vault --store sqlite:///octavo.db
    """


def which(command: F) -> F:
    """The vault that is meant, and its store."""
    for option in (
        click.option("--tenant", metavar="NAME", help="Whose documents they are in the store. [default: as configured]"),
        click.option(
            "--root", type=click.Path(file_okay=False), metavar="DIR", help="The vault. [default: vault.root_path]"
        ),
    ):  # fmt: skip
        command = option(command)
    return store_option(command)


@vault.command("status")
@which
@voice
def status_command(as_json: bool, quiet: bool, debug: bool, **named: Any) -> None:
    """Say which documents there are, which wait to be synced and what is wrong.

    The store is not asked, so this works while it is down.

    \b
    Example: octavo vault status --root vault
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    def work() -> int:
        asked = _Asked(teller, must_exist=True, **named)
        status = asyncio.run(asked.read(lambda vault: vault.status()))
        teller.say(Styled(status.root, bold=True))
        for kind, count in status.documents.items():
            teller.say(f"  {kind:14}{several(count, 'document')}")
        at = "never" if status.synced_at is None else f"{status.synced_at:%Y-%m-%d %H:%M:%S} UTC"
        teller.say(f"  {'last synced':14}{at}")
        _keys(teller, "not synced", status.unsynced)
        _problems(teller, status.problems)
        teller.document(ok=not status.problems, command="vault status", **msgspec.to_builtins(status))
        return 1 if status.problems else 0

    running.run(teller, [named["url"] or ""], work)


@vault.command("list")
@click.argument("folder", required=False)
@click.option("--versions", metavar="KEY", help="Instead: what this document said before, from the store.")
@which
@voice
def list_command(
    folder: str | None, versions: str | None, as_json: bool, quiet: bool, debug: bool, **named: Any
) -> None:
    """List the documents, or those of a FOLDER such as users or facts.

    \b
    Example: octavo vault list users
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    def work() -> int:
        asked = _Asked(teller, must_exist=versions is None, **named)
        if versions is not None:
            return asyncio.run(asked.versions(versions))
        listed = asyncio.run(asked.read(lambda vault: vault.list(folder)))
        for each in listed:
            waits = "" if each.synced else "  not synced"
            told = f"{each.key:32} {each.kind:10} {each.updated_at:%Y-%m-%d %H:%M}"
            teller.say(f"{told}  version {each.version}, {each.size:,} bytes{waits}")
        teller.document(ok=True, command="vault list", documents=msgspec.to_builtins(listed))
        return 0

    running.run(teller, [named["url"] or ""], work)


@vault.command("sync")
@which
@voice
def sync_command(as_json: bool, quiet: bool, debug: bool, **named: Any) -> None:
    """Bring the files and the store together.

    A file that a person edited wins; what gives way is kept as a version. It does no harm while a service is running.

    \b
    Example: octavo vault sync --root vault --store sqlite:///octavo.db
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    def work() -> int:
        asked = _Asked(teller, must_exist=False, **named)
        report = asyncio.run(asked.sync())
        sound = report.complete and not report.problems
        teller.document(ok=sound, command="vault sync", **msgspec.to_builtins(report))
        return 0 if sound else 1

    running.run(teller, [named["url"] or ""], work)


@vault.command("reindex")
@which
@voice
def reindex_command(as_json: bool, quiet: bool, debug: bool, **named: Any) -> None:
    """Sync, then build anew what documents and all other records are found by.

    With vectors configured (vector.enabled), those that are missing or of another text are made and strays are dropped;
    without, the index of terms is built anew.

    \b
    Example: octavo vault reindex --config config/memory.yaml
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    def work() -> int:
        asked = _Asked(teller, must_exist=False, **named)
        begun = time.monotonic()
        report, done = asyncio.run(asked.reindex())
        sound = report.complete and not report.problems and not done["refused"]
        teller.document(
            ok=sound, command="vault reindex", sync=msgspec.to_builtins(report), **done,
            seconds=round(time.monotonic() - begun, 3),
        )  # fmt: skip
        return 0 if sound else 1

    running.run(teller, [named["url"] or ""], work)


class _Asked:
    """The vault and the store that were named."""

    def __init__(
        self,
        teller: Teller,
        *,
        must_exist: bool,
        **given: Any,
    ) -> None:
        self._teller = teller
        self._settings = _settings(teller, given)
        path = Path(self._settings.vault.root_path)
        if must_exist and not path.is_dir():
            raise ConfigError(f"there is no vault at {path}; name one by --root or --config")

    async def read(self, look: Callable[["Vault"], Any]) -> Any:
        """What the files tell; no store is opened for it."""
        from octavo.service.vault import Vault
        from octavo.stores import open_store

        async with Vault(self._settings.vault.root_path, open_store("memory://")) as opened:
            return await look(opened)

    async def versions(self, key: str) -> int:
        async with self._opened() as (_, opened):
            versions = await opened.versions(key)
        for each in versions:
            at = f"{each.replaced_at:%Y-%m-%d %H:%M:%S} UTC"
            self._teller.say(Styled(f"version {each.version}, {each.reason} {at}", bold=True))
            self._teller.say_lines(each.body.rstrip("\n"))
        self._teller.document(ok=True, command="vault list", key=key, versions=msgspec.to_builtins(versions))
        return 0

    async def sync(self) -> "SyncReport":
        async with self._opened() as (_, opened):
            return await self._synced(opened)

    async def reindex(self) -> tuple["SyncReport", dict[str, Any]]:
        done: dict[str, Any] = {"terms": {}, "embedded": None, "refused": 0}
        async with self._opened() as (assembled, opened):
            report = await self._synced(opened)
            if (indexed := assembled.indexed) is not None:
                self._teller.resumable = True
                with self._teller.progress("embedded") as progress:
                    done["embedded"] = await indexed.reindex_vectors(progress)
                status = await indexed.status()
                done["refused"] = status.failures
                self._teller.say(f"embedded {several(done['embedded'], 'record')} by {status.serving}")
                if status.failures:
                    self._teller.note(
                        f"octavo: {several(status.failures, 'text')} not embedded ({status.last_error})"
                    )
            else:
                done["terms"] = await self._terms(assembled)
        return report, done

    async def _terms(self, assembled: "Assembled") -> dict[str, int]:
        store, terms = assembled.store, dict[str, int]()
        if not isinstance(store, Searches):
            raise ConfigError(
                "no vectors are configured (vector.enabled), and this store keeps no index of terms"
            )
        for collection in SHAPES:
            if collection not in ("vectors", "pending"):  # those are derived
                with self._teller.progress(f"indexed {collection}") as progress:
                    if count := await store.reindex(collection, progress):
                        terms[collection] = count
        self._teller.say(
            f"no vectors are configured (vector.enabled); indexed {several(sum(terms.values()), 'record')} by terms"
        )
        return terms

    async def _synced(self, opened: "Vault") -> "SyncReport":
        report = await opened.sync()
        if report.store_error is not None:
            raise StoreUnavailable(report.store_error)
        for done, keys in (
            ("pushed", report.pushed),
            ("pulled", report.pulled),
            ("conflict", report.conflicts),
            ("removed", report.removed),
            ("file removed", report.unlinked),
            ("pending", report.pending),
        ):
            _keys(self._teller, done, keys)
        _problems(self._teller, report.problems)
        self._teller.say(f"{several(report.changed, 'document')} changed, {report.unchanged:,} unchanged")
        return report

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[tuple["Assembled", "Vault"]]:
        from octavo.assemble import assemble
        from octavo.service.vault import Vault

        settings = self._settings
        assembled = assemble(settings)
        try:
            scope = Scope(tenant=settings.service.tenant)
            async with Vault(settings.vault.root_path, assembled.store, scope=scope) as opened:
                yield assembled, opened
        finally:
            await assembled.close()


def _settings(teller: Teller, given: dict[str, Any]) -> "Settings":
    options = {
        "database.dsn": ("--store", given["url"]),
        "vault.root_path": ("--root", given["root"]),
        "service.tenant": ("--tenant", given["tenant"]),
    }
    found = resolved(teller, given["config"], given["verbose"], options)
    settings, root = found.settings, found.settings.vault.root_path
    by_file = given["config"] is not None or CONFIG.exists()
    # Or a command that was started in the wrong folder would make a vault there.
    if not (by_file or "vault.root_path" in found.origins or Path(root).is_dir()):
        raise ConfigError(f"there is no {CONFIG} here and no vault at {root}; name one by --config or --root")
    if not settings.vault.enabled and given["root"] is None:
        where = found.origin("vault.enabled")
        raise ConfigError(f"vault.enabled is false ({where}); name a vault by --root")
    replace = msgspec.structs.replace
    return replace(
        settings,
        service=replace(settings.service, dedup_window=0),
        # A command waits for the store or fails: it does not stay to deliver what it queued.
        failure_queue=replace(settings.failure_queue, enabled=False),
    )


def _keys(teller: Teller, what: str, keys: list[str]) -> None:
    for key in keys[:_MOST_TOLD]:
        teller.say(f"  {what:14}{key}")
    if len(keys) > _MOST_TOLD:
        teller.say(f"  {what:14}and {len(keys) - _MOST_TOLD:,} more")


def _problems(teller: Teller, problems: "list[Problem]") -> None:
    for problem in problems:
        teller.note(f"octavo: {problem.path}: {problem.reason}")
