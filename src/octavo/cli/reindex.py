"""`octavo reindex`, what is derived from the records of a store, and `octavo vault`, Markdown documents and their store."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from octavo.cli import option
from octavo.cli.command import CommandCall, as_command, check_exists, pluralize
from octavo.cli.commands import root
from octavo.cli.tables import pad, quote, time_text
from octavo.config import Settings
from octavo.errors import ConfigError, StoreUnavailable
from octavo.kernel.model import Scope
from octavo.kernel.ports import Embedder, Lexicon, Searches, Store
from octavo.kernel.shapes import SHAPES
from octavo.stores import open_store
from octavo.util.secrets import mask_url
from octavo.wraps import Indexed
from octavo.wraps.vectors.indexed import COLLECTIONS

if TYPE_CHECKING:
    from octavo.assemble import Assembled
    from octavo.service.vault import Problem, SyncReport, Vault

_COLLECTIONS = tuple(name for name in SHAPES if name not in ("vectors", "pending"))  # those are derived
_MOST_TOLD = 20  # keys of each sort; --json has them all
_DONE = {"pushed": "pushed", "pulled": "pulled", "conflicts": "conflict", "removed": "removed"}
_DONE |= {"unlinked": "file removed", "pending": "pending"}


@root.command("reindex")
@option.store_or_argument
@option.flag("--verify", "Change nothing; name every difference and fail (status 1) if there is one.")
@option.collections(
    "Only this collection; may be given several times. [default: all that have an index]", _COLLECTIONS
)
@option.text("--tenant", "NAME", "Only the vectors of this tenant's records. [default: every tenant]")
@click.option("--terms/--no-terms", default=True, help="Whether to see to the index of terms. [default: yes]")
@option.text("--vectors", "URL", "The index of vectors, such as sqlite:///octavo.db; needs --embedder.")
@option.text("--embedder", "SPEC", "The model that makes them, such as fastembed:BAAI/bge-small-en-v1.5.")
@option.text("--forget", "SPACE", "Remove the vectors of a model that is no longer used.", multiple=True)
@as_command
async def reindex_command(
    call: CommandCall,
    verify: bool,
    collections: tuple[str, ...],
    tenant: str | None,
    terms: bool,
    **vectors: Any,
) -> int:
    """Build anew what a store is searched by.

    The index of terms is built from the records, while searches go on. With --vectors and --embedder, or where the settings
    name an embedder, every record that has no vector, or one of another text, is embedded, and vectors without a record are
    dropped; what is already right is left alone, so that an interrupted run goes on where it stopped. URL left out is the store of OCTAVO_URL or the
    settings, or sqlite:///octavo.db.

    \b
    Example: octavo reindex sqlite:///octavo.db --verify
    """
    url, settings = call.existing_store(), call.settings
    if not settings.vector.enabled or vectors["vectors"] or vectors["embedder"]:
        _check_options(tenant, terms, **vectors)
    if verify and vectors["vectors"]:
        check_exists(vectors["vectors"])
    async with open_store(url) as store, _open_vectors(store, settings, **vectors) as opened:
        searching = store if terms and isinstance(store, Searches) else None
        if searching is None and opened is None:
            raise ConfigError("this store keeps no index of terms; nothing to do without --vectors")
        if opened is not None and tenant is None:
            call.warn_of_tenants(store)
        which: dict[str, Any] = {"collections": collections or None, "tenant": tenant}
        if verify:
            wrong, done = await _verify(call, searching, opened, which)
        else:
            done = await _rebuild(call, searching, opened, **which)
            wrong, done["other_spaces"] = done["refused"], []
            if opened is not None:
                done["other_spaces"] = await _forget_spaces(call, opened, vectors["forget"])
    return call.document(ok=not wrong, url=mask_url(url), verify=verify, **done, seconds=call.seconds)


def _check_options(
    tenant: str | None, terms: bool, vectors: str | None, embedder: str | None, forget: tuple[str, ...]
) -> None:
    """Refuse what makes no sense together."""
    if (vectors is None) != (embedder is None):
        given, other = ("--vectors", "--embedder") if vectors else ("--embedder", "--vectors")
        example = "--vectors sqlite:///octavo.db --embedder fastembed:BAAI/bge-small-en-v1.5"
        raise ConfigError(f"{given} needs {other} too, for example {example}")
    if vectors is not None:
        return
    if tenant is not None:
        raise ConfigError(
            "--tenant narrows what is embedded; the index of terms is one for all tenants, leave it out or name --vectors"
        )
    if forget:
        raise ConfigError("--forget removes a model's vectors from an index; name that by --vectors")
    if not terms:
        raise ConfigError("there is nothing to do without terms and without --vectors")


@asynccontextmanager
async def _open_vectors(
    store: Store, settings: Settings, vectors: str | None, embedder: str | None, forget: tuple[str, ...]
) -> AsyncIterator[Indexed | None]:
    """The vectors that are named, opened before anything is done: a mistake is told at once, not after an hour of work."""
    from octavo.assemble import open_configured_embedder, open_index
    from octavo.models import open_embedder
    from octavo.vectors import open_vectors

    collections: Sequence[str]
    model: Embedder | None
    if vectors is not None:
        model, collections = open_embedder(embedder), COLLECTIONS
    elif settings.vector.enabled:
        model = open_configured_embedder(settings)
        collections = settings.vector.collections
    else:
        yield None
        return
    if model is None:
        raise ConfigError(f"--embedder {embedder} names no model; nothing can be embedded without one")
    if model.name in forget:
        raise ConfigError(f"--forget {model.name} names the model that is in use")
    index = open_index(settings, store) if vectors is None else open_vectors(vectors)
    indexed = Indexed(store, index, model, collections=collections)
    try:  # not entered: that would begin to embed beside this command
        yield indexed
    finally:
        await indexed.close()


async def _rebuild(
    call: CommandCall,
    searching: Searches | None,
    indexed: Indexed | None,
    collections: Sequence[str] | None = None,
    tenant: str | None = None,
) -> dict[str, Any]:
    """Build the terms anew, and embed what has no vector or one of another text; what was done."""
    done: dict[str, Any] = {"terms": {}, "embedded": None, "refused": 0}
    if searching is not None:
        for collection in collections or _COLLECTIONS:
            with call.progress(f"indexed {collection}") as progress:
                if count := await searching.reindex(collection, progress):
                    done["terms"][collection] = count
        total = pluralize(sum(done["terms"].values()), "record")
        call.say(f"indexed {total} by terms in {call.seconds:.1f} s")
    if indexed is not None:
        call.resumable = True
        with call.progress("embedded") as progress:
            embedded = await indexed.reindex_vectors(progress, collections=collections, tenant=tenant)
        status = await indexed.status()
        call.say(f"embedded {pluralize(embedded, 'record')} by {status.serving} in {call.seconds:.1f} s")
        if status.failures:
            texts = pluralize(status.failures, "text")
            call.note(f"{texts} not embedded ({status.last_error}); tried again by whoever opens the store")
        done |= {"embedded": embedded, "refused": status.failures}
    return done


async def _forget_spaces(call: CommandCall, indexed: Indexed, forget: Sequence[str]) -> list[str]:
    """Remove the vectors of these models; what others there are beside the one in use."""
    for space in forget:
        await indexed.index.forget(space)
    serving = (await indexed.status()).serving
    others = [each.name for each in await indexed.index.spaces() if each.name != serving]
    for other in others:
        call.note(f"the index also holds vectors of {other}; --forget {other} removes them")
    return others


async def _verify(
    call: CommandCall, searching: Searches | None, indexed: Indexed | None, which: dict[str, Any]
) -> tuple[int, dict[str, Any]]:
    """Compare the indexes with the records; how many differences there are, and which."""
    done: dict[str, Any] = {"terms": [], "vectors": None}
    count = 0
    if searching is not None:
        for collection in which["collections"] or _COLLECTIONS:
            with call.progress(f"compared {collection}") as progress:
                lexicon = await searching.verify(collection, progress)
            count += _say_terms(call, lexicon)
            if lexicon.records or lexicon.missing or lexicon.stray or lexicon.waiting:
                done["terms"].append(lexicon)
    if indexed is not None:
        with call.progress("compared vectors of") as progress:
            found = await indexed.verify_vectors(progress, **which)
        wrong = {"no vector": found.missing, "a vector of another text": found.stale}
        for what, keys in {**wrong, "a vector without a record": found.stray}.items():
            count += len(keys)
            for key in keys:
                call.say(f"{key.collection} {key.id} ({key.scope_key}): {what}")
        if found.waiting:
            call.note(f"{pluralize(found.waiting, 'write')} not embedded yet")
        done["vectors"] = found
    call.say(f"{pluralize(count, 'difference')}; octavo reindex mends them" if count else "no differences")
    return count, done


def _say_terms(call: CommandCall, lexicon: Lexicon) -> int:
    """Say what is wrong with the terms of a collection; how many differences there are."""
    for id_ in lexicon.missing:
        call.say(f"{lexicon.collection} {id_}: not in the index of terms, or there with another text")
    if lexicon.stray:
        call.say(f"{lexicon.collection}: entries of records that are gone: {lexicon.stray:,}")
    if lexicon.waiting:
        call.note(f"{lexicon.collection}: {pluralize(lexicon.waiting, 'record')} not indexed yet")
    return len(lexicon.missing) + lexicon.stray


# --- the vault

_which = option.combine(
    option.store,
    option.text(
        "--root",
        "DIR",
        "The vault. [default: vault.root_path]",
        type=click.Path(file_okay=False),
        setting="vault.root_path",
    ),
    option.text(
        "--tenant",
        "NAME",
        "Whose documents they are in the store. [default: as configured]",
        setting="service.tenant",
    ),
)


@root.group("vault")
def vault() -> None:
    """Look after Markdown documents that are files and records at once.

    Which vault is meant, and which store is its own, is said by --root and --store, or else by the environment or the
    settings. Every command takes --json, --quiet and --debug.

    \b
    Example: octavo vault sync --root vault --store sqlite:///octavo.db
    """


@vault.command("status")
@_which
@as_command
async def status_command(call: CommandCall) -> int:
    """Say which documents there are, which wait to be synced and what is wrong.

    The store is not asked, so this works while it is down.

    \b
    Example: octavo vault status --root vault
    """
    async with _open_files(call) as vault:
        status = await vault.status()
    call.say(status.root)
    for kind, count in status.documents.items():
        call.say(f"  {kind:14}{pluralize(count, 'document')}")
    at = "never" if status.synced_at is None else time_text(status.synced_at)
    call.say(f"  {'last synced':14}{at}")
    _say_keys(call, "not synced", status.unsynced)
    _note_problems(call, status.problems)
    return call.document(ok=not status.problems, **msgspec.to_builtins(status))


@vault.command("list")
@click.argument("folder", required=False)
@option.text("--versions", "KEY", "Instead: what this document said before, from the store.")
@_which
@as_command
async def list_command(call: CommandCall, folder: str | None, versions: str | None) -> int:
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
        if not earlier:
            call.say(f"nothing that {quote(versions)} said before is kept", err=True)
        return call.document(key=versions, versions=earlier)
    async with _open_files(call) as vault:
        listed = await vault.list(folder)
    for each in listed:
        waits = "" if each.synced else "  not synced"
        row = f"{pad(each.key, 32)} {each.kind:10} {each.updated_at:%Y-%m-%d %H:%M}"
        call.say(f"{row}  version {each.version}, {pluralize(each.size, 'byte')}{waits}")
    if not listed:
        call.say("no such document", err=True)
    return call.document(documents=listed)


@vault.command("sync")
@_which
@as_command
async def sync_command(call: CommandCall) -> int:
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
@as_command
async def vault_reindex_command(call: CommandCall) -> int:
    """Sync, then build anew what documents and all other records are found by.

    With vectors configured (vector.enabled), those that are missing or of another text are made and strays are dropped;
    without, the index of terms is built anew.

    \b
    Example: octavo vault reindex --config config/memory.yaml
    """
    async with _open_vault(call) as (assembled, vault):
        report = await _sync(call, vault)
        store, indexed = assembled.store, assembled.indexed
        searching = store if indexed is None and isinstance(store, Searches) else None
        if indexed is None:
            call.say("no vectors are configured (vector.enabled)")
        if searching is None and indexed is None:
            raise ConfigError("this store keeps no index of terms; nothing to do without vectors")
        done = await _rebuild(call, searching, indexed)
    sound = report.complete and not report.problems and not done["refused"]
    return call.document(ok=sound, sync=report, **done, seconds=call.seconds)


@asynccontextmanager
async def _open_files(call: CommandCall) -> AsyncIterator["Vault"]:
    """The vault with what its files tell; its store is not opened."""
    from octavo.service.vault import Vault

    root = _root(call)
    if not root.is_dir():
        raise ConfigError(f"there is no vault at {root}; name one by --root or --config")
    async with Vault(str(root), open_store("memory://")) as vault:
        yield vault


@asynccontextmanager
async def _open_vault(call: CommandCall) -> AsyncIterator[tuple["Assembled", "Vault"]]:
    """The vault with its store, and what else the settings put together."""
    from octavo.assemble import assemble
    from octavo.service.vault import Vault

    root, settings = _root(call), call.unqueued_settings()
    async with assemble(settings) as assembled:
        scope = Scope(tenant=settings.service.tenant)
        async with Vault(str(root), assembled.store, scope=scope) as vault:
            yield assembled, vault


def _root(call: CommandCall) -> Path:
    """The folder of the vault that is meant."""
    root = Path(call.settings.vault.root_path)
    # Or a command that was started in the wrong folder would make a vault there.
    if not (call.by_file or "vault.root_path" in call.resolved.origins or root.is_dir()):
        raise ConfigError(
            f"there is no {option.CONFIG} here and no vault at {root}; name one by --config or --root"
        )
    if not call.settings.vault.enabled and "vault.root_path" not in call.overrides:
        where = call.resolved.origin("vault.enabled")
        raise ConfigError(f"vault.enabled is false ({where}); name a vault by --root")
    return root


async def _sync(call: CommandCall, vault: "Vault") -> "SyncReport":
    report = await vault.sync()
    if report.store_error is not None:
        raise StoreUnavailable(report.store_error)
    for name, word in _DONE.items():
        _say_keys(call, word, getattr(report, name))
    _note_problems(call, report.problems)
    call.say(f"{pluralize(report.changed, 'document')} changed, {report.unchanged:,} unchanged")
    return report


def _say_keys(call: CommandCall, word: str, keys: list[str]) -> None:
    for key in keys[:_MOST_TOLD]:
        call.say(f"  {word:14}{key}")
    if len(keys) > _MOST_TOLD:
        call.say(f"  {word:14}and {len(keys) - _MOST_TOLD:,} more")


def _note_problems(call: CommandCall, problems: "list[Problem]") -> None:
    for problem in problems:
        call.note(f"{problem.path}: {problem.reason}")
